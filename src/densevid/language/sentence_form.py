"""Whether a sentence has a verb, and an object or a place: a light rule on words, for short captions in English.

No parser is used. What counts as a verb, the first that applies:

1. `is VERBing`, `are being VERBed`, `is` or `are` alone (adverbs may lie between); a clitic `'s` before `VERBing`.
2. A word in -ing that neither begins a noun phrase nor is a noun (`a dog running down a street`, not `a parking lot`).
3. A word in -s in a noun phrase that began with `a`, `one`, `he`, ... (`a man rides a bike`); a word in -ed that is
   followed by a preposition or an article (`a car parked in a lot`, `she jumped over it`). After `the`, whose noun
   may be plural, only the -s form of a verb of `base_verbs.txt`.
4. A verb of `base_verbs.txt` that does not follow an article (`two men play chess`, `add salt to the bowl`).

An object or a place is a content word after the verb that is no adverb, no further verb (`is singing and dancing`)
and no subject of a further `is`; a place adverb such as `outside`; or a place before the verb (`in a kitchen a woman
is cooking`, but not `a man in a red shirt`). It must be a content word: `is talking to someone` has none.

Limits: complements count as objects (`is very happy`), rare verbs with a plural subject are missed (`two men haggle`),
and a noun in -s after an article may count as a verb unless a list has it (`a red sports car`). On the 60 sentences of
`tests/language/test_sentence_form.py`, for which the lists were completed, the rule makes no error; on
others it will.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from densevid.language.words import is_content_word, word_set


@dataclass(frozen=True)
class SentenceForm:
    """What a sentence has."""

    has_verb: bool
    has_object_or_place: bool


AUXILIARIES = word_set("is are was were am be been being gets get got")
COPULAS = word_set("is are was were am")
ARTICLES = word_set("a an the his her their its my your our this that these those some any no each every another")
SINGULAR = word_set("a an one another each every this that he she it someone somebody everyone everybody")
PRONOUNS = word_set("he she it someone somebody everyone everybody who which that")
PREPOSITIONS = word_set(
    "in on at inside outside near under over behind beside by through along across around down up into onto from with "
    "off above below between among against towards toward past for to of about before during while as"
)
PLACES = word_set("in on at inside outside near under behind beside by along across above below between among")
PLACE_ADVERBS = word_set(
    "outside outdoors inside indoors upstairs downstairs underwater overhead home offstage backstage"
)
ADVERBS = word_set(
    "together away back forward forwards backward backwards around again well fast hard loud alone apart aside very so "
    "too just still not never often always then down off along by through across past here there now today n't quite "
    "really"
)
NOT_ING = word_set(
    "thing something anything everything nothing string king ring spring wing building ceiling clothing morning "
    "evening wedding sing bring sting swing sling lightning pudding dumpling sibling duckling earring sterling viking "
    "bling awning"
)
NOUN_OR_ING = word_set("painting drawing meeting crossing railing icing recording writing landing parking setting")
NOT_THIRD_PERSON = word_set(
    "sports clothes glasses sunglasses series news stairs pants shorts jeans scissors christmas tennis bus gas "
    "gymnastics dress glass grass chess class boss cross swiss princess waitress actress mattress fitness business "
    "wilderness mass canvas lens always towards legos boys girls mens womens ladies kids this perhaps afterwards "
    "upwards downwards forwards backwards besides famous various delicious gorgeous dangerous numerous previous serious"
)
PARTICIPLES = word_set(
    "shown made seen driven held played cut put taken eaten given hit fed built ridden thrown drawn sung done broken "
    "caught worn written read shot sold bought brought taught torn blown beaten chosen found grown hung kept laid "
    "led left lost met paid run sent set slept spun spread stuck swept tied won frozen fried"
)
IRREGULAR_VERBS = word_set(
    "has have had does sat ran rode sang made stood went held took ate drank threw fell drove swam"
)
NOUN_OR_VERB = word_set(
    "bats bowls boxes cooks covers dances drinks fights films fixes grills hits hugs kisses lights looks marches "
    "paints pictures pitches plants points poses presses races rides rolls rows sails shoots shops shows slices "
    "slides steps swings talks toasts toys trains turns types views visits walks waves works"
)
CLOTHES = word_set(
    "shirt suit dress jacket hat coat uniform cap costume tie jeans shorts pants sweater glasses sunglasses helmet "
    "clothes outfit hoodie vest skirt mask robe apron bikini shoes boots scarf gown black white red blue green yellow "
    "orange pink purple brown gray grey middle front back background"
)
JOINING = word_set("and while as or but then")


@cache
def base_verbs() -> frozenset[str]:
    """Verbs in their base form."""
    return word_set((files("densevid.language") / "base_verbs.txt").read_text(encoding="utf-8"))


@lru_cache(maxsize=1 << 16)
def sentence_form(words: tuple[str, ...]) -> SentenceForm:
    """Whether a sentence, given by its words, has a verb, and an object or a place.

    Example:
        >>> sentence_form(("someone", "is", "cooking"))
        SentenceForm(has_verb=True, has_object_or_place=False)
        >>> sentence_form(("a", "man", "is", "riding", "a", "horse")).has_object_or_place
        True
    """
    verb = verb_place(words)
    if verb is None:
        return SentenceForm(False, False)
    return SentenceForm(True, _object_after(words, verb) or _place_before(words, verb))


def verb_place(words: tuple[str, ...]) -> int | None:
    """The place of the verb: of its auxiliary's main verb, or of the copula; None if no verb is found."""
    return next((place for place in (rule(words) for rule in _RULES) if place is not None), None)


