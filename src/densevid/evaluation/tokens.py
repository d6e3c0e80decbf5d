"""A raw sentence becomes the words that captioning, SODA and segments score; each distinct sentence is asked once.

The official wrapper: every character beyond ASCII becomes one space, the Stanford PTB tokenizer splits and lower-cases,
punctuation tokens are dropped. Brackets come out as `-lrb-` in lower case and therefore stay. A carriage return, form
feed or vertical tab counts as a space here; to the official tokenizer it is a line break, which silently moves every
later caption of the run down by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec

PUNCTUATION = frozenset(["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-"] + ". ? ! , : - -- ... ;".split())
_SPACE = re.compile(r"[^\x00-\x7f]|[\n\r\x0b\x0c]")


def tokenise(sentences: Sequence[str], engine: str | None = None) -> list[str]:
    """Each sentence as its words joined by a space. `engine` is `native`, `java` or None: native where it exists."""
    distinct = list(dict.fromkeys(sentences))
    words = _native(distinct) if (engine or default_engine()) == "native" else _java(distinct)
    found = dict(zip(distinct, words, strict=True))
    return [found[sentence] for sentence in sentences]


def default_engine() -> str:
    """`native` where this installation has the tokenizer without Java."""
    return "native" if find_spec("densevid.evaluation.native_tokens") else "java"


def one_ascii_line(sentence: str) -> str:
    """The text as the tokenizer reads it: ASCII, on one line."""
    return _SPACE.sub(" ", sentence)


def _native(sentences: list[str]) -> list[str]:
    from densevid.evaluation import native_tokens

    return native_tokens.tokenise(sentences)


def _java(sentences: list[str]) -> list[str]:
    from densevid.evaluation.java import ptb_tokens

    if not sentences:
        return []
    lines = ptb_tokens([one_ascii_line(sentence) for sentence in sentences])
    return [" ".join(word for word in line.split(" ") if word not in PUNCTUATION) for line in lines]
