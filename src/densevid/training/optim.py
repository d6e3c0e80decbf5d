"""The optimizer, its learning rate, and averages of weights.

- `optimizer_for` and `Schedule`: the paper's SGD halved on plateau, Adam, or AdamW with warm-up and cosine.
- `WeightAverage`: with `training.ema`, the exponential moving average that is validated and saved.
- `mean_of_models`: the mean of several finished models (model soups: Wortsman et al., 2022).
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

PLATEAU_THRESHOLD = 1e-4  # relative, as in torch's ReduceLROnPlateau


class WeightAverage:
    """average <- decay average + (1 - decay) weights after every step, of all weights and running statistics.

    Early on the decay is (1 + steps) / (10 + steps), so that the first weights soon have little part in it.
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
        """Average in the weights after `step` steps."""
        decay = min(self.decay, (1 + step) / (10 + step))
        current = model.state_dict(keep_vars=True)  # detaching hundreds of tensors takes longer than averaging them
        for names, average_in in (
            (self.floating, lambda own, new: torch._foreach_lerp_(own, new, 1 - decay)),
            (self.counters, torch._foreach_copy_),
        ):
            if names:
                average_in([self.tensors[name] for name in names], [current[name] for name in names])

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
    """Average weights and running statistics in double precision.

    Models that were trained on from one start, each in another order, lie in one valley, so that their mean is a
    network of the same size and speed that does about what all of them do together.

    Args:
        models: Models of the same shape and vocabulary.

    Returns:
        The first model with the mean weights, without a calibration.

    Raises:
        InputError: The models differ in shape or vocabulary.
    """
    first = models[0]
    states = [loaded.model.state_dict() for loaded in models]
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in states]
    if any(loaded.vocabulary != first.vocabulary for loaded in models) or any(other != shapes[0] for other in shapes):
        raise InputError("models of different vocabularies or sizes have no mean: they did not start from one model")
    first.model.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]})
    return replace(first, calibration=None)  # which was fitted to one of them


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    """Of floating tensors; counters, as of batches, are the first model's."""
    first = tensors[0]
    return (
        torch.stack([tensor.double() for tensor in tensors]).mean(0).to(first) if first.is_floating_point() else first
    )


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
    """Step, unless the norm of the gradients is not finite: then weights and the optimizer's state stay as they are.

    A fused optimizer reads `found_inf` on the device, as torch.amp.GradScaler has it, so nothing waits for the norm.
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

    `factor`, `best` and `waited` are its state, which a checkpoint keeps.
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
        """Set the optimizer's rate for a step."""
        rate = self.learning_rate(step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        return rate

    def after_epoch(self, loss: float) -> None:
        """Lower the rate on a plateau: no better loss for more than `plateau_patience` epochs."""
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
