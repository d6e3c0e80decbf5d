"""Events stand out: unlike what is before and after them, alike within. Beyond the paper: `inference.contrast_weight`.

The network scores an anchor by what it sees in it; a stretch of an event and the event itself look much the same to
it. What tells them apart are the features next to them. With m the mean of the features over some steps, of an event of
n steps, the n steps before it, the n after it and its two halves,

    contrast = sqrt((1 - cos(m, m_before)) / 2 (1 - cos(m, m_after)) / 2)
               (1 + cos(m_first half, m_second half)) / 2   (n / window)^(1/4),

between 0 and 1; beyond the end of what is read together, of a long video its window, is nothing, which is like nothing.
The last factor is there because whatever is short is alike within. Scores of what was selected are multiplied by this
power of it, and the best come first again; what the network said is kept beside them, as a confidence asks for that.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from densevid.inference.running_totals import rows_at, running_total
from densevid.inference.selection import Selection
from densevid.model.exact import exact

LENGTH_POWER = 0.25


def weighed(selection: Selection, features_BTF: Tensor, steps_B: Tensor, window: int, weight: float) -> Selection:
    """The selection with scores that count contrast, best first; `steps_B` steps of each video count."""
    if not weight:
        return selection
    if not selection.kept_BK.shape[1]:
        return replace(selection, network_BK=selection.score_BK)
    contrast_BK = contrast_of(selection.reported_BK2, features_BTF, steps_B, window)
    score_BK = selection.score_BK * contrast_BK.to(selection.score_BK.dtype) ** weight
    rank_BK = torch.where(selection.kept_BK, score_BK, -1).argsort(dim=1, descending=True, stable=True)
    return replace(selection, score_BK=score_BK, network_BK=selection.score_BK).mapped(
        lambda values: values.gather(1, rank_BK if values.ndim == 2 else rank_BK[..., None].expand_as(values))
    )


def contrast_of(spans_BK2: Tensor, features_BTF: Tensor, steps_B: Tensor, window: int) -> Tensor:
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
