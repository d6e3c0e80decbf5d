"""Shorter forms of captions: what may be said of a sentence and what may not, by examples and by properties."""

from __future__ import annotations

import itertools

import pytest

from densevid.language.clauses import clause_of
from densevid.language.noun_phrases import core_of, people_of, with_right_articles, without_adjectives
from densevid.language.sentence_form import sentence_form
from densevid.language.shortening import is_sentence, shorter_forms
from densevid.language.words import content_words, words_of

# A sentence; below it forms that follow from it (+), and forms that are no English or do not follow (-).
EXAMPLES = """\
a woman is making a cake in a kitchen
  + a woman is making a cake
  + someone is making a cake
  + someone is cooking
  + someone is preparing food
  - a woman is making
  - someone is making
  - someone is making something
a man in a red shirt is talking to a group of children
  + a man is talking to a group of children
  + a man in a shirt is talking
  + someone is talking
  - a man in a red shirt is talking to a group
  - a man is talking to a group
a man is playing a football with a boy
  + a man is playing football
  + someone is playing football
  - someone is playing a football
a woman is talking on a news
  + a woman is talking
  - someone is talking on a news
a man is playing a video game on a computer
  + someone is playing a video game
  - a man is playing
  - someone is playing
a girl is playing with a doll
  + a girl is playing
a man is watching a football game
  + someone is watching a football game
  - someone is watching a football
a boy is flying a kite in a park
  + a boy is flying a kite
  - a boy is flying
  - someone is flying
a plane is flying over a city
  + a plane is flying
  - someone is flying
a cook is boiling eggs in a pot
  + someone is boiling eggs
  - someone is boiling
a man is putting a book on a shelf
  + someone is putting a book on a shelf
  - a man is putting a book
a woman is rolling dough on a table
  + someone is rolling dough
  - a woman is rolling
two women are eating soup at a table
  + two women are eating
  + people are eating soup
  - someone is eating
a group of young girls is dancing on a stage
  + girls are dancing on a stage
  + people are dancing
  + people are performing
  - a group is dancing
  - girls is dancing
  - people is dancing
a group of deer is standing in a field
  + a group of deer is standing
  - people are standing
a boy and a dog are playing in the snow
  + a boy and a dog are playing
  - people are playing
  - someone is playing
a man and a girl are playing the piano
  + people are playing music
  - people are playing
  - someone is playing
a bowl of fruit is sitting on a table
  - a bowl is sitting on a table
  - a bowl of fruit is sitting
a black cat is sitting on a wall
  + a cat is sitting on a wall
  + a black cat is sitting
  - someone is sitting
a man is standing next to a car
  + a man is standing
  - a man is standing next
people are sitting around a table
  + people are sitting
  - people are sitting around
a girl is walking around in a garden
  + a girl is walking around
  + someone is walking
a man is sitting down on a bench
  + a man is sitting down
a man rides a horse along a beach
  + a man rides a horse
  - a man rides along
two men play chess in a park
  + people play chess in a park
  + two men play chess
  - someone play chess
a man who is wearing a hat is singing
  + a man is singing
  + someone is singing
  - a man is wearing a hat
there is a woman slicing bread in a kitchen
  + a woman is slicing bread
  - there is a woman is slicing bread
men dressed in robes are singing
  + men are singing
  + people are singing
  - men dressed are singing
pasta is being cooked in a pan
  + pasta is being cooked
  - pasta is cooked
a car is parked in front of a house
  - a car is parked in front
  - a car is parked in
a cartoon man is running down a street
  + a cartoon man is running
  - someone is running
  - a man is running
a picture of a dog running on a beach
  - a picture of a dog is running
  - a picture is running
a man showing how to fix a bike
  + someone is showing how to fix a bike
  - a man is showing
  - a man is showing how
a girl sits on a chair reading a book
  + someone sits on a chair
  + a girl sits
  - a girl sits is reading a book
a man holding a stick walks down a road
  - a man is holding a stick walks down a road
a dog is lying on a rug with its head on a pillow
  + a dog is lying on a rug
  - a dog is lying on a rug with its head
a man is driving an old red car
  + a man is driving a car
  + someone is driving
  - a man is driving an car
a man is talking about a man who is talking
  - a man is talking about a man who is talking
a man is not wearing a hat in a shop
  - a man is wearing a hat
  - someone is not wearing a hat
two dogs on a beach
  - two dogs
a red sports car"""

SUBJECTS = (
    "a man", "a young woman", "two boys", "a group of people", "a man and a woman", "a brown dog", "children",
    "a woman in a white dress", "the small red car", "a team of players", "someone", "three men with hats",
)  # fmt: skip
VERBS = (
    "playing a guitar", "cooking a large meal", "running", "cutting an onion", "talking to another person",
    "putting some books on a shelf", "singing and dancing", "holding a green umbrella", "making pizza",
    "looking at a map", "throwing a ball to a friend", "showing how to draw a horse", "sitting down",
    "taking off a coat",
)  # fmt: skip
PLACES = (
    "",
    "on a stage",
    "in a big kitchen",
    "next to a tall tree",
    "while other people watch",
    "with a knife and a fork",
)
GENERAL = {"cooking", "preparing", "food", "playing", "music", "performing", "stage"}


