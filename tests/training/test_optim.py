"""Learning rates, optimizers, the average of the weights of a run, and the mean of several models."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import nn

from densevid.checkpoint import LoadedModel
from densevid.config import TrainingConfig, load_config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.training.optim import Schedule, WeightAverage, mean_of_models, optimizer_for
from helpers.random_models import random_model


def config(**values: object) -> TrainingConfig:
    return load_config(None).with_values({"training": values}).training


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_the_plateau_schedule_equals_that_of_torch(patience: int) -> None:
    settings = config(learning_rate=0.1, plateau_patience=patience)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience, eps=0)
    ours, draw = Schedule(settings, 100), random.Random(0)
    for epoch in range(60):
        loss = 2 / (1 + epoch) + draw.random() * 0.3
        ours.after_epoch(loss)
        theirs.step(loss)
        assert ours.learning_rate(0) == pytest.approx(optimizer.param_groups[0]["lr"])
    assert ours.factor < 1


def test_warm_up_and_cosine() -> None:
    schedule = Schedule(config(learning_rate=2.0, schedule="cosine", warmup_steps=10), 110)
    assert schedule.learning_rate(0) == pytest.approx(0.2) and schedule.learning_rate(9) == pytest.approx(2)
    assert schedule.learning_rate(10) == pytest.approx(2) and schedule.learning_rate(60) == pytest.approx(1)
    assert schedule.learning_rate(35) == pytest.approx(1 + math.cos(math.pi / 4))
    assert schedule.learning_rate(110) == pytest.approx(0, abs=1e-12) == schedule.learning_rate(500)
    falling = [schedule.learning_rate(step) for step in range(10, 110)]
    assert falling == sorted(falling, reverse=True)


def test_warm_up_before_a_plateau() -> None:
    schedule = Schedule(config(learning_rate=1.0, warmup_steps=4), 100)
    assert [schedule.learning_rate(step) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_a_schedule_goes_on_from_its_state() -> None:
    one, two = (Schedule(config(plateau_patience=1), 100) for _ in range(2))
    assert one.state() == {"factor": 1.0, "best": None, "waited": 0}
    losses = [3.0, 2.0, 2.5, 2.4, 2.6, 2.7, 1.0]
    for loss in losses[:4]:
        one.after_epoch(loss)
    two.load(one.state())
    for loss in losses[4:]:
        one.after_epoch(loss)
        two.after_epoch(loss)
    assert one.state() == two.state() and one.factor == 0.25


def test_adamw_leaves_norms_and_biases_alone() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.BatchNorm1d(4), nn.Conv1d(4, 2, 3))
    optimizer = optimizer_for(model, config(optimizer="adamw", weight_decay=0.5, betas=[0.8, 0.95], learning_rate=0.1))
    assert optimizer.defaults["betas"] == (0.8, 0.95)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer.step()
    for name, parameter in model.named_parameters():
        decayed = name in ("0.weight", "3.weight")
        torch.testing.assert_close(parameter.detach(), before[name] * (1 - 0.1 * 0.5 if decayed else 1))


def test_sgd_has_the_settings_of_the_paper() -> None:
    optimizer = optimizer_for(nn.Linear(2, 2), TrainingConfig())
    assert isinstance(optimizer, torch.optim.SGD)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["momentum"], group["nesterov"], group["weight_decay"]) == (0.1, 0.95, True, 1e-5)


def test_frozen_parameters_are_in_no_group() -> None:
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(False)
    assert sum(len(group["params"]) for group in optimizer_for(model, config(optimizer="adamw")).param_groups) == 1


def test_an_average_is_a_weighted_sum_of_the_past() -> None:
    model = nn.Linear(1, 1, bias=False)
    past = [1.0, 4.0, -2.0, 8.0]
    model.weight.data.fill_(past[0])
    average = WeightAverage(model, 0.5)
    want = past[0]
    for step, value in enumerate(past[1:], start=1):
        model.weight.data.fill_(value)
        average.update(model, step)
        decay = min(0.5, (1 + step) / (10 + step))
        want = decay * want + (1 - decay) * value
    assert float(average.tensors["weight"]) == pytest.approx(want)
    with average.in_place_of(model):
        assert model.weight.item() == pytest.approx(want)
    assert model.weight.item() == past[-1]


def test_counters_are_copied_not_averaged() -> None:
    norm = nn.BatchNorm1d(2)
    average = WeightAverage(norm, 0.9)
    norm(torch.randn(4, 2))
    average.update(norm, 1)
    assert int(average.tensors["num_batches_tracked"]) == 1


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
