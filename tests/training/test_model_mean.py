"""The mean of models: by hand, and refused where there is none."""

from __future__ import annotations

import pytest
import torch

from densevid.checkpoint import LoadedModel
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.training.optim import mean_of_models
from helpers.random_models import random_model


def test_weights_and_running_statistics_are_averaged_and_counts_are_not() -> None:
    models = [random_model({}, {}, seed=seed) for seed in range(3)]
    for number, loaded in enumerate(models):
        for name, buffer in loaded.model.named_buffers():
            if name.endswith("num_batches_tracked"):
                buffer.fill_(10 + number)
    states = [{name: tensor.clone() for name, tensor in loaded.model.state_dict().items()} for loaded in models]
    mean = mean_of_models(models)
    for name, tensor in mean.model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            assert int(tensor) == 10
        else:
            torch.testing.assert_close(tensor, (states[0][name] + states[1][name] + states[2][name]) / 3)
    assert mean.calibration is None and mean.vocabulary == models[0].vocabulary


def test_a_model_alone_is_its_own_mean() -> None:
    loaded = random_model({}, {})
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    assert all(
        torch.equal(tensor, before[name]) for name, tensor in mean_of_models([loaded]).model.state_dict().items()
    )


def test_models_that_did_not_begin_together_have_no_mean() -> None:
    one, wide = random_model({}, {}), random_model({"width": 64}, {})
    words = Vocabulary((*SPECIAL_TOKENS, *(f"other{number}" for number in range(len(one.vocabulary) - 4))))
    strange = LoadedModel(random_model({}, {}).model, one.config, words, None)
    for other in (wide, strange):
        with pytest.raises(InputError, match="have no mean"):
            mean_of_models([one, other])
