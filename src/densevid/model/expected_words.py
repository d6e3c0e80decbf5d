"""Which words features make more likely than usual: a second opinion on what a beam would say and where events are.

Beyond the paper. A linear fit (`inference/fit_expected_words.py`) to the same clips knows far less than the network,
but it errs in other ways, and it has no language that could run away with it. With d_w how much more often than usual
the word w is expected in a sentence about an event, and r_w = log(events / events that w was said of) how rare it is,

    worth(sentence) = sum_w r_w d_w / sqrt(sum_w r_w^2)      over its distinct words,

the cosine of CIDEr over single words but for a factor that all sentences of an event share. `inference.expected_weight`
times this is added to what a sentence of a beam is worth.

The fit has few directions: what of the features words depend on. Borders and contrast (`inference/compared.py`)
compare steps there and not in all features, of which much changes without anybody calling it another event
(`inference.compare`). A model that has `expected_words.safetensors` does both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from densevid.model.exact import exact
from densevid.model.fitted import Fitted

EVENTS_AT_ONCE = 64  # their steps, P x T x R, are in memory together


@dataclass(frozen=True, eq=False)
class ExpectedWords(Fitted):
    """The usual features, R directions in which they differ, and what each says of every word: r_w d_w, and r_w."""

    called: ClassVar[str] = "expected words"
    usual_F: Tensor
    directions_FR: Tensor
    words_RV: Tensor
    rarity_V: Tensor

    def meanings(self, features_BTF: Tensor) -> Tensor:
        """Every step as far as words depend on it, B x T x R; exact, so that it does not depend on its batch."""
        directions_FR = exact(self.directions_FR)
        return exact(features_BTF) @ directions_FR - exact(self.usual_F) @ directions_FR

    def of(self, features_BTF: Tensor, steps_B: Tensor, mask_PT: Tensor, video_P: Tensor) -> Tensor:
        """r_w d_w for events, P x V, given by their masks and the rows of their videos, which have `steps_B` steps."""
        steps_BTR = self.meanings(features_BTF).to(self.words_RV.dtype)
        own_BT = torch.arange(mask_PT.shape[1], device=mask_PT.device) < steps_B[:, None]
        share_PT = (mask_PT.to(steps_BTR.dtype) * own_BT[video_P]).clamp(min=0)  # a mask of the release may be below
        share_PT = share_PT / share_PT.sum(dim=1, keepdim=True).clamp(min=1e-9)
        parts = [
            torch.einsum("pt,ptr->pr", some_PT, steps_BTR[row_P])
            for some_PT, row_P in zip(share_PT.split(EVENTS_AT_ONCE), video_P.split(EVENTS_AT_ONCE), strict=True)
        ]
        return torch.cat(parts) @ self.words_RV

    def worth(self, expected_PV: Tensor, words_PKL: Tensor) -> Tensor:
        """How well each of K sentences fits what is expected of its event, P x K."""
        again_PKLL = (words_PKL[..., None] == words_PKL[..., None, :]).tril(-1)
        first_PKL = ~again_PKLL.any(dim=-1)
        rarity_PKL = self.rarity_V[words_PKL] * first_PKL
        expected_PKL = expected_PV.gather(1, words_PKL.flatten(1)).view_as(rarity_PKL) * first_PKL
        return expected_PKL.sum(dim=-1) / rarity_PKL.square().sum(dim=-1).sqrt().clamp(min=1e-6)

    def require_fit(self, features: int, words: int, where: Path | str) -> None:
        """Raise unless it is about so many features and words."""
        rank = tuple(self.directions_FR.shape[-1:])
        shapes = {"usual_F": (features,), "directions_FR": (features, *rank), "words_RV": (*rank, words)}
        self.require_shapes({**shapes, "rarity_V": (words,)}, where)
