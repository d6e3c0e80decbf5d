"""Time captioning against the plain dense version and compare their results, in one run: one by one, and in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from benchmarks.hardware import share_of_peak
from benchmarks.inference_workload import Workload, prepare
from benchmarks.plain_captioner import PlainCaptioner, PlainEvents
from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.device import describe_device
from densevid.inference.batches import CaptionedVideo
from densevid.inference.captioner import Captioner, Precision
from densevid.inference.nms import Choose, Selection, best
from densevid.io import provenance, write_json
from densevid.kernels.caption_generator import PackedLimits
from densevid.kernels.fused import KERNELS, Attention, Kernel
from densevid.tracks import FeatureTrack

ATTENTION: tuple[Attention, ...] = get_args(Attention)
WARM_UPS = 3  # kernels are compiled the first time, graphs captured the second; then all memory is at hand
SLOW_VIDEOS = 8  # float32 on a GPU is there to be compared with


@dataclass(frozen=True)
class Run:
    """How to measure: where, how often, and what else to print."""

    device: torch.device
    plain_videos: int = 2
    single_videos: int = 5
    top: int = 10
    at_once: int | None = None
    kernels: tuple[Kernel, ...] = KERNELS
    attention: Attention = ATTENTION[0]
    cuda_graphs: bool = True
    profile: bool = False
    precision: Precision | None = None
    rounds: int = 1


def print_figures(
    workloads: Sequence[Workload],
    run: Run,
    *,
    model: Path | None = None,
    features: Path | None = None,
    json: Path | None = None,
) -> None:
    """Measure every variant of every workload, print a line each, and write the figures.

    Args:
        workloads: What to caption, one after another.
        run: How to measure.
        model: A trained model; by default random weights.
        features: A feature store for it; by default generated videos.
        json: Where to write the figures.
    """
    figures: list[Figure] = []
    for workload in workloads:
        loaded, tracks = prepare(workload, model, features)
        config = loaded.config
        longest = max(min(len(track), config.model.window) for track in tracks)
        print(
            f"{len(tracks)} videos of up to {longest} steps, {config.model.mask} mask, floor {workload.floor:g}, ",
            end="",
        )
        host = f", {torch.get_num_threads()} CPU threads" if run.device.type != "cpu" else ""
        print(f"on {describe_device(run.device)}{host}", flush=True)
        figures += measure(loaded, tracks, run)
    if json:
        settings = {
            "device": describe_device(run.device),
            "torch": torch.__version__,
            "workloads": list(map(asdict, workloads)),
        }
        block = provenance(config_hash=config.hash)
        write_json(json, {**settings, "figures": [asdict(figure) for figure in figures], "provenance": block})


def measure(loaded: LoadedModel, tracks: Sequence[FeatureTrack], run: Run) -> list[Figure]:
    """The plain version on some videos, then ours in each precision: single, in batches, and the best events only."""
    if len({len(track) for track in tracks}) > 1:  # a ratio needs the same videos, or videos that are alike
        run = replace(run, plain_videos=len(tracks), single_videos=len(tracks))
    plain = PlainCaptioner(loaded, device=run.device)
    held = tracks[: run.plain_videos]
    plain.caption(tracks[-1]) if run.device.type == "cuda" else None
    seconds, reference = timed(lambda: [plain.caption(track) for track in held], run.device)
    figures = [figure_of("plain dense float32, single", loaded.config, seconds, held, reference)]
    lengths = [end - start for video in reference for start, end in video.intervals]
    print(f"{row(figures[0])}  ({np.mean(lengths):.0f} steps an event on average)", flush=True)
    for precision in _precisions(run):
        captioner = opened(loaded, run, precision)
        few = SLOW_VIDEOS if precision == "float32" and run.device.type == "cuda" else len(tracks)
        for name, choose, at_once in ways(run, captioner):
            captioner.steps_at_once, together = at_once, at_once != 1
            shown = tracks[:few] if together else tracks[: run.single_videos]
            figures.append(_measured(f"{precision}, {name}", captioner, shown, (choose, reference, figures[0], run)))
            print(row(figures[-1]), flush=True)
    return figures


def _precisions(run: Run) -> tuple[Precision, ...]:
    if run.precision is not None:
        return (run.precision,)
    return ("float32", "bfloat16") if run.device.type == "cuda" else ("float32",)


def opened(loaded: LoadedModel, run: Run, precision: Precision) -> Captioner:
    """A captioner with the options of a run."""
    extras: dict[str, Any] = {"kernels": run.kernels, "attention": run.attention, "cuda_graphs": run.cuda_graphs}
    limits = replace(PackedLimits.of(run.device), **extras)
    return Captioner(loaded, device=run.device, precision=precision, limits=limits)


def ways(run: Run, captioner: Captioner) -> list[tuple[str, Choose | None, int | None]]:
    """The variants: name, which events are captioned, and the steps of video per batch, if that is fixed."""

    def choose(selection: Selection) -> Selection:
        return best(selection, run.top)

    default = None if run.at_once is None else run.at_once * captioner.config.model.window
    return [
        ("single", None, 1),
        ("together", None, default),
        (f"best {run.top}, single", choose, 1),
        (f"best {run.top}, together", choose, default),
    ]


def _measured(
    name: str,
    captioner: Captioner,
    tracks: Sequence[FeatureTrack],
    against: tuple[Choose | None, list[PlainEvents], Figure, Run],
) -> Figure:
    choose, reference, plain, run = against
    warm_up(captioner, tracks, choose)
    with profiled(run.profile):
        rounds = [
            timed(lambda: list(captioner.captioned(tracks, choose=choose)), run.device) for _ in range(run.rounds)
        ]
    seconds, found = sorted(rounds, key=lambda one: one[0])[(len(rounds) - 1) // 2]
    return figure_of(name, captioner.config, seconds, tracks, found, plain, reference)


def warm_up(captioner: Captioner, tracks: Sequence[FeatureTrack], choose: Choose | None) -> None:
    """Compile and capture before the clock starts; in float32 nothing is captured."""
    passes = 1 if captioner.precision == "float32" else WARM_UPS
    for _ in range(passes if captioner.device.type == "cuda" else 0):
        list(captioner.captioned(tracks, choose=choose))


def timed(work: Callable[[], list[Any]], device: torch.device) -> tuple[float, list[Any]]:
    """Seconds of one run, and its result."""
    begun = time.perf_counter()
    result = work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun, result


class profiled:
    """Prints the kernels that take the most time of what runs inside, if wanted."""

    def __init__(self, wanted: bool) -> None:
        self.profiler = torch.profiler.profile() if wanted else None

    def __enter__(self) -> None:
        if self.profiler:
            self.profiler.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.profiler:
            self.profiler.__exit__(*error)
            by = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
            print(self.profiler.key_averages().table(sort_by=by, row_limit=30, max_name_column_width=70))


@dataclass(frozen=True)
class Figure:
    """The result of one variant; `teraflops` counts the arithmetic of the dense version."""

    mask: str
    name: str
    milliseconds: float
    captions_per_second: float
    teraflops: float
    times_plain: float | None = None
    same_intervals: float | None = None
    same_sentences: float | None = None


def figure_of(
    name: str,
    config: Config,
    seconds: float,
    tracks: Sequence[FeatureTrack],
    found: Sequence[CaptionedVideo | PlainEvents],
    plain: Figure | None = None,
    reference: Sequence[PlainEvents] = (),
) -> Figure:
    """The figures of captioning these videos in so many seconds, compared with the plain version's."""
    captions = sum(len(video.sentences) for video in found)
    steps = [min(len(track), config.model.window) for track in tracks]
    flop = sum(dense_flop(config, count, len(video.sentences)) for count, video in zip(steps, found, strict=True))
    each = seconds / len(tracks)
    ratio = None if plain is None else plain.milliseconds / each / 1e3
    same = [agreement(video, theirs) for video, theirs in zip(found, reference, strict=False)]
    intervals, sentences = np.mean(same, axis=0).tolist() if same else (None, None)
    return Figure(
        config.model.mask, name, each * 1e3, captions / seconds, flop / seconds / 1e12, ratio, intervals, sentences
    )


