"""Cross-validate the actionness (`model/priors.py`) over the folds of a split, for several strengths of its ridge.

DATA is what `bundled_model data` wrote, or any clip collection some of whose clips have no captions. Each fifth of the
training clips is scored by a fit on the other four:

  python -m research.bundled_model.actionness_folds --data DATA --ridge 0.02 0.05 0.08 0.1 0.2
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densevid.cli import run_program
from densevid.errors import InputError
from densevid.inference.fitting.actionness import RIDGE, fit_actionness
from densevid.timelines.clips import FOLDS, ClipCollection
from densevid.timelines.sources import ClipFeatures


@dataclass(frozen=True)
class HeldOut:
    """Actionness logits of held-out clips: with captions (N) and without events (M)."""

    event_N: npt.NDArray[np.float64]
    no_event_M: npt.NDArray[np.float64]

    @property
    def area_under_curve(self) -> float:
        """The share of pairs of one clip with and one without events that are ranked rightly."""
        higher = self.event_N[:, None] > self.no_event_M
        return float(higher.mean() + 0.5 * (self.event_N[:, None] == self.no_event_M).mean())

    @property
    def loss(self) -> float:
        """Cross-entropy in nats; both classes weigh the same."""
        return float(np.logaddexp(0, -self.event_N).mean() + np.logaddexp(0, self.no_event_M).mean()) / 2

    def line(self) -> str:
        """The figures on one line."""
        missed, false_positives = int((self.event_N < 0).sum()), int((self.no_event_M > 0).sum())
        return (
            f"area under the ROC curve {self.area_under_curve:.4f}, cross-entropy {self.loss:.3f}, "
            f"{missed} of {len(self.event_N)} clips missed, "
            f"false positives on {len(self.no_event_M)} no-event clips: {false_positives}"
        )


def cross_validate(collection: ClipCollection, split: str, ridge: float) -> HeldOut:
    """Score every clip of a split by a fit on the folds that it is not in.

    Args:
        collection: Clips, some of them without captions.
        split: The split whose folds are taken.
        ridge: The strength of the fit's regularization.

    Raises:
        InputError: One of the two kinds of clips is missing.
    """
    logits: dict[bool, list[float]] = {True: [], False: []}
    for fold in range(FOLDS):
        training, held_out = (ClipFeatures(collection, f"{split}-{part}{fold}") for part in ("but", "fold"))
        actionness = fit_actionness(training, training.annotations(), ridge)
        if actionness is None:
            raise InputError(f"{collection.folder}: every clip of {split}-but{fold} has captions; some must have none")
        for video, events in held_out.annotations().events.items():
            logits[bool(events)].append(float(actionness.of_steps(held_out.track(video).values).mean()))
    if not (logits[True] and logits[False]):
        raise InputError(f"{collection.folder}: {split} needs clips with captions and clips without")
    return HeldOut(np.array(logits[True]), np.array(logits[False]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", type=Path, required=True, metavar="DATA")
    parser.add_argument("--split", default="train", metavar="NAME", help="whose fifths (train)")
    parser.add_argument("--ridge", type=float, nargs="+", default=[RIDGE], metavar="R", help=f"({RIDGE})")


def run(args: argparse.Namespace) -> int:
    """Print a line for each ridge."""
    if wrong := [ridge for ridge in args.ridge if not 0 < ridge < np.inf]:
        raise InputError(f"--ridge must be above 0, got {wrong[0]}")
    features = args.data / "features"
    collection = ClipCollection.read(args.data, features=features if features.is_dir() else None)
    for ridge in args.ridge:
        print(f"ridge {ridge:g}: {cross_validate(collection, args.split, ridge).line()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.bundled_model.actionness_folds", __doc__, add_arguments, run))
