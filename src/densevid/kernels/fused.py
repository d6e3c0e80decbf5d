"""The small steps between the matrix products of captioning, each in one pass over memory where that pays.

On a GPU a batch of events holds gigabytes, and what these steps cost is how often they read and write them: there they
are Triton kernels (`TritonFused`). On a CPU the products take all the time (`Fused`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from densevid.kernels.word_state import KeyValueCache, RaggedMemory
from densevid.model.video_encoder import Memory


@dataclass(frozen=True)
class AttentionTiling:
    """How our kernel reads memories: slots of a tile, warps of a program, stages of its pipeline, programs an event.

    `densevid bench inference --readings` times each of `candidates` on a GPU; the fastest belong in `_BEST`.
    """

    block: int = 32
    warps: int = 4
    stages: int = 2
    splits: int = 1


# Measured on an H200 for 10, 186, 640 and 2,976 events, width 1024: 0.9, 2.3, 2.9 and 3.5 TB/s of its 4.8. Few events
# are spread over its 132 processors. With the tile as the right operand it was 2.8 at the most.
_BEST: tuple[tuple[int, AttentionTiling], ...] = (
    (32, AttentionTiling(stages=3, splits=8)),
    (300, AttentionTiling(splits=4)),
)


def tiling_for(events: int) -> AttentionTiling:
    """The fastest that is known for so many events."""
    return next((tiling for most, tiling in _BEST if events <= most), AttentionTiling())


def candidates(events: int) -> Iterator[AttentionTiling]:
    """What is worth trying for so many events beside that: more warps, or more tiles under way.

    What limits it may be shared memory: counted in the machine code, 8 warps move 530 KB there for a tile of 64 KB, and
    4 warps 340 KB.
    """
    splits = tiling_for(events).splits
    for warps, stages in ((4, 2), (4, 3), (8, 2)):
        yield AttentionTiling(32, warps, stages, splits)


Kernel = Literal["rows", "norm", "relu", "attend", "causal"]
KERNELS: tuple[Kernel, ...] = ("rows", "norm", "relu", "attend", "causal")
Attention = Literal["default", "cudnn", "flash"]
WIDE_RESULTS = torch.__version__ >= "2.8"  # products of bfloat16 that give float32
ROWS = 16  # the least that a tensor core takes
WIDEST = 1024  # rows of a memory that our kernel holds in registers
_OTHERS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_BACKENDS: dict[Attention, list[SDPBackend] | None] = {
    "default": None,
    "cudnn": [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, *_OTHERS],
    "flash": [SDPBackend.FLASH_ATTENTION, *_OTHERS],
}


class Fused:
    """Each step as torch has it."""

    ragged = False  # whether `ragged_attention` is a kernel

    def __init__(self, attention: Attention = "default") -> None:
        self.backends = _BACKENDS[attention]

    def masked_rows(self, rows_ND: Tensor, row_PS: Tensor, mask_PS1: Tensor) -> Tensor:
        """The rows of every event, times its mask."""
        return rows_ND[row_PS] * mask_PS1

    def residual_norm(
        self,
        norm: nn.Module,
        output: Tensor,
        residual: Tensor,
        mask: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Psi without dropout, LayerNorm(output + residual), and then perhaps the event mask; written to `out`."""
        normed: Tensor = norm(output + residual)
        normed = normed.to(residual.dtype) if mask is None else normed.to(residual.dtype) * mask
        return normed if out is None else out.copy_(normed)

    def linear_relu(self, linear: nn.Linear, values: Tensor) -> Tensor:
        """max(0, M1 x + b1)."""
        return linear(values).relu_()

    def self_attention(self, projected_PSE: Tensor, heads: int, scale: float, attended: Tensor | None) -> Tensor:
        """Attention among the slots of every event, P x S x D; queries, keys and values stand side by side."""
        queries, keys, values = projected_PSE.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        with nullcontext() if self.backends is None else sdpa_kernel(self.backends, set_priority=True):
            seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=attended, scale=scale)
        return seen.transpose(1, 2).flatten(-2)

    def causal_attention(
        self, projected_PE: Tensor, cache: KeyValueCache, index: int, scale: float, causal_LL: Tensor
    ) -> Tensor:
        """Attention of a word to itself and those before it, P x D; its key and value join theirs in the cache."""
        keys, values = cache.keys[index], cache.values[index]
        query, key, value = projected_PE.unflatten(-1, (3, keys.shape[1], 1, -1)).unbind(1)
        keys.index_copy_(2, cache.position_1, key)
        values.index_copy_(2, cache.position_1, value)
        mask_1L = causal_LL[cache.position_1]
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask_1L, scale=scale).flatten(1)

    def memory_attention(self, query_PHD: Tensor, memory: Memory, index: int) -> Tensor:
        """softmax(query memory^T + log count) memory: a layer of the memory as keys and values of every head."""
        memory_PSD = memory.layers[index]
        logits_PHS = wide_product(query_PHD, memory_PSD.transpose(1, 2))
        if memory.log_count_BT is not None:
            logits_PHS = logits_PHS + memory.log_count_BT[:, None]
        return torch.bmm(logits_PHS.softmax(dim=-1).to(memory_PSD.dtype), memory_PSD)

    def ragged_attention(self, query_PHD: Tensor, memory: RaggedMemory, index: int) -> Tensor:
        """The same where events lie one below the other: padded to the longest, for want of a kernel."""
        slot_S = torch.arange(int(memory.slots_P.max()), device=query_PHD.device)
        there_PS = slot_S < memory.slots_P[:, None]
        row_PS = torch.where(there_PS, memory.first_P[:, None] + slot_S, 0)
        log_count_PS = memory.log_count_N[row_PS].masked_fill(~there_PS, -torch.inf)
        padded = Memory((memory.layers[index][row_PS],), there_PS, False, None, log_count_PS)
        return self.memory_attention(query_PHD, padded, 0)


