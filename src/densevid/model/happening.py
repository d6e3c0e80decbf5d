"""Whether anything happens, as features tell: black, noise, a photograph that stays and slides are not told of.

Beyond the paper. A logistic regression (`inference/fit_happening.py`) on clips that are told of and on clips of which
there is nothing to tell; x_t are the features of step t of an event, all means are over its steps:

    P(anything happens) = sigmoid(value . mean x_t + change . mean |x_t - x_(t-1)| + bias)

It is linear in what it is told of each step, so one number a step will do for all events of a video. A confidence that
is fitted with it asks it (`inference/calibration.py`). Nothing looks at pixels, and no rule says what to look for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from densevid.model.fitted import Fitted


@dataclass(frozen=True, eq=False)
class Happening(Fitted):
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
