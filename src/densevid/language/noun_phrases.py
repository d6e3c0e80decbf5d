"""Noun phrases of captions: their core, their number, and people in general.

Word lists take the place of a parser; a phrase that they do not cover is left as it is.
"""

from __future__ import annotations

from densevid.language.sentence_form import ARTICLES, PREPOSITIONS
from densevid.language.words import word_set

Words = tuple[str, ...]

BE = word_set("is are was were")
RELATIVE = word_set("who that which")
PERSON = word_set(
    "man woman boy girl guy lady gentleman kid child toddler person someone somebody he she player singer chef cook "
    "dancer actor actress teacher student reporter host anchor speaker musician guitarist drummer athlete runner "
    "worker officer soldier doctor driver rider skater skateboarder surfer skier snowboarder swimmer wrestler boxer "
    "performer artist judge president politician model contestant teenager male female dude adult biker cyclist"
)
PERSONS = word_set(
    "men women boys girls guys ladies gentlemen kids children toddlers persons people players singers chefs cooks "
    "dancers actors actresses teachers students reporters hosts anchors speakers musicians guitarists drummers "
    "athletes runners workers officers soldiers doctors drivers riders skaters skateboarders surfers skiers "
    "snowboarders swimmers wrestlers boxers performers artists judges politicians models contestants teenagers teens "
    "males females dudes adults bikers cyclists friends folks"
)
GROUP_OF_PEOPLE = word_set("band team crowd audience family couple choir orchestra class group")
GROUP = word_set("group bunch couple crowd number lot pair team line class row set")
ANIMAL = word_set(
    "animal bear bird cat chicken cow cub deer dog dolphin duck elephant fish fox frog giraffe goat hamster horse "
    "kitten lion monkey panda parrot penguin pig puppy rabbit shark sheep snake squirrel tiger turtle whale wolf zebra "
    "animals bears birds cats chickens cows cubs dogs dolphins ducks elephants giraffes goats horses kittens lions "
    "monkeys pandas parrots penguins pigs puppies rabbits sharks tigers turtles wolves zebras character characters"
)
NO_PERSON = word_set("cartoon animated toy lego stuffed plastic fake anime record cd dvd mp3 minecraft barbie game")
PLURAL_START = word_set("two three four five six seven eight nine ten several some many these those both")
NUMBERS = word_set("three four five six seven eight nine ten several many various different multiple numerous")
ADJECTIVES = NUMBERS | word_set(
    "red blue green yellow orange purple pink brown black white gray grey blonde blond golden silver dark bright "
    "colorful colored colourful large small big little huge tiny tall short long wide giant young old elderly older "
    "younger beautiful pretty cute handsome attractive sexy nice good great cool funny amazing lovely fat skinny thin "
    "muscular bald shirtless asian african american indian japanese chinese korean british french german mexican "
    "russian wooden metal wet dry dirty clean shiny fancy professional famous crazy happy sad angry excited busy "
    "crowded empty grassy sandy snowy rocky dusty muddy sunny cloudy"
)
PARTICIPLES_OF_NOUNS = word_set("made shown seen held worn lit known built")
NO_PARTICIPLE = word_set(
    "red bed bleed speed seed feed weed shed sled need breed tweed greed reed hundred wicked naked"
)
PARTICLES = word_set("around down up away outside inside together along back by past outdoors underwater alone")
NO_VERB_IN_ING = word_set(
    "building ceiling morning evening king ring string thing wedding wing clothing something anything everything "
    "nothing painting drawing including regarding during being frosting"
)
SINGULAR_IN_S = word_set("bus gas tennis chess christmas series news gymnastics lens canvas octopus")
UNCOUNTED = word_set("news music food hair grass makeup clothing furniture gymnastics")
PLAYED = word_set(
    "football soccer basketball baseball volleyball badminton tennis golf hockey cricket rugby chess poker billiards"
)
PLAYS = word_set("play plays played playing watch watches watching")
VOWELS, NO_VOWEL_SOUND, VOWEL_SOUND = "aeiou", ("uni", "use", "usu", "eu", "one", "ukulele"), ("hour", "honest")


def core_of(subject: Words, plural: bool) -> tuple[Words, bool] | None:
    """A subject without what follows its noun, and whether it is plural; None where that is not certain.

    Example:
        >>> core_of(("a", "man", "in", "a", "suit"), False)
        (('a', 'man'), False)
        >>> core_of(("a", "group", "of", "people"), False)
        (('people',), True)
    """
    if "of" in subject[1:]:
        place = subject.index("of")
        rest = subject[place + 1 :]
        if subject[place - 1] in GROUP and rest and rest[0] not in ARTICLES:
            inner = core_of(rest, True)
            if inner and is_plural(inner[0]):
                return inner[0], True
    end = next((p for p in range(1, len(subject)) if _ends_noun_phrase(subject, p)), len(subject))
    core = subject[:end]
    if subject[end : end + 1] in (("up",), ("down",), ("off",), ("over",)):
        return None  # "a stand up comedian"
    if "and" in subject[end:] and not is_plural(core):
        return None  # "a man in a tie and a woman"
    if core[-1] in ARTICLES | ADJECTIVES | {"all", "both", "each"}:
        return None
    return core, plural


def people_of(core: Words, plural: bool) -> str | None:
    """ "someone" or "people" for a person or several; None for anything else."""
    if not NO_PERSON.isdisjoint(core):
        return None
    parts: list[list[str]] = [[]]
    for place, word in enumerate(core):
        if word == "and" and not joins_adjectives(core, place - 1):
            parts.append([])
        else:
            parts[-1].append(word)
    heads = [part[-1] for part in parts if part]
    if not heads or not all(head in PERSON or head in PERSONS or head in GROUP_OF_PEOPLE for head in heads):
        return None
    if len(heads) > 1 or heads[0] in PERSONS or heads[0] in GROUP_OF_PEOPLE or plural:
        return "people"
    return "someone"


