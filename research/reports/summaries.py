r"""Measure summaries on timelines composed from captioned clips: against the N best by score, and their calibration.

The confidence is fitted on timelines of --fit-split, everything else is measured on those of --split: F1 and SODA_c of
the summaries and of as many events of each video by score alone; the reliability of their confidence, with a picture;
and how many events of long videos remain when the windows over them lie elsewhere.

  python -m research.reports.summaries --model RUN/model --clips CLIPS --out report
  python -m research.reports.summaries --model RUN/model --clips CLIPS --split train-dev --fit-split train-fit \
      --set inference.summary_overlap=0.1 --out tried
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import load_model, model_files
from densevid.cli import run_program
from densevid.evaluation.evaluate import evaluate
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Reliability
from densevid.inference.fitting.calibration import fit_calibration, right_steps
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.nms import Selection
from densevid.inference.summary import SummaryRules
from densevid.intervals import temporal_iou
from densevid.io import atomic_path, provenance, require_writable, write_json
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import Timeline, TimelineGenerator
from densevid.tracks import FeatureTrack
from research.baselines.spans import ScoredSpans, top_n_f1
from research.bundled_model.scores import submission

ANNOTATORS = 5
STAYS_IOU = 0.8
Predictions = list[list[Event]]


@dataclass(frozen=True)
class Timelines:
    """Composed videos, their true events, and these as an evaluator's reference files."""

    videos: list[Timeline]

    @classmethod
    def of(cls, collection: ClipCollection, split: str, count: int) -> Timelines:
        """The first timelines of a split."""
        generator = TimelineGenerator(collection, split, seed=0)
        return cls([generator.video(index) for index in range(count)])

    @property
    def tracks(self) -> dict[str, FeatureTrack]:
        """Tracks by video."""
        return {each.video: each.track for each in self.videos}

    @property
    def truth(self) -> dict[str, list[Event]]:
        """Events by video, each once."""
        return {each.video: [Event(*each.plan.span(event), "") for event in each.plan.events] for each in self.videos}

    def references(self) -> list[dict[str, Any]]:
        """One reference file for each annotator."""
        return [{each.video: _entry(each, number) for each in self.videos} for number in range(ANNOTATORS)]


def _entry(timeline: Timeline, annotator: int) -> dict[str, Any]:
    captioned = [event for event in timeline.plan.events if len(event.sentences) > annotator]
    return {
        "duration": timeline.plan.seconds,
        "timestamps": [list(timeline.plan.span(event)) for event in captioned],
        "sentences": [event.sentences[annotator] for event in captioned],
    }


def best_by_score(captioner: Captioner, tracks: Sequence[FeatureTrack], counts: Sequence[int]) -> Predictions:
    """So many events of each video, by score alone, after non-maximum suppression."""
    left = iter(counts)

    def first(selection: Selection) -> Selection:
        own_B1 = torch.tensor([next(left) for _ in selection.kept_BK], device=selection.kept_BK.device)[:, None]
        return replace(selection, kept_BK=selection.kept_BK & (selection.kept_BK.cumsum(dim=1) <= own_B1))

    return list(captioner.caption_many(tracks, choose=first))


def scores(predictions: Predictions, timelines: Timelines) -> dict[str, float]:
    """F1 over the tIoUs from .5 to .95, and SODA_c (the best annotator's), in percent."""
    truth = [np.array([[event.start, event.end] for event in events]) for events in timelines.truth.values()]
    spans = [_spans(events) for events in predictions]
    pairs = zip(timelines.videos, predictions, strict=True)
    by_video = {each.video: events for each, events in pairs}
    result = evaluate(submission(by_video), timelines.references(), metrics=("soda",))
    assert result.soda is not None
    return {
        "events a video": sum(map(len, predictions)) / len(predictions),
        "F1": 100 * top_n_f1(spans, truth, max(map(len, predictions))),
        "SODA_c": 100 * result.soda.tables["c"]["multi"].means()["f1"],
    }


def _spans(events: Sequence[Event]) -> ScoredSpans:
    spans_N2 = np.array([[event.start, event.end] for event in events]).reshape(-1, 2)
    return ScoredSpans(spans_N2, np.array([event.score for event in events]))


def reliability(predictions: Predictions, timelines: Timelines) -> Reliability:
    """The confidence of all events against whether they are right."""
    right = [
        right_steps(torch.from_numpy(track.clock.steps(_spans(events).spans_N2)), track, truth).numpy()
        for events, track, truth in zip(predictions, timelines.tracks.values(), timelines.truth.values(), strict=True)
    ]
    return Reliability.of([event.score for events in predictions for event in events], np.concatenate(right))