def agreement(ours: CaptionedVideo | PlainEvents, theirs: PlainEvents) -> tuple[float, float]:
    """Shares of events that the plain version also has, both borders within one step, and that have its sentence.

    Each of the plain version's events is taken once, by the first of ours that is near it, the same rank before others:
    scores that differ in their last digits may change places, and remain the same events.
    """
    assert isinstance(ours, CaptionedVideo)
    count = len(ours.sentences)
    far_PQ = np.abs(ours.reported_P2[:, None] - np.array(theirs.intervals)[None]).max(axis=2)
    rank_PQ = np.abs(np.arange(count)[:, None] - np.arange(far_PQ.shape[1]))
    near, same, free = 0, 0, np.ones(far_PQ.shape[1], dtype=bool)
    for event in range(count):
        usable = np.flatnonzero(free & (far_PQ[event] <= 1))
        if len(usable):
            other = usable[rank_PQ[event, usable].argmin()]
            free[other] = False
            near, same = near + 1, same + (ours.sentences[event] == theirs.sentences[other])
    return near / count, same / max(1, near)


def dense_flop(config: Config, steps: int, events: int) -> float:
    """Multiplications and additions (products only) of encoding each event over all steps and generating all words."""
    model, words = config.model, config.inference.max_words
    d, hidden = model.width, model.hidden
    encoder_layer = steps * (4 * d * d + 2 * d * hidden) + 2 * steps * steps * d
    decoder_layer = words * (6 * d * d + 2 * d * hidden + 2 * words * d + 2 * steps * d) + 2 * steps * d * d
    return (
        2.0 * model.layers * (encoder_layer * (events + 1) + decoder_layer * events) + 2.0 * events * words * d * 4000
    )


def row(figure: Figure) -> str:
    """One line of the table."""
    line = f"{figure.name:32} {figure.milliseconds:10.2f} ms a video  {figure.captions_per_second:9.0f} captions/s"
    line += f"  {figure.teraflops:7.3g} dense TFLOP/s"
    if torch.cuda.is_available() and (share := share_of_peak(figure.teraflops, torch.cuda.get_device_name())):
        line += f" ({share:4.0%} of bfloat16's peak)"
    if figure.times_plain is not None:
        line += f"  {figure.times_plain:7.1f} x plain"
    if figure.same_sentences is not None and figure.same_intervals is not None:
        line += f"  same: {figure.same_intervals:.1%} intervals to a step, {figure.same_sentences:.1%} sentences"
    return line
