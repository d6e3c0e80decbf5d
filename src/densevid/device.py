"""Devices by name: those that this machine has, or one line that says what is wrong with the name; and their models."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from densevid.errors import InputError

CAPTIONING = ("cpu", "cuda", "mps")
LEARNING = ("cpu", "cuda")


def usable_device(name: str | None, kinds: Sequence[str] = CAPTIONING) -> torch.device:
    """The device of that name, if it is of one of these kinds and this machine has it; a GPU where none is named."""
    known = f"{', '.join(kinds[:-1])} and {kinds[-1]}"
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise InputError(f"--device {name}: no such kind of device; there are {known}") from None
    if device.type not in kinds:
        raise InputError(f"--device {name}: not a device to do this on; there are {known}")
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    counts = {"cpu": 1, "cuda": cuda, "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= counts[device.type]:
        raise InputError(f"--device {name}: this machine has no usable {device.type.upper()} device of that number")
    return device


def model_of(device: torch.device) -> str:
    """What people call it, for times are those of a machine: the model of a GPU; of a CPU how many threads compute."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{threads} CPU thread" + "s" * (threads != 1) if device.type == "cpu" else str(device)
