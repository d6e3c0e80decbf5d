"""Where the time of captioning goes, stage by stage, and which combination of options is fastest.

Stages are timed inside the captioner (`stage_times.py`), on the host's clock and on the device. A device
stage that waits for the host includes the waiting; `inference_parts` times the device alone.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.inference_parts import part_lines
from benchmarks.inference_runs import ATTENTION, Run, opened, timed, warm_up, ways
from benchmarks.stage_times import StageTimer
from densevid.checkpoint import LoadedModel
from densevid.device import describe_device
from densevid.inference.captioner import Captioner, Precision
from densevid.inference.nms import Choose
from densevid.kernels.cuda_graphs import Graphs
from densevid.kernels.fused import KERNELS, Kernel
from densevid.progress import Stages
from densevid.tracks import FeatureTrack

SWEPT_KERNELS: tuple[tuple[Kernel, ...], ...] = (
    (), ("attend", "causal"), ("rows", "norm", "relu"), ("rows", "norm", "relu", "attend"), KERNELS
)  # fmt: skip
SWEPT_AT_ONCE = (8, 32, 64)
Tried = tuple[float, str, Run]


def print_stages(loaded: LoadedModel, tracks: Sequence[FeatureTrack], run: Run) -> None:
    """A table of stages for every way of captioning, replayed and not, and on a GPU a table of parts."""
    graphs = (True, False) if run.device.type == "cuda" and run.cuda_graphs else (False,)
    lines = []
    for replays in graphs:
        captioner = opened(loaded, replace(run, cuda_graphs=replays), default_precision(run))
        for name, choose, at_once in ways(run, captioner):
            captioner.steps_at_once = at_once
            shown = tracks if at_once != 1 else tracks[: run.single_videos]
            lines += stage_lines(f"{name}, {'replayed' if replays else 'launched'}", captioner, shown, choose)
        failed = getattr(captioner.caption_generator, "graphs", Graphs(enabled=False)).failed
        lines += [f"  no CUDA graph of {kind}, see the warning above" for kind in failed]
    print(f"{default_precision(run)} on {describe_device(run.device)}, milliseconds a video: host, device, stage")
    print("\n".join(lines))
    print("\n".join(part_lines(loaded, run.device)) if run.device.type == "cuda" else "", flush=True)


def default_precision(run: Run) -> Precision:
    """The precision of the run, or the device's own."""
    return run.precision or ("bfloat16" if run.device.type == "cuda" else "float32")


def stage_lines(name: str, captioner: Captioner, tracks: Sequence[FeatureTrack], choose: Choose | None) -> list[str]:
    """The time of the whole without the stage timer, then that of every stage."""
    warm_up(captioner, tracks, choose)
    seconds, _ = timed(lambda: list(captioner.captioned(tracks, choose=choose)), captioner.device)
    timer = StageTimer(captioner.device)
    captioner.listen(timer)
    list(captioner.captioned(tracks, choose=choose))
    captioner.listen(Stages())
    videos = len(tracks)
    stages = [f"{stage.host / videos:8.3f} {stage.device / videos:8.3f}  {stage.name}" for stage in timer.times()]
    return [f"{name}: {seconds / videos * 1e3:.2f} ms a video", *stages]


def print_sweep(loaded: LoadedModel, tracks: Sequence[FeatureTrack], run: Run) -> None:
    """One line per combination, the best last, for every variant; each flag is tried with the best before it."""
    for way in range(4):
        tried: list[Tried] = []
        best = run
        for choices in _choices(run.device.type == "cuda", together=way % 2 == 1):
            tried += [_tried(loaded, tracks, replace(best, **choice), way) for choice in choices]
            best = min(tried, key=lambda one: one[0])[2]
        for milliseconds, name, choice in sorted(tried, key=lambda one: -one[0]):
            print(f"{name:24} {milliseconds:8.2f} ms a video  {described(choice)}", flush=True)


def _choices(on_gpu: bool, *, together: bool) -> list[list[dict[str, Any]]]:
    """Settings to try, flag by flag."""
    batches = [{"at_once": videos} for videos in (SWEPT_AT_ONCE if on_gpu else (1, 2, 4))] if together else [{}]
    if not on_gpu:
        return [batches]
    kernels = [{"kernels": names} for names in SWEPT_KERNELS]
    attentions = [{"attention": whose} for whose in ATTENTION[1:]]
    return [kernels, attentions, batches if together else [], [{"cuda_graphs": False}]]


def _tried(loaded: LoadedModel, tracks: Sequence[FeatureTrack], run: Run, way: int) -> Tried:
    gc.collect()  # a captioner before this one may still hold gigabytes
    captioner = opened(loaded, run, default_precision(run))
    name, choose, captioner.steps_at_once = ways(run, captioner)[way]
    shown = tracks if way % 2 else tracks[: run.single_videos]
    warm_up(captioner, shown, choose)
    rounds = [timed(lambda: list(captioner.captioned(shown, choose=choose)), run.device)[0] for _ in range(run.rounds)]
    return sorted(rounds)[(len(rounds) - 1) // 2] / len(shown) * 1e3, name, run


def described(run: Run) -> str:
    """A combination as flags."""
    names = ",".join(run.kernels) or "none"
    batch = "" if run.at_once is None else f" --at-once {run.at_once}"
    return f"--kernels {names} --attention {run.attention}{batch}{'' if run.cuda_graphs else ' --no-capture'}"
