"""Priors: what is fitted to features after training, each a file of the model folder beside the network's weights.

They go beyond the paper.

`WordPrior`, `word_prior.safetensors`: which words features make more likely than they are on average. It counts in the
choice among the sentences of a beam (`inference/reranking.py`) and gives boundaries and contrast their similarity space
(`inference/rescoring.py`).

`Actionness`, `actionness.safetensors`: whether a stretch of video shows an event at all, rather than black, noise, a
still photograph or slides. It is a feature of the confidence (`inference/confidence.py`).
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
from densevid.legacy import current_tensor


def exact(values: Tensor) -> Tensor:
    """In double precision, so that a sum does not depend on the rest of its batch; mps has none."""
    return values if values.device.type == "mps" else values.double()


@dataclass(frozen=True, eq=False)
class Fitted:
    """Tensors by name. `about` is what they were fitted on, and the provenance of their file."""

    called: ClassVar[str]  # in messages
    format: ClassVar[int] = 1
    about: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def names(cls) -> list[str]:
        """The names of its tensors."""
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
        """Write a safetensors file, in half precision if `half_precision`."""
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
        """Read what `save` wrote, in this version or an older one.

        Raises:
            InputError: It is damaged, or holds something else.
        """
        try:
            with safe_open(path, "pt") as file:
                tensors = {current_tensor(name): file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
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
    """A linear fit from features to words (`inference/fitting/word_prior.py`): a second opinion on sentences.

    It knows far less than the network, but it errs in other ways, and it has no language model that could run away.
    With x the mean features of an event, d_w how much more often than on average word w is expected in a sentence about
    it, and r_w = log(events / events with w in a sentence) how rare w is,

        r_w d_w = ((x - mean) directions words)_w,
        fit(sentence) = sum_w r_w d_w / sqrt(sum_w r_w^2)      over its distinct words,

    the cosine of CIDEr over single words, but for a factor that all sentences of an event share. The R directions are
    what of the features words depend on.

    Args:
        mean_F: The features' mean.
        directions_FR: R directions in which features differ.
        words_RV: What each direction contributes to r_w d_w of every word.
        rarity_V: r_w of every word.
    """

    called: ClassVar[str] = "a word prior"
    mean_F: Tensor
    directions_FR: Tensor
    words_RV: Tensor
    rarity_V: Tensor

    def project(self, features_BTF: Tensor) -> Tensor:
        """The directions' share of every step, B x T x R; exact, so that it does not depend on its batch."""
        directions_FR = exact(self.directions_FR)
        return exact(features_BTF) @ directions_FR - exact(self.mean_F) @ directions_FR

    def word_scores(self, features_BTF: Tensor, steps_B: Tensor, mask_PT: Tensor, video_P: Tensor) -> Tensor:
        """r_w d_w of events.

        Args:
            features_BTF: The features of their videos.
            steps_B: How many steps each video has.
            mask_PT: The mask of each event.
            video_P: The row of each event's video.

        Returns:
            A number for every event and word, P x V.
        """
        steps_BTR = self.project(features_BTF).to(self.words_RV.dtype)
        own_BT = torch.arange(mask_PT.shape[1], device=mask_PT.device) < steps_B[:, None]
        share_PT = (mask_PT.to(steps_BTR.dtype) * own_BT[video_P]).clamp(min=0)  # a mask of the release may be below
        share_PT = share_PT / share_PT.sum(dim=1, keepdim=True).clamp(min=1e-9)
        parts = [
            torch.einsum("pt,ptr->pr", some_PT, steps_BTR[row_P])
            for some_PT, row_P in zip(share_PT.split(EVENTS_AT_ONCE), video_P.split(EVENTS_AT_ONCE), strict=True)
        ]
        return torch.cat(parts) @ self.words_RV

    def changes(self, scores_PV: Tensor) -> Tensor:
        """d_w of the `word_scores` of events: by how much the share of sentences with each word differs, P x V."""
        return torch.where(self.rarity_V > 0, scores_PV / self.rarity_V.clamp(min=1e-6), 0)

    def fit_of_sentences(self, scores_PV: Tensor, words_PKL: Tensor) -> Tensor:
        """How well each of K sentences fits the `word_scores` of its event, P x K."""
        again_PKLL = (words_PKL[..., None] == words_PKL[..., None, :]).tril(-1)
        first_PKL = ~again_PKLL.any(dim=-1)
        rarity_PKL = self.rarity_V[words_PKL] * first_PKL
        score_PKL = scores_PV.gather(1, words_PKL.flatten(1)).view_as(rarity_PKL) * first_PKL
        return score_PKL.sum(dim=-1) / rarity_PKL.square().sum(dim=-1).sqrt().clamp(min=1e-6)

    def require_fit(self, features: int, words: int, where: Path | str) -> None:
        """Raise `InputError` unless it was fitted to so many features and words."""
        rank = tuple(self.directions_FR.shape[-1:])
        shapes = {"mean_F": (features,), "directions_FR": (features, *rank), "words_RV": (*rank, words)}
        self.require_shapes({**shapes, "rarity_V": (words,)}, where)


@dataclass(frozen=True, eq=False)
class Actionness(Fitted):
    """A logistic regression of events against no-event videos (`inference/fitting/actionness.py`).

    With x_t the features of step t of an event, and all means over its steps,

        P(event) = sigmoid(value . mean x_t + change . mean |x_t - x_(t-1)| + bias).

    It is linear in the steps, so one number per step serves all events of a video.

    Args:
        value_F: The weight of each feature.
        change_F: The weight of its change from step to step.
        bias: The bias, one number.
    """

    called: ClassVar[str] = "an actionness"
    value_F: Tensor
    change_F: Tensor
    bias: Tensor

    def of_steps(self, values_TF: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """T numbers, the mean of which over an event is the logit of P(event)."""
        value_F, change_F, bias = (part.numpy() for part in (self.value_F, self.change_F, self.bias))
        values = np.asarray(values_TF, dtype=np.float32)
        return np.asarray(values @ value_F + changes(values) @ change_F + bias, dtype=np.float32)

    def require_fit(self, features: int, where: Path | str) -> None:
        """Raise `InputError` unless it was fitted to so many features."""
        self.require_shapes({"value_F": (features,), "change_F": (features,), "bias": (1,)}, where)


def changes(values_TF: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """How much each feature differs from the step before; the first step takes the second's."""
    change_TF = np.abs(np.diff(values_TF, axis=0, prepend=values_TF[:1]))
    change_TF[:1] = change_TF[1:2] if len(change_TF) > 1 else 0
    return np.asarray(change_TF, dtype=np.float32)
