"""Captioning timed beside the plain dense version, and held to it, in one run: one by one, and many together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.inference_figures import Figure, figure_of, row
from benchmarks.inference_subject import Asked, subject
from benchmarks.plain_captioner import PlainCaptioner, PlainEvents
from densevid.checkpoint import LoadedModel
from densevid.device import model_of
from densevid.inference.captioner import Captioner, Precision
from densevid.inference.generator import GeneratorLimits
from densevid.inference.nms import Choose, Selection, best
from densevid.io import provenance, write_json
from densevid.kernels.fused import KERNELS, Attention, Kernel
from densevid.tracks import FeatureTrack

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
    attention: Attention = "usual"
    captured: bool = True
    profile: bool = False
    precision: Precision | None = None
    rounds: int = 1


def print_figures(
    asked: Sequence[Asked],
    run: Run,
    *,
    model: Path | None = None,
    features: Path | None = None,
    json: Path | None = None,
) -> None:
    """Measure every way for all that is asked, print a line each, and write the figures."""
    figures: list[Figure] = []
    for one in asked:
        loaded, tracks = subject(one, model, features)
        config = loaded.config
        longest = max(min(len(track), config.model.window) for track in tracks)
        print(f"{len(tracks)} videos of up to {longest} steps, {config.model.mask} mask, floor {one.floor:g}, ", end="")
        host = f", {torch.get_num_threads()} CPU threads" if run.device.type != "cpu" else ""
        print(f"on {model_of(run.device)}{host}", flush=True)
        figures += measure(loaded, tracks, run)
    if json:
        settings = {"device": model_of(run.device), "torch": torch.__version__, "asked": list(map(asdict, asked))}
        block = provenance(config_hash=config.hash)
        write_json(json, {**settings, "figures": [asdict(figure) for figure in figures], "provenance": block})


def measure(loaded: LoadedModel, tracks: Sequence[FeatureTrack], run: Run) -> list[Figure]:
    """The plain version on some videos, then ours in each precision: single, together, and the best few alone."""
    if len({len(track) for track in tracks}) > 1:  # a ratio needs the same videos, or videos that are alike
        run = replace(run, plain_videos=len(tracks), single_videos=len(tracks))
    plain = PlainCaptioner(loaded, device=run.device)
    held = tracks[: run.plain_videos]
    plain.caption(tracks[-1]) if run.device.type == "cuda" else None
    seconds, told = timed(lambda: [plain.caption(track) for track in held], run.device)
    figures = [figure_of("plain dense float32, single", loaded.config, seconds, held, told)]
    lengths = [end - start for video in told for start, end in video.intervals]
    print(f"{row(figures[0])}  ({np.mean(lengths):.0f} steps an event on average)", flush=True)
    for precision in _precisions(run):
        captioner = opened(loaded, run, precision)
        few = SLOW_VIDEOS if precision == "float32" and run.device.type == "cuda" else len(tracks)
        for name, choose, at_once in ways(run, captioner):
            captioner.steps_at_once, together = at_once, at_once != 1
            shown = tracks[:few] if together else tracks[: run.single_videos]
            figures.append(_measured(f"{precision}, {name}", captioner, shown, (choose, told, figures[0], run)))
            print(row(figures[-1]), flush=True)
    return figures


def _precisions(run: Run) -> tuple[Precision, ...]:
    if run.precision is not None:
        return (run.precision,)
    return ("float32", "bfloat16") if run.device.type == "cuda" else ("float32",)


def opened(loaded: LoadedModel, run: Run, precision: Precision) -> Captioner:
    """A captioner of the kind that is asked for."""
    extras: dict[str, Any] = {"kernels": run.kernels, "attention": run.attention, "captured": run.captured}
    limits = replace(GeneratorLimits.of(run.device), **extras)
    return Captioner(loaded, device=run.device, precision=precision, limits=limits)


def ways(run: Run, captioner: Captioner) -> list[tuple[str, Choose | None, int | None]]:
    """What is timed: its name, what is captioned, and the steps of video at once, if that is fixed."""

    def choose(selection: Selection) -> Selection:
        return best(selection, run.top)

    usual = None if run.at_once is None else run.at_once * captioner.config.model.window
    return [
        ("single", None, 1),
        ("together", None, usual),
        (f"best {run.top}, single", choose, 1),
        (f"best {run.top}, together", choose, usual),
    ]


def _measured(
    name: str,
    captioner: Captioner,
    tracks: Sequence[FeatureTrack],
    against: tuple[Choose | None, list[PlainEvents], Figure, Run],
) -> Figure:
    choose, told, plain, run = against
    warm_up(captioner, tracks, choose)
    with profiled(run.profile):
        rounds = [
            timed(lambda: list(captioner.captioned(tracks, choose=choose)), run.device) for _ in range(run.rounds)
        ]
    seconds, found = sorted(rounds, key=lambda one: one[0])[(len(rounds) - 1) // 2]
    return figure_of(name, captioner.config, seconds, tracks, found, plain, told)


def warm_up(captioner: Captioner, tracks: Sequence[FeatureTrack], choose: Choose | None) -> None:
    """So that what is timed is what many videos take; in float32 nothing is captured."""
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
