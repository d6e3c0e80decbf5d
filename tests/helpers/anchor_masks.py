"""The masks under which the events of anchors are captioned, computed for one window by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from densevid.checkpoint import LoadedModel
from densevid.inference.explain_window import ReadWindow
from densevid.inference.windows import Windows
from densevid.tracks import FeatureTrack


@torch.inference_mode()
def masks_of_anchors(loaded: LoadedModel, part: FeatureTrack, anchors: Sequence[int]) -> npt.NDArray[np.float64]:
    """P x T; an anchor of -1 is all of the window."""
    loaded.model.eval()
    window = ReadWindow.of(loaded, part, Windows((0,), len(part), len(part)), 0)
    return window.masks_of(anchors).double().cpu().numpy()
