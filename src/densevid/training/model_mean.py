"""The mean of several models: networks that learnt on from one start, each in another order, agree better than any.

Their weights lie in one valley, so that the mean of them is a network too, of the same size and speed, which does about
what all of them say together (model soups: Wortsman et al., 2022). Networks that began apart have no such mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel
from densevid.errors import InputError


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
