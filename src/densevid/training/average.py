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
