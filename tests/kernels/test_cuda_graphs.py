"""What is replayed reads and leaves everything in places that stay: any order of sizes, any batch, the same words.

A graph needs a GPU (`test_cuda.py`); here a stand-in records the work and, replayed, does it again with what lies in
its places, and leaves the result in the tensors of the first time, as a graph does. It also spoils what the others of
its pool have left, as a graph may: its scratch can lie there.
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
from densevid.inference.proposals import event_masks
from densevid.kernels.caption_generator import PackedCaptionGenerator, PackedLimits
from densevid.kernels.cuda_graphs import GraphedDecoder, Graphs
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
    """The work of a graph, and the tensors it leaves its result in; `pool` holds all that share memory with it."""

    def __init__(self, work: Callable[[], Any], pool: list[Recorded]) -> None:
        self.work, self.result, self.pool = work, work(), pool
        made = zip(tensors(self.result), tensors(work()), strict=True)
        self.own = [first for first, second in made if first.data_ptr() != second.data_ptr()]
        pool.append(self)

    def replay(self) -> None:
        for other in self.pool:
            for spoilt in other.own if other is not self else []:
                spoilt.zero_() if spoilt.dtype == torch.bool else spoilt.fill_(1)
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
    """As on a GPU: flat, few looks, everything padded to sizes that are captured."""
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

    monkeypatch.setattr(Graphs, "_captured", captured)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_replayed_is_launched(variant: Any) -> None:
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
    straight = set() if replayed.config.model.mask == "discrete" else {"events"}
    assert {kind for kind, _ in replayed.caption_generator.graphs.graphs} == {"words", "proposals"} | straight


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[2], VARIANTS[4]], ids=str)
def test_a_single_video_is_captioned_as_in_a_batch(variant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With masks that are nowhere zero, and with some that are."""
    batched = list(Captioner(random_model(*variant)).captioned(TRACKS))
    want, anchors = [video.sentences for video in batched], [video.anchor_P.tolist() for video in batched]
    made, straight = captioner(variant, replays=True), list[bool]()
    single = made.caption_generator.single_video

    def counted(*given: Any) -> Any:
        beams = single(*given)
        straight.append(beams is not None)
        return beams

    made.caption_generator.single_video = counted
    for _ in range(3):
        alone = [next(made.captioned([track])) for track in TRACKS]  # padded to sizes that are captured
        assert [video.sentences for video in alone] == want
        assert [video.anchor_P.tolist() for video in alone] == anchors
    assert any(straight)
    monkeypatch.setattr("densevid.kernels.caption_generator.event_masks", lambda *given: event_masks(*given).round())
    made = captioner(variant, replays=True)
    assert [next(made.captioned([track])).sentences for track in TRACKS] == want


@torch.inference_mode()
def test_a_selection_outlives_the_next_video() -> None:
    made = captioner(VARIANTS[0], replays=True)
    sent = [made.uploads([made.read(track)], 32) for track in (TRACKS[0], TRACKS[2]) * 2]
    want = [made.proposal_generator.generate(one).attempt.selection for one in sent]
    kept = [made.proposal_generator(one)[1] for one in sent]
    for ours, theirs in zip(kept, want, strict=True):
        torch.testing.assert_close(ours.reported_BK2, theirs.reported_BK2)


def test_what_cannot_be_captured_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Graphs, kind: str, work: Callable[[], Any]) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(Graphs, "_captured", refused)
    graphs = Graphs(enabled=True)
    assert graphs("words", 1, lambda: 1) == 1
    with pytest.warns(UserWarning, match="cannot capture words"):
        assert graphs("words", 1, lambda: 2) == 2
    assert graphs("words", 1, lambda: 3) == 3 and graphs.failed == {"words"}


@pytest.mark.parametrize("variant", VARIANTS[:3], ids=str)
def test_a_glance_that_was_not_enough_is_followed_by_a_look(variant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    want = [video.sentences for video in Captioner(random_model(*variant)).captioned(TRACKS)]
    monkeypatch.setattr(selection, "FIRST_CANDIDATES", 4)
    glancing = captioner((variant[0], variant[1]), replays=True)
    looked: list[int] = []
    select = glancing.behavior.__class__.select
    monkeypatch.setattr(
        glancing.behavior.__class__, "select", lambda self, *found: looked.append(1) or select(self, *found)
    )
    for _ in range(3):
        assert [video.sentences for video in glancing.captioned(TRACKS)] == want
    assert looked or variant[0].get("compat") != "released"
