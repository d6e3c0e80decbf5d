"""Captioning timed beside the plain dense version, and held to it, in one run: one by one, and many together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from densevid.artifacts import provenance, write_json
from densevid.bench.inference_subject import (
    Asked,
    generated_store,
    random_model,
    subject,
)
from densevid.bench.plain_captioner import PlainCaptioner, PlainEvents
from densevid.checkpoint import LoadedModel, save_model
from densevid.config import Config
from densevid.events import write_events
from densevid.inference.captioned_video import CaptionedVideo
from densevid.inference.captioner import Captioner, Precision
from densevid.inference.event_speaker import SpeakerLimits
from densevid.inference.fused import KERNELS, Attention, Kernel
from densevid.inference.predict import PredictionJob, open_job
from densevid.inference.selection import Choose, Selection, best
from densevid.tracks import FeatureTrack

WARM_UPS = 3  # kernels are compiled the first time, graphs captured the second; then all memory is at hand
SLOW_VIDEOS = 16  # float32 on a GPU is there to be compared with
PEAK_TERAFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}  # bfloat16, dense


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


@dataclass(frozen=True)
class Figure:
    """What one way of captioning reached; `teraflops` counts the arithmetic of the dense version."""

    name: str
    milliseconds: float
    captions_per_second: float
    teraflops: float
    times_plain: float | None = None
    same_intervals: float | None = None
    same_sentences: float | None = None


def print_figures(
    asked: Asked, run: Run, *, model: Path | None = None, features: Path | None = None, json: Path | None = None
) -> None:
    """Measure every way, print a line each, and write the figures."""
    loaded, tracks = subject(asked, model, features)
    config = loaded.config
    longest = max(min(len(track), config.model.window) for track in tracks)
    print(
        f"{len(tracks)} videos of up to {longest} steps, {config.model.mask} mask, floor {asked.floor:g}, on ", end=""
    )
    print(f"{device_name(run.device)}, {torch.get_num_threads()} CPU threads", flush=True)
    figures = measure(loaded, tracks, run)
    if json:
        settings = {"device": device_name(run.device), "torch": torch.__version__, **asdict(asked)}
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
    figures = [_figure("plain dense float32, single", loaded.config, seconds, held, told)]
    lengths = [end - start for video in told for start, end in video.intervals]
    print(f"{row(figures[0])}  ({np.mean(lengths):.0f} steps an event on average)", flush=True)
    for precision in _precisions(run):
        captioner = opened(loaded, run, precision)
        few = SLOW_VIDEOS if precision == "float32" and run.device.type == "cuda" else len(tracks)
        for name, choose, at_once in ways(run, captioner):
            captioner.steps_at_once, together = at_once, at_once > 1
            shown = tracks[:few] if together else tracks[: run.single_videos]
            figures.append(_measured(f"{precision}, {name}", captioner, shown, (choose, told, figures[0], run)))
            print(row(figures[-1]), flush=True)
    return figures


def _precisions(run: Run) -> tuple[Precision, ...]:
    if run.precision is not None:
        return (run.precision,)
    return ("float32", "bfloat16", "float16") if run.device.type == "cuda" else ("float32",)


def opened(loaded: LoadedModel, run: Run, precision: Precision) -> Captioner:
    """A captioner of the kind that is asked for."""
    extras: dict[str, Any] = {"kernels": run.kernels, "attention": run.attention, "captured": run.captured}
    limits = replace(SpeakerLimits.of(run.device), **extras)
    return Captioner(loaded, device=run.device, precision=precision, limits=limits)


def ways(run: Run, captioner: Captioner) -> list[tuple[str, Choose | None, int]]:
    """What is timed: its name, what is captioned, and the steps of video at once."""

    def choose(selection: Selection) -> Selection:
        return best(selection, run.top)

    usual = captioner.steps_at_once if run.at_once is None else run.at_once * captioner.config.model.window
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
    return _figure(name, captioner.config, seconds, tracks, found, plain, told)


def warm_up(captioner: Captioner, tracks: Sequence[FeatureTrack], choose: Choose | None) -> None:
    """So that what is timed is what many videos take."""
    for _ in range(WARM_UPS if captioner.device.type == "cuda" else 0):
        list(captioner.captioned(tracks, choose=choose))


def _figure(
    name: str,
    config: Config,
    seconds: float,
    tracks: Sequence[FeatureTrack],
    found: Sequence[CaptionedVideo | PlainEvents],
    plain: Figure | None = None,
    told: Sequence[PlainEvents] = (),
) -> Figure:
    captions = sum(len(video.sentences) for video in found)
    steps = [min(len(track), config.model.window) for track in tracks]
    flop = sum(dense_flop(config, count, len(video.sentences)) for count, video in zip(steps, found, strict=True))
    each = seconds / len(tracks)
    ratio = None if plain is None else plain.milliseconds / each / 1e3
    same = [agreement(video, theirs) for video, theirs in zip(found, told, strict=False)]
    intervals, sentences = np.mean(same, axis=0).tolist() if same else (None, None)
    return Figure(name, each * 1e3, captions / seconds, flop / seconds / 1e12, ratio, intervals, sentences)


def agreement(ours: CaptionedVideo | PlainEvents, theirs: PlainEvents) -> tuple[float, float]:
    """Shares of events that the plain version also has, both borders within one step, and says the same of.

    Each of the plain version's events is taken once, by the first of ours that is near it, the same rank before others:
    scores that differ in their last digits may change places, and remain the same events.
    """
    assert isinstance(ours, CaptionedVideo)
    count = len(ours.sentences)
    far_PQ = np.abs(ours.reported_P2[:, None] - np.array(theirs.intervals)[None]).max(axis=2)
    rank_PQ = np.abs(np.arange(count)[:, None] - np.arange(far_PQ.shape[1]))
    near, said, free = 0, 0, np.ones(far_PQ.shape[1], dtype=bool)
    for event in range(count):
        usable = np.flatnonzero(free & (far_PQ[event] <= 1))
        if len(usable):
            other = usable[rank_PQ[event, usable].argmin()]
            free[other] = False
            near, said = near + 1, said + (ours.sentences[event] == theirs.sentences[other])
    return near / count, said / max(1, near)


def dense_flop(config: Config, steps: int, events: int) -> float:
    """Multiplications and additions of encoding `events` events over all steps and saying all words, products alone."""
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
    line += f"  {figure.teraflops:7.2f} dense TFLOP/s"
    if torch.cuda.is_available() and (peak := _peak(torch.cuda.get_device_name())):
        line += f" ({figure.teraflops / peak:4.0%} of bfloat16's peak)"
    if figure.times_plain is not None:
        line += f"  {figure.times_plain:7.1f} x plain"
    if figure.same_sentences is not None and figure.same_intervals is not None:
        line += f"  same: {figure.same_intervals:.1%} intervals to a step, {figure.same_sentences:.1%} sentences"
    return line


def _peak(name: str) -> float | None:
    return next((peak for chip, peak in PEAK_TERAFLOPS.items() if chip in name), None)


def print_store_run(asked: Asked, run: Run, folder: Path | None = None) -> None:
    """From a store of generated videos of ActivityNet's lengths to a predictions file, as `densevid predict` does."""
    with tempfile.TemporaryDirectory(prefix="densevid-", dir=folder) as name:
        root = Path(name)
        loaded = random_model(asked)
        block = provenance(config_hash=loaded.config.hash)
        save_model(root / "model", loaded, block)
        store = generated_store(root, loaded.config, asked.videos)
        begun = time.perf_counter()
        opened = open_job(
            PredictionJob(root / "model", store, device=str(run.device), settings=("inference.read=first-window",))
        )
        ready = time.perf_counter()
        predictions = opened.run()
        write_events(root / "predictions.json", predictions.events, provenance=block)
        ended = time.perf_counter()
    events = sum(map(len, predictions.events.values()))
    print(
        f"store to predictions file, {opened.captioner.precision}, {asked.mask} mask, floor {asked.floor:g}: ", end=""
    )
    print(f"{len(predictions.events):,} videos, {events:,} events in {ended - begun:.1f} s ", end="")
    print(f"({ready - begun:.1f} s to open, {(ended - ready) / asked.videos * 1e3:.1f} ms a video)", flush=True)


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


def device_name(device: torch.device) -> str:
    """What to call it in a table."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
