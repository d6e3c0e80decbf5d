"""An exponential moving average of the weights: where `training.ema` asks for it, it is what is validated and saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """average <- decay average + (1 - decay) weights after every step, of all weights and running statistics.

    Early on the decay is (1 + steps) / (10 + steps), so that the beginning is soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after `step` steps."""
        decay = min(self.decay, (1 + step) / (10 + step))
        current = model.state_dict()
        floating = [name for name, tensor in self.tensors.items() if tensor.is_floating_point()]
        torch._foreach_lerp_([self.tensors[name] for name in floating], [current[name] for name in floating], 1 - decay)
        for name in self.tensors.keys() - set(floating):
            self.tensors[name].copy_(current[name])

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
