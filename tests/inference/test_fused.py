"""The kernels give what torch gives: on a GPU, or on a CPU by Triton's interpreter where TRITON_INTERPRET=1 is set."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from densevid.inference.fused import Fused, TritonFused
from densevid.model.layers import ReleasedLayerNorm
from densevid.model.video_encoder import Memory

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() or INTERPRETED), reason="needs a CUDA device, or Triton's interpreter"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(DEVICE, dtype)


@pytest.mark.parametrize("width", [32, 100])
def test_rows_times_mask(width: int) -> None:
    rows, mask = normal(20, width), normal(3, 7, 1)
    index = torch.randint(20, (3, 7), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    ours = TritonFused(attention=False).masked_rows(rows, index, mask)
    torch.testing.assert_close(ours, Fused().masked_rows(rows, index, mask))


@pytest.mark.parametrize("width", [32, 100])
@pytest.mark.parametrize("masked", [False, True])
def test_norm(width: int, masked: bool) -> None:
    for norm in (nn.LayerNorm(width).to(DEVICE), ReleasedLayerNorm(width).to(DEVICE)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        values = normal(3, 7, width), normal(5, 7, width, 1)[:3, ..., 0], normal(3, 7, 1) if masked else None
        with torch.no_grad():
            ours = TritonFused(attention=False).residual_norm(norm, *values)
            torch.testing.assert_close(ours, Fused().residual_norm(norm, *values), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("events", "slots", "heads"), [(3, 80, 8), (1, 5, 3), (2, 33, 16)])
@pytest.mark.parametrize("counted", [False, True])
def test_attention_to_a_memory(events: int, slots: int, heads: int, counted: bool) -> None:
    layer = normal(events, slots, 64, dtype=torch.float16)
    count = normal(events, slots)
    count[:, slots // 2 + 1 :] = -torch.inf
    memory = Memory((layer,), torch.ones_like(count, dtype=torch.bool), False, None, count if counted else None)
    query = (normal(heads, events, 64, 1)[..., 0] / 8).half().transpose(0, 1)
    ours = TritonFused(attention=True).attended(query, memory, 0)
    exact = Memory((layer.float(),), memory.valid_BT, False, None, memory.log_count_BT)
    theirs = Fused().attended(query.float(), exact, 0)
    torch.testing.assert_close(ours.float(), theirs, atol=2e-2, rtol=2e-2)
