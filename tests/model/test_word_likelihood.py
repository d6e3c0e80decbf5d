"""The likelihood of given words is that of the logits of all words, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from densevid.data.vocabulary import INIT, PAD
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.word_likelihood import WordLikelihood, counted_places, likelihood
from helpers.random_models import random_model
from helpers.tagged_models import made_classifiers, tagged_model, tagged_track

VIDEOS, SENTENCES, LENGTH = 3, 4, 7


@pytest.fixture(autouse=True)
def classifiers() -> Iterator[None]:
    with made_classifiers():
        yield


def sentences(model: MaskedTransformer, seed: int = 0) -> Tensor:
    """Some of the words are those of tags, and sentences end at any place, some at once."""
    rng = np.random.default_rng(seed)
    words = rng.integers(3, len(model.caption_decoder.words.weight), size=(VIDEOS * SENTENCES, LENGTH + 1))
    if model.tagger is not None:
        features, valid = videos()
        tags = model.tags(model.encode(features, valid), valid.float())
        assert tags is not None
        for row in range(len(words)):
            known = tags.words_PNW[row // SENTENCES].flatten()
            known = known[known >= 0].numpy()
            words[row, 2::2] = rng.choice(known, size=len(words[row, 2::2]))
    words[:, 0] = INIT
    for row, length in enumerate(rng.integers(0, LENGTH + 1, size=len(words))):
        words[row, 1 + length :] = PAD
    return torch.from_numpy(words)


def videos() -> tuple[Tensor, Tensor]:
    tracks = [tagged_track(20, seed, without_actions=seed == 1) for seed in range(VIDEOS)]
    features = torch.stack([torch.from_numpy(np.asarray(track.values)) for track in tracks])
    return features, torch.ones(VIDEOS, 20, dtype=torch.bool)


def loss(model: MaskedTransformer, words: Tensor, smoothing: float, *, plain: bool) -> Tensor:
    """Of several sentences of each video that read one memory: by the logits of all words, or without them."""
    features, valid = videos()
    video = model.encode(features, valid)
    state = model.begin_caption(video, valid.float(), model.tags(video, valid.float()))
    state.branch(SENTENCES)
    before, after = words[:, :-1], words[:, 1:]
    if plain:
        logits = model.next_words(before, state).flatten(0, 1)
        every = torch.nn.functional.cross_entropy(logits, after.flatten(), reduction="none", label_smoothing=smoothing)
        return every[(after != PAD).flatten()]
    return model.likelihood(before, state, after, counted_places(after != PAD)).loss(smoothing)


def gradients(model: MaskedTransformer, losses: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    (losses * torch.linspace(0.5, 1.5, len(losses))).sum().backward()
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tags", [0, 3])
def test_losses_and_gradients_are_those_of_all_logits(tags: int, smoothing: float) -> None:
    model = tagged_model(tags=tags).model
    words = sentences(model)
    want, got = (loss(model, words, smoothing, plain=plain) for plain in (True, False))
    torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-5)
    wanted, given = gradients(model, want), gradients(model, got)
    assert wanted.keys() == given.keys() and "caption_decoder.words.weight" in wanted
    for name, gradient in wanted.items():
        torch.testing.assert_close(
            given[name], gradient, atol=2e-4, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_words_of_tags_are_among_the_words_that_are_compared() -> None:
    model = tagged_model().model
    with torch.no_grad():
        copied = loss(model, sentences(model), 0.0, plain=False)
        model.caption_decoder.copy_head.sentinel.bias.fill_(40.0)  # nothing is copied
        own = loss(model, sentences(model), 0.0, plain=False)
    assert ((copied - own).abs() > 0.01).float().mean() > 0.3


def test_a_tag_that_repeats_a_word_counts_it_once() -> None:
    model = tagged_model().model
    assert model.tagger is not None
    model.tagger.words_CW[:] = model.tagger.words_CW[:, :1]  # every slot of a class holds its first word
    words = sentences(model)
    want, got = (loss(model, words, 0.1, plain=plain) for plain in (True, False))
    torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-5)


def test_a_decoder_without_the_short_way_gives_the_same_form() -> None:
    model = random_model(model={"decoder": "lstm"}).model
    assert model.tagger is None
    logits = torch.randn(5, 11)
    target = torch.tensor([0, 3, 10, 3, 1])
    want = torch.nn.functional.cross_entropy(logits, target, reduction="none", label_smoothing=0.2)
    torch.testing.assert_close(WordLikelihood.of_logits(logits, target).loss(0.2), want)


@pytest.mark.parametrize("rows", [1, 512, 513, 1500])
def test_slices_make_no_difference(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    output, weight = (torch.randn(size, 16, generator=generator, requires_grad=True) for size in (rows, 40))
    bias = torch.randn(40, generator=generator, requires_grad=True)
    target = torch.randint(40, (rows,), generator=generator)
    got, normalizer = likelihood(output, weight, bias, target)
    logits = output @ weight.T + bias
    torch.testing.assert_close(normalizer, logits.logsumexp(dim=-1))
    want = WordLikelihood.of_logits(logits, target)
    torch.testing.assert_close(got.log_p_N, want.log_p_N, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.sum_N, want.sum_N, atol=1e-3, rtol=1e-5)
    own = torch.autograd.grad(got.loss(0.1).mean(), (output, weight, bias))
    plain = torch.autograd.grad(want.loss(0.1).mean(), (output, weight, bias))
    torch.testing.assert_close(own, plain, atol=1e-6, rtol=1e-4)