def generated() -> list[str]:
    """Sentences of a small grammar, with and without their auxiliary."""
    made = []
    for number, (subject, verb, place) in enumerate(itertools.product(SUBJECTS, VERBS, PLACES)):
        words = subject.split()
        plural = words[0] in ("two", "three", "children") or " and " in subject or subject == "a group of people"
        auxiliary = "" if number % 5 == 0 else "are" if plural else "is"
        made.append(" ".join(f"{subject} {auxiliary} {verb} {place}".split()))
    return made


def examples() -> dict[str, list[str]]:
    """The lines below each sentence of the table."""
    table: dict[str, list[str]] = {}
    sentence = ""
    for line in EXAMPLES.splitlines():
        if line.startswith("  "):
            table[sentence].append(line.strip())
        else:
            sentence = line
            table[sentence] = []
    return table


@pytest.mark.parametrize(("sentence", "lines"), examples().items(), ids=list(examples()))
def test_shorter_forms_follow_and_are_english(sentence: str, lines: list[str]) -> None:
    forms = shorter_forms(sentence)
    assert [line for line in lines if (line[2:] in forms) != line.startswith("+")] == []


@pytest.mark.parametrize(
    "text", ["", "...", "a red sports car", "two dogs on a beach", "a man is not running in a park"]
)
def test_what_is_no_sentence_or_is_negated_has_no_shorter_form(text: str) -> None:
    assert shorter_forms(text) == ()


def test_most_generated_sentences_can_be_shortened() -> None:
    sentences = generated()
    assert len(sentences) == len(set(sentences)) == 1008
    assert sum(bool(shorter_forms(sentence)) for sentence in sentences) > 0.9 * len(sentences)


def test_every_shorter_form_is_a_sentence_of_the_captions_words() -> None:
    for sentence in generated():
        said = set(content_words(sentence))
        for form in shorter_forms(sentence):
            words = words_of(form)
            assert is_sentence(words) and sentence_form(words).has_verb, (sentence, form)
            assert set(content_words(form)) <= said | GENERAL, (sentence, form)
            assert len(words) <= len(words_of(sentence)) + 1, (sentence, form)


def test_a_general_verb_is_said_only_of_what_it_covers() -> None:
    for sentence in generated():
        forms = " / ".join(shorter_forms(sentence))
        assert ("preparing food" in forms) <= ("meal" in sentence or "pizza" in sentence)
        assert ("music" in forms) <= ("guitar" in sentence)
        assert ("performing" in forms) <= ("stage" in sentence and "singing" in sentence)


def test_numbers_of_subject_and_auxiliary_agree() -> None:
    for sentence in generated():
        for form in shorter_forms(sentence):
            assert not form.startswith(("someone are", "people is", "two boys is", "a man are", "children is"))


def test_shortening_again_ends_and_says_nothing_new() -> None:
    for sentence in generated()[::7]:
        seen, waiting = {sentence}, [sentence]
        while waiting:
            new = set(shorter_forms(waiting.pop())) - seen
            seen |= new
            waiting += new
        assert len(seen) < 200
        assert set().union(*map(content_words, seen)) <= set(content_words(sentence)) | GENERAL


def test_the_same_sentence_gives_the_same_forms() -> None:
    for sentence in generated()[::11]:
        first = shorter_forms(sentence)
        assert len(set(first)) == len(first) and sentence not in first
        shorter_forms.cache_clear()
        assert shorter_forms(sentence) == first
        assert set(shorter_forms(sentence.upper() + ".")) == set(first), "letter case and punctuation say nothing"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("someone is cooking", True),
        ("two people are looking at each other", True),
        ("a man is talking to a", False),
        ("a man is cutting an onion with", False),
        ("a man is playing a video game of a man", False),
        ("a person is doing a horse", False),
        ("someone is doing a triple jump", True),
        ("a woman is doing yoga in a room", True),
        ("a man is is running", False),
        ("a plate of food", False),
        ("is cooking", False),
        ("someone is doing something", False),
    ],
)
def test_what_can_be_shown_as_a_sentence(text: str, whole: bool) -> None:
    assert is_sentence(words_of(text)) == whole


def test_a_clause_has_the_parts_of_its_caption() -> None:
    clause = clause_of(words_of("two men are slowly riding a bike"))
    assert clause is not None
    assert (clause.subject, clause.auxiliary, clause.adverbs) == (("two", "men"), ("are",), ("slowly",))
    assert (clause.predicate, clause.plural) == (("riding", "a", "bike"), True)
    bare = clause_of(words_of("a dog running down a street"))
    assert bare is not None and bare.auxiliary == ("is",) and not bare.plural


def test_people_are_told_from_other_subjects() -> None:
    expected = {
        "a tall man in a suit": "someone",
        "a man and a woman": "people",
        "a group of children": "people",
        "the band": "people",
        "two dogs": None,
        "a lego man": None,
        "a herd of cows": None,
    }
    for phrase, general in expected.items():
        core = core_of(words_of(phrase), False)
        assert core is not None and people_of(*core) == general, phrase


def test_adjectives_go_and_articles_follow() -> None:
    bare = with_right_articles(without_adjectives(words_of("an old man in a bright orange vest and another big hat")))
    assert " ".join(bare) == "a man in a vest and a hat"
    assert without_adjectives(words_of("a wall is red")) == words_of("a wall is red")
    assert with_right_articles(words_of("an red unicorn in a hour")) == words_of("a red unicorn in an hour")
