"""Packed captions equal those of grouped events: with Triton kernels (its interpreter, or a GPU) and without."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from densevid.inference.batches import CaptionedVideo
from densevid.inference.captioner import Captioner
from densevid.kernels.caption_generator import PackedCaptionGenerator, PackedLimits
from densevid.kernels.cuda_graphs import GraphedDecoder, Graphs
from densevid.kernels.fused import Fused, TritonFused
from densevid.kernels.packed_events import EventEncoder
from helpers.random_models import random_model, random_track

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"mask": "discrete"}, {}),
    ({"mask": "learned"}, {"mask_floor": 0.3}),
    ({"compat": "released"}, {"min_before_suppression": 20}),
    ({}, {"beam": 3}),
    ({"mask": "discrete"}, {"beam": 4, "no_repeat": 2, "mbr_weight": 0.8}),
    ({"compat": "released"}, {"beam": 2, "min_before_suppression": 20}),
]
FUSED = ["torch", pytest.param("triton", marks=pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1"))]


def ragged_captioner(variant: tuple[dict[str, Any], dict[str, Any]], fused: Fused, rows: int = 4000) -> Captioner:
    """A captioner on a CPU that decodes as on a GPU, without graphs."""
    captioner = Captioner(random_model(*variant), limits=PackedLimits(400, rows, 20, 4, packed_beams=True))
    generator = captioner.caption_generator
    assert isinstance(generator, PackedCaptionGenerator)
    assert generator.decoder is not None and isinstance(generator.encode, EventEncoder)
    generator.decoder.fused = generator.encode.fused = fused
    generator.graphed = GraphedDecoder(generator.decoder, generator.behavior, Graphs(enabled=False), rows)
    return captioner


def same(ours: CaptionedVideo, theirs: CaptionedVideo) -> None:
    assert ours.sentences == theirs.sentences
    np.testing.assert_allclose(ours.log_probability_P, theirs.log_probability_P, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("rows", [30, 4000])
def test_captions_of_packed_events_equal_those_of_grouped_events(variant: Any, fused: str, rows: int) -> None:
    tracks = [random_track(steps, steps) for steps in ((8, 5) if fused == "triton" else (40, 13, 29, 1))]
    if fused == "triton":  # by the interpreter every word is slow
        variant = (variant[0], variant[1] | {"max_words": 2, "min_proposals": 4, "max_proposals": 4})
    want = Captioner(random_model(*variant)).captioned(tracks)
    ragged = ragged_captioner(variant, Fused() if fused == "torch" else TritonFused(), rows)
    for ours, theirs in zip(ragged.captioned(tracks), want, strict=True):
        same(ours, theirs)