def is_plural(phrase: Words) -> bool:
    """Whether a phrase is plural, by its first word, "and" or its noun."""
    end = next((p for p in range(1, len(phrase)) if _ends_noun_phrase(phrase, p)), len(phrase))
    core = phrase[:end]
    if phrase[0] in PLURAL_START or ("and" in core and not _only_joins_adjectives(core)):
        return True
    if "of" in phrase[1:] and phrase[phrase.index("of") - 1] in GROUP:
        return True
    if phrase[0] in ("a", "an", "one", "this", "that", "someone", "he", "she"):
        return False
    noun = core[-1]
    return noun in PERSONS or (noun.endswith("s") and not noun.endswith("ss") and noun not in SINGULAR_IN_S)


def without_adjectives(words: Words) -> Words:
    """Words without adjectives and numbers that stand before a noun; "another" becomes "a".

    Example:
        >>> without_adjectives(("a", "long", "red", "bike", "with", "two", "foot", "long", "wheels"))
        ('a', 'bike', 'with', 'two', 'foot', 'long', 'wheels')
    """
    kept: list[str] = []
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        if _joins_before_noun(words, place) or _stands_before_noun(words, place):
            continue
        kept.append("a" if word == "another" and after and not after.endswith("s") else word)
    return tuple(kept)


def _joins_before_noun(words: Words, place: int) -> bool:
    return words[place] == "and" and place > 0 and joins_adjectives(words, place - 1)


def _stands_before_noun(words: Words, place: int) -> bool:
    """Whether a word is an adjective that begins or goes on with a noun phrase ("red", but not "foot LONG")."""
    word, after = words[place], words[place + 1] if place + 1 < len(words) else ""
    if word not in ADJECTIVES or not after or after in PREPOSITIONS | ARTICLES | BE | RELATIVE or is_ing(after):
        return False
    if after == "and" and not joins_adjectives(words, place):
        return False
    before = words[place - 1] if place else "a"
    begins = before in ARTICLES or before in PREPOSITIONS or before in ADJECTIVES or before in PLURAL_START
    return begins or before == "and" or is_ing(before)


def joins_adjectives(words: Words, place: int) -> bool:
    """Whether "and" after the word at `place` joins two adjectives before a noun."""
    parts = words[place : place + 4]
    return len(parts) == 4 and parts[0] in ADJECTIVES and parts[1] == "and" and parts[2] in ADJECTIVES


def _only_joins_adjectives(words: Words) -> bool:
    return all(joins_adjectives(words, place - 1) for place, word in enumerate(words) if word == "and")


def _ends_noun_phrase(words: Words, place: int) -> bool:
    word = words[place]
    if word == "of":
        return False
    if word in PREPOSITIONS or word in RELATIVE or word == "next" or is_further_verb(words, place):
        return True
    participle = is_ed(word) or word in PARTICIPLES_OF_NOUNS
    before, after = words[place - 1], words[place + 1] if place + 1 < len(words) else ""
    return participle and before not in ARTICLES | ADJECTIVES and (not after or after in PREPOSITIONS)


def is_further_verb(words: Words, place: int) -> bool:
    """Whether a word in -ing begins a clause of its own: "a man RIDING a bike", but not "a car racing game"."""
    if place == 0 or not is_ing(words[place]):
        return False
    before, after = words[place - 1], words[place + 1] if place + 1 < len(words) else ""
    if before in ARTICLES or before in PREPOSITIONS or before in ADJECTIVES or before in ("and", "to", "or"):
        return False
    begins = next((p for p in range(place - 1, -1, -1) if words[p] in ARTICLES | PLURAL_START | PREPOSITIONS), None)
    if begins is None:
        return before in PERSON or before in PERSONS
    if words[begins] in PREPOSITIONS:
        return False
    return not after or after in ARTICLES or after in PREPOSITIONS or after in PARTICLES or before in PERSON | PERSONS


def is_ing(word: str) -> bool:
    """Whether a word could be a verb in -ing."""
    return len(word) > 4 and word.endswith("ing") and word not in NO_VERB_IN_ING


def is_ed(word: str) -> bool:
    """Whether a word could be a verb in -ed."""
    return len(word) > 3 and word.endswith("ed") and word not in NO_PARTICIPLE


def with_right_articles(words: Words) -> Words:
    """Words with "a" or "an" as the next word wants, and neither before what cannot be counted ("playing football")."""
    return tuple(
        ("an" if _begins_with_vowel(words[place + 1]) else "a")
        if word in ("a", "an") and place + 1 < len(words)
        else word
        for place, word in enumerate(words)
        if not _is_uncounted(words, place)
    )


def has_right_articles(words: Words) -> bool:
    """Whether no "a" stands before what cannot be counted."""
    return not any(_is_uncounted(words, place) for place in range(len(words)))


def _is_uncounted(words: Words, place: int) -> bool:
    """Whether an article stands before an uncountable noun, or a game that is played ("throwing a football" is right).

    A noun that only describes another may have one: "playing a football game".
    """
    noun, *after = words[place + 1 : place + 3] or ("",)
    if words[place] not in ("a", "an") or not (not after or after[0] in PREPOSITIONS or after[0] in ("and", "while")):
        return False
    return noun in UNCOUNTED or (noun in PLAYED and place > 0 and words[place - 1] in PLAYS)


def _begins_with_vowel(word: str) -> bool:
    return word.startswith(VOWEL_SOUND) or (word[0] in VOWELS and not word.startswith(NO_VOWEL_SOUND))
