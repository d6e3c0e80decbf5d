"""The words of a caption, and which of them describe a video.

The same rules as in `evaluation.metrics.content_words`, without the data files of METEOR, so that captions can be
rated where these are not installed; `tests/language/test_words.py` compares the two.
"""

from __future__ import annotations

import re
from functools import lru_cache


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


# Words that fit any video.
GENERIC = frozenset(
    (
        *("person", "persons", "people", "peoples", "someone", "somebody", "thing", "things", "something"),
        *("do", "does", "did", "done", "doing", "be", "am", "is", "are", "was", "were", "been", "being"),
    )
)
# METEOR's function words for English, without its punctuation.
FUNCTION_WORDS = word_set(
    "a about after all also an and are as at be been but by can could first for from had has have he her his i if in "
    "into is it its last more new no not of on one or other out over people s said she so some than that the their "
    "there they this time to two up was we were what when which who will with would year years you"
)

_NEGATION = re.compile(r"n't\b")
_WORD = re.compile(r"'[^\W_]+|[^\W_]+(?:[.,][0-9]+)*")


@lru_cache(maxsize=1 << 16)
def words_of(sentence: str) -> tuple[str, ...]:
    """The words of a sentence in lower case and without punctuation.

    Example:
        >>> words_of("The man's t-shirt isn't red.")
        ('the', 'man', "'s", 't', 'shirt', 'is', 'not', 'red')
    """
    return tuple(_WORD.findall(_NEGATION.sub(" not", sentence.lower().replace("can't", "can not"))))


def is_content_word(word: str) -> bool:
    """Whether a word describes a video: no function word of METEOR, no clitic, and not in `GENERIC`."""
    return not (word in FUNCTION_WORDS or word in GENERIC or word.startswith("'"))


def content_words(sentence: str) -> tuple[str, ...]:
    """The content words of a sentence, each once, in order.

    Example:
        >>> content_words("Two people are doing a thing: they cut the red onions.")
        ('cut', 'red', 'onions')
    """
    return _content_words(words_of(sentence))


@lru_cache(maxsize=1 << 16)
def _content_words(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(is_content_word, words)))
