"""Time `densevid caption` on one video with this checkout and with another: seconds, CPU seconds and peak memory.

Both run in turn, each in a process of its own without a cache, so that what else the machine does falls on both. With
--cached the features are extracted once per checkout before the clock starts, and only their captioning is timed.

Examples:
  densevid bench caption --before ../densevid-0.1 --video ten_minutes.mp4
  densevid bench caption --before ../densevid-0.1 --video ten_minutes.mp4 --cached --flags=--explain
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from densevid.cli import run_program
from densevid.errors import InputError

HERE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Run:
    """What one run took: seconds, CPU seconds, and the most memory in megabytes."""

    seconds: float
    cpu_seconds: float
    megabytes: float

    def __str__(self) -> str:
        return f"{self.seconds:7.1f} s {self.cpu_seconds:7.1f} s of CPU {self.megabytes:7.0f} MB"


def run_once(checkout: Path, video: Path, cache: Path, flags: list[str], *, keep: bool) -> Run:
    """Caption a video with the source of a checkout.

    Args:
        checkout: The folder that holds `src/densevid`.
        video: The video file.
        cache: The folder for its cache.
        flags: More flags of `densevid caption`.
        keep: Whether to use and fill the cache.
    """
    with tempfile.TemporaryDirectory() as out:
        words = ["caption", str(video), "--out", out, "--format", "json", "--progress", "none", *flags]
        command = [sys.executable, "-m", "densevid", *words, *([] if keep else ["--no-cache"])]
        variables = {**os.environ, "PYTHONPATH": str(checkout / "src"), "DENSEVID_CACHE": str(cache)}
        began = time.perf_counter()
        process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, cwd=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) != 0:
        raise InputError(f"{checkout}: captioning {video} failed")
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / scale)


def print_comparison(before: Path, video: Path, rounds: int, flags: list[str], *, cached: bool) -> None:
    """Run both in turn and print each run, the medians and their ratios."""
    checkouts = {"before": before.resolve(), "after": HERE}
    runs: dict[str, list[Run]] = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory() as caches:
        for number in range(rounds + cached):
            for name, checkout in checkouts.items():
                cache = Path(caches) / name
                shutil.rmtree(cache / "events", ignore_errors=True)
                run = run_once(checkout, video.resolve(), cache, flags, keep=cached)
                if not cached or number:
                    runs[name].append(run)
                    print(f"{name:>6}: {run}", flush=True)
    first, second = (_median(rows) for rows in runs.values())
    print(f"median before {first}\nmedian after  {second}")
    ratios = (
        second.seconds / first.seconds,
        second.cpu_seconds / first.cpu_seconds,
        second.megabytes / first.megabytes,
    )
    print("after / before: {:.3f} of the time, {:.3f} of the CPU time, {:.3f} of the memory".format(*ratios))


def _median(runs: list[Run]) -> Run:
    rows = [(run.seconds, run.cpu_seconds, run.megabytes) for run in runs]
    return Run(*map(median, zip(*rows, strict=True)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--before", type=Path, required=True, metavar="CHECKOUT", help="the other source")
    parser.add_argument("--video", type=Path, required=True, metavar="FILE", help="what to caption")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each (3)")
    parser.add_argument("--cached", action="store_true", help="time the captioning of extracted features alone")
    parser.add_argument("--flags", action="append", default=[], metavar="FLAG", help="passed on to densevid caption")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    print_comparison(args.before, args.video, args.rounds, args.flags, cached=args.cached)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks.caption", __doc__, add_arguments, run))
