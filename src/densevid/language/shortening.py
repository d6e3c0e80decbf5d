"""Shortening: sentences with less content than a caption, and none that it lacks.

A caption is taken apart into subject, auxiliary and predicate (`clauses`); no parser is used. Its shorter forms combine

- a subject: as it is, without what describes it, or, of people, "someone" and "people" (animals keep their name);
- a predicate: as it is, or cut before a preposition, a conjunction or a further verb, where what is left can stand, or
  a general one that follows from it ("cooking" from "making a cake");
- with or without adjectives and numbers.

A verb stands alone only if a list has it ("someone is cooking", but not "someone is putting"), and loses an object
only if that does not change what it means ("eating", but not "flying a kite"), so a form is left out where it might
not be English, or not true. A sentence with a negation is not shortened.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

from densevid.language.clauses import Clause, clause_of, is_adverb
from densevid.language.noun_phrases import (
    ADJECTIVES,
    ANIMAL,
    BE,
    PARTICLES,
    Words,
    core_of,
    has_right_articles,
    is_ed,
    is_further_verb,
    is_ing,
    people_of,
    with_right_articles,
    without_adjectives,
)
from densevid.language.sentence_form import ADVERBS, ARTICLES, PARTICIPLES, PREPOSITIONS, verb_place
from densevid.language.stemmer import stem
from densevid.language.words import is_content_word, word_set, words_of

NEGATIONS = word_set("not no never nobody nothing without none neither nor cannot")
PLURAL_OF = {"is": "are", "was": "were", "are": "are", "were": "were"}
SINGULAR_OF = {"are": "is", "were": "was", "is": "is", "was": "was"}
ENDS_NOWHERE = (
    word_set(
        "to how what where when why very so such too more most each other another next not than if whether both far"
    )
    | ARTICLES
    | word_set("and or but while as because be been being has have had is are was were am do does will can 's")
    | word_set("two three four five six seven eight nine ten several many")
)
CUT_BEFORE = PREPOSITIONS | word_set("and but while as when because who that which next then using wearing")
OF_HEADS = word_set("game picture photo video photograph painting drawing tour review demonstration image clip")
NOT_BEFORE_TO = word_set(
    "how trying going able about ready want wants used next close attempting preparing learning beginning starting "
    "need needs try tries starts begins wanting up has have having due according belonging"
)
NEEDS_PLACE = word_set("put place set attach insert stick connect compare turn lay lean hang tape glue tell tie")
NO_CUT_AND = word_set("mac rock drum hip back up down")
DOES = word_set("do does did doing")
DOABLE = word_set(  # what one can do: not "doing a horse"
    "exercise exercises workout trick tricks makeup hair nails gymnastics gymnastic stunt stunts dance dances dancing "
    "martial karate flip flips backflip backflips comedy magic yoga craft crafts wheelie wheelies pushups crunches "
    "experiment experiments construction aerobics review tutorial demonstration origami laundry work job math homework "
    "shopping boxing skating cooking interview choreographed synchronized acrobatics cartwheel cartwheels moonwalk "
    "bench capoeira clean deadlift drop high long lunges parkour pole pull push side sit somersault squats tai triple "
    "vault gardening surgery repairs weight splits dishes art sports routine performance show act handstand skit"
)
PLAYFUL = word_set("boy girl kid child toddler baby boys girls kids children toddlers babies band orchestra musicians")
POSTURES = word_set("sit stand rest sleep wait pose lie")  # alone of people and animals: not "a bowl is sitting"
STANDS_ALONE = word_set(
    "act applaud argue bark bathe beatbox bike blink boil bow bowl box breakdance breathe burn camp celebrate chat "
    "cheer clap climb compete cook cough crash crawl cry cycle dance dive dream drink drive drum eat exercise explode "
    "fence fight fish float fly gallop giggle golf graze hike hop hug hunt iron jog joke juggle jump kayak kiss kneel "
    "knit laugh lecture march meditate model paddle paint parachute perform play pose practice pray preach race rap "
    "read rehearse relax rest ride row run sail scream sew shave shop shout sing sit skate skateboard ski skydive "
    "sleep smile smoke snore snorkel snowboard somersault speak sprint squat stand stretch study surf swim talk "
    "teach tumble type wait walk wander weld whistle work wrestle write yawn yell yodel"
)
DROPS_OBJECT = word_set(  # "eating a cake" is eating, "flying a kite" is not flying
    "act box climb cook dance drink drive drum eat fish hug hunt iron juggle kiss knit paddle paint perform play "
    "practice preach rap read rehearse ride row sew shave sing smoke speak study teach type weld write"
)
STANDS_WITH = {  # particles after which a sentence may end
    "down": word_set("sit lie kneel bend fall"),
    "up": word_set("stand get"),
    "around": word_set("walk run jump move drive ride dance fly swim crawl"),
    "away": word_set("walk run drive ride fly swim"),
    "together": STANDS_ALONE,
    "outside": STANDS_ALONE,
    "inside": STANDS_ALONE,
    "outdoors": STANDS_ALONE,
    "underwater": STANDS_ALONE,
    "alone": STANDS_ALONE,
}
BODY = word_set("head hand hands arm arms mouth eyes back feet legs hair face")
MAKING = word_set("make prepare cook bake fry boil stir grill mix")
COOKED = word_set(
    "cake cakes dish dishes soup pizza meal recipe pasta noodles rice chicken meat beef pork egg eggs omelette omelet "
    "pancake pancakes curry sauce burger bacon stew cookies bread steak potatoes"
)
FOOD = COOKED | word_set("food sandwich salad sushi dessert ingredients vegetables")
INSTRUMENTS = word_set(
    "guitar piano drums violin flute saxophone trumpet cello harp keyboard accordion harmonica ukulele banjo bagpipes "
    "trombone clarinet instrument instruments"
)
FOOD_CUT = ("in", "on", "with", "from", "for", "and", "while", "using", "to", "at", "into")


@lru_cache(maxsize=1 << 14)
def shorter_forms(sentence: str) -> tuple[str, ...]:
    """Shorter sentences with a part of the content of a caption, in no particular order; none of them is the caption.

    Example:
        >>> sorted(shorter_forms("a man is riding a red bike"))
        ['a man is riding', 'a man is riding a bike', 'someone is riding', 'someone is riding a bike', \
'someone is riding a red bike']
    """
    written = words_of(sentence)
    words = with_right_articles(written)
    clause = None if NEGATIONS & set(words) else clause_of(words)
    if clause is None:
        return ()
    subjects = list(_subjects(clause))
    found: dict[Words, None] = {words: None} if len(words) < len(written) and is_sentence(words) else {}
    loops = not is_sentence(words)
    for predicate in (*_predicates(clause), *_general(clause)):
        if loops and not is_sentence((*subjects[0][0], *subjects[0][1], *predicate)):
            continue  # of a sentence that goes round in circles only its beginning
        for subject, auxiliary in subjects:
            for form in (predicate, without_adjectives(predicate)):
                made = with_right_articles((*subject, *auxiliary, *form))
                if len(made) < len(words) + BE.isdisjoint(words) and made != words and is_sentence(made):
                    found[made] = None
    return tuple(map(text_of, found))


@lru_cache(maxsize=1 << 16)
def is_sentence(words: Words) -> bool:
    """Whether words can be shown as a sentence: they have a verb and content, stop at a good place and do not loop.

    Example:
        >>> is_sentence(words_of("a man is playing a video game of a man"))
        False
    """
    reciprocal = words[-2:] in (("each", "other"), ("one", "another"))
    if (
        len(words) < 3
        or (words[-1] in ENDS_NOWHERE and not reciprocal)
        or words[-1] in PREPOSITIONS - PARTICLES - {"off", "over", "on"}
        or not has_right_articles(words)
        or not _can_be_done(words)
    ):
        return False
    seen: set[str] = set()
    for place, word in enumerate(words):
        if place and word == words[place - 1]:
            return False
        if is_content_word(word):
            root = stem(word)
            if root in seen and words[place - 1] not in ("another", "other"):
                return False
            seen.add(root)
    if seen == {"play"}:  # nobody knows what: "someone is playing", "a person is playing with a person"
        return not (ANIMAL | PLAYFUL).isdisjoint(words)
    return bool(seen) and verb_place(words) is not None


def _can_be_done(words: Words) -> bool:
    """Whether what somebody does is something that can be done."""
    place = next((place for place, word in enumerate(words) if word in DOES), len(words))
    return not DOABLE.isdisjoint(words[place + 1 :]) or place + 1 >= len(words) or words[place - 1] not in BE


def animal_subject(sentence: str) -> tuple[str, bool] | None:
    """The animal that a caption is about and whether it is plural; None where it is about anything else.

    Example:
        >>> animal_subject("a black cat is sitting at a piano")
        ('a black cat', False)
        >>> animal_subject("a man is walking a dog") is None
        True
    """
    found = _core_subject(sentence)
    if found is None or found[0][-1] not in ANIMAL or people_of(*found) is not None:
        return None
    return text_of(found[0]), found[1]


def is_about_people(sentence: str) -> bool:
    """Whether the subject of a caption is a person, or several."""
    found = _core_subject(sentence)
    return found is not None and people_of(*found) is not None


def _core_subject(sentence: str) -> tuple[Words, bool] | None:
    clause = clause_of(words_of(sentence))
    return None if clause is None or clause.existential else core_of(clause.subject, clause.plural)


def text_of(words: Words) -> str:
    """Words as a sentence."""
    return " ".join(words).replace(" '", "'")


def _subjects(clause: Clause) -> Iterator[tuple[Words, Words]]:
    """Subjects with an auxiliary that agrees with them."""
    yield clause.subject, (*clause.auxiliary, *clause.adverbs)
    found = None if clause.existential else core_of(clause.subject, clause.plural)
    if found is None:
        return
    core, plural = found
    if clause.auxiliary or plural == clause.plural:
        yield core, _agreeing(clause.auxiliary, plural)
        for bare in {without_adjectives(core), without_adjectives(clause.subject)} - {core, clause.subject}:
            yield bare, _agreeing(clause.auxiliary, plural)
    general = people_of(core, plural)
    if general is not None and (clause.auxiliary or (general == "people") == clause.plural):
        yield (general,), _agreeing(clause.auxiliary, general == "people")


def _agreeing(auxiliary: Words, plural: bool) -> Words:
    return (*((PLURAL_OF if plural else SINGULAR_OF)[word] for word in auxiliary[:1]), *auxiliary[1:])


def _predicates(clause: Clause) -> Iterator[Words]:
    """The predicate and what is left of it by a cut."""
    words = clause.predicate
    yield words
    if words[0] in ("about", "supposed", "able", "going") and "to" in words[:2]:
        return
    for place in range(1, len(words)):
        if _can_cut(words, place) and _can_end(words[:place], clause):
            yield words[:place]
    if clause.progressive and stem(words[0]) in _stems(DROPS_OBJECT) and _can_end(words[:1], clause):
        yield words[:1]


def _general(clause: Clause) -> Iterator[Words]:
    """More general predicates that follow: "cooking", "preparing food", "playing music", "performing"."""
    words = clause.predicate
    if not clause.progressive:
        return
    end = next((place for place, word in enumerate(words) if place and word in FOOD_CUT), len(words))
    verb, head = stem(words[0]), words[end - 1]
    if verb in _stems(MAKING) and head in FOOD:
        yield ("preparing", "food")
        if head in COOKED:
            yield ("cooking",)
    if verb == "play" and head in INSTRUMENTS:
        yield ("playing", "music")
    if verb in ("sing", "danc", "rap") and "stage" in words:
        yield ("performing",)
        yield ("performing", "on", "stage")


def _can_cut(words: Words, place: int) -> bool:
    word, before = words[place], words[place - 1]
    if word == "of":
        return before in OF_HEADS
    if word == "to":
        return before not in NOT_BEFORE_TO
    if word == "and":
        return "between" not in words[:place] and before not in NO_CUT_AND and not _may_describe(words, place)
    if word in CUT_BEFORE:
        return before not in ("next", "out", "side", "step")
    return place > 1 and is_further_verb(words, place)


def _may_describe(words: Words, place: int) -> bool:
    """Whether "and" may join two words that describe the noun after them ("lush and green forest")."""
    before, after = words[place - 1], words[place + 1] if place + 1 < len(words) else ""
    return before in ADJECTIVES or after in ADJECTIVES or (before.endswith("ed") and after.endswith("ed"))


def _can_end(words: Words, clause: Clause) -> bool:
    """Whether a predicate can end after these words."""
    last, verb = words[-1], stem(words[0])
    if clause.existential:
        return last not in ENDS_NOWHERE | PREPOSITIONS | ADJECTIVES and len(words) > 1
    if len(words) == 1:
        if verb in _stems(POSTURES) and not _is_alive(clause):
            return False
        if verb == "play" and (ANIMAL | PLAYFUL).isdisjoint(clause.subject):
            return False
        alone = verb in _stems(STANDS_ALONE) and (is_ing(last) or not clause.auxiliary)
        return clause.auxiliary[1:] == ("being",) or alone
    if last in PARTICLES:
        return len(words) == 2 and verb in _stems(STANDS_WITH.get(last, frozenset()))
    if last in ENDS_NOWHERE or last in PREPOSITIONS or last in ADVERBS or is_adverb(last):
        return False
    if last in ADJECTIVES and (is_ing(words[0]) or not clause.auxiliary):
        return False
    if verb in _stems(NEEDS_PLACE) and PREPOSITIONS.isdisjoint(words):
        return False
    if words[-2] == "of" and last in PARTICIPLES:  # "pieces of cut up beef"
        return False
    if is_ed(last) and words[-2] not in ("get", "gets", "getting", "being", "been"):  # "a phone covered with a cover"
        return False
    if last in BODY and "with" in words:  # "with its head on a pillow"
        return False
    if "between" in words and "and" not in words:
        return False
    if words[-2] == "to" or is_ing(last):
        return verb_can_end(last) and words[-2] in ("to", "and", "of", "doing", "going", "while")
    return True


def _is_alive(clause: Clause) -> bool:
    """Whether the subject is people or an animal."""
    found = core_of(clause.subject, clause.plural)
    return found is not None and (people_of(*found) is not None or found[0][-1] in ANIMAL)


def verb_can_end(verb: str) -> bool:
    """Whether a sentence can end with a verb that has no object."""
    return stem(verb) in _stems(STANDS_ALONE)


@cache
def _stems(verbs: frozenset[str]) -> frozenset[str]:
    """The stems of verbs, also of forms that double their last letter ("running")."""
    return frozenset(map(stem, verbs)) | {verb for verb in verbs if len(verb) == 3}
