"""How much of what people say of a clip its features can tell: what limits a captioner, measured without one.

Of every clip the features are averaged, and for the words that people use most the share of them who use each is
foretold by ridge regression and by a Gaussian kernel, the two strongest readers that need no luck. A captioner that
draws many sentences foretells shares, too. Where it is as good as they are, better sentences need other features.

  python -m research.reports.word_limits CLIPS --learn train-fit --on train-dev [--model MODEL]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from densevid.data.vocabulary import tokenize
from densevid.timelines.clips import Clip, ClipCollection
from densevid.timelines.sources import ClipFeatures

if TYPE_CHECKING:
    from densevid.checkpoint import LoadedModel

Floats = npt.NDArray[np.float64]
WORDS = 400  # the most frequent in what is learnt from
OFTEN = 0.1  # a word counts for a clip in this choice if such a share of people use it
SAID = 0.3  # a clip is one of a word's if such a share of people use it
RIDGES = tuple(10.0**power for power in np.arange(-3.0, 2.1, 0.5))
NARROW = (0.5, 1.0, 2.0, 4.0)  # of kernels, in units of the vectors' length
FOLDS = 5
DRAWN = 80  # sentences of a captioner


@dataclass(frozen=True)
class Fit:
    """How well shares were foretold: explained variance, and mean average precision over words."""

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
        said = Counter(word for sentence in clip.captions for word in set(tokenize(sentence)))
        counts.update(word for word, count in said.items() if count >= OFTEN * len(clip.captions))
    return [word for word, _ in counts.most_common(WORDS)]


def judged(foretold_CW: Floats, truth_CW: Floats, usual_W: Floats) -> Fit:
    """Against the truth; the usual shares explain nothing."""
    explained = 1 - np.square(foretold_CW - truth_CW).sum() / np.square(truth_CW - usual_W).sum()
    said_CW = truth_CW >= SAID
    found = [_average_precision(foretold_CW[:, word], said_CW[:, word]) for word in np.flatnonzero(said_CW.sum(0) > 1)]
    return Fit(float(explained), float(np.mean(found)))


def _average_precision(score_C: Floats, said_C: npt.NDArray[np.bool_]) -> float:
    hit_C = said_C[np.argsort(-score_C, kind="stable")]
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
    """Shares of other clips from those of the learnt ones: kernel ridge regression around the mean, for each ridge."""
    usual_W, scale = share_CW.mean(0), np.trace(kernel_CC) / len(kernel_CC)
    value_E, vector_CE = np.linalg.eigh(kernel_CC)
    seen_DE, told_EW = kernel_DC @ vector_CE, vector_CE.T @ (share_CW - usual_W)
    return [seen_DE @ (told_EW / (value_E + ridge * scale)[:, None]) + usual_W for ridge in ridges]


def best_ridge(kernel_CC: Floats, share_CW: Floats) -> tuple[float, float]:
    """The error of held-out folds of what is learnt from, and the ridge that has the least of it."""
    fold_C, error_R = np.arange(len(share_CW)) % FOLDS, np.zeros(len(RIDGES))
    for fold in range(FOLDS):
        out_C, in_C = fold_C == fold, fold_C != fold
        kernels = kernel_CC[np.ix_(in_C, in_C)], kernel_CC[np.ix_(out_C, in_C)]
        error_R += [np.square(told - share_CW[out_C]).sum() for told in predict(*kernels, share_CW[in_C], RIDGES)]
    best = int(error_R.argmin())
    return float(error_R[best]), RIDGES[best]


def readers(mean_CF: Floats, mean_DF: Floats, share_CW: Floats) -> dict[str, Floats]:
    """What each reader foretells of the clips that are judged; its settings are chosen within what it learns from."""
    learnt_CF, asked_DF = (mean / np.linalg.norm(mean, axis=1, keepdims=True) for mean in (mean_CF, mean_DF))
    linear_CC = linear(learnt_CF, learnt_CF)
    ridge = best_ridge(linear_CC, share_CW)[1]
    choices = [(*best_ridge(gaussian(learnt_CF, learnt_CF, narrow), share_CW), narrow) for narrow in NARROW]
    _, soft, narrow = min(choices)
    kernels = gaussian(learnt_CF, learnt_CF, narrow), gaussian(asked_DF, learnt_CF, narrow)
    return {
        "ridge regression": predict(linear_CC, linear(asked_DF, learnt_CF), share_CW, [ridge])[0],
        "Gaussian kernel": predict(*kernels, share_CW, [soft])[0],
    }


def drawn_shares(loaded: LoadedModel, source: ClipFeatures, videos: Sequence[str], words: Sequence[str]) -> Floats:
    """The share of sentences, drawn from a captioner for each clip as a whole, that use a word."""
    import torch

    from densevid.training.rewards import sample_words

    place, model = {word: column for column, word in enumerate(words)}, loaded.model.eval()
    table_CW = np.zeros((len(videos), len(words)))
    torch.manual_seed(0)
    with torch.inference_mode():
        for row, video in enumerate(videos):
            values_TF = torch.from_numpy(np.asarray(source.track(video).values, dtype=np.float32))
            features_BTF = values_TF.expand(DRAWN, -1, -1).to(model.device)
            valid_BT = torch.ones(features_BTF.shape[:2], dtype=torch.bool, device=model.device)
            state = model.caption_decoder.begin(model.encode(features_BTF, valid_BT, padded=False).memory)
            for ids in sample_words(model, state, DRAWN, loaded.config.inference.max_words).tolist():
                used = {loaded.vocabulary.tokens[number] for number in ids}
                table_CW[row, [place[word] for word in used if word in place]] += 1 / DRAWN
    return table_CW


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each reader."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path, metavar="CLIPS")
    parser.add_argument("--learn", default="train-fit", help="split to learn from (train-fit)")
    parser.add_argument("--on", default="train-dev", help="split to foretell (train-dev)")
    parser.add_argument("--model", type=Path, help="a captioner to compare with")
    args = parser.parse_args(argv)
    collection = ClipCollection.read(args.clips)
    learnt, asked = (ClipFeatures(collection, split) for split in (args.learn, args.on))
    known = {clip.name: clip for clip in collection.clips}
    learnt_clips, asked_clips = ([known[video] for video in source.videos()] for source in (learnt, asked))
    words = frequent_words(learnt_clips)
    share_CW, truth_CW = share_table(learnt_clips, words), share_table(asked_clips, words)
    means = [
        np.stack([np.asarray(source.track(video).values, dtype=np.float64).mean(0) for video in source.videos()])
        for source in (learnt, asked)
    ]
    told = readers(means[0], means[1], share_CW)
    if args.model is not None:
        from densevid.checkpoint import load_model

        told["sentences drawn from the model"] = drawn_shares(load_model(args.model), asked, asked.videos(), words)
    print(f"{len(asked_clips)} clips of {args.on} from {len(learnt_clips)} of {args.learn}, {len(words)} words")
    for name, shares_CW in told.items():
        fit = judged(shares_CW, truth_CW, share_CW.mean(0))
        print(f"{name:32} explained {fit.explained:.3f}  mean average precision {fit.precision:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
