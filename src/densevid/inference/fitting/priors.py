"""What to expect of features, fitted to what a model learnt from and written into its folder: words, and whether any.

Which words (`fit_word_prior`) always; whether anything happens (`fit_actionness`) where there are videos of which
there is nothing to tell.
"""

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
from densevid.model.priors import Fitted


def write_priors(
    model: Path, source: FeatureSource, told: Annotations, provenance: Mapping[str, Any]
) -> dict[Path, Fitted]:
    """Fit both, then write them; what was written, by its file. One that is not fitted now is as it was."""
    for name in (WORD_PRIOR, ACTIONNESS):
        require_writable(model / name)
    fits: dict[str, Fitted | None] = {
        WORD_PRIOR: fit_word_prior(source, told, load_model(model, fitted=False).vocabulary),
        ACTIONNESS: fit_actionness(source, told),
    }
    written = {model / name: fitted for name, fitted in fits.items() if fitted is not None}
    for file, fitted in written.items():
        fitted.made_by(provenance).save(file)
    return written
