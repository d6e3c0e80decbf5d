"""Captioning, SODA, proposals and segments against plain loops on small random worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.evaluation.files import read_predictions, read_references
from densevid.evaluation.metrics.meteor import Meteor, corpus_score, segment_scores
from densevid.evaluation.metrics.text_pool import CaptionIndex
from densevid.evaluation.protocols.captioning import TIOUS, garbage_sentence, score_captioning
from densevid.evaluation.protocols.localization import score_proposals
from densevid.evaluation.protocols.segments import score_segments
from densevid.evaluation.protocols.soda import score_soda

pytest.importorskip("pycocoevalcap")
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

WORDS = ["the", "a", "man", "woman", "walks", "runs", "is", "walking", "dog", "cat", "in", "on", "park", "quickly"]
World = tuple[dict[str, Any], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def pool() -> Iterator[CaptionIndex]:
    engine = Meteor(cache=False)
    yield CaptionIndex(engine)
    engine.close()


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


def iou(left: list[float], right: list[float]) -> float:
    shared = max(0, min(right[1], left[1]) - max(right[0], left[0]))
    union = min(max(right[1], left[1]) - min(right[0], left[0]), right[1] - right[0] + left[1] - left[0])
    return shared / (union + 1e-8)


def events(references: list[dict[str, Any]], video: str) -> list[tuple[list[float], str]]:
    told = [file[video] for file in references if video in file]
    return [event for entry in told for event in zip(entry["timestamps"], entry["sentences"], strict=True)]


def written_pairs(rows: list[Any], told: list[Any], tiou: float, protocol: str) -> list[tuple[str, str]]:
    """Slot by slot, as the evaluators write them."""
    slots: dict[int, tuple[str, str]] = {}
    slot = 0
    for row in rows:
        close = [sentence for times, sentence in told if iou(row["timestamp"], times) >= tiou]
        for sentence in close:
            slots[slot] = (row["sentence"], sentence)
            slot += 1
        if not close:
            slots[slot] = (row["sentence"], garbage_sentence(protocol))
            slot += protocol != "2017"
    return list(slots.values())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["2017", "2018", "2021"]))
def test_captioning(pool: CaptionIndex, seed: int, protocol: str) -> None:
    predictions, references = world(seed)
    ours = score_captioning(read_predictions(predictions), [read_references(r) for r in references], pool, protocol)
    assert set(ours.videos) == {video for file in references for video in file}
    for place, video in enumerate(ours.videos):
        rows = predictions["results"].get(video, [])
        for step, tiou in enumerate(TIOUS):
            pairs = written_pairs(rows, events(references, video), tiou, protocol)
            mine = {name: values[step, place] for name, values in ours.values.items()}
            assert mine == pytest.approx(
                plain_scores(pairs, pool.meteor) | detection(rows, references, video, tiou), abs=1e-11
            )


def plain_scores(pairs: list[tuple[str, str]], meteor: Meteor) -> dict[str, float]:
    names = ["METEOR", "Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"]
    if not pairs:
        return dict.fromkeys(names, 0.0)
    gts, res = {n: [r] for n, (_, r) in enumerate(pairs)}, {n: [h] for n, (h, _) in enumerate(pairs)}
    try:
        cider = Cider().compute_score(gts, res)[0]
    except ValueError:  # no reference has a word
        cider = 0.0
    values = [corpus_score(meteor.statistics([(h, (r,)) for h, r in pairs])), *Bleu(4).compute_score(gts, res, 0)[0]]
    return dict(zip(names, [*values, Rouge().compute_score(gts, res)[0], cider], strict=True))


def detection(rows: list[Any], references: list[dict[str, Any]], video: str, tiou: float) -> dict[str, float]:
    recall, precision = [0.0], [0.0]
    for file in references:
        if video in file:
            times = file[video]["timestamps"]
            recall.append(sum(any(iou(row["timestamp"], t) > tiou for row in rows) for t in times) / len(times))
            precision.append(
                sum(any(iou(row["timestamp"], t) > tiou for t in times) for row in rows) / max(len(rows), 1)
            )
    return {"Recall": max(recall), "Precision": max(precision)}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_soda_c(pool: CaptionIndex, seed: int) -> None:
    predictions, references = world(seed)
    ours = score_soda(read_predictions(predictions), [read_references(r) for r in references], pool)
    modes = ours.scores["c"]
    for place, video in enumerate(ours.videos):
        rows = sorted(predictions["results"][video], key=lambda row: row["timestamp"][0])
        merged = sorted(events(references, video), key=lambda event: event[0][0])
        assert modes["merged"].values_FV3[0, place, 2] == pytest.approx(soda_f1(rows, merged, pool.meteor), abs=1e-12)
        alone = [soda_f1(rows, events([file], video), pool.meteor) for file in references if video in file]
        assert modes["multi"].values_FV3[0, place, 2] == pytest.approx(max(alone), abs=1e-12)
    assert set(ours.videos) == set(predictions["results"]) & {video for file in references for video in file}


def soda_f1(rows: list[Any], golds: list[tuple[list[float], str]], meteor: Meteor) -> float:
    if not rows:
        return 0.0
    best = np.zeros(len(rows) + 1)
    for times, sentence in golds:
        text = segment_scores(meteor.statistics([(sentence, (row["sentence"],)) for row in rows]))
        new = np.zeros_like(best)
        for j, row in enumerate(rows):
            new[j + 1] = max(best[j + 1], new[j], best[j] + iou(row["timestamp"], times) * text[j])
        best = new
    return float(2 * best[-1] / (len(rows) + len(golds)))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_proposals(seed: int) -> None:
    predictions, references = world(seed, most=30)
    ours = score_proposals(read_predictions(predictions), [read_references(r) for r in references])
    gold = {video: [t for t, _ in events(references, video)] for file in references for video in file}
    total = sum(map(len, predictions["results"].values()))
    lists = {v: sorted(predictions["results"].get(v, []), key=lambda row: -row["proposal_score"]) for v in gold}
    lists = {v: rows[: int(len(rows) * (100.0 * len(gold) / max(total, 1)))] for v, rows in lists.items()}
    kept = sum(map(len, lists.values()))
    for step in (0, 1, 7, 49, 98, 99):
        share = (step + 1) / 100.0 * (100 * float(len(gold)) / max(kept, 1))
        covered = np.zeros(10)
        for video, times in gold.items():
            length = max(len(lists[video]), 1)
            allowed = [row["timestamp"] for row in lists[video][: min(int(length * share), length)]]
            for t in times:
                covered += [any(plain_iou(p, t) >= tiou for p in allowed) for tiou in np.linspace(0.5, 0.95, 10)]
        np.testing.assert_allclose(ours.recall_TJ[:, step], covered / sum(map(len, gold.values())), atol=1e-12)


def plain_iou(left: list[float], right: list[float]) -> float:
    shared = max(0.0, min(left[1], right[1]) - max(left[0], right[0]))
    union = (left[1] - left[0]) + (right[1] - right[0]) - shared
    return shared / union if union else 0.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_segments(pool: CaptionIndex, seed: int) -> None:
    predictions, references = world(seed)
    draw = random.Random(seed)
    for file in references:  # the second annotator sees some of the first one's segments
        for video, entry in file.items():
            first = references[0].get(video, entry)["timestamps"]
            entry["timestamps"] = [draw.choice(first) for _ in entry["sentences"]]
    for video, rows in predictions["results"].items():
        for row in rows:
            told = [times for times, _ in events(references, video)]
            row["timestamp"] = list(np.float32(draw.choice(told)).tolist()) if told else row["timestamp"]
    ours = score_segments(read_predictions(predictions), [read_references(r) for r in references], pool)
    groups = segment_groups(predictions["results"], references)
    everything = [pair for pairs in groups.values() for pair in pairs]
    per_video = [multi_reference_scores(pairs, pool.meteor) for pairs in groups.values()]
    means = {name: float(np.mean([scores[name] for scores in per_video])) for name in per_video[0]}
    assert ours.micro() == pytest.approx(multi_reference_scores(everything, pool.meteor), abs=1e-11)
    assert ours.macro() == pytest.approx(means, abs=1e-11)


def segment_groups(results: dict[str, Any], references: list[dict[str, Any]]) -> dict[str, list[tuple[str, list[str]]]]:
    groups: dict[str, list[tuple[str, list[str]]]] = {}
    for video in {video: None for file in references for video in file}:
        told: dict[tuple[float, ...], list[str]] = {}
        for times, sentence in events(references, video):
            told.setdefault(tuple(times), []).append(sentence)
        first = {tuple(row["timestamp"]): row["sentence"] for row in reversed(results.get(video, []))}
        groups[video] = [(first.get(times, ""), sentences) for times, sentences in told.items()]
    return groups


def multi_reference_scores(pairs: list[tuple[str, list[str]]], meteor: Meteor) -> dict[str, float]:
    gts, res = {n: refs for n, (_, refs) in enumerate(pairs)}, {n: [h] for n, (h, _) in enumerate(pairs)}
    try:
        cider = Cider().compute_score(gts, res)[0]
    except ValueError:
        cider = 0.0
    stats = meteor.statistics([(h, tuple(refs)) for h, refs in pairs])
    bleu = Bleu(4).compute_score(gts, res, 0)[0]
    return (
        {"METEOR": corpus_score(stats)}
        | {f"Bleu_{n}": v for n, v in enumerate(bleu, 1)}
        | {
            "ROUGE_L": Rouge().compute_score(gts, res)[0],
            "CIDEr": cider,
        }
    )
