"""Epochs: batches go through the step, the optimiser moves the weights, the learning rate follows the plateau."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from densevid.config import Config, TrainingConfig
from densevid.data.batches import Batch
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.step import total_loss

EpochReport = dict[str, float]


def optimizer_for(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The paper's SGD with Nesterov momentum, or Adam or AdamW."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=config.learning_rate,
            momentum=config.momentum,
            nesterov=config.momentum > 0,
            weight_decay=config.weight_decay,
        )
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)


def fit(
    model: MaskedTransformer,
    batches: Callable[[int], Iterable[Batch]],
    config: Config,
    on_epoch: Callable[[int, EpochReport], None] = lambda epoch, report: None,
) -> MaskedTransformer:
    """Train for `config.training.epochs` epochs; `batches(epoch)` gives the batches of one."""
    settings = config.training
    optimizer = optimizer_for(model, settings)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=settings.plateau_factor, patience=settings.plateau_patience
    )
    model.train()
    for epoch in range(settings.epochs):
        totals: dict[str, float] = {}
        count = 0
        for batch in batches(epoch):
            parts = train_step(model, batch, config, optimizer, epoch)
            for name, value in parts.items():
                totals[name] = totals.get(name, 0.0) + float(value)
            count += 1
        report = {name: value / count for name, value in totals.items()}
        plateau.step(report["total"])
        on_epoch(epoch, {**report, "learning_rate": optimizer.param_groups[0]["lr"]})
    return model.eval()


def train_step(
    model: MaskedTransformer, batch: Batch, config: Config, optimizer: torch.optim.Optimizer, epoch: int
) -> dict[str, torch.Tensor]:
    """Forward, backward, clip, step; a loss that is not a number stops the run with the batch named."""
    optimizer.zero_grad(set_to_none=True)
    loss, losses = total_loss(model, batch, config, epoch)
    if not torch.isfinite(loss):
        raise InputError(
            f"the loss is {float(loss)} in epoch {epoch} for the videos {', '.join(batch.videos[:4])}, ..."
        )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), config.training.gradient_clip)
    optimizer.step()
    return {"total": loss.detach(), **losses.detached()}
