r"""Count habits of annotators (speech-like sentences, "video game"), and whether they follow what is seen.

A sentence of habit is harmless if it follows the evidence. Two tests: how many annotators of the same clip use it, and
how well a ridge regression on the clip's mean features predicts, for clips of held-out sources, whether several use it
(area under the ROC curve; .5 is chance). Collections are folders with clips.json, and features.npy for the second
test; uint8 features are decoded with the peak.npy beside the folder.

  python -m research.reports.caption_habits --captions CAPTIONED/coco CAPTIONED/msrvtt_frames CLIPS/msrvtt
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from densevid.cli import run_program
from densevid.errors import InputError
from densevid.evaluation.files import Booleans, Floats, Integers
from densevid.io import read_json
from densevid.timelines.clips import FOLDS, is_in_split

HABITS = {
    "speech-like": r"talk\w*|sp(?:eak|oke|eech)\w*|explain\w*|discuss\w*|descri\w+|narrat\w*|interview\w*|lectur\w*|"
    r"conversation\w*|s(?:ay|aid)\w*|t(?:ell|old)\w*|comment(?:ing|s|ed|ator)\w*|report(?:ing|s|ed|er)\w*|"
    r"present(?:ing|s|ed)",
    "video game": r"video ?games?",
    "on stage": r"on (?:a |the )?stage",
    "sing": r"sing(?:s|ing|er|ers)?|song\w*",
    "cook": r"cook(?:s|ing|ed)?",
}
AGREEMENT = ((1, 1), (2, 4), (5, 9), (10, 10**6))
SEVERAL_SHARE = 0.25  # of a clip's annotators, at least 2: the habit counts as a property of the clip
FEWEST_CLIPS = 30  # with the habit, and without: fewer give no useful AUC
ANNOTATORS_FOR_AGREEMENT = 10
RIDGE = 1.0  # times the number of clips: as much as the mean eigenvalue of standardized features; not tuned


@dataclass(frozen=True)
class Captions:
    """The clips of a split: their sentences, one an annotator, and their mean features if there are any."""

    name: str
    clips: list[str]
    sentences: list[list[str]]
    fold_N: Integers
    mean_NF: Floats | None

    @classmethod
    def read(cls, folder: Path, split: str = "train") -> Captions:
        """Read the clips of a split.

        Raises:
            InputError: There is no such split.
        """
        content = read_json(folder / "clips.json")
        entries = {name: entry for name, entry in content.items() if is_in_split(name, entry, split)}
        if not entries:
            raise InputError(f"{folder}: there is no clip in split {split!r}")
        folds = [_fold(name, entry) for name, entry in entries.items()]
        sentences = [entry["captions"] for entry in entries.values()]
        mean_NF = _mean_features(folder, list(entries.values())) if (folder / "features.npy").exists() else None
        return cls(folder.name, list(entries), sentences, np.array(folds), mean_NF)


def users(captions: Captions, pattern: str) -> Integers:
    """For each clip the number of annotators with a match."""
    wanted = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    return np.array([sum(wanted.search(text) is not None for text in texts) for texts in captions.sentences])


def auc(score_N: Floats, positive_N: Booleans) -> float:
    """Area under the ROC curve: the share of pairs in the right order, equal ones half."""
    values, place_N = np.unique(score_N, return_inverse=True)
    count = np.bincount(place_N, minlength=len(values))
    rank_N = (np.cumsum(count) - (count - 1) / 2)[place_N]
    positives = int(positive_N.sum())
    negatives = len(positive_N) - positives
    return float((rank_N[positive_N].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def held_out_scores(mean_NF: Floats, target_N: Floats, fold_N: Integers) -> Floats:
    """A ridge regression's prediction for each clip, fitted on the clips of other folds; sources are never divided."""
    score_N = np.zeros(len(target_N))
    for fold in range(FOLDS):
        held_N = fold_N == fold
        learn_NF, learn_N = mean_NF[~held_N], target_N[~held_N]
        center_F, scale_F = learn_NF.mean(axis=0), learn_NF.std(axis=0) + 1e-6
        x_NF = (learn_NF - center_F) / scale_F
        penalized_FF = x_NF.T @ x_NF + RIDGE * len(x_NF) * np.eye(x_NF.shape[1])
        weight_F = np.linalg.solve(penalized_FF, x_NF.T @ (learn_N - learn_N.mean()))
        score_N[held_N] = (mean_NF[held_N] - center_F) / scale_F @ weight_F + learn_N.mean()
    return score_N


