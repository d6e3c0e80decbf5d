"""An exponential moving average of the weights: where `training.ema` asks for it, it is what is validated and saved.

The mean of several models: networks that learnt on from one start, each in another order, agree better than any.

Their weights lie in one valley, so that the mean of them is a network too, of the same size and speed, which does about
what all of them say together (model soups: Wortsman et al., 2022). Networks that began apart have no such mean.

The optimiser and its learning rate: the paper's SGD halved on plateau, Adam, or AdamW with warm-up and cosine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from densevid.checkpoint import LoadedModel
from densevid.config import TrainingConfig
from densevid.errors import InputError


class WeightAverage:
    """average <- decay average + (1 - decay) weights after every step, of all weights and running statistics.

    Early on the decay is (1 + steps) / (10 + steps), so that the beginning is soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        current = model.state_dict()
        self.tensors = {name: tensor.detach().clone() for name, tensor in current.items()}
        self.floating, self.counters = (
            [name for name, tensor in current.items() if tensor.is_floating_point() == wanted]
            for wanted in (True, False)
        )

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after `step` steps."""
        decay = min(self.decay, (1 + step) / (10 + step))
        current = model.state_dict(
            keep_vars=True
        )  # to detach hundreds of tensors would take longer than to average them
        for names, take_in in (
            (self.floating, lambda own, new: torch._foreach_lerp_(own, new, 1 - decay)),
            (self.counters, torch._foreach_copy_),
        ):
            if names:
                take_in([self.tensors[name] for name in names], [current[name] for name in names])

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """The model has the averaged weights inside the block."""
        own = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(self.tensors)
        try:
            yield
        finally:
            model.load_state_dict(own)


def mean_of_models(models: Sequence[LoadedModel]) -> LoadedModel:
    """Weights and running statistics averaged in double precision, in the first one's place; all else is its own."""
    first = models[0]
    states = [loaded.model.state_dict() for loaded in models]
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in states]
    if any(loaded.vocabulary != first.vocabulary for loaded in models) or any(other != shapes[0] for other in shapes):
        raise InputError("models of other words or other sizes have no mean: they cannot have begun with one model")
    first.model.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]})
    return replace(first, calibration=None)  # which was fitted to one of them


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    """A count, as of batches that were seen, stays the first one's."""
    first = tensors[0]
    return (
        torch.stack([tensor.double() for tensor in tensors]).mean(0).to(first) if first.is_floating_point() else first
    )


PLATEAU_THRESHOLD = 1e-4  # relative, as in torch's ReduceLROnPlateau


def optimizer_for(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The paper's SGD with Nesterov momentum, or Adam or AdamW; AdamW does not decay norms and biases."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fused = all(parameter.is_cuda for parameter in parameters) or None
    if config.optimizer == "sgd":
        momentum, nesterov = config.momentum, config.momentum > 0
        rate, decay = config.learning_rate, config.weight_decay
        sgd = torch.optim.SGD(parameters, rate, momentum, weight_decay=decay, nesterov=nesterov, fused=fused)
        for parameter in parameters if momentum else ():  # if the first step is skipped, fused SGD leaves these unset
            sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return sgd
    beta1, beta2 = config.betas
    if config.optimizer == "adam":
        decay = config.weight_decay
        return torch.optim.Adam(parameters, config.learning_rate, (beta1, beta2), weight_decay=decay, fused=fused)
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, config.learning_rate, (beta1, beta2), fused=fused)


def step_if_finite(optimizer: torch.optim.Optimizer, norm: Tensor) -> None:
    """Step, unless the norm of the gradients is not finite: then weights and the optimiser's state stay as they are.

    A fused optimiser reads `found_inf`, which is torch.amp.GradScaler's way, on the device: nobody waits for the norm.
    """
    finite = torch.isfinite(norm)
    if all(group["fused"] for group in optimizer.param_groups):
        optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        optimizer.step()
        del optimizer.found_inf  # type: ignore[attr-defined]
    elif finite:
        optimizer.step()


@dataclass
class Schedule:
    """The learning rate of each step: warm-up, then the plateau's steps down, or a cosine to zero over the run.

    `factor`, `best` and `waited` are all it remembers; they are what a checkpoint keeps.
    """

    config: TrainingConfig
    total_steps: int
    factor: float = 1.0
    best: float = math.inf
    waited: int = 0

    def learning_rate(self, step: int) -> float:
        """The rate of a step, counted from 0."""
        warm = self.config.warmup_steps
        rate = self.config.learning_rate * min(1.0, (step + 1) / warm if warm else 1.0)
        if self.config.schedule == "plateau":
            return rate * self.factor
        done = (step - warm) / max(1, self.total_steps - warm)
        return rate * (1 + math.cos(math.pi * min(1.0, max(0.0, done)))) / 2

    def apply(self, optimizer: torch.optim.Optimizer, step: int) -> float:
        """Set the optimiser's rate for a step."""
        rate = self.learning_rate(step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        return rate

    def after_epoch(self, loss: float) -> None:
        """On a plateau (no better for more than `plateau_patience` epochs) the rate falls."""
        if loss < self.best * (1 - PLATEAU_THRESHOLD):
            self.best, self.waited = loss, 0
        else:
            self.waited += 1
        if self.waited > self.config.plateau_patience:
            self.factor, self.waited = self.factor * self.config.plateau_factor, 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON has no infinity."""
        kept = {name: value for name, value in asdict(self).items() if name in ("factor", "best", "waited")}
        return {name: None if value == math.inf else value for name, value in kept.items()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.factor, self.waited = state["factor"], state["waited"]
        self.best = math.inf if state["best"] is None else state["best"]
