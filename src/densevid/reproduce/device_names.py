"""What computed, by the name that people know it by: times are told with it, for they are those of a machine."""

from __future__ import annotations

import torch


def name_of(device: torch.device) -> str:
    """The model of a GPU; of a CPU how many threads compute."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads" if device.type == "cpu" else str(device)
