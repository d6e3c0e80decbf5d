"""On a GPU: float32 finds and says what a CPU does; kernels, graphs and bfloat16 stay near it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from densevid.inference.captioned_video import CaptionedVideo
from densevid.inference.captioner import Captioner
from densevid.inference.event_speaker import SpeakerLimits
from densevid.inference.selection import best
from random_models import random_model, random_track

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
TRACKS = [random_track(steps, steps) for steps in (40, 13, 29, 40, 2, 31)]
VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"width": 64}, {}),
    ({"width": 64, "mask": "discrete"}, {}),
    ({"width": 64, "compat": "released"}, {"min_before_suppression": 20}),
    ({"encoder": "bi-lstm", "decoder": "lstm"}, {}),
    ({}, {"beam": 3}),
]


def captioner(variant: tuple[dict[str, Any], dict[str, Any]], precision: Any = "float32", **limits: Any) -> Captioner:
    device = torch.device("cuda")
    chosen = replace(SpeakerLimits.of(device), **limits)
    return Captioner(random_model(*variant), device=device, precision=precision, limits=chosen)


def same(ours: CaptionedVideo, theirs: CaptionedVideo) -> None:
    assert ours.sentences == theirs.sentences
    np.testing.assert_allclose(ours.reported_P2, theirs.reported_P2, atol=1e-3)
    np.testing.assert_allclose(ours.log_probability_P, theirs.log_probability_P, atol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("passes", ["torch", "triton"])
def test_float32_is_that_of_a_cpu(variant: Any, passes: str) -> None:
    want = list(Captioner(random_model(*variant)).captioned(TRACKS))
    for ours, theirs in zip(captioner(variant, passes=passes).captioned(TRACKS), want, strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("variant", VARIANTS[:3], ids=str)
def test_a_graph_says_the_same_every_time(variant: Any) -> None:
    eager, replayed = captioner(variant, captured=False), captioner(variant)
    for track in [*TRACKS, *TRACKS, *TRACKS]:
        same(next(replayed.captioned([track])), next(eager.captioned([track])))
    graphs = replayed.speaker.captured
    assert graphs is not None and graphs.graphs


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("attention", [False, True])
def test_bfloat16_finds_the_same_and_is_nearly_as_sure(variant: Any, attention: bool) -> None:
    want = list(captioner(variant).captioned(TRACKS, choose=lambda selection: best(selection, 5)))
    coarse = captioner(variant, "bfloat16", attention=attention)
    found = list(coarse.captioned(TRACKS, choose=lambda selection: best(selection, 5)))
    for ours, theirs in zip(found, want, strict=True):
        assert len(ours.sentences) == len(theirs.sentences)
    spread = [ours.log_probability_P - theirs.log_probability_P for ours, theirs in zip(found, want, strict=True)]
    assert np.abs(np.concatenate(spread)).mean() < 0.3
