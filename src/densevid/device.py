"""Which device to compute on, with how many CPU threads, and where threads take memory from.

torch is imported only where it is needed: `--help` and small verbs do without it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from densevid.errors import ArgumentError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]  # of videos and their captions; `auto` is CUDA where there is one
M_ARENA_MAX = -8  # of glibc's malloc.h
CAPTIONING = ("cpu", "cuda", "mps")
TRAINING = ("cpu", "cuda")


def resolve_device(name: str | None, kinds: Sequence[str] = CAPTIONING) -> torch.device:
    """The device of a name.

    Args:
        name: As `--device` gives it: auto, cpu, cuda, cuda:1, ...; auto and None are CUDA where there is one, else cpu.
        kinds: The kinds of devices that can do the work.

    Raises:
        ArgumentError: There is no such device, on this machine or at all.
    """
    import torch

    known = f"{', '.join(kinds[:-1])} and {kinds[-1]}"
    if name in (None, "auto"):
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ArgumentError(f"{{device}} {name}: no such kind of device; there are {known}") from None
    if device.type not in kinds:
        raise ArgumentError(f"{{device}} {name}: not a device to do this on; there are {known}")
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    count = {"cpu": 1, "cuda": cuda, "mps": int(torch.backends.mps.is_available())}[device.type]
    usable = f"this machine has no usable {device.type.upper()} device"
    if not count:
        raise ArgumentError(f"{{device}} {name}: {usable}; use cpu, or install torch for this machine's GPU")
    if (device.index or 0) >= count:
        raise ArgumentError(f"{{device}} {name}: {usable} of that number; use {device.type}")
    return device


def network_device(name: Device) -> Literal["cpu", "cuda"]:
    """Where the networks of a backbone run; torch is imported only if there is an NVIDIA driver.

    Args:
        name: `auto` is a GPU where there is one.

    Raises:
        ArgumentError: `cuda` on a machine without a usable GPU.
    """
    if name == "cpu" or (name == "auto" and not Path("/dev/nvidiactl").exists()):
        return "cpu"
    return "cuda" if resolve_device(name).type == "cuda" else "cpu"


def has_bfloat16_instructions() -> bool:
    """Whether torch can multiply in bfloat16 on this processor: AVX-512 BF16 or AMX. Others emulate it, slowly."""
    import torch

    checks = (getattr(torch.cpu, f"_is_{name}_supported", lambda: False) for name in ("avx512_bf16", "amx_tile"))
    return torch.backends.mkldnn.is_available() and any(check() for check in checks)


def describe_device(device: torch.device) -> str:
    """The machine that times are measured on: the model of a GPU, or how many threads a CPU computes with."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{threads} CPU thread" + "s" * (threads != 1) if device.type == "cpu" else str(device)


def set_threads(threads: int, report: Callable[[str], None]) -> None:
    """Have torch use so many CPU threads, at most those of the machine; `report` is called if that are fewer.

    Raises:
        ArgumentError: It is less than one.
    """
    import torch

    if threads < 1:
        raise ArgumentError(f"{{threads}} must be at least 1, got {threads}")
    most = os.cpu_count() or 1
    if threads > most:
        report(f"--threads {threads}: this machine has {most} processors, so {most} threads are used")
    torch.set_num_threads(min(threads, most))


def share_memory() -> None:
    """Have all threads allocate from one place; call it before they start. Only glibc does otherwise.

    It gives threads arenas of their own, each of which keeps what was freed in it. Networks allocate and free large
    blocks in several threads: with one arena the peak is lower, in the same time (docs/speed.md). Settings in the
    environment (`MALLOC_*`) count for more.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)
