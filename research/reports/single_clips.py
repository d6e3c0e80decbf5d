"""Score captions of single clips, over several runs, beside the trivial baselines, as a Markdown table.

"predicted, of another clip" gives every clip the sentence of another one, by a random cycle: what is right then is
right without looking. The others are the nearest training clip's sentence and the most frequent training sentence.

  densevid timelines CLIPS --split val --single --out SINGLE
  densevid predict --model RUN/model --features SINGLE/features --segments SINGLE/references_1.json --out 0.json
  python -m research.reports.single_clips CLIPS 0.json [1.json 2.json] --split val --learn train-fit
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

from densevid.cli import run_program
from densevid.errors import InputError
from densevid.events import Event, read_events
from densevid.timelines.clips import ClipCollection
from densevid.timelines.sources import ClipFeatures
from research.baselines.captions import NearestNeighbour, described, most_frequent_sentence
from research.baselines.shuffled_features import derangement
from research.bundled_model.scores import Predictions, clip_references, segment_scores

METRICS = ("METEOR", "CIDEr")


def of_another_clip(predictions: Predictions, seed: int = 0) -> Predictions:
    """Every clip with the sentence of another, in one random cycle."""
    others = derangement(sorted(predictions), seed)
    return {
        video: [replace(predictions[video][0], sentence=predictions[other][0].sentence)]
        for video, other in others.items()
    }


def single_clip_table(
    collection: ClipCollection, predicted: Sequence[Predictions], split: str, learn: str
) -> dict[str, list[Mapping[str, float]]]:
    """Score runs and baselines.

    Args:
        collection: The clips.
        predicted: One sentence for each clip, by run.
        split: The split that was predicted.
        learn: The split that the baselines are fitted on.

    Returns:
        Scores by row, one for each run, or one where runs do not differ.

    Raises:
        InputError: A run has no sentence, or several, for a clip.
    """
    source, training = ClipFeatures(collection, split), ClipFeatures(collection, learn)
    videos = source.videos()
    for number, run_events in enumerate(predicted):
        missing = [video for video in videos if len(run_events.get(video, [])) != 1]
        if missing:
            raise InputError(f"prediction file {number + 1}: {missing[0]} needs exactly one sentence")
    spans = {video: (0.0, source.extent(video).duration or 1.0) for video in videos}
    references = clip_references(collection, spans)
    known = training.annotations()
    frequent = most_frequent_sentence(known.sentences())
    whole: Predictions = {video: [Event(*span, frequent)] for video, span in spans.items()}
    runs = [{video: [Event(*spans[video], own[video][0].sentence)] for video in videos} for own in predicted]
    rows = {
        "predicted": runs,
        "predicted, of another clip": [of_another_clip(own) for own in runs],
        "nearest training clip": [described(whole, source, NearestNeighbour.fit(known, training))],
        "most frequent sentence": [whole],
    }
    return {name: [segment_scores(own, references) for own in row] for name, row in rows.items()}


def markdown(table: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Mean and standard deviation over runs."""
    lines = [f"| | {' | '.join(METRICS)} |", f"|---|{'---|' * len(METRICS)}"]
    for name, row in table.items():
        cells = [_cell([scores[metric] for scores in row]) for metric in METRICS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    return f"{fmean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("clips", type=Path, metavar="CLIPS")
    parser.add_argument("predictions", type=Path, nargs="+", metavar="PREDICTIONS", help="one file for each run")
    parser.add_argument("--features", type=Path, metavar="STORE", help="features that were extracted from the clips")
    parser.add_argument("--split", default="val", help="split that was predicted (val)")
    parser.add_argument("--learn", default="train-fit", help="split that baselines are fitted on (train-fit)")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    collection = ClipCollection.read(args.clips, features=args.features)
    predicted = [read_events(path) for path in args.predictions]
    print(markdown(single_clip_table(collection, predicted, args.split, args.learn)))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.reports.single_clips", __doc__, add_arguments, run))
