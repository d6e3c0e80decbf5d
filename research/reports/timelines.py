"""Describe composed timelines: whether a single step reveals a border, how events lie, what trivial baselines find.

Prints the figures of docs/timelines.md.

  python -m research.reports.timelines CLIPS --train train --split val [--layouts ACTIVITYNET_TRAIN.json]
  python -m research.reports.timelines CLIPS --features STORE --train train-fit --split train-dev
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densevid.cli import run_program
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import Timeline, TimelineGenerator
from densevid.timelines.export import near_duplicates
from densevid.timelines.layouts import MOST_SHOTS, LayoutTable, covered
from densevid.timelines.plan import TimelinePlan
from densevid.tracks import FloatArray
from research.baselines.event_files import training_fractions_of
from research.baselines.spans import (
    PriorGrid,
    ScoredSpans,
    Spans,
    average_recall,
    change_points,
    top_n_f1,
    whole_video,
)

Bools = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
ALLOWED = (1, 10, 50, 100)


def labelled_steps(timelines: Sequence[Timeline]) -> tuple[FloatArray, Bools]:
    """All steps, with their norm as one more feature, and which of them are the first of an event."""
    values_NF = np.concatenate([timeline.track.values.astype(np.float32) for timeline in timelines])
    first = [np.isin(np.arange(len(t.track)), [event.start for event in t.plan.events]) for t in timelines]
    return np.concatenate([values_NF, np.linalg.norm(values_NF, axis=1, keepdims=True)], axis=1), np.concatenate(first)


def linear_probe(values_NF: FloatArray, first_N: Bools, ridge: float = 1.0) -> FloatArray:
    """The direction that separates two classes with one covariance best (Fisher), slightly regularized."""
    centred_NF = values_NF - values_NF.mean(axis=0)
    scale_F = centred_NF.std(axis=0)
    centred_NF = centred_NF / scale_F
    covariance_FF = centred_NF.T @ centred_NF / len(centred_NF) + ridge * np.eye(len(scale_F))
    between_F = centred_NF[first_N].mean(axis=0) - centred_NF[~first_N].mean(axis=0)
    return np.asarray(np.linalg.solve(covariance_FF, between_F) / scale_F)


def area_under_curve(score_N: FloatArray, first_N: Bools) -> float:
    """The chance that a first step scores higher than another."""
    rank_N = np.empty(len(score_N))
    rank_N[np.argsort(score_N, kind="stable")] = np.arange(1, len(score_N) + 1)
    positives = int(first_N.sum())
    return float((rank_N[first_N].sum() - positives * (positives + 1) / 2) / (positives * (len(rank_N) - positives)))


def distance(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Kolmogorov and Smirnov's: the largest difference of two cumulative distributions."""
    a, b = np.sort(np.asarray(first, dtype=float)), np.sort(np.asarray(second, dtype=float))
    at = np.concatenate([a, b])
    return float(abs(np.searchsorted(a, at, "right") / len(a) - np.searchsorted(b, at, "right") / len(b)).max())


def layout_figures(seconds_V: npt.ArrayLike, spans_V: Sequence[Spans]) -> dict[str, FloatArray]:
    """What a set of layouts looks like; spans are fractions."""
    together = [_depths(spans_E2) for spans_E2 in spans_V]
    length_V = [np.diff(spans_E2)[:, 0] for spans_E2 in spans_V]
    seconds = np.asarray(seconds_V, dtype=float)
    return {
        "events a video": np.array([float(len(spans_E2)) for spans_E2 in spans_V]),
        "length of an event / video": np.concatenate(length_V),
        "start of an event / video": np.concatenate([spans_E2[:, 0] for spans_E2 in spans_V]),
        "seconds of an event": np.concatenate([d * length for d, length in zip(seconds, length_V, strict=True)]),
        "seconds of a video": seconds,
        "share of a video with an event": np.array([share for share, _ in together]),
        "videos in which events overlap": np.array([shared > 0.01 for _, shared in together], dtype=float),
    }


def _depths(spans_E2: Spans) -> tuple[float, float]:
    """How much of a video shows an event, and how much shows two or more."""
    edges = np.unique(np.concatenate([[0.0, 1.0], spans_E2.ravel()]))
    depth_G = covered(spans_E2, edges).sum(axis=0)
    return float((depth_G > 0) @ np.diff(edges)), float((depth_G > 1) @ np.diff(edges))


def dissolve_rates(plans: Sequence[TimelinePlan]) -> tuple[float, float]:
    """The share of the joints that are dissolves: where an event begins or ends, and inside events."""
    at_border, inside = [], []
    for plan in plans:
        joint_J, soft = np.array(plan.starts[1:-1], dtype=np.int64), [dissolve.shot for dissolve in plan.dissolves]
        soft_J = np.isin(np.arange(1, len(plan.shots)), soft)
        spans_E2 = np.array([(event.start, event.end) for event in plan.events])
        border_J = np.isin(joint_J, spans_E2)
        inside_J = ((spans_E2[:, :1] < joint_J) & (joint_J < spans_E2[:, 1:])).any(axis=0) & ~border_J
        at_border.append(soft_J[border_J])
        inside.append(soft_J[inside_J])
    return float(np.concatenate(at_border).mean()), float(np.concatenate(inside).mean())


