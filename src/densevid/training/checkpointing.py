"""Checkpoints: all that a run needs to go on as if it had never stopped, in one file that appears whole or not at all.

Tensors (weights, average, optimiser, random states of every rank) are safetensors; the rest is JSON in its header.
"""

from __future__ import annotations

import json
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
from densevid.timelines.dataset import TimelineDataset
from densevid.training.distributed import gather
from densevid.training.loss_monitor import Sums
from densevid.training.train_state import Position, TrainState

FORMAT = 1
Tensors = dict[str, Tensor]


def snapshot(learner: TrainState, position: Position, more: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and plain values of a run at a position; every rank must ask, for each has random numbers of its own."""
    optimizer = learner.optimizer.state_dict()
    tensors = {f"model.{name}": tensor for name, tensor in learner.model.state_dict().items()}
    for number, values in optimizer["state"].items():
        tensors |= {f"optimizer.{number}.{name}": v for name, v in values.items() if isinstance(v, Tensor)}
    if learner.average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in learner.average.tensors.items()}
    for rank, states in enumerate(gather(_random_states(learner.device))):
        tensors |= {f"random.{rank}.{name}": state for name, state in states.items()}
    state = {
        "format": FORMAT,
        "step": learner.step,
        "position": asdict(position),
        "schedule": learner.schedule.state(),
        "groups": optimizer["param_groups"],
        **more,
    }
    return tensors, state


def write(path: Path, tensors: Tensors, state: Mapping[str, Any]) -> None:
    """Put a checkpoint in place of an older one."""
    on_host = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            save_file(on_host, temporary, metadata={"state": json.dumps(state, allow_nan=False)})
        except SafetensorError as error:  # a full disk, for one, which it does not tell as an OSError
            raise InputError(f"cannot write {path}: {error}; make room, then --resume") from error


def duplicate(path: Path, name: Path) -> None:
    """The same checkpoint under another name; no second copy on disks that can link."""
    with atomic_path(name) as temporary:
        temporary.unlink()
        try:
            os.link(path, temporary)
        except OSError:
            shutil.copyfile(path, temporary)


def read(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Read what `write` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {})["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path}: not a readable checkpoint ({error}); delete it to start again") from error
    if state.get("format") != FORMAT:
        raise InputError(f"{path}: checkpoint format {state.get('format')}; this densevid reads format {FORMAT}")
    return tensors, state


def data_hashes(dataset: SegmentDataset | TimelineDataset) -> dict[str, str]:
    """By what a checkpoint knows its training data again."""
    return {"data": hash_of(dataset.fingerprint), "content": dataset.content}


def require_same_data(state: Mapping[str, Any], dataset: SegmentDataset | TimelineDataset, *, where: str) -> None:
    """Older checkpoints know which videos and segments they learnt from, but not what was said of them."""
    ours = data_hashes(dataset)
    if {"data": state.get("data"), "content": state.get("content", ours["content"])} != ours:
        what = "videos, segments, sentences or features differ"
        raise InputError(f"{where}: the run began with other training data ({what})")


def require_same_start(state: Mapping[str, Any], started_from: str | None, *, where: str) -> None:
    """The weights that a run began with need not be given again, but must not be others; older ones know none."""
    if started_from is not None and state.get("started_from", started_from) != started_from:
        raise InputError(f"{where}: the run did not begin with the weights of this --from; leave it out to go on")


def require_same_judge(state: Mapping[str, Any], judged_by: str | None, *, where: str) -> None:
    """Where validation decides about rates or the best model it must be the same to the end; older ones know none."""
    if state.get("judged_by", judged_by) != judged_by:
        raise InputError(
            f"{where}: the run began with other validation data, or without; it goes on with the same alone"
        )


def restore(learner: TrainState, tensors: Tensors, state: Mapping[str, Any], *, rank: int, seed: int) -> Position:
    """Bring a learner to where the checkpoint was taken."""
    learner.model.load_state_dict(_under(tensors, "model."))
    if learner.average is not None:
        learner.average.load(_under(tensors, "average."))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under(tensors, "optimizer.").items():
        number, _, slot = name.partition(".")
        slots.setdefault(int(number), {})[slot] = tensor
    learner.optimizer.load_state_dict({"state": slots, "param_groups": state["groups"]})
    learner.schedule.load(state["schedule"])
    learner.step = state["step"]
    where = state["position"]
    _restore_random_states(_under(tensors, f"random.{rank}."), learner.device, (seed, learner.step, rank))
    return Position(where["epoch"], where["batch"], Sums(**where["sums"]))


def _under(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _random_states(device: torch.device) -> Tensors:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _restore_random_states(states: Tensors, device: torch.device, otherwise: tuple[int, int, int]) -> None:
    """A rank that was not there when the checkpoint was written starts random numbers of its own."""
    if "cpu" in states:
        torch.set_rng_state(states["cpu"])
    else:
        seed, step, rank = otherwise
        torch.manual_seed(hash((seed, step, rank)) % 2**63)
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
