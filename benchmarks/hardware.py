"""What a figure is compared with: published peaks of GPUs, and the time and peak memory of a whole densevid command."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PEAK_TERAFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}  # bfloat16, dense
SAMPLING_SECONDS = 0.05


def share_of_peak(teraflops: float, device: str) -> float | None:
    """The share of a GPU's published peak, by the name of the GPU; None where its peak is not known here."""
    peak = next((peak for chip, peak in PEAK_TERAFLOPS.items() if chip in device), None)
    return None if peak is None else teraflops / peak


def run_measured(words: Sequence[str]) -> tuple[float, float]:
    """Run a densevid command and watch the memory of all its processes (Linux).

    Args:
        words: The command line after `densevid`.

    Returns:
        Its seconds, and the most megabytes its processes held at one time; shared pages count once.
    """
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "densevid", *words], stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_kilobytes, _family(process.pid))))
        time.sleep(SAMPLING_SECONDS)
    if process.returncode:
        raise RuntimeError(f"densevid {words[0]} ended with exit code {process.returncode}")
    return time.perf_counter() - begin, peak / 1024


def _family(process: int) -> list[int]:
    """A process and all it started."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return [process]
    return [process, *(one for child in children for one in _family(int(child)))]


def _kilobytes(process: int) -> int:
    """The proportional share of memory of a process; 0 if it has just ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
