"""How well features predict the words of captions: what limits a captioner, measured without one.

The features of a clip are averaged, and for the most frequent words the share of annotators who use each is predicted
by ridge regression and by a Gaussian kernel, two strong and deterministic predictors. A captioner that samples many
sentences predicts shares, too. Where it is as good as they are, better sentences need other features.

  python -m research.reports.word_limits CLIPS --learn train-fit --on train-dev [--model MODEL]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from densevid.cli import run_program
from densevid.data.vocabulary import tokenize
from densevid.timelines.clips import Clip, ClipCollection
from densevid.timelines.sources import ClipFeatures

if TYPE_CHECKING:
    from densevid.checkpoint import LoadedModel

Floats = npt.NDArray[np.float64]
WORDS = 400  # the most frequent in the training clips
OFTEN = 0.1  # a word counts for a clip in this choice if such a share of annotators use it
POSITIVE = 0.3  # a clip is a positive example of a word if such a share of annotators use it
RIDGES = tuple(10.0**power for power in np.arange(-3.0, 2.1, 0.5))
NARROW = (0.5, 1.0, 2.0, 4.0)  # of kernels, in units of the vectors' length
FOLDS = 5
SAMPLES = 80  # sentences of a captioner


@dataclass(frozen=True)
class Fit:
    """How well shares were predicted: explained variance, and mean average precision over words."""

    explained: float
    precision: float


def share_table(clips: Sequence[Clip], words: Sequence[str]) -> Floats:
    """The share of a clip's sentences that use a word, clips x words."""
    place = {word: column for column, word in enumerate(words)}
    table_CW = np.zeros((len(clips), len(words)))
    for row, clip in enumerate(clips):
        for sentence in clip.captions:
            used = [place[word] for word in set(tokenize(sentence)) if word in place]
            table_CW[row, used] += 1 / len(clip.captions)
    return table_CW


def frequent_words(clips: Sequence[Clip]) -> list[str]:
    """The words that belong to the most clips."""
    counts: Counter[str] = Counter()
    for clip in clips:
        used = Counter(word for sentence in clip.captions for word in set(tokenize(sentence)))
        counts.update(word for word, count in used.items() if count >= OFTEN * len(clip.captions))
    return [word for word, _ in counts.most_common(WORDS)]


def fit_of(predicted_CW: Floats, truth_CW: Floats, mean_W: Floats) -> Fit:
    """Compare predicted shares with the truth; the mean shares of the training clips explain nothing."""
    explained = 1 - np.square(predicted_CW - truth_CW).sum() / np.square(truth_CW - mean_W).sum()
    positive_CW = truth_CW >= POSITIVE
    words = np.flatnonzero(positive_CW.sum(0) > 1)
    found = [_average_precision(predicted_CW[:, word], positive_CW[:, word]) for word in words]
    return Fit(float(explained), float(np.mean(found)))


def _average_precision(score_C: Floats, positive_C: npt.NDArray[np.bool_]) -> float:
    hit_C = positive_C[np.argsort(-score_C, kind="stable")]
    return float((np.cumsum(hit_C) / np.arange(1, len(hit_C) + 1))[hit_C].mean())


def linear(first_CF: Floats, second_DF: Floats) -> Floats:
    """The kernel of ridge regression."""
    return first_CF @ second_DF.T


def gaussian(first_CF: Floats, second_DF: Floats, narrow: float) -> Floats:
    """exp(-narrow |x - y|^2)."""
    square_CD = np.square(first_CF).sum(1)[:, None] + np.square(second_DF).sum(1) - 2 * first_CF @ second_DF.T
    kernel: Floats = np.exp(-narrow * np.maximum(square_CD, 0))
    return kernel


def predict(kernel_CC: Floats, kernel_DC: Floats, share_CW: Floats, ridges: Sequence[float]) -> list[Floats]:
    """Kernel ridge regression around the mean.

    Args:
        kernel_CC: The kernel among the training clips.
        kernel_DC: The kernel of other clips with them.
        share_CW: The shares of the training clips.
        ridges: The strengths of the regularization.

    Returns:
        The shares of the other clips, for each ridge.
    """
    mean_W, scale = share_CW.mean(0), np.trace(kernel_CC) / len(kernel_CC)
    value_E, vector_CE = np.linalg.eigh(kernel_CC)
    basis_DE, target_EW = kernel_DC @ vector_CE, vector_CE.T @ (share_CW - mean_W)
    return [basis_DE @ (target_EW / (value_E + ridge * scale)[:, None]) + mean_W for ridge in ridges]


