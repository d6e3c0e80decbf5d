"""Clauses: a caption taken apart into subject, auxiliary and predicate, where that is certain.

"two men are slowly riding a bike"  ->  two men | are | slowly | riding a bike
"a dog running down a street"       ->  a dog | is | | running down a street
"a man rides a horse"               ->  a man | | | rides a horse
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from densevid.language.noun_phrases import (
    ADJECTIVES,
    ANIMAL,
    BE,
    PERSON,
    PERSONS,
    PLURAL_START,
    RELATIVE,
    Words,
    core_of,
    is_further_verb,
    is_ing,
    is_plural,
    people_of,
)
from densevid.language.sentence_form import ADVERBS, ARTICLES, PREPOSITIONS, base_verbs, verb_place
from densevid.language.words import word_set

JOINING = word_set("while as when because if but then so where after before until")
PRONOUNS = word_set("he she it they i we you him her them its this that what how why there")
FINITE = word_set("has have sat ran rode sang stood went held took ate drank threw fell drove swam")
BEFORE_ING = word_set("discuss enjoy start stop begin keep go try love like practice demonstrate")
SURELY_FINITE = word_set("shows talks walks looks rides poses plays")
PICTURES = word_set("video picture photo photograph image painting drawing view shot clip scene scenes film pictures")
NO_ADVERB = word_set("family fly jelly belly bully lily")
NO_THIRD_PERSON = word_set(
    "bats bowls boxes cooks covers dances drinks fights films fixes grills hits hugs kisses lights looks marches "
    "paints pictures pitches plants points poses presses races rides rolls rows sails shoots shops shows slices "
    "slides steps swings talks toasts toys trains turns types views visits walks waves works tries plays leaves"
)


@dataclass(frozen=True)
class Clause:
    """A caption in parts.

    `auxiliary` is a form of "be" (and "being"); empty where the verb is inflected ("rides"). `adverbs` stand before
    the verb. `plural` is the number of the subject.
    """

    subject: Words
    auxiliary: Words
    adverbs: Words
    predicate: Words
    plural: bool

    @property
    def existential(self) -> bool:
        """Whether it begins with "there is"."""
        return self.subject == ("there",)

    @property
    def progressive(self) -> bool:
        """Whether it is "is VERBing"."""
        return len(self.auxiliary) == 1 and is_ing(self.predicate[0])


def clause_of(words: Words) -> Clause | None:
    """The parts of a caption; None where they are not certain."""
    if words[:1] == ("there",) and len(words) > 3 and words[1] in BE:
        return _existential(words)
    be = next((place for place, word in enumerate(words) if word in BE), None)
    return _without_be(words) if be is None else _with_be(words, be)


def is_adverb(word: str) -> bool:
    """Whether a word is an adverb in -ly."""
    return word.endswith("ly") and word not in NO_ADVERB


def _existential(words: Words) -> Clause | None:
    """Of "there is a woman talking" the clause "a woman is talking"; else what there is, as the predicate."""
    rest, be = words[2:], words[1]
    for place in range(1, len(rest)):
        if rest[place] in RELATIVE and place + 2 < len(rest) and rest[place + 1] in BE:
            return _checked(rest[:place], (rest[place + 1],), rest[place + 2 :], be in ("are", "were"))
        if is_further_verb(rest, place):
            return _checked(rest[:place], (be,), rest[place:], be in ("are", "were"))
    if not BE.isdisjoint(rest):
        return None
    return Clause(("there",), (be,), (), rest, be in ("are", "were"))


def _with_be(words: Words, be: int) -> Clause | None:
    subject, start = words[:be], be
    relative = next((place for place, word in enumerate(subject) if place and word in RELATIVE), None)
    if relative is not None:  # "a man who is wearing a hat is singing"
        if relative + 1 != be or not (PREPOSITIONS - {"of"}).isdisjoint(subject[:relative]):
            return None  # "a man near a dog that is running"
        subject = words[:relative]
        start = next((place for place in range(be + 1, len(words)) if words[place] in BE), be)
    plural = words[start] in ("are", "were")
    auxiliary, predicate = words[start : start + 1], words[start + 1 :]
    if predicate[:1] == ("being",):
        auxiliary, predicate = (*auxiliary, "being"), predicate[1:]
    return _checked(subject, auxiliary, predicate, plural)


def _without_be(words: Words) -> Clause | None:
    verb = verb_place(words)
    finite = next((place for place in range(1, (verb or 0) + 1) if _is_finite(words, place)), None)
    verb = verb if finite is None else finite
    if not verb or words[verb - 1] in PREPOSITIONS | JOINING | {"and", "or", "to"}:
        return None
    subject, predicate = words[:verb], words[verb:]
    plural = is_plural(subject)
    if is_ing(words[verb]):
        if subject[-1] == "'s":  # "a man's riding a horse"
            subject = subject[:-1]
        sure = _is_subject_of_ing(subject, predicate)
        return _checked(subject, ("are" if plural else "is",), predicate, plural) if sure else None
    if finite is not None and plural and words[verb] != "have" and words[verb].endswith("s"):
        return None
    if finite is None and not (words[verb] in base_verbs() and _can_be_plural_subject(subject)):
        return None  # such as "parked" in "a car parked in a lot", which looks like "jumped over the fence"
    return _checked(subject, (), predicate, plural)


def _is_subject_of_ing(subject: Words, predicate: Words) -> bool:
    """Whether a subject is that of the -ing that follows it, and not "a video of a man RUNNING"."""
    last, after = subject[-1], predicate[1] if len(predicate) > 1 else ""
    if last.endswith("ed") or last in BEFORE_ING or (last in ADJECTIVES and len(subject) < 3) or after.endswith("ed"):
        return False
    if subject[0] in ("a", "an", "one") and last.endswith("s") and not last.endswith("ss") and len(subject) < 4:
        return False  # "a woman offers cooking tips"
    if not SURELY_FINITE.isdisjoint(subject) or any(map(_goes_on, predicate, predicate[1:], predicate[2:])):
        return False
    if predicate[0] == "looking" and after and after not in PREPOSITIONS:
        return False  # "a sleek looking car"
    if not PICTURES.isdisjoint(subject) and "of" in subject:
        return False
    return "with" not in subject or subject[subject.index("with") - 1] in PERSON | PERSONS | ANIMAL


def _goes_on(before: str, word: str, after: str) -> bool:
    """Whether a word between two others is the verb of "a man holding a stick WALKS down a street"."""
    if not (after in PREPOSITIONS or after in ARTICLES) or before in PREPOSITIONS | ARTICLES | ADJECTIVES:
        return False
    apart = is_ing(before) or before in JOINING or before == "and" or before in PLURAL_START
    return not apart and word.endswith("s") and _has_base(word)


def _has_base(word: str) -> bool:
    return any(base in base_verbs() for base in (word[:-1], word[:-2], word[:-3] + "y"))


def _is_finite(words: Words, place: int) -> bool:
    """Whether a word is a verb in -s or an irregular one, such as "has", after a noun."""
    word, before = words[place], words[place - 1]
    if before in ARTICLES or before in PREPOSITIONS or before in PLURAL_START:
        return False
    if word in FINITE:
        return True
    known = word not in NO_THIRD_PERSON or before in PERSON
    return known and word.endswith("s") and _has_base(word)


def _can_be_plural_subject(subject: Words) -> bool:
    core = core_of(subject, True)
    return core is not None and is_plural(core[0]) and people_of(*core) == "people"


def _checked(subject: Words, auxiliary: Words, predicate: Words, plural: bool) -> Clause | None:
    if not subject or not predicate or subject[0] in PREPOSITIONS or subject[0] in PRONOUNS - {"he", "she"}:
        return None
    if not (BE | JOINING | PRONOUNS).isdisjoint(subject[1:]):
        return None
    if any(_is_finite(subject, place) for place in range(1, len(subject))) or _has_base_verb(subject):
        return None
    first = 0
    while first + 1 < len(predicate) and (predicate[first] in ADVERBS or is_adverb(predicate[first])):
        first += 1
    verb_follows = is_ing(predicate[first]) or predicate[first].endswith("ed")
    adverbs = first if verb_follows else 0
    return Clause(subject, auxiliary, predicate[:adverbs], predicate[adverbs:], plural)


def _has_base_verb(subject: Words) -> bool:
    """Whether a verb follows people within a subject ("a man and woman TALK in a library he has")."""
    return any(
        word in base_verbs() and (before in PERSONS or ("and" in subject[:place] and before in PERSON))
        for place, (before, word) in enumerate(pairwise(subject), start=1)
    )
