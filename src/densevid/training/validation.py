"""Validation: the losses on held-out segments every epoch, and scores of sentences and proposals every few epochs."""

from __future__ import annotations

import torch

from densevid.config import Config
from densevid.data.loading import Loader
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.learner import PARTS, autocast
from densevid.training.ranks import mean_over_ranks
from densevid.training.step import total_loss


@torch.no_grad()
def validation_losses(model: MaskedTransformer, loader: Loader, config: Config) -> dict[str, float]:
    """Each loss over the held-out segments, the same anchors drawn every time; all ranks take part."""
    was_training = model.training
    model.eval()
    sums, count = torch.zeros(len(PARTS) - 1, dtype=torch.float64), 0
    for groups, batch in zip(loader.plan.batches(loader.dataset, 0), loader.batches(0), strict=True):
        with autocast(config, batch.valid_BT.device):
            total, losses = total_loss(model, batch, config)
        values = torch.stack([total.float(), *(value.float() for value in losses.detached().values())])
        sums += mean_over_ranks(values).double().cpu() * len(groups)
        count += len(groups)
    model.train(was_training)
    return dict(zip(PARTS, (sums / count).tolist(), strict=False))
