"""Replayed CUDA graphs give the captions of launched kernels, in any order of sizes and any batch.

A graph needs a GPU (`test_on_gpu.py`). Here a stand-in records the work and, replayed, does it again with the present
values of its input tensors and writes the result into its first result tensors, as a graph does. It also overwrites
the results of other graphs in its pool, as a graph may: its scratch memory can lie there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch

from densevid.inference import nms as selection
from densevid.inference.captioner import Captioner
from densevid.inference.nms import best
from densevid.kernels.caption_generator import PackedCaptionGenerator, PackedLimits
from densevid.kernels.cuda_graphs import GraphedDecoder, Graphs, rounded
from densevid.kernels.proposal_generator import GraphedProposalGenerator
from helpers.random_models import random_model, random_track

TRACKS = [random_track(steps, steps) for steps in (40, 13, 29, 40, 2, 31)]
VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"mask": "discrete"}, {}),
    ({"compat": "released"}, {"min_before_suppression": 20}),
    ({}, {"score_threshold": 0.0, "min_proposals": 300}),
    ({}, {"beam": 3}),
    ({}, {"beam": 3, "no_repeat": 2, "mbr_weight": 0.8}),
]


class Recorded:
    """The work of a graph and its result tensors; `pool` holds all graphs that share memory with it."""

    replayed = 0

    def __init__(self, work: Callable[[], Any], pool: list[Recorded]) -> None:
        self.work, self.result, self.pool = work, work(), pool
        made = zip(tensors(self.result), tensors(work()), strict=True)
        self.own = [first for first, second in made if first.data_ptr() != second.data_ptr()]
        pool.append(self)

    def replay(self) -> None:
        Recorded.replayed += 1
        for other in self.pool:
            for result in other.own if other is not self else []:
                result.zero_() if result.dtype == torch.bool else result.fill_(1)
        for place, values in zip(tensors(self.result), tensors(self.work()), strict=True):
            if place is not values:
                place.copy_(values)


def tensors(result: Any) -> list[torch.Tensor]:
    """All of them, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    parts = [getattr(result, part.name) for part in fields(result)] if is_dataclass(result) else result
    return [found for part in parts for found in tensors(part)] if isinstance(parts, list | tuple) else []


def captioner(variant: tuple[dict[str, Any], dict[str, Any]], *, replays: bool) -> Captioner:
    """As on a GPU: packed events, no waiting for the device, sizes rounded up to those of graphs."""
    made = Captioner(random_model(*variant), limits=PackedLimits(700, 4000, 20, 4, packed_beams=True))
    generator, proposals = made.caption_generator, made.proposal_generator
    assert isinstance(generator, PackedCaptionGenerator) and isinstance(proposals, GraphedProposalGenerator)
    assert generator.decoder is not None
    generator.graphs.enabled, made.ahead = replays, True
    proposals.allow_sync, proposals.replays = False, True
    generator.graphed = GraphedDecoder(generator.decoder, generator.behavior, generator.graphs, 4000)
    return made


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def captured(self: Graphs, kind: str, work: Callable[[], Any]) -> tuple[Recorded, Any]:
        recorded = Recorded(work, self.pools.setdefault(kind, []))
        return recorded, recorded.result

    monkeypatch.setattr(Graphs, "capture", captured)
    monkeypatch.setattr(Recorded, "replayed", 0)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_captions_of_replayed_graphs_equal_those_of_launched_kernels(variant: Any) -> None:
    launched, replayed = captioner(variant, replays=False), captioner(variant, replays=True)
    for at_once in (1, 10_000, 1, 80):
        launched.steps_at_once = replayed.steps_at_once = at_once
        for choose in (None, lambda found: best(found, 3)):
            pairs = zip(
                replayed.captioned(TRACKS, choose=choose), launched.captioned(TRACKS, choose=choose), strict=True
            )
            for ours, theirs in pairs:
                assert ours.sentences == theirs.sentences
                np.testing.assert_allclose(ours.reported_P2, theirs.reported_P2, atol=1e-5)
    assert Recorded.replayed, "nothing was replayed"


@pytest.mark.parametrize("variant", [*VARIANTS[:3], VARIANTS[4]], ids=str)
def test_a_video_alone_is_captioned_as_in_a_batch(variant: Any) -> None:
    batched = list(Captioner(random_model(*variant)).captioned(TRACKS))
    want = [(video.sentences, video.anchor_P.tolist()) for video in batched]
    made = captioner(variant, replays=True)
    for _ in range(3):
        alone = [next(made.captioned([track])) for track in TRACKS]
        assert [(video.sentences, video.anchor_P.tolist()) for video in alone] == want
    assert Recorded.replayed, "nothing was replayed"


@torch.inference_mode()
def test_a_selection_outlives_the_next_video() -> None:
    made = captioner(VARIANTS[0], replays=True)
    sent = [made.uploads([made.read(track)], 32) for track in (TRACKS[0], TRACKS[2]) * 2]
    want = [made.proposal_generator.generate(one).attempt.selection for one in sent]
    kept = [made.proposal_generator(one)[1] for one in sent]
    for ours, theirs in zip(kept, want, strict=True):
        torch.testing.assert_close(ours.reported_BK2, theirs.reported_BK2)


def test_work_that_cannot_be_captured_is_launched_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Graphs, kind: str, work: Callable[[], Any]) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(Graphs, "capture", refused)
    graphs = Graphs(enabled=True)
    assert graphs("words", 1, lambda: 1) == 1
    with pytest.warns(UserWarning, match="cannot capture words"):
        assert graphs("words", 1, lambda: 2) == 2
    assert graphs("words", 1, lambda: 3) == 3 and graphs.failed == {"words"}


@pytest.mark.parametrize("variant", VARIANTS[:3], ids=str)
def test_captions_are_the_same_where_the_first_candidates_are_too_few(
    variant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = [video.sentences for video in Captioner(random_model(*variant)).captioned(TRACKS)]
    monkeypatch.setattr(selection, "FIRST_CANDIDATES", 4)
    made = captioner(variant, replays=True)
    for _ in range(3):
        assert [video.sentences for video in made.captioned(TRACKS)] == want


@pytest.mark.parametrize("events", [1, 10, 16, 17, 186, 270, 2168, 4097])
def test_graph_sizes_are_few_and_at_most_an_eighth_too_large(events: int) -> None:
    assert events <= rounded(events) <= max(events + 15, events * 9 / 8)
    assert len({rounded(number) for number in range(1, events + 1)}) <= 8 * events.bit_length()
