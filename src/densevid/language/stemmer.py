"""The Snowball English stemmer (Porter 2) as METEOR's jar carries it: a lower-case word -> its stem.

Written from the algorithm's public description; `tests/evaluation/meteor/test_resources.py` compares it with the jar.
R1 is what follows the first consonant after a vowel, R2 the same within R1; a suffix goes only if it lies in them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_WHOLE = {
    "skis": "ski",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
} | {word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")}
_WHOLE_AFTER_PLURAL = {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"}
_FIRST_REGION = re.compile("(?:gener|commun|arsen)|.*?[aeiouy][^aeiouy]", re.DOTALL)
_NEXT_REGION = re.compile(".*?[aeiouy][^aeiouy]", re.DOTALL)
_SHORT_ENDING = re.compile("(?:.*[^aeiouy][aeiouy][^aeiouywxY]|[aeiouy][^aeiouy])", re.DOTALL)
_VOWEL = re.compile("[aeiouy]")

_STEP_2 = {
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "abli": "able",
    "entli": "ent",
    "izer": "ize",
    "ization": "ize",
    "ational": "ate",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "aliti": "al",
    "alli": "al",
    "fulness": "ful",
    "ousli": "ous",
    "ousness": "ous",
    "iveness": "ive",
    "iviti": "ive",
    "biliti": "ble",
    "bli": "ble",
    "ogi": "og",
    "fulli": "ful",
    "lessli": "less",
    "li": "",
}
_STEP_3 = {
    "tional": "tion",
    "ational": "ate",
    "alize": "al",
    "icate": "ic",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
    "ative": "",
}
_STEP_4 = ["al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"]
_STEP_4 += ["ism", "ate", "iti", "ous", "ive", "ize", "ion"]


def _longest_ending(suffixes: Collection[str]) -> re.Pattern[str]:
    return re.compile("(?:" + "|".join(sorted(suffixes, key=len, reverse=True)) + ")$")


_ENDING_2, _ENDING_3, _ENDING_4 = map(_longest_ending, (_STEP_2, _STEP_3, _STEP_4))


def stem(word: str) -> str:
    """The stem, by the steps of the algorithm's description in their order."""
    if word in _WHOLE:
        return _WHOLE[word]
    if len(word) < 3:
        return word
    word = _mark_consonant_y(word.removeprefix("'"))
    r1 = _region(_FIRST_REGION, word, 0)
    r2 = _region(_NEXT_REGION, word, r1)
    word = _plural(_possessive(word))
    if word not in _WHOLE_AFTER_PLURAL:
        word = _final_y(_past(word, r1))
        word = _derivation_3(_derivation_2(word, r1), r1, r2)
        word = _final_e_or_l(_derivation_4(word, r2), r1, r2)
    return word.replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """Write Y where y is a consonant: at the beginning, or after a vowel."""
    letters = list(word)
    for index, letter in enumerate(letters):
        if letter == "y" and (index == 0 or letters[index - 1] in "aeiouy"):
            letters[index] = "Y"
    return "".join(letters)


def _region(pattern: re.Pattern[str], word: str, start: int) -> int:
    found = pattern.match(word, start)
    return found.end() if found else len(word)


def _possessive(word: str) -> str:
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            return word.removesuffix(ending)
    return word


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")) or not word.endswith("s"):
        return word
    return word[:-1] if _VOWEL.search(word[:-2]) else word


def _past(word: str, r1: int) -> str:
    for ending in ("eedly", "ingly", "edly", "eed", "ing", "ed"):
        if word.endswith(ending):
            break
    else:
        return word
    base = word[: -len(ending)]
    if ending.startswith("eed"):
        return base + "ee" if len(base) >= r1 else word
    if not _VOWEL.search(base):
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base.endswith(("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")):
        return base[:-1]
    return base + "e" if len(base) == r1 and _SHORT_ENDING.fullmatch(base) else base


def _final_y(word: str) -> str:
    is_suffix = len(word) > 2 and word[-1] in "yY" and word[-2] not in "aeiouy"
    return word[:-1] + "i" if is_suffix else word


def _derivation_2(word: str, r1: int) -> str:
    found = _ENDING_2.search(word)
    if not found or found.start() < r1:
        return word
    base, ending = word[: found.start()], found.group()
    if ending == "ogi":
        return base + "og" if base.endswith("l") else word
    if ending == "li":
        return base if base and base[-1] in "cdeghkmnrt" else word
    return base + _STEP_2[ending]


def _derivation_3(word: str, r1: int, r2: int) -> str:
    found = _ENDING_3.search(word)
    if not found or found.start() < r1 or (found.group() == "ative" and found.start() < r2):
        return word
    return word[: found.start()] + _STEP_3[found.group()]


def _derivation_4(word: str, r2: int) -> str:
    found = _ENDING_4.search(word)
    if not found or found.start() < r2:
        return word
    base = word[: found.start()]
    return base if found.group() != "ion" or base.endswith(("s", "t")) else word


def _final_e_or_l(word: str, r1: int, r2: int) -> str:
    place = len(word) - 1
    if word.endswith("e"):
        goes = place >= r2 or (place >= r1 and not _SHORT_ENDING.fullmatch(word[:-1]))
    else:
        goes = word.endswith("ll") and place >= r2
    return word[:-1] if goes else word
