"""The kernels give what torch gives: on a GPU, or on a CPU by Triton's interpreter where TRITON_INTERPRET=1 is set."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from densevid.intervals import suppress
from densevid.kernels.fused import AttentionTiling, Fused, TritonFused
from densevid.kernels.proposal_generator import triton_suppress
from densevid.kernels.word_decoder import triton_most_likely
from densevid.kernels.word_state import KeyValueCache, RaggedMemory
from densevid.model.attention import ReleasedLayerNorm

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() or INTERPRETED), reason="needs a CUDA device, or Triton's interpreter"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(DEVICE, dtype)


@pytest.mark.parametrize("width", [32, 100])
def test_fused_rows_times_mask_equal_the_plain_ones(width: int) -> None:
    rows, mask = normal(20, width), normal(3, 7, 1)
    index = torch.randint(20, (3, 7), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    ours = TritonFused().masked_rows(rows, index, mask)
    torch.testing.assert_close(ours, Fused().masked_rows(rows, index, mask))


@pytest.mark.parametrize("width", [32, 100])
@pytest.mark.parametrize("masked", [False, True])
def test_fused_norm_equals_the_plain_one(width: int, masked: bool) -> None:
    for norm in (nn.LayerNorm(width).to(DEVICE), ReleasedLayerNorm(width).to(DEVICE)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        values = normal(3, 7, width), normal(5, 7, width, 1)[:3, ..., 0], normal(3, 7, 1) if masked else None
        with torch.no_grad():
            ours = TritonFused().residual_norm(norm, *values)
            torch.testing.assert_close(ours, Fused().residual_norm(norm, *values), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", [nn.LayerNorm(32), ReleasedLayerNorm(32)])
def test_norm_is_written_where_it_is_wanted(norm: nn.Module) -> None:
    values, place = (normal(3, 7, 32), normal(3, 7, 32)), torch.zeros(50, 32, device=DEVICE)
    with torch.no_grad():
        TritonFused().residual_norm(norm.to(DEVICE), *values, None, place[4:25].view(3, 7, 32))
        want = Fused().residual_norm(norm, *values)
    torch.testing.assert_close(place[4:25].view(3, 7, 32), want, atol=1e-5, rtol=1e-5)
    assert not place[:4].any() and not place[25:].any()


TILINGS = [None, AttentionTiling(32, 8, 2, 4), AttentionTiling(16, 4, 2, 1), AttentionTiling(16, 4, 2, 8)]


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
@pytest.mark.parametrize(("slots", "heads", "width"), [((80, 1, 33), 8, 64), ((5,), 3, 64), ((33, 40), 16, 48)])
def test_fused_attention_to_a_memory_equals_the_plain_one(
    slots: tuple[int, ...], heads: int, width: int, tiling: AttentionTiling | None
) -> None:
    slots_P = torch.tensor(slots, dtype=torch.int32, device=DEVICE)
    first_P = slots_P.cumsum(0, dtype=torch.int32) - slots_P + 2
    rows, log_count = normal(sum(slots) + 4, width, dtype=torch.float16), normal(sum(slots) + 4)
    for first, count in zip(first_P.tolist(), slots, strict=True):
        log_count[first + count // 2 + 1 : first + count] = -torch.inf
    query = (normal(heads, len(slots), width) / 8).half().transpose(0, 1)
    ours = TritonFused(tiling=tiling).ragged_attention(query, RaggedMemory((rows,), log_count, first_P, slots_P), 0)
    exact = RaggedMemory((rows.float(),), log_count, first_P, slots_P)
    torch.testing.assert_close(ours.float(), Fused().ragged_attention(query.float(), exact, 0), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("width", [32, 12])
def test_fused_attention_to_words_so_far_equals_the_plain_one(width: int) -> None:
    """Word after word, in caches that begin empty, and hold rubbish where no word is yet."""
    events, heads, longest = 3, 2, 8
    causal_LL = torch.ones(longest, longest, dtype=torch.bool, device=DEVICE).tril()
    shape = (events, heads, longest, width)
    ours, theirs = (
        KeyValueCache([normal(*shape)], [normal(*shape)], torch.zeros(1).long().to(DEVICE)) for _ in range(2)
    )
    for word in range(longest):
        projected = normal(events, 3 * heads * width) * (word + 1)
        seen = TritonFused().causal_attention(projected, ours, 0, 0.3, causal_LL)
        torch.testing.assert_close(
            seen, Fused().causal_attention(projected, theirs, 0, 0.3, causal_LL), atol=1e-5, rtol=1e-5
        )
        ours.position_1 += 1
        theirs.position_1 += 1
    torch.testing.assert_close(ours.keys, theirs.keys)
    torch.testing.assert_close(ours.values, theirs.values)


@pytest.mark.parametrize("words", [5, 100, 5000])
@pytest.mark.parametrize("first", [0, 3])
def test_the_fused_likeliest_word_equals_the_plain_one(words: int, first: int) -> None:
    logits = normal(4, words) * 5
    logits[:, 0] += 30
    logits[1, -1] = logits[1, -2] = 40  # of equals the first
    number, log = triton_most_likely(logits, first)
    logits[:, :first] = -torch.inf
    assert torch.equal(number.cpu(), logits.cpu().max(dim=1).indices)
    want = logits.log_softmax(dim=1).max(dim=1).values
    torch.testing.assert_close(log, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("candidates", [1, 9, 37])
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_suppression_in_one_walk(candidates: int, share: float) -> None:
    overlapping = torch.rand(2, candidates, candidates, generator=torch.Generator().manual_seed(1)).to(DEVICE) < share
    assert torch.equal(triton_suppress(overlapping), suppress(overlapping))
