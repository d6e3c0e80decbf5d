"""By what steps of a video are compared, for borders and contrast: what words depend on, or the features themselves."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from densevid.config import InferenceConfig
from densevid.model.expected_words import ExpectedWords


def compared_by(expected: ExpectedWords | None, settings: InferenceConfig) -> Callable[[Tensor], Tensor]:
    """What turns features into that, B x T x anything; a model without expected words has its features alone."""
    return expected.meanings if expected is not None and settings.compare == "words" else _themselves


def _themselves(features_BTF: Tensor) -> Tensor:
    return features_BTF
