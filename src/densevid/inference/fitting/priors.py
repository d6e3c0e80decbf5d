"""Fit a model's priors to its training data and write them into its folder: `densevid fit-priors`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from densevid.checkpoint import ACTIONNESS, WORD_PRIOR, load_model
from densevid.data.annotations import Annotations
from densevid.data.sources import FeatureSource
from densevid.inference.fitting.actionness import fit_actionness
from densevid.inference.fitting.word_prior import fit_word_prior
from densevid.io import require_writable
from densevid.legacy import RENAMED_FILES
from densevid.model.priors import Fitted


def write_priors(
    model: Path, source: FeatureSource, annotations: Annotations, provenance: Mapping[str, Any]
) -> dict[Path, Fitted]:
    """Fit the word prior, and the actionness where some videos have no events; then write both.

    Args:
        model: The model folder.
        source: The features that the model was trained on.
        annotations: The events of their videos.
        provenance: Goes into the files.

    Returns:
        What was written, by its file. An actionness that is not fitted now stays as it was.

    Raises:
        InputError: The data cannot be fitted, or the folder cannot be written to.
    """
    for name in (WORD_PRIOR, ACTIONNESS):
        require_writable(model / name)
    fits: dict[str, Fitted | None] = {
        WORD_PRIOR: fit_word_prior(source, annotations, load_model(model, fitted=False).vocabulary),
        ACTIONNESS: fit_actionness(source, annotations),
    }
    written = {model / name: fitted for name, fitted in fits.items() if fitted is not None}
    for file, fitted in written.items():
        fitted.made_by(provenance).save(file)
        (model / RENAMED_FILES[file.name]).unlink(missing_ok=True)  # of 0.1
    return written