def draw(path: Path, curves: Mapping[str, Reliability]) -> None:
    """Draw accuracy over confidence, a dot for each bin, its size the number of events in it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.5, 4.5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    for name, curve in curves.items():
        some = curve.events_K > 0
        size = 300 * curve.events_K[some] / curve.events_K.max(initial=1)
        label = f"{name} (ECE {curve.expected_error:.3f})"
        (line,) = axes.plot(curve.confidence_K[some], curve.right_K[some], label=label)
        axes.scatter(curve.confidence_K[some], curve.right_K[some], s=size, color=line.get_color(), alpha=0.5)
    axes.set(xlabel="confidence", ylabel="share that is right (IoU 0.5)", xlim=(0, 1), ylim=(0, 1))
    axes.legend()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
    pyplot.close(figure)


def stability(captioner: LongVideoCaptioner, timelines: Timelines, minutes: float, most: int) -> dict[str, float]:
    """How many events of long videos remain when their first quarter of a window is cut off.

    Args:
        captioner: Reads whole videos by windows.
        timelines: They are joined to long videos.
        minutes: The length of these.
        most: How many of them at most.

    Returns:
        Hours, events after the cut, and the percentage of them that remain.
    """
    cut, stayed, events = captioner.window // 4, 0, 0
    long_tracks = _long_tracks(timelines, minutes, most)
    for track in long_tracks:
        later = FeatureTrack(track.values[cut:], track.clock, track.streams, track.recipe)
        whole, rest = (_steps(captioner, each) for each in (track, later))
        whole = whole[whole[:, 0] >= cut] - cut
        stayed += int((temporal_iou(whole, rest) >= STAYS_IOU).any(dim=1).sum())
        events += len(whole)
    hours = sum(float(track.seconds(len(track))) for track in long_tracks) / 3600
    return {"hours": hours, "events": events, "stay": 100 * stayed / max(events, 1)}


def _long_tracks(timelines: Timelines, minutes: float, most: int) -> list[FeatureTrack]:
    """Timelines one after another, as videos of so many minutes."""
    first = timelines.videos[0].track
    values_TF = np.concatenate([each.track.values for each in timelines.videos])
    size = int(first.clock.steps(60 * minutes))
    pieces = [values_TF[begin : begin + size] for begin in range(0, len(values_TF), size)][:most]
    return [FeatureTrack(piece, first.clock, first.streams, first.recipe) for piece in pieces]


def _steps(captioner: LongVideoCaptioner, track: FeatureTrack) -> Tensor:
    (events,) = captioner.caption_many([track])
    return torch.from_numpy(track.clock.steps(_spans(events).spans_N2))


def measure(arguments: argparse.Namespace, report: Callable[[str], None] = print) -> dict[str, Any]:
    """Measure everything; return the figures as they are written."""
    loaded = load_model(arguments.model)
    config = loaded.config.with_settings([*arguments.set, "inference.read=first-window"])
    everything = config.with_settings(["inference.read=all"])
    captioner, long_captioner = (
        Captioner(replace(loaded, config=each), device=arguments.device) for each in (config, everything)
    )
    collection = ClipCollection.read(arguments.clips)
    fitting, test = (
        Timelines.of(collection, split, arguments.videos) for split in (arguments.fit_split, arguments.split)
    )
    calibration = fit_calibration(captioner, fitting.tracks, fitting.truth)
    rules = SummaryRules.of(config.inference, config.model.window)
    summarizer, long_summarizer = (
        LongVideoCaptioner(each, summary=rules, calibration=calibration) for each in (captioner, long_captioner)
    )
    figures = {"calibration": calibration.as_table(), **summary_scores(summarizer, test, arguments.out, report)}
    figures["long videos"] = stability(long_summarizer, test, arguments.long_minutes, arguments.long_videos)
    report("long videos: " + _line(figures["long videos"]))
    return figures


def summary_scores(
    summarizer: LongVideoCaptioner, test: Timelines, out: Path, report: Callable[[str], None]
) -> dict[str, Any]:
    """Summaries against the same number of events by score alone, and how reliable their confidence is."""
    tracks = list(test.tracks.values())
    summaries = list(summarizer.caption_many(tracks))
    by_score = best_by_score(summarizer.captioner, tracks, [len(events) for events in summaries])
    figures: dict[str, Any] = {}
    for name, events in (("summary", summaries), ("best by score", by_score)):
        figures[name] = scores(events, test)
        report(f"{name}: {_line(figures[name])}")
    curves = {"confidence": reliability(summaries, test), "score as it is": reliability(by_score, test)}
    for name, curve in curves.items():
        figures[f"expected calibration error of the {name}"] = curve.expected_error
        report(f"expected calibration error of the {name}: {curve.expected_error:.3f}")
    draw(out / "reliability.png", curves)
    return figures


def _line(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in figures.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL_DIR", help="a trained model")
    parser.add_argument("--clips", type=Path, required=True, metavar="CLIPS", help="a collection of captioned clips")
    parser.add_argument("--fit-split", default="train-dev", metavar="SPLIT", help="fits the confidence (train-dev)")
    parser.add_argument("--split", default="val", metavar="SPLIT", help="everything is measured on it (val)")
    parser.add_argument("--videos", type=int, default=200, metavar="N", help="timelines of each (200)")
    parser.add_argument("--long-minutes", type=float, default=60, metavar="M", help="length of the long videos (60)")
    parser.add_argument("--long-videos", type=int, default=4, metavar="N", help="how many of them at most (4)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change an inference setting")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="figures.json and reliability.png")


def run(args: argparse.Namespace) -> int:
    """Measure and write."""
    require_writable(args.out / "figures.json")
    figures = measure(args)
    block = provenance(inputs=[*model_files(args.model), args.clips / "clips.json"])
    write_json(args.out / "figures.json", {**figures, "provenance": block})
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.reports.summaries", __doc__, add_arguments, run))
