"""Every protocol on an invented set, against plain loops over pycocoevalcap's scorers and the original jars.

This is what the golden numbers of the official evaluators prove on real sentences, for everybody.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from densevid.evaluation.evaluate import PARTS, Evaluation, evaluate
from densevid.evaluation.meteor.ptb_tokenizer import depends_on_next, tokenize
from densevid.evaluation.meteor.statistics import segment_scores, statistics
from densevid.evaluation.protocols.captioning import garbage_sentence
from helpers.invented_captions import InventedSet, invented_set
from helpers.official_jars import needs_jars
from helpers.official_scorers import OfficialScorers
from reference.captioning_protocols import TIOUS, captioning, events_of
from reference.given_segments import given_segments
from reference.paragraphs import paragraphs
from reference.proposals import average_recall
from reference.soda import soda

pytestmark = needs_jars
CLOSE = 1e-9
EXACT = 1e-12


@pytest.fixture(scope="module")
def world() -> InventedSet:
    return invented_set()


@pytest.fixture(scope="module")
def official() -> Iterator[OfficialScorers]:
    scorers = OfficialScorers()
    yield scorers
    scorers.close()


@pytest.fixture(scope="module")
def ours(world: InventedSet) -> Evaluation:
    return evaluate(world.predictions, world.references, metrics=PARTS, cache=False)


def order_of_a_set(files: Sequence[Any], predicted: Any = None) -> list[str]:
    """The videos in the order of a Python set under hash seed 0, as one runs the official evaluators."""
    script = (
        "import json, sys; files, predicted = json.load(sys.stdin); videos = set()\n"
        "for names in files: videos |= set(names)\n"
        "print(json.dumps(list(videos if predicted is None else videos & set(predicted))))"
    )
    question = json.dumps([[list(file) for file in files], None if predicted is None else list(predicted)])
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run(
        [sys.executable, "-c", script], input=question, env=environment, capture_output=True, text=True
    )
    return json.loads(run.stdout)


def test_the_set_is_large_and_odd(world: InventedSet) -> None:
    assert len(world.references) == 2 and min(map(len, world.references)) >= 40 and len(world.results) >= 40
    sentences = [event["sentence"] for events in world.results.values() for event in events]
    assert any(not sentence.strip() for sentence in sentences) and any(not s.isascii() for s in sentences)
    assert any(map(depends_on_next, sentences))
    times = [event["timestamp"] for events in world.results.values() for event in events]
    assert any(start > end for start, end in times) and any(start < 0 for start, _ in times)
    assert "v_unknown" in set(world.results) - set(world.references[0]) - set(world.references[1])
    assert [] in world.results.values() and set(world.references[0]) - set(world.results)
    assert invented_set() == world


def test_tokens_and_meteor_of_every_pair_equal_the_jars(world: InventedSet, official: OfficialScorers) -> None:
    predicted = [(video, event["sentence"]) for video, events in world.results.items() for event in events]
    golds = [(video, sentence) for video in world.results for _, sentence in events_of(world.references, video)]
    sentences = [sentence for _, sentence in predicted + golds]
    tokens = tokenize(sentences)
    assert tokens == official.tokenize(sentences)
    left, right = tokens[: len(predicted)], tokens[len(predicted) :]
    pairs = [
        (hypothesis, (reference,))
        for (video, _), hypothesis in zip(predicted, left, strict=True)
        for (other, _), reference in zip(golds, right, strict=True)
        if video == other
    ]
    np.testing.assert_allclose(segment_scores(statistics(pairs)), official.meteor(pairs), rtol=0, atol=EXACT)


@pytest.mark.parametrize("protocol", ["2017", "2018", "2021"])
def test_captioning_equals_plain_loops_over_the_official_scorers(
    world: InventedSet, official: OfficialScorers, protocol: str
) -> None:
    scores = evaluate(world.predictions, world.references, metrics=["captioning"], protocol=protocol, cache=False)
    assert scores.captioning is not None
    videos = order_of_a_set(world.references)
    garbage = garbage_sentence(protocol)  # that of 2021 is random in the original, too
    want = captioning(world.results, world.references, videos, protocol, garbage, official)
    assert set(scores.captioning.videos) == set(videos)
    for step, tiou in enumerate(TIOUS):
        for place, video in enumerate(scores.captioning.videos):
            got = {name: float(values[step, place]) for name, values in scores.captioning.values.items()}
            assert got == pytest.approx(want[tiou][video], abs=CLOSE, rel=0), (video, tiou)
    means = [np.mean([want[tiou][video]["METEOR"] for video in videos]) for tiou in TIOUS]
    assert scores.captioning.average()["METEOR"] == pytest.approx(np.mean(means), abs=CLOSE)


@pytest.mark.parametrize("metric", ["METEOR", "CIDEr"])
def test_soda_equals_plain_loops_over_the_official_scorers(
    world: InventedSet, official: OfficialScorers, metric: str
) -> None:
    scores = evaluate(world.predictions, world.references, metrics=["soda"], soda_metric=metric, cache=False).soda
    assert scores is not None
    videos = order_of_a_set(world.references, world.results)
    want = soda(world.results, world.references, videos, official, metric)
    assert len(want) == 12
    for (kind, mode), values in want.items():
        got = tuple(scores.tables[kind][mode].means().values())
        assert got == pytest.approx(values, abs=CLOSE, rel=0), (kind, mode)


def test_paragraphs_equal_plain_loops_over_the_official_scorers(
    world: InventedSet, official: OfficialScorers, ours: Evaluation
) -> None:
    assert ours.paragraph is not None
    want = paragraphs(world.results, world.references, official)
    assert ours.paragraph.to_dict() == pytest.approx(want, abs=CLOSE, rel=0)


@pytest.mark.parametrize("side", ["first", "pooled"])
def test_proposals_equal_a_plain_loop(world: InventedSet, ours: Evaluation, side: str) -> None:
    assert ours.proposals is not None
    scores = getattr(ours.proposals, side)
    recall, number = average_recall(world.results, world.references[:1] if side == "first" else world.references)
    np.testing.assert_allclose(scores.recall_TJ, recall, rtol=0, atol=EXACT)
    np.testing.assert_allclose(scores.average_number_J, number, rtol=EXACT)
    at_five = recall[:, np.abs(number - 5).argmin()].mean()
    assert scores.to_dict()["AR@5"] == pytest.approx(at_five, abs=EXACT)


def test_given_segments_equal_plain_loops_over_the_official_scorers(
    world: InventedSet, official: OfficialScorers
) -> None:
    scores = evaluate(world.on_segments, world.references, metrics=["segments"], cache=False).segments
    assert scores is not None
    want = given_segments(world.on_segments["results"], world.references, official)
    assert scores.to_dict()["micro"] == pytest.approx(want["micro"], abs=CLOSE, rel=0)
    assert scores.to_dict()["macro"] == pytest.approx(want["macro"], abs=CLOSE, rel=0)
