"""Captioning, SODA, proposals and segments against the plain loops of `tests/reference`, on small random worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.evaluation.files import read_predictions, read_references
from densevid.evaluation.meteor.scorer import MeteorScorer
from densevid.evaluation.metrics.caption_index import CaptionIndex
from densevid.evaluation.protocols.captioning import garbage_sentence, score_captioning
from densevid.evaluation.protocols.proposals import score_proposals
from densevid.evaluation.protocols.segments import score_segments
from densevid.evaluation.protocols.soda import score_soda
from helpers.official_scorers import OwnMeteor
from reference.captioning_protocols import TIOUS, captioning, events_of
from reference.given_segments import given_segments
from reference.proposals import average_recall
from reference.soda import soda

pytest.importorskip("pycocoevalcap")

WORDS = ["the", "a", "man", "woman", "walks", "runs", "is", "walking", "dog", "cat", "in", "on", "park", "quickly"]
World = tuple[dict[str, Any], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def index() -> Iterator[CaptionIndex]:
    with MeteorScorer(cache=False) as meteor:
        yield CaptionIndex(meteor)


def world(seed: int, most: int = 6) -> World:
    """A few videos with overlapping events; times on a coarse grid, so that thresholds and ties are met exactly."""
    draw = random.Random(seed)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.choice([0, 1, 3, 6, 9])))

    def times() -> list[float]:
        return [draw.randint(0, 10) * 2.0, draw.randint(0, 12) * 2.0]  # some reversed, some empty

    names = [f"v_{n}" for n in range(draw.randint(1, 5))]
    references = []
    for _ in range(draw.choice([1, 2, 3])):
        chosen = [name for name in names if draw.random() < 0.8] or names[:1]
        counts = {name: draw.randint(1, 5) for name in chosen}
        references.append(
            {
                n: {"timestamps": [times() for _ in range(k)], "sentences": [sentence() for _ in range(k)]}
                for n, k in counts.items()
            }
        )
    scores = draw.sample(range(1000), 200)
    results = {
        name: [
            {"sentence": sentence(), "timestamp": times(), "proposal_score": scores.pop()}
            for _ in range(draw.randint(0, most))
        ]
        for name in [*names, "v_unknown"]
        if draw.random() < 0.85
    }
    return {"results": results, "version": "", "external_data": ""}, references


def videos_of(references: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(video for file in references for video in file))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["2017", "2018", "2021"]))
def test_captioning_equals_the_plain_loop(index: CaptionIndex, seed: int, protocol: str) -> None:
    predictions, references = world(seed)
    ours = score_captioning(read_predictions(predictions), [read_references(r) for r in references], index, protocol)
    videos, garbage = videos_of(references), garbage_sentence(protocol)
    want = captioning(predictions["results"], references, videos, protocol, garbage, OwnMeteor(index.meteor))
    assert set(ours.videos) == set(videos)
    for place, video in enumerate(ours.videos):
        for step, tiou in enumerate(TIOUS):
            got = {name: values[step, place] for name, values in ours.values.items()}
            assert got == pytest.approx(want[tiou][video], abs=1e-11)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_soda_equals_the_plain_loop(index: CaptionIndex, seed: int) -> None:
    predictions, references = world(seed)
    ours = score_soda(read_predictions(predictions), [read_references(r) for r in references], index)
    videos = [video for video in videos_of(references) if video in predictions["results"]]
    assert set(ours.videos) == set(videos)
    want = soda(predictions["results"], references, videos, OwnMeteor(index.meteor))
    for (kind, mode), scores in want.items():
        assert tuple(ours.tables[kind][mode].means().values()) == pytest.approx(scores, abs=1e-12), (kind, mode)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_proposals_equal_the_plain_loop(seed: int) -> None:
    predictions, references = world(seed, most=30)
    ours = score_proposals(read_predictions(predictions), [read_references(r) for r in references])
    recall, number = average_recall(predictions["results"], references)
    np.testing.assert_allclose(ours.recall_TJ, recall, atol=1e-12)
    np.testing.assert_allclose(ours.average_number_J, number, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_segments_equal_the_plain_loop(index: CaptionIndex, seed: int) -> None:
    predictions, references = world(seed)
    draw = random.Random(seed)
    for file in references:  # the second annotator sees some of the first one's segments
        for video, entry in file.items():
            first = references[0].get(video, entry)["timestamps"]
            entry["timestamps"] = [draw.choice(first) for _ in entry["sentences"]]
    for video, events in predictions["results"].items():
        for event in events:
            golds = [times for times, _ in events_of(references, video)]
            event["timestamp"] = np.float32(draw.choice(golds)).tolist() if golds else event["timestamp"]
    ours = score_segments(read_predictions(predictions), [read_references(r) for r in references], index)
    want = given_segments(predictions["results"], references, OwnMeteor(index.meteor))
    assert ours.micro() == pytest.approx(want["micro"], abs=1e-11)
    assert ours.macro() == pytest.approx(want["macro"], abs=1e-11)
