"""The small steps between the matrix products of captioning, each in one pass over memory where that pays.

On a GPU a batch of events holds gigabytes, and what these steps cost is how often they read and write them: there they
are Triton kernels. On a CPU the products take all the time.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor, nn

from densevid.model.video_encoder import Memory

Passes = Literal["torch", "triton"]
WIDE_RESULTS = torch.__version__ >= "2.8"  # products of bfloat16 that give float32
ROWS = 16  # the least that a tensor core takes


class Fused:
    """Each step as torch has it."""

    def masked_rows(self, rows_ND: Tensor, row_PS: Tensor, mask_PS1: Tensor) -> Tensor:
        """The rows of every event, times its mask."""
        return rows_ND[row_PS] * mask_PS1

    def residual_norm(self, norm: nn.Module, output: Tensor, residual: Tensor, mask: Tensor | None = None) -> Tensor:
        """Psi without dropout, LayerNorm(output + residual), and then perhaps the event mask."""
        normed: Tensor = norm(output + residual)
        return normed.to(residual.dtype) if mask is None else normed.to(residual.dtype) * mask

    def rectified(self, linear: nn.Linear, values: Tensor) -> Tensor:
        """max(0, M1 x + b1)."""
        return linear(values).relu_()

    def attended(self, query_PHD: Tensor, memory: Memory, index: int) -> Tensor:
        """softmax(query memory^T + log count) memory: a layer of the memory as keys and values of every head."""
        memory_PSD = memory.layers[index]
        logits_PHS = wide_product(query_PHD, memory_PSD.transpose(1, 2))
        if memory.log_count_BT is not None:
            logits_PHS = logits_PHS + memory.log_count_BT[:, None]
        return torch.bmm(logits_PHS.softmax(dim=-1).to(memory_PSD.dtype), memory_PSD)


class TritonFused(Fused):
    """The same by kernels of our own; `attention` says whether the reading of a memory is one of them."""

    def __init__(self, *, attention: bool) -> None:
        from densevid.inference import event_kernels

        self.kernels: Any = event_kernels
        self.attention = attention

    def masked_rows(self, rows_ND: Tensor, row_PS: Tensor, mask_PS1: Tensor) -> Tensor:
        """See `Fused`."""
        width = rows_ND.shape[1]
        out = rows_ND.new_empty(*row_PS.shape, width)
        self.kernels.masked_rows[(row_PS.numel(),)](
            rows_ND.contiguous(), row_PS.contiguous(), mask_PS1.contiguous(), out, width, BLOCK=_power_of_two(width)
        )
        return out

    def residual_norm(self, norm: nn.Module, output: Tensor, residual: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Fused`; the release's own norm stays as it is."""
        if not isinstance(norm, nn.LayerNorm):
            return super().residual_norm(norm, output, residual, mask)
        width, out = residual.shape[-1], torch.empty_like(residual)
        factors = output if mask is None else mask.contiguous()
        self.kernels.masked_norm[(residual.numel() // width,)](
            output, residual, factors, norm.weight, norm.bias, out, width,
            EPS=norm.eps, BLOCK=_power_of_two(width), MASKED=mask is not None,
        )  # fmt: skip
        return out

    def rectified(self, linear: nn.Linear, values: Tensor) -> Tensor:
        """See `Fused`; in the epilogue of the product."""
        rows = values.flatten(0, -2)
        return torch._addmm_activation(linear.bias, rows, linear.weight.t()).view(*values.shape[:-1], -1)

    def attended(self, query_PHD: Tensor, memory: Memory, index: int) -> Tensor:
        """See `Fused`."""
        memory_PSD = memory.layers[index]
        events, slots, width = memory_PSD.shape
        fits = width == _power_of_two(width) and 16 <= width <= 1024 and query_PHD.shape[1] <= ROWS
        if not self.attention or not fits or memory_PSD.dtype == torch.float32:
            return super().attended(query_PHD, memory, index)
        out = memory_PSD.new_empty(events, query_PHD.shape[1], width)
        counted = memory.log_count_BT is not None
        self.kernels.attend[(events,)](
            query_PHD, memory_PSD.contiguous(), memory.log_count_BT if counted else memory_PSD, out, slots,
            query_PHD.stride(0), query_PHD.stride(1), query_PHD.shape[1],
            D=width, ROWS=ROWS, BLOCK_S=32, COUNTED=counted, num_warps=8, num_stages=2,
        )  # fmt: skip
        return out


def fused_for(device: torch.device, *, passes: Passes = "triton", attention: bool = False) -> Fused:
    """Kernels where there are a GPU and Triton, torch elsewhere."""
    if passes == "triton" and device.type == "cuda" and find_spec("triton") is not None:
        return TritonFused(attention=attention)
    return Fused()


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
