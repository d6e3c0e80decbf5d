"""The caption gradient that is reported is the one that trains: checked against the whole loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from densevid.config import Config
from densevid.data.batches import Batch
from densevid.data.vocabulary import Vocabulary
from densevid.io import write_json
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataloader import TimelineLoader
from densevid.timelines.dataset import TimelineDataset
from densevid.training.objective import total_loss
from helpers.clip_collections import write_collection
from research.paper_tables.definitions import rows
from research.paper_tables.measure_models import gradient_norms
from research.paper_tables.model_runs import GRADIENT_FORMAT, ModelRun

STILL = {"dropout": 0.0, "input_dropout": 0.0}
TINY = {
    "model": {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 240, "kernels": [5, 20], **STILL},
    "features": {"streams": ["clip"], "widths": [16], "min_word_count": 1},
    "training": {"timelines": 8, "batch_size": 4, "clips_per_batch": 3, "segments_per_video": 2, "clip_share": 0.75},
}


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    clips = write_collection(tmp_path_factory.mktemp("gradient") / "clips")
    generator = TimelineGenerator(ClipCollection.read(clips), "train")
    samples = TimelineDataset(generator, Vocabulary.build(generator.sentences(), 1), Config().with_values(TINY))
    return next(TimelineLoader(samples, 4).batches(0))


def gradient(model: MaskedTransformer, batch: Batch, config: Config) -> Tensor:
    """Of everything that is minimised, in the proposal decoder."""
    model.zero_grad()
    total_loss(model, batch, config)[0].backward()
    found = [weights.grad for weights in model.proposal_decoder.parameters() if weights.grad is not None]
    return torch.cat([each.flatten() for each in found]).double()


@pytest.mark.parametrize("beside", [True, False])
def test_the_caption_gradient_is_that_of_training(batch: Batch, beside: bool) -> None:
    """It is the whole gradient less the gradient without the caption loss."""
    config = Config().with_values(TINY)
    silent = config.with_values({"training": {"word_weight": 0.0}})
    torch.manual_seed(0)
    model = MaskedTransformer(config, 400).train()
    assert batch.clips is not None
    shown = batch if beside else replace(batch, clips=None)
    words = gradient(model, shown, config) - gradient(model, shown, silent)
    measured = gradient_norms(model, iter([shown]), config)
    assert measured["words"] == pytest.approx(float(words.norm()), rel=1e-3) and measured["words"] > 0


@pytest.mark.parametrize(
    ("content", "known"),
    [
        ({"caption_share": 0.2, "format": GRADIENT_FORMAT}, True),
        ({"caption_share": 0.2}, False),  # measured without regard to clips beside a batch
        ({"caption_share": 0.2, "format": GRADIENT_FORMAT - 1}, False),
        ({}, False),
        ([], False),
    ],
)
def test_a_gradient_measured_in_an_older_way_is_measured_again(content: object, known: bool, tmp_path: Path) -> None:
    run = ModelRun(rows()["end-to-end"], 0, Config(), "hash", tmp_path)
    assert run.measured_gradient is None
    write_json(run.gradient, content)
    assert (run.measured_gradient is not None) == known
