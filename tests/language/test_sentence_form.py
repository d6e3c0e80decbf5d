"""The rule for a verb, an object or a place, on 60 sentences whose answers were written down by hand."""

from __future__ import annotations

import pytest

from densevid.language.sentence_form import sentence_form
from densevid.language.words import words_of

COMPLETE = """\
a man is riding a horse
a woman is cooking in a kitchen
someone is cutting an onion with a knife
two men are playing basketball
a man is talking to a group of children
a cat is playing the piano
people are walking down the street
a red car is parked in front of a house
a pot of soup is shown on the stove
pasta is being cooked in a pan
a girl is slowly folding a blanket
a white and black dog walking down a street
a man riding a wave on a surfboard
a person holding a red umbrella
a group of people standing on a beach
a man rides a bike down a hill
a young girl jumps into the pool
the dog runs through the grass
a woman cuts vegetables
he throws the ball
a man and a woman sing a song on stage
two men play chess
add salt to the bowl
cut the onions and put them in a pan
stir the soup
a motorcycle parked in a lot
a boy jumped over the fence
in a kitchen a woman is cooking
a man in a gym is exercising
children are playing outside
there is a car on the road
a cat is on the table
a bathroom has two sinks
a man 's hands are holding a guitar
a man is singing a song while a woman is dancing
she's painting a wall
a tennis player serves the ball
a woman is wearing swimming goggles
a bowl filled with fruit
a player kicks and scores a goal""".splitlines()
VERB_ALONE = """\
someone is cooking
a man is singing
a woman is dancing and singing
two people are talking
a dog is running fast
a man is talking to someone
a person is doing something
a man in a red shirt is singing
a man and a woman are talking together
a band performs
a cat runs away
a man is singing while a woman is dancing
they are slowly moving forward""".splitlines()
NO_VERB = """\
a red sports car
a plate of food on a table
two dogs on a beach
a building in a city
a parking lot
a group of men in uniforms
a video game""".splitlines()


def test_there_are_60_different_sentences() -> None:
    assert len({*COMPLETE, *VERB_ALONE, *NO_VERB}) == 60


@pytest.mark.parametrize("sentence", COMPLETE)
def test_a_complete_sentence_is_recognized(sentence: str) -> None:
    form = sentence_form(words_of(sentence))
    assert form.has_verb
    assert form.has_object_or_place


@pytest.mark.parametrize("sentence", VERB_ALONE)
def test_a_verb_without_object_or_place_is_recognized(sentence: str) -> None:
    form = sentence_form(words_of(sentence))
    assert form.has_verb
    assert not form.has_object_or_place


@pytest.mark.parametrize("sentence", ["", "...", *NO_VERB])
def test_a_sentence_without_verb_is_recognized(sentence: str) -> None:
    assert not sentence_form(words_of(sentence)).has_verb