def best_ridge(kernel_CC: Floats, share_CW: Floats) -> tuple[float, float]:
    """The least error on held-out folds of the training clips, and its ridge."""
    fold_C, error_R = np.arange(len(share_CW)) % FOLDS, np.zeros(len(RIDGES))
    for fold in range(FOLDS):
        out_C, in_C = fold_C == fold, fold_C != fold
        kernels = kernel_CC[np.ix_(in_C, in_C)], kernel_CC[np.ix_(out_C, in_C)]
        error_R += [
            np.square(predicted - share_CW[out_C]).sum() for predicted in predict(*kernels, share_CW[in_C], RIDGES)
        ]
    best = int(error_R.argmin())
    return float(error_R[best]), RIDGES[best]


def predictors(mean_CF: Floats, mean_DF: Floats, share_CW: Floats) -> dict[str, Floats]:
    """The shares that each predictor gives the test clips (D); its settings are chosen on the training clips (C)."""
    train_CF, test_DF = (mean / np.linalg.norm(mean, axis=1, keepdims=True) for mean in (mean_CF, mean_DF))
    linear_CC = linear(train_CF, train_CF)
    ridge = best_ridge(linear_CC, share_CW)[1]
    choices = [(*best_ridge(gaussian(train_CF, train_CF, narrow), share_CW), narrow) for narrow in NARROW]
    _, soft, narrow = min(choices)
    kernels = gaussian(train_CF, train_CF, narrow), gaussian(test_DF, train_CF, narrow)
    return {
        "ridge regression": predict(linear_CC, linear(test_DF, train_CF), share_CW, [ridge])[0],
        "Gaussian kernel": predict(*kernels, share_CW, [soft])[0],
    }


def sampled_shares(loaded: LoadedModel, source: ClipFeatures, videos: Sequence[str], words: Sequence[str]) -> Floats:
    """The share of sentences, sampled from a captioner for each whole clip, that use a word."""
    import torch

    from densevid.data.vocabulary import INIT
    from densevid.training.rewards import sample_words

    place, model = {word: column for column, word in enumerate(words)}, loaded.model.eval()
    table_CW = np.zeros((len(videos), len(words)))
    torch.manual_seed(0)
    with torch.inference_mode():
        for row, video in enumerate(videos):
            values_TF = torch.from_numpy(np.asarray(source.track(video).values, dtype=np.float32))
            features_BTF = values_TF.expand(SAMPLES, -1, -1).to(model.device)
            valid_BT = torch.ones(features_BTF.shape[:2], dtype=torch.bool, device=model.device)
            state = model.caption_decoder.begin(model.encode(features_BTF, valid_BT, padded=False).memory)
            starts_N = torch.full((SAMPLES,), INIT, device=model.device)
            for ids in sample_words(model, state, starts_N, loaded.config.inference.max_words).tolist():
                used = {loaded.vocabulary.tokens[number] for number in ids}
                table_CW[row, [place[word] for word in used if word in place]] += 1 / SAMPLES
    return table_CW


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("clips", type=Path, metavar="CLIPS")
    parser.add_argument("--learn", default="train-fit", help="split to train on (train-fit)")
    parser.add_argument("--on", default="train-dev", help="split to predict (train-dev)")
    parser.add_argument("--model", type=Path, help="a captioner to compare with")


def run(args: argparse.Namespace) -> int:
    """Print a line for each predictor."""
    collection = ClipCollection.read(args.clips)
    training, test = (ClipFeatures(collection, split) for split in (args.learn, args.on))
    known = {clip.name: clip for clip in collection.clips}
    training_clips, test_clips = ([known[video] for video in source.videos()] for source in (training, test))
    words = frequent_words(training_clips)
    share_CW, truth_DW = share_table(training_clips, words), share_table(test_clips, words)
    mean_CF, mean_DF = (
        np.stack([np.asarray(source.track(video).values, dtype=np.float64).mean(0) for video in source.videos()])
        for source in (training, test)
    )
    predicted = predictors(mean_CF, mean_DF, share_CW)
    if args.model is not None:
        from densevid.checkpoint import load_model

        sampled = sampled_shares(load_model(args.model), test, test.videos(), words)
        predicted["sentences sampled from the model"] = sampled
    print(f"{len(test_clips)} clips of {args.on} from {len(training_clips)} of {args.learn}, {len(words)} words")
    for name, shares_DW in predicted.items():
        fit = fit_of(shares_DW, truth_DW, share_CW.mean(0))
        print(f"{name:32} explained {fit.explained:.3f}  mean average precision {fit.precision:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.reports.word_limits", __doc__, add_arguments, run))
