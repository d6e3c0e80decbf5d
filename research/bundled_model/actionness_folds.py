"""Whether anything happens (`model/priors.py`), judged on clips it was not fitted on: how strong a ridge should be.

DATA is what `bundled_model data` wrote, or any collection of clips some of which have no captions. Each fifth of the
training clips is judged by a fit on the other four:

  python -m research.bundled_model.actionness_folds --data DATA --ridge 0.02 0.05 0.08 0.1 0.2
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError, run_main
from densevid.inference.fitting.actionness import RIDGE, fit_actionness
from densevid.timelines.clips import FOLDS, ClipCollection
from densevid.timelines.sources import ClipFeatures


@dataclass(frozen=True)
class HeldOut:
    """Logits that anything happens, of clips with captions and of quiet ones."""

    told_N: npt.NDArray[np.float64]
    quiet_M: npt.NDArray[np.float64]

    @property
    def rightly_ranked(self) -> float:
        """Of all pairs of a clip and a quiet one (the area under the ROC curve)."""
        more = self.told_N[:, None] > self.quiet_M
        return float(more.mean() + 0.5 * (self.told_N[:, None] == self.quiet_M).mean())

    @property
    def loss(self) -> float:
        """Cross-entropy in nats, either kind half of it."""
        return float(np.logaddexp(0, -self.told_N).mean() + np.logaddexp(0, self.quiet_M).mean()) / 2

    def line(self) -> str:
        """What a person reads."""
        missed, told = int((self.told_N < 0).sum()), int((self.quiet_M > 0).sum())
        return (
            f"{self.rightly_ranked:.4f} of pairs rightly ranked, cross-entropy {self.loss:.3f}, "
            f"{missed} of {len(self.told_N)} clips missed, {told} of {len(self.quiet_M)} quiet ones taken for more"
        )


def judge_folds(collection: ClipCollection, split: str, ridge: float) -> HeldOut:
    """Every clip of a split by a fit on the folds that it is not in."""
    logits: dict[bool, list[float]] = {True: [], False: []}
    for fold in range(FOLDS):
        learnt, judged = (ClipFeatures(collection, f"{split}-{part}{fold}") for part in ("but", "fold"))
        actionness = fit_actionness(learnt, learnt.annotations(), ridge)
        if actionness is None:
            raise InputError(f"{collection.folder}: every clip of {split}-but{fold} has captions; none is quiet")
        for video, events in judged.annotations().events.items():
            logits[bool(events)].append(float(actionness.of_steps(judged.track(video).values).mean()))
    if not (logits[True] and logits[False]):
        raise InputError(f"{collection.folder}: {split} needs clips with captions and quiet ones")
    return HeldOut(np.array(logits[True]), np.array(logits[False]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, judge, print a line a ridge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DATA")
    parser.add_argument("--split", default="train", metavar="NAME", help="whose fifths (train)")
    parser.add_argument("--ridge", type=float, nargs="+", default=[RIDGE], metavar="R", help=f"({RIDGE})")
    args = parser.parse_args(arguments)
    if wrong := [ridge for ridge in args.ridge if not 0 < ridge < np.inf]:
        raise InputError(f"--ridge must be above 0, got {wrong[0]}")
    features = args.data / "features"
    collection = ClipCollection.read(args.data, features=features if features.is_dir() else None)
    for ridge in args.ridge:
        print(f"ridge {ridge:g}: {judge_folds(collection, args.split, ridge).line()}", flush=True)
    return 0


if __name__ == "__main__":
    run_main(main)
