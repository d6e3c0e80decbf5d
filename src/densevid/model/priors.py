"""Numbers that shall not depend on what else is computed with them.

What is fitted to features beside the network: a few tensors in a file of their own in the model folder.

Which words features make more likely than usual: a second opinion on what a beam would say and where events are.

Beyond the paper. A linear fit (`inference/fitting/word_prior.py`) to the same clips knows far less than the network,
but it errs in other ways, and it has no language that could run away with it. With d_w how much more often than usual
the word w is expected in a sentence about an event, and r_w = log(events / events that w was said of) how rare it is,

    worth(sentence) = sum_w r_w d_w / sqrt(sum_w r_w^2)      over its distinct words,

the cosine of CIDEr over single words but for a factor that all sentences of an event share.
`inference.word_prior_weight` times this is added to what a sentence of a beam is worth.

The fit has few directions: what of the features words depend on. Borders and contrast (`inference/rescoring.py`)
compare steps there and not in all features, of which much changes without anybody calling it another event
(`inference.similarity_space`). A model that has `word_prior.safetensors` does both.

Whether anything happens, as features tell: black, noise, a photograph that stays and slides are not told of.

Beyond the paper. A logistic regression on clips that are told of and on clips of which
there is nothing to tell; x_t are the features of step t of an event, all means are over its steps:

    P(anything happens) = sigmoid(value . mean x_t + change . mean |x_t - x_(t-1)| + bias)

It is linear in what it is told of each step, so one number a step will do for all events of a video. A confidence that
is fitted with it asks it (`inference/confidence.py`). Nothing looks at pixels, and no rule says what to look for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from densevid.errors import InputError
from densevid.io import tensor_path


def exact(values: Tensor) -> Tensor:
    """In double precision, so that sums do not depend on what came before or beside; mps has none."""
    return values if values.device.type == "mps" else values.double()


@dataclass(frozen=True, eq=False)
class Fitted:
    """Tensors by name. `about` is where they come from: what they were fitted on, and the provenance of their file."""

    called: ClassVar[str]
    format: ClassVar[int] = 1
    about: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def names(cls) -> list[str]:
        """Of every tensor."""
        return [part.name for part in fields(cls) if part.name != "about"]

    @property
    def parts(self) -> dict[str, Tensor]:
        """Every tensor by its name."""
        return {name: getattr(self, name) for name in self.names()}

    def made_by(self, provenance: Mapping[str, Any]) -> Self:
        """The same with the provenance of the file it is about to be written to."""
        return replace(self, about={**self.about, "provenance": provenance})

    def to(self, device: torch.device) -> Self:
        """The same on a device, in single precision."""
        parts = {name: part.to(device, torch.float32) for name, part in self.parts.items()}
        return type(self)(**parts, about=self.about)

    def require_shapes(self, shapes: Mapping[str, tuple[int, ...]], where: Path | str) -> None:
        """Raise unless every tensor has its shape and holds numbers."""
        for name, part in self.parts.items():
            if part.shape != (wanted := shapes[name]):
                raise InputError(f"{where}: {name} is {tuple(part.shape)}, this model wants {wanted}; fit it anew")
            if not bool(part.isfinite().all()):
                raise InputError(f"{where}: {name} holds NaN or infinity; fit it anew")

    def save(self, path: Path, *, half_precision: bool = False) -> None:
        """Write it."""
        precision = torch.float16 if half_precision else torch.float32
        stored = {name: part.to("cpu", precision).contiguous() for name, part in self.parts.items()}
        for name, part in stored.items():
            if not bool(part.isfinite().all()):
                raise InputError(f"cannot write {path}: {name} does not fit into {precision}")
        about = {"format": self.format, **self.about}
        with tensor_path(path) as temporary:
            save_file(stored, temporary, metadata={"densevid": json.dumps(about)})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
                about = json.loads((file.metadata() or {}).get("densevid", "{}"))
        except (OSError, SafetensorError, ValueError) as error:
            raise InputError(f"{path}: not a readable safetensors file ({error})") from error
        if tensors.keys() != set(cls.names()) or not isinstance(about, dict):
            raise InputError(f"{path}: not {cls.called}: it holds {sorted(tensors)}, not {sorted(cls.names())}")
        if about.pop("format", None) != cls.format:
            raise InputError(f"{path}: of another format than this densevid reads; fit it anew")
        return cls(**tensors, about=about)


EVENTS_AT_ONCE = 64  # their steps, P x T x R, are in memory together


@dataclass(frozen=True, eq=False)
class WordPrior(Fitted):
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


@dataclass(frozen=True, eq=False)
class Actionness(Fitted):
    """How much each feature speaks for it, and how much its change from step to step does."""

    called: ClassVar[str] = "a fit of whether anything happens"
    value_F: Tensor
    change_F: Tensor
    bias: Tensor

    def of_steps(self, values_TF: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """T numbers, the mean of which over an event is the logit that anything happens in it."""
        value_F, change_F, bias = (part.numpy() for part in (self.value_F, self.change_F, self.bias))
        values = np.asarray(values_TF, dtype=np.float32)
        return np.asarray(values @ value_F + changes(values) @ change_F + bias, dtype=np.float32)

    def require_fit(self, features: int, where: Path | str) -> None:
        """Raise unless it is about so many features."""
        self.require_shapes({"value_F": (features,), "change_F": (features,), "bias": (1,)}, where)


def changes(values_TF: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """How much each feature differs from the step before, the first step's as the second's."""
    change_TF = np.abs(np.diff(values_TF, axis=0, prepend=values_TF[:1]))
    change_TF[:1] = change_TF[1:2] if len(change_TF) > 1 else 0
    return np.asarray(change_TF, dtype=np.float32)
