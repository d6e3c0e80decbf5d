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

from dataclasses import dataclass, fields
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from densevid.artifacts import atomic_path
from densevid.errors import InputError
from densevid.model.exact import exact

EVENTS_AT_ONCE = 64  # their steps, P x T x R, are in memory together


@dataclass(frozen=True, eq=False)
class ExpectedWords:
    """The usual features, R directions in which they differ, and what each says of every word: r_w d_w, and r_w."""

    usual_F: Tensor
    directions_FR: Tensor
    words_RV: Tensor
    rarity_V: Tensor

    def to(self, device: torch.device) -> ExpectedWords:
        """The same on a device, in single precision."""
        return ExpectedWords(*(getattr(self, field.name).to(device, torch.float32) for field in fields(self)))

    def meanings(self, features_BTF: Tensor) -> Tensor:
        """Every step as far as words depend on it, B x T x R; exact, so that it does not depend on its batch."""
        directions_FR = exact(self.directions_FR)
        return exact(features_BTF) @ directions_FR - exact(self.usual_F) @ directions_FR

    def of(self, features_BTF: Tensor, mask_PT: Tensor, video_P: Tensor) -> Tensor:
        """r_w d_w for events, given by their masks and the rows of their videos: P x V."""
        steps_BTR = self.meanings(features_BTF).to(self.words_RV.dtype)
        share_PT = mask_PT.to(steps_BTR.dtype).clamp(min=0)  # a mask of the release may be below
        share_PT = share_PT / share_PT.sum(dim=1, keepdim=True).clamp(min=1e-9)
        parts = [
            torch.einsum("pt,ptr->pr", some_PT, steps_BTR[row_P])
            for some_PT, row_P in zip(share_PT.split(EVENTS_AT_ONCE), video_P.split(EVENTS_AT_ONCE), strict=True)
        ]
        return torch.cat(parts) @ self.words_RV

    def worth_of(self, words_PKL: Tensor, features_BTF: Tensor, mask_PT: Tensor, video_P: Tensor) -> Tensor:
        """How well each of K sentences about events fits what their features make expected, P x K."""
        return self.worth(self.of(features_BTF, mask_PT, video_P), words_PKL)

    def worth(self, expected_PV: Tensor, words_PKL: Tensor) -> Tensor:
        """How well each of K sentences fits what is expected of its event, P x K."""
        again_PKLL = (words_PKL[..., None] == words_PKL[..., None, :]).tril(-1)
        first_PKL = ~again_PKLL.any(dim=-1)
        rarity_PKL = self.rarity_V[words_PKL] * first_PKL
        expected_PKL = expected_PV.gather(1, words_PKL.flatten(1)).view_as(rarity_PKL) * first_PKL
        return expected_PKL.sum(dim=-1) / rarity_PKL.square().sum(dim=-1).sqrt().clamp(min=1e-6)

    def require_fit(self, features: int, words: int, where: Path | str) -> None:
        """Raise unless it is about so many features and words."""
        rank = self.directions_FR.shape[-1:]
        shapes = {
            "usual_F": (features,),
            "directions_FR": (features, *rank),
            "words_RV": (*rank, words),
            "rarity_V": (words,),
        }
        for name, shape in shapes.items():
            found = getattr(self, name)
            if found.shape != shape:
                raise InputError(f"{where}: {name} is {tuple(found.shape)}, this model wants {shape}; fit it anew")
            if not bool(found.isfinite().all()):
                raise InputError(f"{where}: {name} holds NaN or infinity; fit it anew")

    def save(self, path: Path) -> None:
        """Write it, in half precision."""
        halves = {field.name: getattr(self, field.name).cpu().half().contiguous() for field in fields(self)}
        with atomic_path(path) as temporary:
            save_file(halves, temporary)

    @classmethod
    def load(cls, path: Path) -> ExpectedWords:
        """Read what `save` wrote."""
        try:
            tensors = load_file(path)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path}: not a readable safetensors file ({error})") from error
        names = [field.name for field in fields(cls)]
        if tensors.keys() != set(names):
            raise InputError(f"{path}: not expected words: it holds {sorted(tensors)}, not {names}")
        return cls(*(tensors[name].float() for name in names))
