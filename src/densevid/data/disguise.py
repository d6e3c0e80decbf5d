"""The same video as nobody has seen it: the features' axes change places and signs, by chance, for a whole video.

What belongs together in time stays together, and nothing else: lengths and distances are kept, but no clip can be
known again. From few clips a network learns them by heart instead of what makes an event; of a disguised video it can
only learn the latter. Axes swap within groups of neighbours, so that principal components keep about their spread.
"""

from __future__ import annotations

import numpy as np

from densevid.tracks import FloatArray

GROUP = 16  # neighbouring axes that swap places with each other


def disguised(features_TF: FloatArray, rng: np.random.Generator) -> FloatArray:
    """T x F in other axes, the same at all steps."""
    width = features_TF.shape[1]
    place_F = np.argsort(np.arange(width) // GROUP + rng.random(width))
    sign_F = rng.choice(np.array([-1, 1], dtype=features_TF.dtype), width)
    return np.asarray(features_TF)[:, place_F] * sign_F
