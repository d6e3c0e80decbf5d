"""A ragged memory gives the captions of grouped memories: with kernels (Triton's interpreter, or a GPU) and without."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from densevid.data.vocabulary import EOS
from densevid.inference.batches import CaptionedVideo
from densevid.inference.captioner import Captioner
from densevid.kernels.caption_generator import PackedCaptionGenerator, PackedLimits
from densevid.kernels.cuda_graphs import GraphedDecoder, Graphs, rounded
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
def test_ragged_and_grouped_generate_the_same(variant: Any, fused: str, rows: int) -> None:
    tracks = [random_track(steps, steps) for steps in ((8, 5) if fused == "triton" else (40, 13, 29, 1))]
    if fused == "triton":  # by the interpreter every word is slow
        variant = (variant[0], variant[1] | {"max_words": 2, "min_proposals": 4, "max_proposals": 4})
    want = Captioner(random_model(*variant)).captioned(tracks)
    ragged = ragged_captioner(variant, Fused() if fused == "torch" else TritonFused(), rows)
    for ours, theirs in zip(ragged.captioned(tracks), want, strict=True):
        same(ours, theirs)


def test_a_finished_sentence_reads_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = ragged_captioner(({}, {"max_words": 30}), Fused())
    with torch.no_grad():
        captioner.model.caption_decoder.words.bias[EOS] = 0.5
    read: list[int] = []
    attended = Fused.ragged_attention

    def counted(self: Fused, query: torch.Tensor, memory: Any, index: int) -> torch.Tensor:
        read.append(int(memory.slots_P.sum()))
        return attended(self, query, memory, index)

    monkeypatch.setattr(Fused, "ragged_attention", counted)
    (found,) = captioner.captioned([random_track(40)])
    lengths = [len(sentence.split()) for sentence in found.sentences]
    assert min(lengths) < max(lengths) and read == sorted(read, reverse=True) and read[-1] < read[0] / 2


@pytest.mark.parametrize("events", [1, 10, 16, 17, 186, 270, 2168, 4097])
def test_sizes_are_few_and_near(events: int) -> None:
    assert events <= rounded(events) <= max(events + 15, events * 9 / 8)
    assert len({rounded(number) for number in range(1, events + 1)}) <= 8 * events.bit_length()
