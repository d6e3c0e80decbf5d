"""Rescoring, beyond the paper: boundary refinement moves proposals to changes, contrast changes their scores.

Both compare the steps of a video in a similarity space (`inference.similarity_space`): the directions of the features
that words depend on, where the model has a word prior, or the features themselves.

Boundary refinement (`inference.border_reach`) comes between proposing and selecting. An anchor's head sees an event as
a whole and places its borders to within a few steps; what people call a border is a step at which the features change.
So each border of a proposal moves to the strongest change nearby, weighted by a Gaussian around the border as wide as
`border_reach` of the proposal's length; where no change is near it stays. With `border_weight`, scores are multiplied
by this power of how strong the changes at both borders are.

Contrast (`inference.contrast_weight`) comes after selecting. The network scores a stretch of an event and the event
itself much alike; what differs are the steps next to them. With m the mean of the features over some steps, of an event
of n steps, the n steps before it, the n after it and its two halves,

    contrast = sqrt((1 - cos(m, m_before)) / 2 (1 - cos(m, m_after)) / 2)
               (1 + cos(m_first half, m_second half)) / 2   (n / window)^(1/4),

between 0 and 1. Beyond the ends of what is read together (of a long video, its window) there is nothing, and cos = 0.
The last factor is there because short stretches are always alike within. Scores are multiplied by this power of it and
sorted again; the network's own scores are kept beside them, for the confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from densevid.config import InferenceConfig
from densevid.inference.nms import Selection
from densevid.model.priors import WordPrior, exact
from densevid.model.proposal_decoder import Proposals

WINDOW = 4  # steps on each side of a change whose means are compared
MOST_CHANGES = 40  # of a video, the strongest
FAINTEST = 1e-4  # of the length of a feature vector: what changes less does not change
WEAKEST_PULL = 0.02  # of the strongest change at no distance: less moves nothing
SHORTEST = 1.0  # step: two borders may not fall together
LENGTH_POWER = 0.25  # of the share of the window that a proposal takes, in its contrast


def running_total(exact_BTF: Tensor) -> Tensor:
    """Row t is the sum of all steps before t, B x (T + 1) x F."""
    return F.pad(exact_BTF.cumsum(dim=1), (0, 0, 1, 0))


def rows_at(total_BTF: Tensor, step_BK: Tensor) -> Tensor:
    """The rows of K steps of every video, B x K x F."""
    return total_BTF.gather(1, step_BK[..., None].expand(-1, -1, total_BTF.shape[2]))


def similarity_space(word_prior: WordPrior | None, settings: InferenceConfig) -> Callable[[Tensor], Tensor]:
    """What maps features to the similarity space, B x T x anything; without a word prior the identity."""
    if word_prior is not None and settings.similarity_space == "words":
        return word_prior.project
    return _themselves


def _themselves(features_BTF: Tensor) -> Tensor:
    return features_BTF


@dataclass(frozen=True)
class Changes:
    """Of every video the steps (C places) at which it changes most, and how strongly: 1 the most, 0 an empty place."""

    step_BC: Tensor
    strength_BC: Tensor


def refine_boundaries(
    proposals: Proposals, features_BTF: Tensor, read_B: Tensor, settings: InferenceConfig
) -> Proposals:
    """Move the borders of proposals to changes of the features, where `inference.border_reach` is set.

    Args:
        proposals: Every anchor of every video.
        features_BTF: The videos in the similarity space.
        read_B: How many steps of each video count.
        settings: `border_reach` and `border_weight`.

    Returns:
        The proposals with moved intervals, and factors of their scores with `border_weight`.
    """
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
    mean_norm_B1 = (exact_BTF.norm(dim=-1) * is_read_BT).sum(dim=1, keepdim=True) / read_B1
    is_peak_BS = (
        (strength_BS > FAINTEST * mean_norm_B1) & (strength_BS >= walled[:, :-2]) & (strength_BS > walled[:, 2:])
    )
    strength_BS = torch.where(is_peak_BS, strength_BS, 0)
    best = strength_BS.topk(min(MOST_CHANGES, length - 1), dim=1)
    strongest_B1 = best.values[:, :1] if length > 1 else torch.zeros_like(mean_norm_B1)
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


def rescore_by_contrast(
    selection: Selection, features_BTF: Tensor, steps_B: Tensor, window: int, weight: float
) -> Selection:
    """Multiply scores by a power of contrast, and sort again.

    Args:
        selection: The selected events.
        features_BTF: The videos in the similarity space.
        steps_B: How many steps of each video count.
        window: The model's window, in steps.
        weight: The power; 0 changes nothing.

    Returns:
        The selection, best first; `network_BK` has the scores from before.
    """
    if not weight:
        return selection
    if not selection.kept_BK.shape[1]:
        return replace(selection, network_BK=selection.score_BK)
    contrast_BK = contrast_scores(selection.reported_BK2, features_BTF, steps_B, window)
    score_BK = selection.score_BK * contrast_BK.to(selection.score_BK.dtype) ** weight
    rank_BK = torch.where(selection.kept_BK, score_BK, -1).argsort(dim=1, descending=True, stable=True)
    return replace(selection, score_BK=score_BK, network_BK=selection.score_BK).mapped(
        lambda values: values.gather(1, rank_BK if values.ndim == 2 else rank_BK[..., None].expand_as(values))
    )


def contrast_scores(spans_BK2: Tensor, features_BTF: Tensor, steps_B: Tensor, window: int) -> Tensor:
    """How much each span of steps stands out in its video, B x K."""
    end_B1 = steps_B[:, None].long()
    start_BK = spans_BK2[..., 0].round().long().clamp(min=0).minimum(end_B1 - 1)
    stop_BK = spans_BK2[..., 1].round().long().maximum(start_BK + 1).minimum(end_B1)
    length_BK = stop_BK - start_BK
    middle_BK = (start_BK + stop_BK) // 2
    total_BTF = running_total(exact(features_BTF))

    def sums(first_BK: Tensor, last_BK: Tensor) -> Tensor:
        """Of the features from one step to before another; the mean points the same way."""
        return rows_at(total_BTF, last_BK) - rows_at(total_BTF, first_BK)

    inside_BKF = sums(start_BK, stop_BK)
    before_BKF = sums((start_BK - length_BK).clamp(min=0), start_BK)
    after_BKF = sums(stop_BK, (stop_BK + length_BK).minimum(end_B1))
    apart_BK = (1 - _cosine(inside_BKF, before_BKF)) * (1 - _cosine(inside_BKF, after_BKF)) / 4
    alike_BK = (1 + _cosine(sums(start_BK, middle_BK), sums(middle_BK, stop_BK))) / 2
    return apart_BK.clamp(min=0).sqrt() * alike_BK * (length_BK / window) ** LENGTH_POWER


def _cosine(first_BKF: Tensor, second_BKF: Tensor) -> Tensor:
    """0 where one of them is nothing."""
    return F.cosine_similarity(first_BKF, second_BKF, dim=-1).clamp(-1, 1)