def _with_auxiliary(words: tuple[str, ...]) -> int | None:
    """The verb after the first auxiliary, or the copula itself."""
    for place, word in enumerate(words):
        if word not in COPULAS and not (word == "'s" and _is_ing(_at(words, place + 1))):
            continue
        verb = place + 1
        while _at(words, verb) in AUXILIARIES or _is_adverb(_at(words, verb)):
            verb += 1
        return verb if _is_ing(_at(words, verb)) or _is_participle(_at(words, verb)) else place
    return None


def _bare_ing(words: tuple[str, ...]) -> int | None:
    for place, word in enumerate(words):
        noun = word in NOUN_OR_ING and _at(words, place + 1) not in ARTICLES
        if place and _is_ing(word) and not noun and not _is_modifier(words, place):
            return place
    return None


def _third_person_or_past(words: tuple[str, ...]) -> int | None:
    singular, nouns = False, 0
    for place, word in enumerate(words):
        after = _at(words, place + 1)
        if place and word in IRREGULAR_VERBS and words[place - 1] not in ARTICLES:
            return place
        if place and word.endswith("ed") and len(word) > 4 and (after in PREPOSITIONS | ARTICLES):
            return place
        if word in ARTICLES | PRONOUNS:
            singular, nouns = word in SINGULAR, int(word in PRONOUNS)
        elif word in PREPOSITIONS or word in JOINING:
            singular, nouns = singular and word == "and", nouns * (word == "and")
        elif nouns and _is_third_person(word) and (singular or _is_known_third_person(word)):
            return place
        else:
            nouns += 1
    return None


def _base_form(words: tuple[str, ...]) -> int | None:
    verbs = base_verbs()
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word in verbs and before not in ARTICLES and before not in PREPOSITIONS - {"to", "that"}:
            return place
    return None


_RULES = (_with_auxiliary, _bare_ing, _third_person_or_past, _base_form)


def _object_after(words: tuple[str, ...], verb: int) -> bool:
    for place in range(verb + 1, len(words)):
        word, before, after = words[place], words[place - 1], _at(words, place + 1)
        if word in PLACE_ADVERBS:
            return True
        if not is_content_word(word) or _is_adverb(word) or word in PREPOSITIONS or word in JOINING:
            continue
        if _is_ing(word) and before not in ARTICLES and not (before in PREPOSITIONS - JOINING or _is_noun(after)):
            continue  # a further verb: "singing and dancing", "talking while driving"
        if after in COPULAS or (after == "'s" and _is_ing(_at(words, place + 2))):
            continue  # the subject of a further verb
        return True
    return False


def _place_before(words: tuple[str, ...], verb: int) -> bool:
    for place in range(verb):
        if words[place] not in PLACES:
            continue
        phrase: list[str] = []
        for word in words[place + 1 : verb]:
            if word in AUXILIARIES or word in PREPOSITIONS or word == "'s":
                break
            if phrase and word in ARTICLES:
                break  # the next noun phrase
            phrase.append(word)
        head = next((word for word in reversed(phrase) if is_content_word(word)), None)
        if head is not None and head not in CLOTHES:
            return True
    return False


def _at(words: tuple[str, ...], place: int) -> str:
    return words[place] if place < len(words) else ""


def _is_ing(word: str) -> bool:
    return len(word) > 4 and word.endswith("ing") and word not in NOT_ING


def _is_participle(word: str) -> bool:
    return (len(word) > 4 and word.endswith("ed")) or word in PARTICIPLES


def _is_adverb(word: str) -> bool:
    return word in ADVERBS or (word.endswith("ly") and word not in ("family", "fly", "jelly", "belly", "bully", "lily"))


def _is_third_person(word: str) -> bool:
    return len(word) > 3 and word.endswith("s") and not word.endswith("ss") and word not in NOT_THIRD_PERSON


def _is_known_third_person(word: str) -> bool:
    """Whether a word is the -s form of a verb of the list and hardly ever a plural."""
    verbs = base_verbs()
    bases = (word[:-1], word[:-2], word[:-3] + "y")
    return word not in NOUN_OR_VERB and any(base in verbs for base in bases)


def _is_noun(word: str) -> bool:
    """Whether a word after one in -ing could be the noun that it describes."""
    return bool(word) and is_content_word(word) and not _is_adverb(word) and not _is_ing(word)


def _is_modifier(words: tuple[str, ...], place: int) -> bool:
    """Whether a word in -ing begins a noun phrase (`a running man`, `in swimming pools`)."""
    return words[place - 1] in ARTICLES or (words[place - 1] in PREPOSITIONS and words[place - 1] not in JOINING)
