"""With the same dropout masks, a training step gives the release's numbers: outputs, losses, statistics, gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from densevid.config import TrainingConfig
from densevid.import_released import import_released, released_name
from densevid.model.masked_transformer import MaskedTransformer, Predictions
from densevid.training.losses import Losses, caption_loss, mask_loss, proposal_losses
from densevid.training.targets import Targets
from helpers.released_weights import released_weights
from helpers.replayed_dropout import DropoutMasks, drawn_from
from reference.released_reference import Settings
from reference.released_training import ReleasedTraining, Sample

RELATIVE = 1e-5
LENGTHS = (40, 31, 17, 40)


def sample_of(settings: Settings) -> Sample:
    """Videos of several lengths, ten positives and ten negatives each, and sentences of several lengths."""
    random = torch.Generator().manual_seed(5)
    resnet, bn = (torch.randn(len(LENGTHS), 40, width, generator=random) for width in settings.stream_widths)
    for video, length in enumerate(LENGTHS):
        resnet[video, length:], bn[video, length:] = 0, 0
    words = torch.randint(4, len(settings.words), (len(LENGTHS), 9), generator=random)
    words[:, 0] = 2
    for video, length in enumerate((9, 4, 6, 7)):
        words[video, length - 1], words[video, length:] = 3, 1
    drawn = torch.stack([torch.randperm(100, generator=random)[:20] for _ in LENGTHS])
    targets = torch.randn(len(LENGTHS), 10, 2, generator=random)
    return Sample(resnet, bn, drawn[:, :10], targets, drawn[:, 10:], words)


def our_model(settings: Settings, weights: dict[str, Tensor], folder: Path) -> MaskedTransformer:
    torch.save(weights, folder / "weights.pth")
    (folder / "words.txt").write_text("\n".join(settings.words))
    flags = settings.flags()[1::2]
    model = import_released(folder / "weights.pth", folder / "words.txt", "activitynet", flags).model
    assert (model.config.model.dropout, model.config.model.input_dropout) == (0.2, 0.1)
    return model.double().train()


def our_step(model: MaskedTransformer, sample: Sample) -> tuple[Predictions, Losses]:
    """The forward pass, the losses and the backward pass."""
    features = torch.cat((sample.resnet, sample.bn), dim=-1).double()
    seen = torch.ones(features.shape[:2], dtype=torch.bool)
    predictions = model(features, seen, sample.positive[:, 0], sample.words[:, :-1])
    everyone = torch.ones_like(sample.positive, dtype=torch.bool)
    config = TrainingConfig()
    targets = Targets(sample.positive, everyone, sample.targets.flip(-1), sample.negative, everyone)
    score, offsets = proposal_losses(predictions.proposals, targets, config)
    mask = mask_loss(predictions.event_mask, seen, config)
    words = caption_loss(predictions.word_logits_PLV, sample.words, everyone[:, 0], config)
    losses = Losses(score, offsets, mask, words)
    losses.total(config).backward()
    return predictions, losses


def close(name: str, ours: Tensor, theirs: Tensor, smallest: float = 1e-12) -> None:
    assert ours.shape == theirs.shape, name
    off, scale = (float(values.detach().abs().max()) for values in (ours - theirs, theirs))
    assert off <= RELATIVE * scale + smallest, f"{name}: off by {off:.2g} of {scale:.2g}"


@pytest.mark.parametrize("mask", ["gated", "learned", "discrete"])
def test_a_training_step_is_the_releases(mask: str, tmp_path: Path) -> None:
    settings = Settings(mask=mask)
    sample, weights = sample_of(settings), released_weights(settings, 3)
    theirs = ReleasedTraining(weights, settings, DropoutMasks(11))
    want = theirs.forward(sample)
    want.total.backward()
    model, masks = our_model(settings, weights, tmp_path), DropoutMasks(11)
    with drawn_from(masks):
        got, losses = our_step(model, sample)
    # Embedding, twice the encoder (its input, three in each layer), the decoder (its input, five in each layer).
    assert len(masks.shapes) == 1 + 2 * (1 + 3 * 2) + (1 + 5 * 2)

    close("scores", got.proposals.logits_BA, want.rows[:, 0])
    close("offsets", got.proposals.offsets_BA2, want.rows[:, [3, 2]].transpose(1, 2))
    close("event mask", got.event_mask.mask_PT, want.mask)
    for layer, (mine, his) in enumerate(zip(got.memory.layers, want.encoded, strict=True)):
        close(f"masked encoding {layer}", mine, his)
    close("words", got.word_logits_PLV, want.word_logits)
    for name, mine, his in (
        ("score loss", losses.score, want.score_loss),
        ("offset loss", losses.offsets, want.offset_loss),
        ("mask loss", losses.mask, want.mask_loss),
        ("caption loss", losses.words, want.word_loss),
    ):
        close(name, mine, his)

    gradients = theirs.gradients()
    smallest = 1e-9 * max(float(gradient.abs().max()) for gradient in gradients.values())
    compared = set()
    for name, parameter in model.named_parameters():
        released = released_name(name)
        assert parameter.grad is not None, name
        close(f"gradient of {name}", parameter.grad, gradients[released], smallest)
        compared.add(released)
    assert compared == gradients.keys()
    moved = {released_name(name): value for name, value in model.named_buffers() if "running" in name}
    assert moved.keys() == theirs.moved.keys()
    for name, value in moved.items():
        close(name, value, theirs.moved[name])


def test_other_masks_give_other_numbers(tmp_path: Path) -> None:
    """What makes the comparison above worth something: dropout moves outputs and gradients far more than it allows."""
    settings = Settings()
    sample, weights = sample_of(settings), released_weights(settings, 3)
    words, scores = [], []
    for seed in (11, 12):
        with drawn_from(DropoutMasks(seed)):
            predictions, _ = our_step(our_model(settings, weights, tmp_path), sample)
        words.append(predictions.word_logits_PLV.detach())
        scores.append(predictions.proposals.logits_BA.detach())
    for first, second in (words, scores):
        assert float((first - second).abs().max()) > 0.05 * float(first.abs().max())
