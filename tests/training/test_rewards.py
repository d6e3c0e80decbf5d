"""Self-critical training against the exact gradient of the expected reward, found by listing every sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch
from densevid.data.dataset import SegmentDataset
from densevid.data.sources import InMemoryFeatures
from densevid.data.vocabulary import EOS, INIT, PAD, Vocabulary
from densevid.errors import InputError
from densevid.inference.search import greedy
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.video_encoder import Memory
from densevid.training.rewards import (
    END,
    Reward,
    documents_of,
    log_probabilities,
    reward_for,
    reward_loss,
    sample_words,
)
from densevid.training.sentence_scores import Words
from examples.learn_generated_videos import RECIPE, SMALL, generate

VOCABULARY = Vocabulary(("<unk>", "<pad>", "<init>", "<eos>", "dog", "cat"))
LAST_WORDS = (EOS, 4, 5)
LENGTH = 2
WORTH = {(): 0.0, ("dog",): 1.0, ("cat",): 0.2, ("dog", "dog"): 0.1, ("dog", "cat"): 3.0, ("cat", "dog"): 0.7}


def toy(decoder: str) -> tuple[MaskedTransformer, Config]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    small = {"width": 8, "hidden": 8, "heads": 2, "layers": 1, "dropout": 0.3, "decoder": decoder}
    config = SMALL.with_values({"model": small, "training": {"max_words": LENGTH}})
    return MaskedTransformer(config, len(VOCABULARY)).train(), config


def memory_of(rows: int) -> Memory:
    layer = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(1)).expand(rows, -1, -1)
    return Memory((layer,), torch.ones(rows, 5, dtype=torch.bool))


def batch_of(rows: int) -> Batch:
    nothing = torch.zeros(rows, 1)
    words = torch.full((rows, 1), INIT)
    return Batch(["v"] * rows, nothing, nothing, nothing, nothing, torch.arange(rows), nothing, nothing, words)


def worth(words: tuple[str, ...]) -> float:
    return WORTH.get(tuple(word for word in words if word != END), 0.4)


def starts(sentences: int) -> Tensor:
    return torch.full((sentences,), INIT)


def reward(samples: int = 1) -> Reward:
    def score(sentences: Sequence[Words], _: Sequence[int]) -> npt.NDArray[np.float64]:
        return np.array([worth(words) for words in sentences])

    return Reward(score, lambda batch: [0] * len(batch), VOCABULARY, LENGTH, samples)


def every_sentence() -> Tensor:
    """All sentences of two words: <eos> at once, or after one word, or not at all."""
    sentences = [(EOS, PAD), *((word, last) for word in LAST_WORDS[1:] for last in LAST_WORDS)]
    return torch.tensor(sentences)


def expected_reward(model: MaskedTransformer) -> Tensor:
    """Sum over all sentences of probability x reward, differentiably."""
    sentences = every_sentence()
    model.caption_decoder.eval()
    logs = log_probabilities(
        model, model.caption_decoder.begin(memory_of(len(sentences))), starts(len(sentences)), sentences
    )
    model.caption_decoder.train()
    chance = torch.where(sentences != PAD, logs, 0).sum(dim=1).exp()
    assert chance.sum().item() == pytest.approx(1, abs=1e-5)
    return (chance * reward()(sentences, [0] * len(sentences))).sum()


@pytest.mark.parametrize("decoder", ["self-attention", "lstm"])
@pytest.mark.parametrize("samples", [1, 4])
def test_its_gradient_is_that_of_the_expected_reward(decoder: str, samples: int) -> None:
    model, _ = toy(decoder)
    parameters = list(model.caption_decoder.parameters())
    exact = torch.autograd.grad(expected_reward(model), parameters)
    rows = 20_000 // samples
    everyone = torch.ones(rows, dtype=torch.bool)
    loss = reward_loss(model, [(memory_of(rows), batch_of(rows), everyone)], reward(samples))
    estimate = torch.autograd.grad(loss, parameters)
    ours, theirs = (torch.cat([gradient.flatten() for gradient in found]) for found in (estimate, exact))
    agreement = torch.nn.functional.cosine_similarity(-ours, theirs, dim=0)
    assert float(agreement) > 0.97, "to minimise the loss is to raise the reward"
    assert model.caption_decoder.training


def test_steps_raise_the_expected_reward() -> None:
    model, _ = toy("self-attention")
    optimizer = torch.optim.SGD(model.caption_decoder.parameters(), lr=0.1)
    seen = [float(expected_reward(model).detach())]
    for _ in range(40):
        optimizer.zero_grad()
        reward_loss(model, [(memory_of(256), batch_of(256), torch.ones(256, dtype=torch.bool))], reward()).backward()
        optimizer.step()
        seen.append(float(expected_reward(model).detach()))
    assert seen[-1] > seen[0] + 0.5 and seen[-1] > 2.5, "and ends near the best sentence, worth 3"


def test_sentences_without_a_proposal_teach_nothing() -> None:
    model, _ = toy("lstm")
    loss = reward_loss(model, [(memory_of(8), batch_of(8), torch.zeros(8, dtype=torch.bool))], reward())
    assert float(loss.detach()) == 0
    assert all(not gradient.any() for gradient in torch.autograd.grad(loss, list(model.caption_decoder.parameters())))


@pytest.mark.parametrize("decoder", ["self-attention", "lstm"])
def test_words_are_drawn_with_their_own_chance(decoder: str) -> None:
    model, _ = toy(decoder)
    model.eval()
    with torch.no_grad():
        drawn = sample_words(model, model.caption_decoder.begin(memory_of(20_000)), starts(20_000), LENGTH)
        sentences = every_sentence()
        logs = log_probabilities(
            model, model.caption_decoder.begin(memory_of(len(sentences))), starts(len(sentences)), sentences
        )
    chances = torch.where(sentences != PAD, logs, 0).sum(dim=1).exp()
    for sentence, chance in zip(sentences, chances, strict=True):
        assert float((drawn == sentence).all(dim=1).float().mean()) == pytest.approx(float(chance), abs=0.015)
    assert not ((drawn == INIT) | (drawn == 0)).any()


def test_the_best_sentence_is_worth_nothing_more_than_itself() -> None:
    """Where the model is sure, sampled and greedy are the same sentence and the loss is zero."""
    model, _ = toy("self-attention")
    with torch.no_grad():
        model.caption_decoder.words.bias[4] = 1e4
    best = greedy(model, model.caption_decoder.begin(memory_of(3)), 3, LENGTH).words_PKL[:, 0]
    assert best.tolist() == [[4, 4]] * 3
    assert (
        float(reward_loss(model, [(memory_of(3), batch_of(3), torch.ones(3, dtype=torch.bool))], reward()).detach())
        == 0
    )


@pytest.mark.parametrize("name", ["cider", "cider+matches"])
def test_a_sentence_that_breaks_off_is_worth_less(name: Literal["cider", "cider+matches"]) -> None:
    tracks, truth = generate(0, 2)
    annotations = Annotations(truth, {}, [])
    vocabulary = Vocabulary.build(annotations.sentences(), 1)
    dataset = SegmentDataset(annotations, InMemoryFeatures(tracks, RECIPE), vocabulary, SMALL)
    scores = reward_for(SMALL.with_values({"training": {"reward": name}}), dataset, vocabulary)
    assert scores is not None
    documents, _ = documents_of(dataset)
    ids = vocabulary.encode(" ".join(documents[0][0]), 20)[1:]
    whole, broken, short = (
        torch.tensor([[*some, *[PAD] * (20 - len(some))]]) for some in (ids, ids[:-1], [*ids[:-2], EOS])
    )
    values = [float(scores(words, [0])) for words in (whole, broken, short)]
    assert values[0] > values[1] and values[0] > values[2]


def test_references_are_all_sentences_of_the_same_times() -> None:
    tracks, truth = generate(0, 2)
    doubled = {video: [*events, *events[:1]] for video, events in truth.items()}
    vocabulary = Vocabulary.build(["a dog"], 1)
    dataset = SegmentDataset(Annotations(doubled, {}, []), InMemoryFeatures(tracks, RECIPE), vocabulary, SMALL)
    documents, document_N = documents_of(dataset)
    assert len(documents) == sum(map(len, truth.values())) and sum(map(len, documents)) == len(dataset)
    for video in range(2):
        numbers = document_N[dataset.video_N == video]
        assert numbers[0] == numbers[-1] and len(documents[numbers[0]]) == 2


def test_a_released_model_cannot_be_rewarded() -> None:
    config = SMALL.with_values({"model": {"compat": "released"}, "training": {"reward": "cider"}})
    with pytest.raises(InputError, match="sentences that end"):
        reward_for(config, None, VOCABULARY)  # type: ignore[arg-type]