def shares_table(collections: Sequence[Captions], habits: Mapping[str, str]) -> str:
    """The share of sentences with each habit."""
    lines = [f"| training sentences | clips | sentences | {' | '.join(habits)} |", "|---" * (3 + len(habits)) + "|"]
    for captions in collections:
        total = sum(map(len, captions.sentences))
        shares = [f"{users(captions, pattern).sum() / total:.1%}" for pattern in habits.values()]
        lines.append(f"| {captions.name} | {len(captions.clips):,} | {total:,} | {' | '.join(shares)} |")
    return "\n".join(lines)


def agreement_table(collections: Sequence[Captions], habits: Mapping[str, str]) -> str:
    """Of the clips with the habit, how many annotators have it; and what share of such sentences is alone."""
    columns = ["1", "2 to 4", "5 to 9", "10 or more"]
    lines = [f"| clips by annotators | clips with any | {' | '.join(columns)} | alone |", "|---" * 7 + "|"]
    for captions in collections:
        if np.median([len(texts) for texts in captions.sentences]) < ANNOTATORS_FOR_AGREEMENT:
            continue
        for name, pattern in habits.items():
            count_N = users(captions, pattern)
            some = int((count_N > 0).sum())
            cells = [f"{((count_N >= low) & (count_N <= high)).sum() / max(some, 1):.0%}" for low, high in AGREEMENT]
            alone = (count_N == 1).sum() / max(count_N.sum(), 1)
            row = f"| {captions.name}, {name} | {some / len(count_N):.0%} | {' | '.join(cells)} | {alone:.0%} |"
            lines.append(row)
    return "\n".join(lines)


def evidence_table(collections: Sequence[Captions], habits: Mapping[str, str]) -> str:
    """How well features predict, on held-out sources, that several annotators of a clip have the habit."""
    lines = ["| held-out sources | clips with the habit | AUC |", "|---|---|---|"]
    for captions in collections:
        if captions.mean_NF is None:
            continue
        annotators_N = np.array([len(texts) for texts in captions.sentences])
        for name, pattern in habits.items():
            count_N = users(captions, pattern)
            several_N = count_N >= np.maximum(2, SEVERAL_SHARE * annotators_N)
            if min(several_N.sum(), (~several_N).sum()) < FEWEST_CLIPS:
                continue
            scores = held_out_scores(captions.mean_NF, count_N / np.maximum(annotators_N, 1), captions.fold_N)
            lines.append(f"| {captions.name}, {name} | {several_N.mean():.1%} | {auc(scores, several_N):.2f} |")
    return "\n".join(lines)


def _fold(name: str, entry: Mapping[str, Any]) -> int:
    split = entry["split"]
    return next(fold for fold in range(FOLDS) if is_in_split(name, entry, f"{split}-fold{fold}"))


def _mean_features(folder: Path, entries: Sequence[Mapping[str, Any]]) -> Floats:
    rows_RF = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
    peak_F = np.load(folder.parent / "peak.npy", allow_pickle=False) if rows_RF.dtype == np.uint8 else None
    means = []
    for entry in entries:
        own_TF = np.asarray(rows_RF[entry["first_row"] : entry["first_row"] + entry["rows"]], dtype=np.float64)
        means.append((own_TF if peak_F is None else peak_F * (own_TF / 255) ** 2).mean(axis=0))
    return np.array(means)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--captions", nargs="+", type=Path, required=True, metavar="FOLDER", help="clip collections")
    parser.add_argument("--split", default="train", help="the split to count (train)")


def run(args: argparse.Namespace) -> int:
    """Print the tables."""
    collections = [Captions.read(folder, args.split) for folder in args.captions]
    print(shares_table(collections, HABITS), agreement_table(collections, HABITS), sep="\n\n", end="\n\n")
    print(evidence_table(collections, HABITS))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.reports.caption_habits", __doc__, add_arguments, run))
