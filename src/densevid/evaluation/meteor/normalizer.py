"""METEOR's own tokenization (its option -norm, English): a sentence -> lower-case words.

It runs after the Penn Treebank tokenizer and splits again: hyphens, clitics and every punctuation mark become words of
their own. A caption of plain words needs no rule and takes a shortcut.
"""

from __future__ import annotations

import re
from functools import cache

from densevid.evaluation.meteor.resources import METEOR_JAR, jar_member

_LETTER = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e"
    "\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
_SPACE = " \t\n\v\f\r"
_PLAIN = re.compile("[a-z0-9 ]*")
_MARK = re.compile(rf"([^0-9{_LETTER}{_SPACE}.'`,\-\u2018\u2019])")
_COMMAS = [
    re.compile("([^0-9]),([^0-9])"),
    re.compile("([0-9]),([^0-9])"),
    re.compile("([^0-9]),([0-9])"),
]
_SINGLE_QUOTE, _DOUBLE_QUOTE = re.compile("[`\u2018\u2019]"), re.compile("[\u201c\u201d]|''")
_HYPHEN = re.compile(rf"([0-9{_LETTER}.])-([0-9{_LETTER}])")
_CLITICS = [
    (re.compile(rf"([^{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
    (re.compile(rf"([^{_LETTER}0-9])'([{_LETTER}])"), r"\1 ' \2"),
    (re.compile(rf"([{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
    (re.compile(rf"([{_LETTER}])'([{_LETTER}])"), r"\1 '\2"),
    (re.compile("([0-9])'(s)"), r"\1 '\2"),
]
_ANY_LETTER = re.compile(f"[{_LETTER}]")
_WHITE = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+")
_BETWEEN_TOKENS = re.compile("[ \t\n\r\f]+")
_CONTROL = "".join(map(chr, range(33)))
_EVER, _BEFORE_NUMBERS = 1, 2


def words_of(sentence: str) -> list[str]:
    """The words that METEOR compares."""
    if _PLAIN.fullmatch(sentence):
        return sentence.split()
    text = _clitics(_commas_and_quotes(_dots(_MARK.sub(r" \1 ", f" {sentence} "))))
    text = " ".join(_final_periods(_split(text)))
    while "DOTDOTMULTI" in text:
        text = text.replace("DOTDOTMULTI", "DOTMULTI.")
    return _split(_WHITE.sub(" ", text.replace("DOTMULTI", ".")).strip(_CONTROL).lower())


def _dots(text: str) -> str:
    """Keep a row of dots together as one word, away from what surrounds it."""
    text = re.sub(r"\.(\.+)", r" DOTMULTI\1", text)
    while "DOTMULTI." in text:
        text = re.sub(r"DOTMULTI\.([^.])", r"DOTDOTMULTI \1", text)
        text = text.replace("DOTMULTI.", "DOTDOTMULTI")
    return text


def _commas_and_quotes(text: str) -> str:
    for comma in _COMMAS:  # one after another: a character used by one match is free again for the next
        text = comma.sub(r"\1 , \2", text)
    text = _DOUBLE_QUOTE.sub(' " ', _SINGLE_QUOTE.sub("'", text))
    return text.replace("\u2013", "-").replace("--", "-")


def _clitics(text: str) -> str:
    text = _HYPHEN.sub(r"\1 \2", text)
    for apostrophe, apart in _CLITICS:
        text = apostrophe.sub(apart, text)
    return text


def _final_periods(tokens: list[str]) -> list[str]:
    """Part a period from its word, unless the word is an abbreviation; acronyms lose their periods."""
    prefixes = _abbreviations()
    for index, token in enumerate(tokens):
        if len(token) < 2 or not token.endswith("."):
            continue
        word, following = token[:-1], tokens[index + 1] if index + 1 < len(tokens) else ""
        kind = prefixes.get(word)
        if "." in word and _ANY_LETTER.search(word):
            tokens[index] = token.replace(".", "")
        elif kind == _EVER or "a" <= following[:1] <= "z":
            continue
        elif not (kind == _BEFORE_NUMBERS and "0" <= following[:1] <= "9"):
            tokens[index] = f"{word} ."
    return tokens


@cache
def _abbreviations() -> dict[str, int]:
    """Words whose period does not end a sentence, some of them before numbers only."""
    found: dict[str, int] = {}
    for line in jar_member(METEOR_JAR, "nonbreaking/english.prefixes").decode().splitlines():
        word, *note = line.split() or ["#"]
        if not word.startswith("#"):
            found[word] = _BEFORE_NUMBERS if note[:1] == ["#NUMERIC_ONLY#"] else _EVER
    return found


def _split(text: str) -> list[str]:
    return [token for token in _BETWEEN_TOKENS.split(text) if token]
