"""What GPUs could do at most, as their makers publish it: what a measured rate is a share of."""

from __future__ import annotations

PEAK_TERAFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}  # bfloat16, dense


def share_of_peak(teraflops: float, device: str) -> float | None:
    """Of a GPU by its name; None where its peak is not known here."""
    peak = next((peak for chip, peak in PEAK_TERAFLOPS.items() if chip in device), None)
    return None if peak is None else teraflops / peak
