"""The paper's central claim by itself: how much of what moves the proposals comes from the captions?

For a trained model, and for the same model before its first step, the gradient of each weighted loss is taken with
respect to the proposal decoder, on a few batches of training data. Reported are their norms and the share of the words'
norm in the norms of all; it is zero where `model.word_gradient` or `model.mask_gradient` is off, and where the mask is
discrete.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from densevid.checkpoint import load_model
from densevid.config import Config
from densevid.data.batches import Batch
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.io import provenance, write_json
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.dataloader import TimelineLoader
from densevid.training.data import PreparedData, prepare
from densevid.training.run import pick_device
from densevid.training.step import total_loss
from research.paper_tables.model_runs import GRADIENT_FORMAT, ModelRun
from research.paper_tables.prepared_data import Files

BATCHES = 8
WEIGHTS = {"score": "score_weight", "offsets": "offset_weight", "mask": "mask_weight", "words": "word_weight"}


def write_gradient(run: ModelRun, files: Files, device_name: str | None) -> None:
    """Measure both models of a run and note it in the run's folder."""
    device, loaded = pick_device(device_name), load_model(run.model)
    data = prepare(run.config, files, None, loaded.vocabulary)
    torch.manual_seed(run.seed)
    fresh = MaskedTransformer(run.config, len(loaded.vocabulary))
    measured = {
        when: gradient_norms(model.to(device), few_batches(data, run.config, device, BATCHES), run.config)
        for when, model in (("before", fresh), ("after", loaded.model))
    }
    content = {
        **measured,
        "caption_share": measured["after"]["caption_share"],
        "batches": BATCHES,
        "format": GRADIENT_FORMAT,
    }
    write_json(run.gradient, {**content, "provenance": provenance(config_hash=run.config.hash, model=run.hash)})


def gradient_norms(model: MaskedTransformer, batches: Iterator[Batch], config: Config) -> dict[str, float]:
    """The mean norm of each weighted loss's gradient in the proposal decoder, and the words' share of their sum."""
    parameters: list[Tensor] = list(model.proposal_decoder.parameters())
    weights = {part: getattr(config.training, weight) for part, weight in WEIGHTS.items()}
    sums = dict.fromkeys(WEIGHTS, 0.0)
    count = 0
    model.train()
    for batch in batches:
        _, losses = total_loss(model, batch, config)  # clips beside the batch take their share of the words
        for name in WEIGHTS:
            sums[name] += _norm(weights[name] * getattr(losses, name), parameters)
        count += 1
    norms = {name: value / max(count, 1) for name, value in sums.items()}
    return {**norms, "caption_share": norms["words"] / max(sum(norms.values()), 1e-30)}


def _norm(loss: Tensor, parameters: list[Tensor]) -> float:
    """0 where the loss does not depend on any of them."""
    if not loss.requires_grad:
        return 0.0
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    squares = [gradient.double().pow(2).sum() for gradient in found if gradient is not None]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def few_batches(data: PreparedData, config: Config, device: torch.device, count: int) -> Iterator[Batch]:
    """The first batches of a run's training data, on the device."""
    size = config.training.batch_size
    if isinstance(data.training, SegmentDataset):
        loaded = SegmentLoader(data.training, BatchSampler(size, config.training.seed), device=device).batches(0)
    else:
        loaded = TimelineLoader(data.training, size, device=device).batches(0)
    return islice(loaded, count)
