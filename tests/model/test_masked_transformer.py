"""The laws of the whole figure, for every mixture the paper's tables need."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from densevid.config import Config
from densevid.model.masked_transformer import MaskedTransformer

STEPS, WORDS = 24, 40


def build(**model: object) -> MaskedTransformer:
    torch.manual_seed(0)
    values = {"width": 16, "hidden": 32, "heads": 4, "window": STEPS, "kernels": [1, 2, 4, 8, 16], "stride_factor": 4}
    features = {"streams": ["appearance", "motion"], "widths": [6, 4]}
    config = Config().with_values({"model": {**values, **model}, "features": features})
    return MaskedTransformer(config, WORDS).eval()


def inputs(batch: int = 2, steps: int = STEPS) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    words = torch.randint(4, WORDS, (batch, 5))
    words[:, 0] = 2
    valid = torch.ones(batch, steps, dtype=torch.bool)
    return torch.randn(batch, steps, 10), valid, torch.arange(batch) * 30 + 3, words


MIXTURES = list(
    itertools.product(["self-attention", "bi-lstm"], ["self-attention", "lstm"], ["gated", "learned", "discrete"])
)


@pytest.mark.parametrize(("encoder", "decoder", "mask"), MIXTURES)
@pytest.mark.parametrize("layers", [1, 3])
def test_every_mixture_of_the_tables_can_be_built_and_run(encoder: str, decoder: str, mask: str, layers: int) -> None:
    model = build(encoder=encoder, decoder=decoder, mask=mask, layers=layers)
    features, valid, anchors, words = inputs()
    predictions = model(features, valid, anchors, words)
    assert predictions.word_logits_PLV.shape == (2, 5, WORDS)
    assert predictions.proposals.logits_BA.shape[1] == len(predictions.proposals.anchors_A2)
    assert torch.isfinite(predictions.word_logits_PLV).all()


@pytest.mark.parametrize("head", ["three-layer", "procnets"])
@pytest.mark.parametrize("encoder", ["self-attention", "bi-lstm"])
def test_padding_changes_nothing(encoder: str, head: str) -> None:
    model = build(encoder=encoder, proposal_head=head)
    features, valid, _, words = inputs(steps=14)
    padded = torch.cat((features, torch.randn(2, 10, 10)), dim=1)
    longer = torch.arange(24).expand(2, 24) < 14
    short, long = model.encode(features, valid), model.encode(padded, longer)
    ours, theirs = model.propose(short), model.propose(long)
    where = [
        theirs.anchors_A2.eq(anchor).all(-1).nonzero().item() for anchor in ours.anchors_A2
    ]  # the same anchors in the longer grid
    torch.testing.assert_close(ours.logits_BA, theirs.logits_BA[:, where], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ours.intervals_BA2, theirs.intervals_BA2[:, where], atol=1e-4, rtol=1e-4)

    row = torch.arange(2)
    for anchor, other in ((0, where[0]), (20, where[20])):
        picked = ours.pick(row, torch.tensor([anchor] * 2))
        mask = model.event_mask(picked, 14, short.lengths_B).mask_PT
        same = model.event_mask(theirs.pick(row, torch.tensor([other] * 2)), 24, long.lengths_B).mask_PT
        first = model.next_words(words, model.begin_caption(short, mask))
        second = model.next_words(words, model.begin_caption(long, same))
        torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mask", ["gated", "learned", "discrete"])
def test_the_caption_loss_alone_moves_the_proposal(mask: str) -> None:
    model = build(mask=mask)
    features, valid, anchors, words = inputs()
    video = model.encode(features, valid)
    proposals = model.propose(video)
    proposals.logits_BA.retain_grad()
    proposals.offsets_BA2.retain_grad()
    row = torch.arange(2)
    event_mask = model.event_mask(proposals.pick(row, anchors), STEPS, video.lengths_B)
    logits = model.next_words(words, model.begin_caption(video, event_mask.mask_PT))
    logits.log_softmax(-1)[..., 7].sum().backward()

    score, offsets = proposals.logits_BA.grad, proposals.offsets_BA2.grad
    if mask == "discrete":
        assert score is None and offsets is None
        return
    assert (offsets[row, anchors].abs() > 1e-9).all(), "center and length of the captioned anchor"
    assert offsets.count_nonzero() == 4, "and of no other"
    assert (score[row, anchors].abs() > 1e-9).all() if mask == "gated" else score is None


def test_a_detached_proposal_is_not_moved() -> None:
    model = build()
    features, valid, anchors, words = inputs()
    video = model.encode(features, valid)
    proposals = model.propose(video)
    proposals.logits_BA.retain_grad()
    proposals.offsets_BA2.retain_grad()
    picked = proposals.pick(torch.arange(2), anchors).detach()
    mask = model.event_mask(picked, STEPS, video.lengths_B).mask_PT
    model.next_words(words, model.begin_caption(video, mask)).sum().backward()
    assert proposals.logits_BA.grad is None and proposals.offsets_BA2.grad is None


def test_training_and_inference_are_one_body() -> None:
    """`forward` gives exactly what its parts give when called one by one."""
    model = build()
    features, valid, anchors, words = inputs()
    whole = model(features, valid, anchors, words)
    video = model.encode(features, valid)
    proposals = model.propose(video)
    mask = model.event_mask(proposals.pick(torch.arange(2), anchors), STEPS, video.lengths_B)
    torch.testing.assert_close(whole.proposals.logits_BA, proposals.logits_BA)
    torch.testing.assert_close(whole.event_mask.mask_PT, mask.mask_PT)
    words_again = model.next_words(words, model.begin_caption(video, mask.mask_PT))
    torch.testing.assert_close(whole.word_logits_PLV, words_again)


def test_what_lies_outside_a_given_segment_does_not_matter() -> None:
    model = build()
    features, valid, _, words = inputs()
    mask = model.segment_mask(torch.tensor([[5.0, 11.0], [5.0, 11.0]]), STEPS, torch.tensor([24, 24]))
    assert mask[0].nonzero().flatten().tolist() == list(range(5, 11))
    changed = features.clone()
    changed[:, :5] += 3
    changed[:, 11:] -= 3
    ours = model.next_words(words, model.begin_caption(model.encode(features, valid), mask))
    theirs = model.next_words(words, model.begin_caption(model.encode(changed, valid), mask))
    torch.testing.assert_close(ours, theirs)
