"""Borders of proposals move to where the video changes: beyond the paper, chosen by `inference.border_reach`.

An anchor's head sees an event as a whole and places its borders to within a few steps; what the eye calls a border is a
step at which the features change. So each border of a proposal goes to the change that is strongest, weighed by a bell
curve around the border as wide as `border_reach` of the proposal's length. Where no change is near it stays. This comes
between proposing and selecting: overlaps are judged, masks are made and captions told of the moved borders. Of two
proposals that the network likes equally, the one between stronger changes is the better one: `border_weight`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from densevid.config import InferenceConfig
from densevid.inference.running_totals import rows_at, running_total
from densevid.model.exact import exact
from densevid.model.proposal_decoder import Proposals

WINDOW = 4  # steps on each side of a change whose means are compared
MOST_CHANGES = 40  # of a video, the strongest
FAINTEST = 1e-4  # of the length of a feature vector: what changes less does not change
WEAKEST_PULL = 0.02  # of the strongest change at no distance: less moves nothing
SHORTEST = 1.0  # step: two borders may not fall together


@dataclass(frozen=True)
class Changes:
    """Of every video the steps (C places) at which it changes most, and how strongly: 1 the most, 0 an empty place."""

    step_BC: Tensor
    strength_BC: Tensor


def at_changes(proposals: Proposals, features_BTF: Tensor, read_B: Tensor, settings: InferenceConfig) -> Proposals:
    """The proposals with their borders at changes of the features; `read_B` steps of each video count."""
    reach, weight = settings.border_reach, settings.border_weight
    if not reach or not len(proposals.anchors_A2):
        return proposals
    changes = changes_of(features_BTF, read_B)
    ends_B1 = read_B[:, None].to(proposals.offsets_BA2.dtype)
    intervals_BA2 = torch.minimum(proposals.intervals_BA2.clamp(min=0), ends_B1[..., None])
    near_BA = reach * (intervals_BA2[..., 1] - intervals_BA2[..., 0]).clamp(min=SHORTEST)
    (start_BA, first_BA), (end_BA, last_BA) = (_pulled(border, near_BA, changes) for border in intervals_BA2.unbind(-1))
    apart_BA = end_BA - start_BA >= SHORTEST
    moved_BA2 = torch.where(apart_BA[..., None], torch.stack((start_BA, end_BA), dim=-1), proposals.intervals_BA2)
    trust_BA = torch.where(apart_BA, first_BA * last_BA, WEAKEST_PULL**2) ** weight if weight else None
    return replace(proposals, moved_BA2=moved_BA2, trust_BA=trust_BA)


def changes_of(features_BTF: Tensor, read_B: Tensor) -> Changes:
    """The strongest changes of every video; its two ends are changes, too, as strong as the strongest.

    How strongly a video changes at a step is the distance between the means of the windows before and after it; a
    change is a step at which this is more than at its neighbours.
    """
    length, read_B1 = features_BTF.shape[1], read_B[:, None]
    inner_S = torch.arange(1, length, device=features_BTF.device)
    is_inner_BS = inner_S < read_B1
    before_BS, after_BS = (inner_S - WINDOW).clamp(min=0).expand_as(is_inner_BS), inner_S + WINDOW
    after_BS = torch.minimum(after_BS, read_B1.to(after_BS.dtype)).maximum(inner_S + 1).clamp(max=length)
    exact_BTF = exact(features_BTF)
    total_BTF = running_total(exact_BTF)
    middle_BSF = total_BTF[:, 1:length]
    mean_before_BSF = (middle_BSF - rows_at(total_BTF, before_BS)) / (inner_S - before_BS)[..., None]
    mean_after_BSF = (rows_at(total_BTF, after_BS) - middle_BSF) / (after_BS - inner_S)[..., None]
    strength_BS = (mean_after_BSF - mean_before_BSF).norm(dim=-1).masked_fill(~is_inner_BS, -torch.inf)

    walled = torch.nn.functional.pad(strength_BS, (1, 1), value=-torch.inf)
    is_read_BT = torch.arange(length, device=features_BTF.device) < read_B1
    usual_B1 = (exact_BTF.norm(dim=-1) * is_read_BT).sum(dim=1, keepdim=True) / read_B1
    is_peak_BS = (strength_BS > FAINTEST * usual_B1) & (strength_BS >= walled[:, :-2]) & (strength_BS > walled[:, 2:])
    strength_BS = torch.where(is_peak_BS, strength_BS, 0)
    best = strength_BS.topk(min(MOST_CHANGES, length - 1), dim=1)
    strongest_B1 = best.values[:, :1] if length > 1 else torch.zeros_like(usual_B1)
    ends_B2 = torch.cat((torch.zeros_like(read_B1), read_B1), dim=1).to(inner_S.dtype)
    step_BC = torch.cat((ends_B2, best.indices + 1), dim=1)
    strength_BC = torch.cat((torch.ones_like(ends_B2), best.values / strongest_B1.clamp(min=1e-30)), dim=1)
    return Changes(step_BC.float(), strength_BC.float())


def _pulled(border_BA: Tensor, near_BA: Tensor, changes: Changes) -> tuple[Tensor, Tensor]:
    """Each border at the change that pulls it most, and how strong that is; or where it was."""
    distance_BAC = (changes.step_BC[:, None] - border_BA[..., None]) / near_BA[..., None]
    pull_BA, place_BA = (changes.strength_BC[:, None] * (-distance_BAC.square() / 2).exp()).max(dim=-1)
    moves_BA = pull_BA >= WEAKEST_PULL
    step_BA = torch.where(moves_BA, changes.step_BC.gather(1, place_BA), border_BA)
    return step_BA, torch.where(moves_BA, changes.strength_BC.gather(1, place_BA), WEAKEST_PULL)
