"""The optimiser and its learning rate: the paper's SGD halved on plateau, Adam, or AdamW with warm-up and cosine."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from densevid.config import TrainingConfig

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
