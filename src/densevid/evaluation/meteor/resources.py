"""METEOR's data: files of the installed package `pycocoevalcap`, and what METEOR knows about one word.

The package is located but not imported, and nothing of it is copied into this project. What is expensive to read is
kept as plain arrays in the user's cache folder (`cache_folder`).

METEOR compares words and stems by Java's 32-bit string hash, so two different words may count as equal; the hash is
kept here for that reason. The word lists are read from METEOR's jar on first use.
"""

from __future__ import annotations

import importlib.util
import zipfile
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from densevid.errors import InputError
from densevid.language.stemmer import stem

PACKAGE = "pycocoevalcap"
KNOWN_VERSION = "1.2"
TOKENIZER_JAR = Path("tokenizer") / "stanford-corenlp-3.4.1.jar"
METEOR_JAR = Path("meteor") / "meteor-1.5.jar"
PARAPHRASES = Path("meteor") / "data" / "paraphrase-en.gz"

# Endings of inflected words and their replacement in the base form, tried in this order.
_BASE_FORMS = [
    ("s", ""),
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
    ("es", "e"),
    ("es", ""),
    ("ed", "e"),
    ("ed", ""),
    ("ing", "e"),
    ("ing", ""),
    ("er", ""),
    ("est", ""),
    ("er", "e"),
    ("est", "e"),
]


@cache
def package_folder() -> Path:
    """The folder of the installed package that carries METEOR's and the tokenizer's data."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in spec.submodule_search_locations or () if spec else ():
        return Path(folder)
    raise InputError(f"METEOR needs the data files of {PACKAGE}; install them with pip install 'densevid[eval]'")


def package_file(relative: Path) -> Path:
    """One file of that package.

    Raises:
        InputError: The file, or the package, is not installed.
    """
    path = package_folder() / relative
    if not path.is_file():
        raise InputError(f"{path}: missing; install {PACKAGE}=={KNOWN_VERSION} again")
    return path


def jar_member(jar: Path, member: str, crc: int | None = None) -> bytes:
    """One member of a jar; `crc` pins the only version whose format is known here."""
    path = package_file(jar)
    try:
        with zipfile.ZipFile(path) as archive:
            if crc is not None and crc != archive.getinfo(member).CRC:
                raise InputError(f"{path}: not the file of {PACKAGE} {KNOWN_VERSION}; install that version")
            return archive.read(member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: {member} cannot be read ({error}); install {PACKAGE}=={KNOWN_VERSION}") from error


class Word(NamedTuple):
    """The facts that the four matchers use."""

    key: int
    stem_key: int
    is_function: bool
    synsets: frozenset[str]


@lru_cache(maxsize=1 << 20)
def word_facts(word: str) -> Word:
    """Everything about one word, found once."""
    return Word(java_hash(word), java_hash(stem(word)), word in _function_words(), _synsets(word))


def java_hash(text: str) -> int:
    """String.hashCode: 31 * hash + character, over UTF-16 characters, in 32 bits."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + low + 256 * high) & 0xFFFFFFFF
    return value


def _synsets(word: str) -> frozenset[str]:
    """The synonym sets of the word itself and of its base forms."""
    of = _synsets_of_words()
    bases = _irregular_bases().get(word) or [_regular_base(word)]
    return frozenset(number for form in (word, *bases) for number in of.get(form, "").split())


def _regular_base(word: str) -> str:
    if word.endswith("ss") or len(word) <= 2:
        return word
    known = _synsets_of_words()
    for ending, replacement in _BASE_FORMS:
        if word.endswith(ending) and (base := word.removesuffix(ending) + replacement) in known:
            return base
    return ""


def _lines(member: str) -> list[str]:
    return jar_member(METEOR_JAR, member).decode("utf-8").splitlines()


@cache
def _function_words() -> frozenset[str]:
    return frozenset(_lines("function/english.words"))


@cache
def _synsets_of_words() -> dict[str, str]:
    """A word, then its set numbers, on alternate lines."""
    lines = _lines("synonym/english.synsets")
    return dict(zip(lines[::2], lines[1::2], strict=True))


@cache
def _irregular_bases() -> dict[str, list[str]]:
    """A base form, then its irregular inflections, on alternate lines."""
    lines = _lines("synonym/english.exceptions")
    bases: dict[str, list[str]] = {}
    for base, inflections in zip(lines[::2], lines[1::2], strict=True):
        for inflected in inflections.split():
            bases.setdefault(inflected, []).append(base)
    return bases
