"""The settings that exist to be compared: each changes one thing, and inference follows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from densevid.checkpoint import LoadedModel
from densevid.inference.captioner import Captioner
from densevid.model.input_embedding import ChannelDropout, WholeStepDropout
from densevid.model.masked_transformer import MaskedTransformer
from helpers.random_models import WIDTH, random_model, random_track

STEPS = 30


def network(**model: object) -> MaskedTransformer:
    return random_model(dict(model)).model


def video() -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(2, STEPS, WIDTH), torch.ones(2, STEPS, dtype=torch.bool)


@pytest.mark.parametrize("reaches", [True, False])
@pytest.mark.parametrize("mask", ["gated", "learned"])
def test_captions_move_proposals_only_where_they_may(mask: str, reaches: bool) -> None:
    model = network(mask=mask, mask_gradient=reaches)
    features, valid = video()
    words = torch.randint(4, 20, (2, 5))
    predictions = model(features, valid, torch.tensor([3, 20]), words)
    heads = list(model.proposal_decoder.parameters())
    loss = predictions.word_logits_PLV.log_softmax(-1)[..., 5].sum()
    found = torch.autograd.grad(loss, [*heads, *model.encoder.parameters()], allow_unused=True)
    into_heads = [gradient for gradient in found[: len(heads)] if gradient is not None and gradient.abs().max() > 0]
    assert bool(into_heads) == reaches
    assert any(gradient is not None and gradient.abs().max() > 0 for gradient in found[len(heads) :])


@pytest.mark.parametrize("mask", ["gated", "learned"])
def test_words_alone_can_be_cut_off_from_the_proposals(mask: str) -> None:
    """Of the two losses behind the mask the mask loss still moves proposals; both still teach the mask."""
    model = network(mask=mask, word_gradient=False)
    features, valid = video()
    predictions = model(features, valid, torch.tensor([3, 20]), torch.randint(4, 20, (2, 5)))
    logits = predictions.event_mask.soft_logits_PT
    assert logits is not None
    for loss, reaches in ((predictions.word_logits_PLV.log_softmax(-1)[..., 5].sum(), False), (logits.sum(), True)):
        assert bool(moved(loss, model.proposal_decoder)) == reaches
        assert moved(loss, model.masking)


def moved(loss: Tensor, part: nn.Module) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(part.parameters()), retain_graph=True, allow_unused=True)
    return [gradient for gradient in found if gradient is not None and gradient.abs().max() > 0]


@pytest.mark.parametrize("switch", ["mask_gradient", "word_gradient"])
def test_cutting_the_gradient_changes_no_number(switch: str) -> None:
    features, valid = video()
    words = torch.randint(4, 20, (2, 5))
    ours, theirs = (
        network(**{switch: reaches})(features, valid, torch.tensor([3, 20]), words).word_logits_PLV
        for reaches in (True, False)
    )
    torch.testing.assert_close(ours, theirs, atol=0, rtol=0)


def test_the_mask_is_the_sigmoid_of_its_logits_or_the_logits_themselves() -> None:
    masks = {}
    for values in ("sigmoid", "logits"):
        model = network(mask="learned", mask_values=values)
        features, valid = video()
        encoded = model.encode(features, valid)
        picked = model.propose(encoded).pick(torch.arange(2), torch.tensor([3, 20]))
        masks[values] = model.event_mask(picked, STEPS, encoded.lengths_B).mask_PT
    torch.testing.assert_close(masks["logits"].sigmoid(), masks["sigmoid"])


def test_the_first_encoding_is_masked_instead_of_encoding_again() -> None:
    model = network(focus="mask")
    features, valid = video()
    encoded = model.encode(features, valid)
    mask = torch.rand(2, STEPS)
    memory = model.focus(encoded, mask)
    for ours, first in zip(memory.layers, encoded.memory.layers, strict=True):
        torch.testing.assert_close(ours, first * mask[..., None])
    again = network().focus(encoded, mask)
    assert not torch.allclose(memory.last_BTD, again.last_BTD)


@pytest.mark.parametrize("beam", [1, 2])
def test_the_captioner_gives_the_networks_words_for_a_masked_first_encoding(beam: int) -> None:
    """Packed inference against the plain network, word after word."""
    loaded: LoadedModel = random_model({"focus": "mask"}, {"beam": beam})
    track, spans = random_track(STEPS), [(1.0, 6.0), (4.0, 14.0), (0.0, 15.0)]
    captions = [event.sentence for event in Captioner(loaded).caption_segments(track, spans)]
    again = [event.sentence for event in Captioner(random_model({}, {"beam": beam})).caption_segments(track, spans)]
    assert captions != again, "the switch reaches inference"
    if beam == 1:
        assert captions == [plain_sentence(loaded, track.values, span) for span in spans]


@torch.inference_mode()
def plain_sentence(loaded: LoadedModel, values: object, span: tuple[float, float]) -> str:
    model = loaded.model
    features = torch.as_tensor(values)[None].float()
    encoded = model.encode(features, torch.ones(1, STEPS, dtype=torch.bool))
    steps = torch.tensor([[span[0] / 0.5, span[1] / 0.5]])
    mask = model.segment_mask(steps, STEPS, torch.tensor([float(STEPS)]))
    words = [2]
    for _ in range(loaded.config.inference.max_words):
        state = model.begin_caption(encoded, mask)
        logits = model.next_words(torch.tensor([words]), state)[0, -1]
        logits[:3] = -torch.inf
        words.append(int(logits.argmax()))
        if words[-1] == 3:
            break
    return loaded.vocabulary.decode(words[1:])


def test_input_dropout_of_channels_or_of_whole_steps() -> None:
    assert isinstance(network().input_embedding.dropout, ChannelDropout)
    assert isinstance(network(input_dropout_of="steps").input_embedding.dropout, WholeStepDropout)
