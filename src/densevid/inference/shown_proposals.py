"""Which proposals are worth a look inside the model: the best of the whole video, and the best that are unsure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel
from densevid.inference.rules import rules_of
from densevid.inference.windows import Windows
from densevid.intervals import suppress, temporal_iou
from densevid.tracks import FeatureTrack

DIFFERENT = 0.5  # proposals that overlap a better one by more than this would show the same event again
UNSURE = 0.7  # the paper shows two proposals scored above .9 and two below .7
MOST_COMPARED = 2000  # suppression compares all pairs

Place = tuple[int, int]  # the number of a window and of an anchor in it


@dataclass(frozen=True)
class Candidates:
    """Proposals of a video: window, anchor in it, interval in steps of the video, and its score, 0 to 1."""

    window_P: Tensor
    anchor_P: Tensor
    interval_P2: Tensor
    score_P: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """Those of several windows."""
        return cls(*map(torch.cat, zip(*(part._columns for part in parts), strict=True)))

    def different(self) -> Candidates:
        """The best first, and no two that show the same event."""
        order_P = self.score_P.argsort(descending=True, stable=True)[:MOST_COMPARED]
        interval_P2 = self.interval_P2[order_P]
        kept_P = order_P[suppress(temporal_iou(interval_P2, interval_P2) > DIFFERENT)]
        return Candidates(*(column[kept_P] for column in self._columns))

    def places(self, chosen_P: Tensor) -> list[Place]:
        """Where some of them are found."""
        return list(zip(self.window_P[chosen_P].tolist(), self.anchor_P[chosen_P].tolist(), strict=True))

    @property
    def _columns(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.window_P, self.anchor_P, self.interval_P2, self.score_P


def windows_read(loaded: LoadedModel, track: FeatureTrack) -> Windows:
    """The windows in which a video is captioned; the first alone where the model's rules read no more."""
    window = loaded.config.model.window
    if rules_of(loaded.config).reads_all:
        return Windows.over(track, window)
    steps = min(len(track), window)
    return Windows((0,), steps, steps)


def sure_and_unsure(found: Sequence[Candidates], each: int) -> tuple[list[Place], list[Place]]:
    """The best `each` of all windows, and the best `each` after them that are unsure."""
    best = Candidates.joined(found).different()
    place_P = torch.arange(len(best.score_P), device=best.score_P.device)
    others_P = place_P[each:]
    unsure_P = others_P[best.score_P[others_P] < UNSURE]
    return best.places(place_P[:each]), best.places(unsure_P[:each])
