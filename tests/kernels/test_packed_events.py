"""Packed events against the full computation: every attention, every layer, every word, for every kind of mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.kernels.fused import Fused
from densevid.kernels.packed_events import EventEncoder, Packing, RecurrentEventEncoder, pack, plan
from densevid.kernels.word_decoder import WordDecoder
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.recurrent import BiLSTMEncoder
from helpers.random_models import WIDTH, random_model

STEPS = torch.tensor([40, 17, 1])
VIDEO = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2])
EXACT = Packing(slots_at_once=100, allowance=0)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"compat": "released"},
    {"layers": 3, "heads": 1},
    {"encoder": "bi-lstm"},
    {"decoder": "lstm"},
    {"encoder": "bi-lstm", "decoder": "lstm"},
]


def masks(kind: str) -> torch.Tensor:
    """One mask an event: windows, or any numbers, negative ones too, some of them zero."""
    generator = torch.Generator().manual_seed(3)
    valid = torch.arange(40) < STEPS[VIDEO][:, None]
    if kind == "numbers":
        return torch.randn(len(VIDEO), 40, generator=generator) * valid
    if kind == "holes":
        return torch.randn(len(VIDEO), 40, generator=generator).relu() * valid
    start = torch.tensor([0, 3, 39, 0, 5, 0, 0, 0])[:, None]
    end = torch.tensor([40, 8, 40, 39, 6, 17, 0, 1])[:, None]
    return ((torch.arange(40) >= start) & (torch.arange(40) < end)).float()


@pytest.fixture
def video(request: pytest.FixtureRequest) -> EncodedVideo:
    torch.manual_seed(1)
    model: MaskedTransformer = request.getfixturevalue("model")
    return model.encode(torch.randn(3, 40, WIDTH), torch.arange(40) < STEPS[:, None])


@pytest.fixture(params=VARIANTS, ids=str)
def model(request: pytest.FixtureRequest) -> MaskedTransformer:
    return random_model(request.param).model


def packed_memory(model: MaskedTransformer, video: EncodedVideo, mask_PT: torch.Tensor, packing: Packing) -> Any:
    encode = (
        RecurrentEventEncoder(torch.float32)
        if isinstance(model.encoder, BiLSTMEncoder)
        else EventEncoder(model, Fused())
    )
    shared = encode.share(video)
    groups = pack(mask_PT, VIDEO, STEPS[VIDEO], packing)
    return groups, [encode(shared, group) for group in groups]


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["windows", "numbers", "holes"])
@pytest.mark.parametrize("allowance", [0, 10_000])
def test_every_layer_is_that_of_the_full_computation(
    model: MaskedTransformer, video: EncodedVideo, kind: str, allowance: int
) -> None:
    mask_PT = masks(kind)
    want = model.focus(video.select(VIDEO), mask_PT)
    groups, memories = packed_memory(model, video, mask_PT, Packing(100, allowance))
    assert sorted(int(event) for group in groups for event in group.event_P) == list(range(len(VIDEO)))
    for group, memory in zip(groups, memories, strict=True):
        for ours, theirs in zip(memory.layers, want.layers, strict=True):
            step_PS = group.row_PS - VIDEO[group.event_P, None] * 40
            theirs_PSD = theirs[group.event_P[:, None], step_PS] * (group.mask_PS != 0)[..., None]
            torch.testing.assert_close(ours, theirs_PSD, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["windows", "numbers", "holes"])
def test_every_word_is_that_of_the_full_computation(model: MaskedTransformer, video: EncodedVideo, kind: str) -> None:
    mask_PT = masks(kind)
    words_PL = torch.randint(4, 14, (len(VIDEO), 6), generator=torch.Generator().manual_seed(5))
    want = model.next_words(words_PL, model.begin_caption(video.select(VIDEO), mask_PT))
    groups, memories = packed_memory(model, video, mask_PT, EXACT)
    event_P = torch.cat([group.event_P for group in groups])
    states = [model.caption_decoder.begin(memory) for memory in memories]
    parts = [model.next_words(words_PL[group.event_P], state) for group, state in zip(groups, states, strict=True)]
    torch.testing.assert_close(torch.cat(parts), want[event_P], atol=2e-5, rtol=1e-4)
    if isinstance(model.caption_decoder, SelfAttentionDecoder):
        fast = WordDecoder(model.caption_decoder, 6, Fused())
        state = fast.begin(memories)
        for place in range(6):
            ours = fast.next_words(words_PL[event_P, place, None], state)[:, 0]
            torch.testing.assert_close(ours, want[event_P, place], atol=2e-5, rtol=1e-4)
            left = torch.arange(len(event_P)) % 4 != place  # some have finished
            state.select(left.nonzero()[:, 0])
            event_P = event_P[left]


@given(st.integers(1, 30), st.integers(0, 500), st.sampled_from([torch.float32, torch.bfloat16]))
def test_zeros_act_as_two_keys_in_any_precision(inside: int, outside: int, dtype: torch.dtype) -> None:
    """Softmax weights of `inside` steps among `outside` zeros: the closed form, and the logits of the slots."""
    logit_N = torch.randn(inside, generator=torch.Generator().manual_seed(inside), dtype=torch.float64)
    want_N = logit_N.exp() / (logit_N.exp().sum() + outside)
    mask_1T = (torch.arange(inside + outside) < inside).float()[None]
    length = torch.tensor([inside + outside])
    (group,) = pack(mask_1T, torch.zeros(1, dtype=torch.long), length, EXACT)
    logits = torch.zeros(group.mask_PS.shape[1], dtype=torch.float64)
    logits[:inside] = logit_N
    if group.log_count_PS is not None:
        logits += group.log_count_PS[0].to(dtype).double()
    torch.testing.assert_close(
        logits.softmax(-1)[:inside], want_N, rtol=1e-6 if dtype == torch.float32 else 5e-4, atol=0
    )


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 90)), min_size=1, max_size=40),
    st.sampled_from([0, 50, 10_000]),
    st.sampled_from([1, 64, 4096]),
)
def test_every_event_is_packed_once_and_fits(pairs: list[tuple[int, int]], allowance: int, at_once: int) -> None:
    lengths = np.array([length for _, length in pairs])
    counts = np.minimum([count for count, _ in pairs], lengths)
    batches = plan(counts, lengths, Packing(at_once, allowance))
    assert sorted(event for events, _, _ in batches for event in events) == list(range(len(pairs)))
    assert [slots for _, slots, _ in batches] == sorted((slots for _, slots, _ in batches), reverse=True)
    for events, slots, full in batches:
        assert len(events) == 1 or len(events) * slots <= at_once
        if full:
            assert (counts[events] == slots).all() and (lengths[events] == slots).all()
        else:
            assert (counts[events] + 2 <= slots).all()


def test_steps_under_the_floor_are_dropped_as_zeros(model: MaskedTransformer, video: EncodedVideo) -> None:
    mask_PT = masks("numbers")
    floored = torch.where(mask_PT.abs() > 0.8, mask_PT, 0)
    low = pack(mask_PT, VIDEO, STEPS[VIDEO], Packing(100, 0, floor=0.8))
    zeroed = pack(floored, VIDEO, STEPS[VIDEO], EXACT)
    assert len(low) == len(zeroed)
    for ours, theirs in zip(low, zeroed, strict=True):
        assert torch.equal(ours.event_P, theirs.event_P) and torch.equal(ours.mask_PS, theirs.mask_PS)
        assert ours.mask_PS.shape[1] < 40 or ours.log_count_PS is None
