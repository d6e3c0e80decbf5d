"""Agreement of sentences against the mean cosine written out by hand, and the chances that follow from it."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from densevid.timelines.clips import Clip
from densevid.timelines.sentences import Agreement

SENTENCE = some.lists(some.sampled_from(["man", "dog", "runs", "sings", "fast"]), min_size=1, max_size=6).map(" ".join)
TOLD = some.lists(some.lists(SENTENCE, min_size=2, max_size=5, unique=True), min_size=2, max_size=4)


def clip(name: str, *captions: str) -> Clip:
    return Clip(name, "train", name, 5.0, captions)


def grams(sentence: str, order: int) -> list[tuple[str, ...]]:
    words = sentence.split()
    return [tuple(words[at : at + order]) for at in range(len(words) - order + 1)]


def mean_cosine(sentence: str, others: list[str], told: list[list[str]]) -> float:
    """Gram by gram, sentence by sentence."""

    def weights(text: str, order: int) -> dict[tuple[str, ...], float]:
        seen = {
            gram: sum(any(gram in grams(each, order) for each in clip) for clip in told) for gram in grams(text, order)
        }
        return {gram: times * math.log(len(told) / seen[gram]) for gram, times in Counter(grams(text, order)).items()}

    total = 0.0
    for other in others:
        for order in range(1, 5):
            one, two = weights(sentence, order), weights(other, order)
            lengths = math.hypot(*one.values()) * math.hypot(*two.values())
            total += sum(one[gram] * two.get(gram, 0.0) for gram in one) / lengths if lengths else 0.0
    return total


@given(TOLD)
def test_as_written_out(told: list[list[str]]) -> None:
    told = [[f"{sentence} {number}" for sentence in sentences] for number, sentences in enumerate(told)]
    deviation = Agreement.of([clip(str(number), *sentences) for number, sentences in enumerate(told)]).deviation
    for sentences in told:
        common = np.array([mean_cosine(one, [other for other in sentences if other != one], told) for one in sentences])
        if common.std() > 1e-9:
            want = (common - common.mean()) / common.std()
            assert [deviation[sentence] for sentence in sentences] == pytest.approx(want.tolist(), abs=1e-6)


def test_what_most_say_is_heard_most() -> None:
    told = clip("one", "a man plays a guitar", "a man plays the guitar", "man plays a guitar", "it is late")
    agreement = Agreement.of([told, clip("two", "a dog runs", "it is late today")])
    chances = agreement.chances(told.captions, 1.0)
    assert chances.sum() == pytest.approx(1) and chances.argmin() == 3
    assert agreement.chances(told.captions, 0.0) == pytest.approx([0.25] * 4)
    assert agreement.chances(told.captions, 3.0)[3] < chances[3]


def test_one_sentence_and_no_words_are_fine() -> None:
    agreement = Agreement.of([clip("one", "a dog"), clip("two", "!", "?"), clip("three")])
    assert agreement.chances(("a dog",), 2.0).tolist() == [1.0]
    assert agreement.chances(("!", "?", "never heard"), 2.0) == pytest.approx([1 / 3] * 3)
