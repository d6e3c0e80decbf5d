"""The event mask: a proposal becomes a differentiable 0..1 weight over steps.

f_M = sigmoid(g([rho(S_p), rho(E_p), rho(S_a), rho(E_a), Bin(S_a, E_a)])), g a two-layer perceptron, and the gated form
f_GM = P_e Bin(S_p, E_p) + (1 - P_e) f_M: the surer the proposal, the more its own window counts. Gradients of the
caption loss reach the offsets through rho(S_p), rho(E_p) and the score through the gate P_e.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from densevid.model.anchors import anchor_intervals
from densevid.model.attention import sinusoids
from densevid.model.proposal_decoder import PickedProposals


@dataclass(frozen=True)
class EventMask:
    """The mask to apply, the 0/1 window of the proposal (target of the mask loss), and the learned mask's logits."""

    mask_PT: Tensor
    window_PT: Tensor
    soft_logits_PT: Tensor | None


def rounded_windows(intervals_P2: Tensor, limit_P: Tensor) -> Tensor:
    """Whole steps an interval covers: floor(start in [0, limit - 1]), ceil(end in [1, limit])."""
    start = torch.minimum(intervals_P2[..., 0].clamp(min=0), limit_P - 1).floor()
    end = torch.minimum(intervals_P2[..., 1].clamp(min=1), limit_P).ceil()
    return torch.stack((start, end), dim=-1)


def inside(windows_P2: Tensor, steps: int) -> Tensor:
    """Bin: 1 for the steps from start (included) to end (excluded), else 0."""
    step_T = torch.arange(steps, device=windows_P2.device)
    return ((step_T >= windows_P2[:, :1]) & (step_T < windows_P2[:, 1:])).to(windows_P2.dtype)


class DiscreteMask(nn.Module):
    """The window of the proposal alone: captions cannot move proposals through it."""

    def forward(self, proposals: PickedProposals, steps: int, limit_P: Tensor) -> EventMask:
        """Mask of P proposals over `steps` steps; `limit_P` is where each one's video ends."""
        window_PT = inside(rounded_windows(proposals.intervals_P2.detach(), limit_P), steps)
        return EventMask(window_PT, window_PT, None)


class LearnedMask(nn.Module):
    """f_M, gated by the score (`gated=True`, f_GM) or alone. The release uses raw logits where the paper has sigma."""

    def __init__(self, width: int, window: int, *, gated: bool, released: bool) -> None:
        super().__init__()
        self.width, self.window, self.gated, self.released = width, window, gated, released
        self.perceptron = nn.Sequential(
            nn.Linear(width + window, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, window)
        )

    def forward(self, proposals: PickedProposals, steps: int, limit_P: Tensor) -> EventMask:
        """Mask of P proposals over `steps` steps; `limit_P` is where each one's video ends."""
        window_PT = inside(rounded_windows(proposals.intervals_P2.detach(), limit_P), steps)
        soft_logits_PT = self.soft_logits(proposals)[:, :steps]
        soft_PT = soft_logits_PT if self.released else soft_logits_PT.sigmoid()
        if not self.gated:
            return EventMask(soft_PT, window_PT, soft_logits_PT)
        gate_P1 = proposals.logits_P.sigmoid()[:, None]
        return EventMask(gate_P1 * window_PT + (1 - gate_P1) * soft_PT, window_PT, soft_logits_PT)

    def soft_logits(self, proposals: PickedProposals) -> Tensor:
        """g(...) over the whole window, before the sigmoid."""
        start_P, end_P = anchor_intervals(proposals.anchors_P2).unbind(-1)
        anchor_P2 = torch.stack((start_P.floor().clamp(min=0), end_P.ceil().clamp(max=self.window)), dim=-1)
        borders_P4 = torch.cat((proposals.intervals_P2, anchor_P2), dim=-1)
        sinusoids_PD = sinusoids(borders_P4, self.width // 4).flatten(-2)
        inputs = torch.cat((sinusoids_PD, inside(anchor_P2, self.window)), dim=-1)
        return self._lone(inputs) if self.training and len(inputs) == 1 else self.perceptron(inputs)

    def _lone(self, inputs: Tensor) -> Tensor:
        """g of a single proposal while training: it has no spread of its own, so the norm's running figures serve."""
        first, norm, rectify, second = self.perceptron
        if type(norm) is not nn.BatchNorm1d:  # a norm over all processes, who wait for each other
            return self.perceptron(inputs)
        mean, variance = norm.running_mean, norm.running_var
        hidden = F.batch_norm(first(inputs), mean, variance, norm.weight, norm.bias, eps=norm.eps)
        return second(rectify(hidden))
