r"""Write the trivial baselines that every table shows, as event files that `densevid evaluate` scores.

Written to --out: whole_video.json, prior_grid.json and change_points.json (spans of their own, each with the sentence
of its nearest training event), segments_most_frequent.json and segments_nearest.json (the reference's own segments),
and frequent_whole_video.json. Deterministic, and without a trained model.

  python -m research.baselines.event_files --references val/references_1.json --features val/features \
      --train-references train/references_1.json --train-features train/features --out baselines
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from densevid.cli import run_program
from densevid.data.annotations import Annotations, read_annotations
from densevid.data.layouts import open_features
from densevid.data.sources import FeatureSource
from densevid.events import Event, write_events
from densevid.io import provenance
from densevid.timelines.plan import TimelinePlan
from research.baselines.captions import NearestNeighbour, described, most_frequent_sentence
from research.baselines.spans import PriorGrid, ScoredSpans, Spans, change_points, whole_video

EventLists = dict[str, list[Event]]
LOWEST_SCORE = 1e-6


def span_baselines(
    durations: Mapping[str, float], source: FeatureSource, grid: PriorGrid, count: int = 100
) -> dict[str, EventLists]:
    """The spans of every baseline for these videos, without sentences."""
    videos = [video for video in durations if video in source]
    return {
        "whole_video": {video: as_events(whole_video(durations[video])) for video in videos},
        "prior_grid": {video: as_events(grid.spans(durations[video]).top(count)) for video in videos},
        "change_points": {video: as_events(change_points(source.track(video), count=count)) for video in videos},
    }


def training_fractions(annotations: Annotations) -> Spans:
    """The spans of training events as fractions of their videos."""
    rows = [
        (event.start / seconds, event.end / seconds)
        for video, events in annotations.events.items()
        if (seconds := annotations.durations.get(video))
        for event in events
    ]
    return np.clip(np.array(rows, dtype=np.float64).reshape(-1, 2), 0, 1)


def training_fractions_of(plans: Iterable[TimelinePlan]) -> Spans:
    """Collect the spans of composed timelines, as fractions of their length."""
    rows = [(event.start / plan.ticks, event.end / plan.ticks) for plan in plans for event in plan.events]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def as_events(spans: ScoredSpans, sentence: str = "") -> list[Event]:
    """Spans as events; scores are brought into (0, 1], in the same order."""
    top, low = float(spans.score_N.max()), float(spans.score_N.min())
    score_N = (spans.score_N - low + LOWEST_SCORE) / (top - low + LOWEST_SCORE)
    pairs = zip(spans.spans_N2.tolist(), score_N.tolist(), strict=True)
    return [Event(start, end, sentence, score) for (start, end), score in pairs]


def write_baselines(
    references: Sequence[Path], source: FeatureSource, training: Annotations, training_source: FeatureSource, out: Path
) -> list[Path]:
    """Write every baseline's event file.

    Args:
        references: Annotation files; segments are of the first.
        source: The features of their videos.
        training: The training annotations.
        training_source: The features of their videos.
        out: The folder to write to.

    Returns:
        The paths, in order.
    """
    truth = read_annotations(references[:1])
    durations = {video: _seconds(truth, video, source) for video in truth.events if video in source}
    neighbour = NearestNeighbour.fit(training, training_source)
    frequent = most_frequent_sentence(training.sentences())
    grid = PriorGrid.fit(training_fractions(training))
    files = {
        name: described(lists, source, neighbour) for name, lists in span_baselines(durations, source, grid).items()
    }
    segments = {video: _once(truth.events[video]) for video in durations}
    files["segments_nearest"] = described(segments, source, neighbour)
    files["segments_most_frequent"] = {video: _with_sentence(frequent, events) for video, events in segments.items()}
    files["frequent_whole_video"] = {video: as_events(whole_video(durations[video]), frequent) for video in durations}
    about = provenance(inputs=references, command="baselines")
    for name, events in files.items():
        write_events(out / f"{name}.json", events, provenance={**about, "baseline": name})
    return [out / f"{name}.json" for name in files]


def _seconds(annotations: Annotations, video: str, source: FeatureSource) -> float:
    extent = source.extent(video)
    return annotations.durations.get(video) or extent.duration or float(extent.clock.seconds(extent.steps))


def _once(events: Iterable[Event]) -> list[Event]:
    """Each segment once, in order."""
    return list({(event.start, event.end): event for event in events}.values())


def _with_sentence(sentence: str, events: Iterable[Event]) -> list[Event]:
    return [Event(event.start, event.end, sentence, event.score) for event in events]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--references", nargs="+", required=True, type=Path, metavar="FILE")
    parser.add_argument("--features", required=True, metavar="STORE")
    parser.add_argument("--train-references", nargs="+", required=True, type=Path, metavar="FILE")
    parser.add_argument("--train-features", required=True, metavar="STORE")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")


def run(args: argparse.Namespace) -> int:
    """Write the files and print their paths."""
    training = read_annotations(args.train_references)
    sources = open_features(args.features), open_features(args.train_features)
    for path in write_baselines(args.references, sources[0], training, sources[1], args.out):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.baselines.event_files", __doc__, add_arguments, run))
