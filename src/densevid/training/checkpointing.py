"""Checkpoints: a `TrainState` in one file, whole or not at all, from which a run goes on as if it had never stopped.

Tensors (weights, average, optimizer, random states of every rank) are safetensors; the rest is JSON in its header.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from densevid.data.dataset import SegmentDataset
from densevid.errors import InputError
from densevid.io import atomic_path, hash_of
from densevid.legacy import current_checkpoint
from densevid.timelines.dataset import TimelineDataset
from densevid.training.distributed import gather
from densevid.training.loss_monitor import LossSums, SkippedSteps
from densevid.training.train_state import TrainState

FORMAT = 1
Tensors = dict[str, Tensor]


def snapshot(state: TrainState, origins: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any]]:
    """A checkpoint of a state; all ranks must call this, for each has random numbers of its own.

    Args:
        state: What to keep.
        origins: Hashes of the data and the weights that the run began with.

    Returns:
        Tensors by name, and plain values.
    """
    optimizer = state.optimizer.state_dict()
    tensors = {f"model.{name}": tensor for name, tensor in state.model.state_dict().items()}
    for number, values in optimizer["state"].items():
        tensors |= {f"optimizer.{number}.{name}": v for name, v in values.items() if isinstance(v, Tensor)}
    if state.average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in state.average.tensors.items()}
    for rank, states in enumerate(gather(_random_states(state.device))):
        tensors |= {f"random.{rank}.{name}": values for name, values in states.items()}
    saved = {
        "format": FORMAT,
        "step": state.step,
        "position": {"epoch": state.epoch, "batch": state.batch, "sums": asdict(state.epoch_losses)},
        "schedule": state.schedule.state(),
        "groups": optimizer["param_groups"],
        "best": None if state.best == math.inf else state.best,
        "recent": asdict(state.recent_losses),
        "skips": asdict(state.skipped),
        **origins,
    }
    return tensors, saved


def restore(state: TrainState, tensors: Tensors, saved: Mapping[str, Any], *, rank: int, seed: int) -> None:
    """Bring a state to where a checkpoint was taken, and the random numbers of this rank.

    Args:
        state: A new state of the same settings.
        tensors: As `read` gives them.
        saved: As `read` gives them.
        rank: Which process this is.
        seed: Seeds the random numbers of a rank that was not there when the checkpoint was written.
    """
    state.model.load_state_dict(_under(tensors, "model."))
    if state.average is not None:
        state.average.load(_under(tensors, "average."))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under(tensors, "optimizer.").items():
        number, _, slot = name.partition(".")
        slots.setdefault(int(number), {})[slot] = tensor
    state.optimizer.load_state_dict({"state": slots, "param_groups": saved["groups"]})
    state.schedule.load(saved["schedule"])
    state.step, position = saved["step"], saved["position"]
    state.epoch, state.batch = position["epoch"], position["batch"]
    state.epoch_losses, state.recent_losses = LossSums(**position["sums"]), LossSums(**saved["recent"])
    state.skipped = SkippedSteps(**saved.get("skips", {}))  # absent in older checkpoints
    state.best = math.inf if saved["best"] is None else saved["best"]
    _restore_random_states(_under(tensors, f"random.{rank}."), state.device, (seed, state.step, rank))


def write(path: Path, tensors: Tensors, saved: Mapping[str, Any]) -> None:
    """Write a checkpoint, in place of an older one."""
    on_host = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            save_file(on_host, temporary, metadata={"state": json.dumps(saved, allow_nan=False)})
        except SafetensorError as error:  # also where an OSError is expected, as of a full disk
            raise InputError(f"cannot write {path}: {error}; free space, then --resume") from error


def duplicate(path: Path, name: Path) -> None:
    """The same checkpoint under another name; no second copy on disks that can link."""
    with atomic_path(name) as temporary:
        temporary.unlink()
        try:
            os.link(path, temporary)
        except OSError:
            shutil.copyfile(path, temporary)


def read(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and plain values of a checkpoint, under their present names.

    Raises:
        InputError: The file is not a checkpoint of this format.
    """
    try:
        with safe_open(path, framework="pt") as file:
            saved = json.loads((file.metadata() or {})["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path}: not a readable checkpoint ({error}); delete it to start again") from error
    if saved.get("format") != FORMAT:
        raise InputError(f"{path}: checkpoint format {saved.get('format')}; this densevid reads format {FORMAT}")
    return tensors, current_checkpoint(saved)


def data_hashes(dataset: SegmentDataset | TimelineDataset) -> dict[str, str]:
    """Hashes of the training data: of videos and segments, and of their sentences and features."""
    return {"data": hash_of(dataset.fingerprint), "content": dataset.content}


def require_same_data(saved: Mapping[str, Any], dataset: SegmentDataset | TimelineDataset, *, where: str) -> None:
    """Raise InputError if a run began with other training data; older checkpoints have no hash of the sentences."""
    ours = data_hashes(dataset)
    if {"data": saved.get("data"), "content": saved.get("content", ours["content"])} != ours:
        what = "videos, segments, sentences or features differ"
        raise InputError(f"{where}: the run began with other training data ({what})")


def require_same_start(saved: Mapping[str, Any], started_from: str | None, *, where: str) -> None:
    """Raise InputError if a run began with other weights; they need not be given again, and older ones have no hash."""
    if started_from is not None and saved.get("started_from", started_from) != started_from:
        raise InputError(f"{where}: the run did not begin with the weights of this --from; leave it out to go on")


def require_same_validation(saved: Mapping[str, Any], content: str | None, *, where: str) -> None:
    """Raise InputError if validation, where it decides about rates or the best model, began with other data."""
    if saved.get("validation_content", content) != content:  # absent in older checkpoints
        raise InputError(f"{where}: the run began with other validation data, or without; go on with the same")


def _under(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _random_states(device: torch.device) -> Tensors:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _restore_random_states(states: Tensors, device: torch.device, otherwise: tuple[int, int, int]) -> None:
    """Restore the random numbers of a rank; one that was not there when the checkpoint was written is seeded."""
    if "cpu" in states:
        torch.set_rng_state(states["cpu"])
    else:
        seed, step, rank = otherwise
        torch.manual_seed(hash((seed, step, rank)) % 2**63)
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