class TritonFused(Fused):
    """The same by kernels of our own, for those steps that are named."""

    def __init__(
        self,
        names: Collection[Kernel] = KERNELS,
        attention: Attention = "default",
        tiling: AttentionTiling | None = None,
    ) -> None:
        super().__init__(attention)
        from densevid.kernels import event_triton as event_kernels
        from densevid.kernels import word_triton as word_kernels

        self.kernels: Any = event_kernels
        self.word_kernels: Any = word_kernels
        self.tiling = tiling
        self.names = frozenset(names)
        self.ragged = "attend" in self.names

    def masked_rows(self, rows_ND: Tensor, row_PS: Tensor, mask_PS1: Tensor) -> Tensor:
        """See `Fused`."""
        if "rows" not in self.names:
            return super().masked_rows(rows_ND, row_PS, mask_PS1)
        width = rows_ND.shape[1]
        out = rows_ND.new_empty(*row_PS.shape, width)
        self.kernels.masked_rows[(row_PS.numel(),)](
            rows_ND.contiguous(), row_PS.contiguous(), mask_PS1.contiguous(), out, width, BLOCK=_power_of_two(width)
        )
        return out

    def residual_norm(
        self,
        norm: nn.Module,
        output: Tensor,
        residual: Tensor,
        mask: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """See `Fused`; the release's own norm stays as it is."""
        if "norm" not in self.names or not isinstance(norm, nn.LayerNorm):
            return super().residual_norm(norm, output, residual, mask, out)
        width, out = residual.shape[-1], torch.empty_like(residual) if out is None else out
        factors = output if mask is None else mask.contiguous()
        self.kernels.masked_norm[(residual.numel() // width,)](
            output, residual, factors, norm.weight, norm.bias, out, width,
            EPS=norm.eps, BLOCK=_power_of_two(width), MASKED=mask is not None,
        )  # fmt: skip
        return out

    def linear_relu(self, linear: nn.Linear, values: Tensor) -> Tensor:
        """See `Fused`; in the epilogue of the product."""
        if "relu" not in self.names:
            return super().linear_relu(linear, values)
        rows = values.flatten(0, -2)
        return torch._addmm_activation(linear.bias, rows, linear.weight.t()).view(*values.shape[:-1], -1)

    def causal_attention(
        self, projected_PE: Tensor, cache: KeyValueCache, index: int, scale: float, causal_LL: Tensor
    ) -> Tensor:
        """See `Fused`; only the words so far are read."""
        if "causal" not in self.names:
            return super().causal_attention(projected_PE, cache, index, scale, causal_LL)
        events, heads, longest, width = cache.keys[index].shape
        out = projected_PE.new_empty(events, heads * width)
        self.word_kernels.causal_attention[(events, heads)](
            projected_PE.contiguous(), cache.keys[index], cache.values[index], cache.position_1, out,
            heads, longest, scale, d=width, BLOCK_L=_power_of_two(longest), BLOCK_d=_power_of_two(width), num_warps=2,
        )  # fmt: skip
        return out

    def ragged_attention(self, query_PHD: Tensor, memory: RaggedMemory, index: int) -> Tensor:
        """See `Fused`; an event is read once, for its logits and for its weighted sum."""
        events, heads, width = query_PHD.shape
        tiling, kernels = self.tiling or tiling_for(events), self.word_kernels
        splits, out = tiling.splits, query_PHD.new_empty(events, heads, width)
        parts = out.new_empty((0,) if splits == 1 else (events, splits, heads, width), dtype=torch.float32)
        states = out.new_empty((0,) if splits == 1 else (events, splits, heads, 2), dtype=torch.float32)
        kernels.attend[(events, splits)](
            query_PHD, memory.layers[index], memory.log_count_N, memory.first_P, memory.slots_P, out, parts, states,
            query_PHD.stride(0), query_PHD.stride(1), heads,
            D=width, BLOCK_D=_power_of_two(width), ROWS=ROWS, BLOCK_S=tiling.block, SPLITS=splits,
            num_warps=tiling.warps, num_stages=tiling.stages,
        )  # fmt: skip
        if splits > 1:
            kernels.combine[(events, heads)](
                parts, states, out, heads, D=width, BLOCK_D=_power_of_two(width), SPLITS=splits
            )
        return out


def fused_for(device: torch.device, names: Collection[Kernel] = KERNELS, attention: Attention = "default") -> Fused:
    """Kernels where there are a GPU and Triton, torch elsewhere."""
    if device.type != "cuda":
        return Fused()
    return TritonFused(names, attention) if names and has_triton() else Fused(attention)


def has_triton() -> bool:
    """Whether kernels of our own can be compiled."""
    return find_spec("triton") is not None


def fits_ragged(heads: int, width: int, dtype: torch.dtype) -> bool:
    """Whether our kernel reads memories of that kind; float32 is left to products that keep all its digits."""
    return heads <= ROWS and 16 <= width <= WIDEST and dtype in (torch.bfloat16, torch.float16)


def wide_product(first: Tensor, second: Tensor) -> Tensor:
    """A product whose result is float32 whatever its factors: logits want more digits than bfloat16 has."""
    if first.dtype == torch.float32:
        return first @ second
    if first.is_cuda and WIDE_RESULTS:
        return (torch.mm if first.dim() == 2 else torch.bmm)(first, second, out_dtype=torch.float32)
    return (first @ second).float()


def _power_of_two(number: int) -> int:
    """The next one."""
    return 1 << (number - 1).bit_length()