def shots_of_events(plans: Sequence[TimelinePlan]) -> tuple[Counts, Counts]:
    """Of all events: the shots in the whole span, and those while no other event is there (0: never alone)."""
    whole, alone = [], []
    for plan in plans:
        shot_T = np.repeat(np.arange(len(plan.shots)), [shot.ticks for shot in plan.shots])
        inside_ET = covered(np.array([(event.start, event.end) for event in plan.events]), np.arange(plan.ticks + 1))
        alone_ET = inside_ET & (inside_ET.sum(axis=0) == 1)
        whole += [len(np.unique(shot_T[inside_T])) for inside_T in inside_ET]
        alone += [len(np.unique(shot_T[alone_T])) for alone_T in alone_ET]
    return np.array(whole), np.array(alone)


def report(collection: ClipCollection, train: str, split: str, videos: int, layouts: LayoutTable | None) -> None:
    """Print everything."""
    training, tested = (TimelineGenerator(collection, name, seed=0) for name in (train, split))
    seen = [training.video(index) for index in range(videos)]
    begin = time.process_time()
    test = [tested.video(index) for index in range(videos)]
    rate = videos / (time.process_time() - begin)
    print(f"{videos} timelines of {split}, made at {rate:,.0f} a second of one core's time")
    for name, timelines in ((train, seen), (split, test)):
        _print_footage(name, [timeline.plan for timeline in timelines])
    _print_probe(labelled_steps(seen), labelled_steps(test), train, split)
    if layouts is not None:
        _print_layouts(test, layouts)
    _print_recall(test[:100], PriorGrid.fit(training_fractions_of([timeline.plan for timeline in seen])))
    alike = near_duplicates(collection, split)
    print(f"clips of {split} that look like one outside it (cosine .9 or more): {len(alike)}")


def _print_footage(split: str, plans: Sequence[TimelinePlan]) -> None:
    border, inside = dissolve_rates(plans)
    print(f"{split}: {border:.3f} of the joints at borders are dissolves, {inside:.3f} of those inside events")
    whole_E, alone_E = shots_of_events(plans)
    shares = ", ".join(f"{shots}: {(whole_E == shots).mean():.3f}" for shots in range(1, MOST_SHOTS + 1))
    more = f"more: {(whole_E > MOST_SHOTS).mean():.3f}, at most {whole_E.max()}"
    print(f"{split}: shots of an event, over its whole span {shares}, {more}; alone at most {alone_E.max()}")


def _print_probe(seen: tuple[FloatArray, Bools], test: tuple[FloatArray, Bools], train: str, split: str) -> None:
    print("first step of an event, predicted from a single step (area under curve, chance .5)")
    print(f"  linear probe, trained on {train}: {area_under_curve(test[0] @ linear_probe(*seen), test[1]):.3f}")
    half = len(test[0]) // 2
    direction = linear_probe(test[0][:half], test[1][:half])
    same = area_under_curve(test[0][half:] @ direction, test[1][half:])
    print(f"  linear probe, trained on other videos of {split}, made of the same clips: {same:.3f}")
    print(f"  norm alone: {area_under_curve(test[0][:, -1], test[1]):.3f}")


def _print_layouts(test: Sequence[Timeline], layouts: LayoutTable) -> None:
    spans_V = [np.array([[e.start, e.end] for e in t.plan.events]) / t.plan.ticks for t in test]
    ours = layout_figures([t.plan.seconds for t in test], spans_V)
    print("layout: mean in the annotations, mean here, distance of the distributions")
    for name, real in layout_figures(layouts.seconds_V, layouts.spans_V).items():
        print(f"  {name}: {real.mean():.3g}, {ours[name].mean():.3g}, {distance(real, ours[name]):.2f}")


def _print_recall(test: Sequence[Timeline], grid: PriorGrid) -> None:
    truth = [np.array([t.plan.span(event) for event in t.plan.events]) for t in test]
    found: dict[str, list[ScoredSpans]] = {
        "whole video": [whole_video(t.plan.seconds) for t in test],
        "prior grid": [grid.spans(t.plan.seconds) for t in test],
        "change points": [change_points(t.track) for t in test],
    }
    count = max(1, round(sum(map(len, truth)) / len(truth)))
    cuts = sum(len(t.plan.shots) - 1 for t in test) / len(test)
    print(f"proposals on {len(test)} timelines ({cuts:.1f} cuts each), average recall at {ALLOWED}, F1 of {count}")
    for name, spans in found.items():
        recall = "  ".join(f"{average_recall(spans, truth, allowed):.3f}" for allowed in ALLOWED)
        print(f"  {name}: {recall}  F1 {top_n_f1(spans, truth, count):.3f}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("folder", metavar="CLIPS")
    parser.add_argument("--features", type=Path, metavar="STORE", help="features that were extracted from the clips")
    parser.add_argument("--train", default="train", metavar="SPLIT")
    parser.add_argument("--split", default="val", metavar="SPLIT")
    parser.add_argument("--videos", type=int, default=500, metavar="N")
    parser.add_argument("--layouts", metavar="FILE")


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    layouts = LayoutTable.from_annotations(args.layouts) if args.layouts else None
    collection = ClipCollection.read(args.folder, features=args.features)
    report(collection, args.train, args.split, args.videos, layouts)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.reports.timelines", __doc__, add_arguments, run))
