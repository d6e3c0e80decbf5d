"""Tags against plain loops: which classes an event has and how far they are trusted, their vectors, copied words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.tags import EVIDENCE, Classes, CopyHead, CopyKeys, Labels, TagEmbedding, Tagger, Tags
from densevid.model.video_encoder import Memory

WIDTHS, CLASSES, COUNT = (3, 4, 2), (7, 0, 5), 3  # the stream in the middle has no classes
VIDEO = torch.tensor([0, 0, 1, 2, 2])
VOCABULARY, WIDTH = 20, 16


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    generator = torch.Generator().manual_seed(0)
    made = Tagger(WIDTHS, COUNT)
    words = [torch.randint(-1, 9, (count, 2 + place), generator=generator) for place, count in enumerate(CLASSES)]
    made.set_classes(
        [
            Classes(torch.randn(w, c, generator=generator), torch.randn(c, generator=generator), own) if c else None
            for w, c, own in zip(WIDTHS, CLASSES, words, strict=True)
        ]
    )
    made.gate_SE.copy_(torch.randn(len(WIDTHS), len(EVIDENCE), generator=generator) / 3)
    made.bias_S.copy_(torch.randn(len(WIDTHS), generator=generator))
    return made


@pytest.fixture(scope="module")
def features() -> torch.Tensor:
    """Three videos; the last stream is absent in the second, and at some steps of the third."""
    values = torch.randn(3, 6, sum(WIDTHS), generator=torch.Generator().manual_seed(1))
    values[1, :, -WIDTHS[-1] :] = 0
    values[2, 2:4, -WIDTHS[-1] :] = 0
    return values


@pytest.fixture(scope="module")
def masks() -> torch.Tensor:
    """Of five events: soft, hard, everything, everything, and only steps at which the last stream is absent."""
    mask = torch.rand(5, 6, generator=torch.Generator().manual_seed(2))
    mask[1] = torch.tensor([0.0, 0, 1, 1, 0, 0])
    mask[2:4] = 1
    mask[4] = torch.tensor([-0.5, 0, 1, 0.5, 0, 0])
    return mask


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def logit(probability: float) -> float:
    return math.log(probability) - math.log(1 - probability)


def plain_labels(tagger: Tagger, steps_TF: np.ndarray, mask_T: np.ndarray, stream: int) -> list[tuple[int, Any, float]]:
    """(class, evidence, value) of the best classes of one stream of one event; nothing where it is absent."""
    first = sum(WIDTHS[:stream])
    own = steps_TF[:, first : first + WIDTHS[stream]].astype(np.float64)
    weight, bias = (getattr(tagger, f"{name}_{stream}").numpy() for name in ("weight", "logit_bias"))
    kept = [(mask_T[t], own[t] @ weight + bias) for t in range(len(own)) if mask_T[t] > 0 and own[t].any()]
    if not kept:
        return []
    total = sum(share for share, _ in kept)
    mean = softmax(sum(share * logits for share, logits in kept) / total)
    steady = sum(share * softmax(logits) for share, logits in kept) / total
    order = sorted(range(len(mean)), key=lambda number: -mean[number])
    entropy = -sum(p * math.log(p) for p in mean)
    found = []
    for rank, number in enumerate(order[:COUNT]):
        margin = math.log(mean[number]) - math.log(mean[order[rank + 1]])
        evidence = np.array([logit(mean[number]), min(margin, 12), rank, entropy, logit(steady[number])])
        gate = tagger.gate_SE[stream].double().numpy() @ evidence + float(tagger.bias_S[stream])
        found.append((sum(CLASSES[:stream]) + number, evidence, 1 / (1 + math.exp(-gate))))
    return found


def test_labels_are_those_of_a_plain_loop(tagger: Tagger, features: torch.Tensor, masks: torch.Tensor) -> None:
    labels = tagger(features, masks, VIDEO)
    assert labels.label_PN.shape == (5, 2 * COUNT) and labels.evidence_PNE.shape == (5, 2 * COUNT, len(EVIDENCE))
    for event, video in enumerate(VIDEO.tolist()):
        for place, stream in enumerate((0, 2)):
            own = slice(place * COUNT, (place + 1) * COUNT)
            want = plain_labels(tagger, features[video].numpy(), masks[event].numpy(), stream)
            assert labels.valid_PN[event, own].tolist() == [bool(want)] * COUNT
            if want:
                numbers, evidence, values = zip(*want, strict=True)
                assert labels.label_PN[event, own].tolist() == list(numbers)
                np.testing.assert_allclose(labels.evidence_PNE[event, own], evidence, atol=2e-4)
                np.testing.assert_allclose(labels.value_PN[event, own], values, atol=1e-4)
    assert labels.valid_PN[:, -1].tolist() == [True, True, False, True, False]


def test_one_event_a_video_needs_no_numbers(tagger: Tagger, features: torch.Tensor, masks: torch.Tensor) -> None:
    found, want = tagger(features, masks[:3]), tagger(features, masks[:3], torch.arange(3))
    assert torch.equal(found.label_PN, want.label_PN) and torch.equal(found.valid_PN, want.valid_PN)
    torch.testing.assert_close(found.value_PN, want.value_PN)


def test_before_a_gate_is_fitted_the_value_is_the_probability(features: torch.Tensor, tagger: Tagger) -> None:
    fresh = Tagger(WIDTHS, COUNT)
    fresh.set_classes([Classes(tagger.weight_0, tagger.logit_bias_0, tagger.words_CW[:7]), None, None])  # type: ignore[arg-type]
    labels = fresh(features[:1], torch.ones(1, 6))
    probability = (features[0, :, :3] @ tagger.weight_0 + tagger.logit_bias_0).mean(dim=0).softmax(dim=0)  # type: ignore[operator]
    torch.testing.assert_close(labels.value_PN[0], probability[labels.label_PN[0]])


def test_given_labels_stand_only_where_the_last_stream_is_absent(
    tagger: Tagger, features: torch.Tensor, masks: torch.Tensor
) -> None:
    labels = tagger(features, masks, VIDEO)
    given = torch.tensor([[8, 9, 10], [7, -1, 8], [11, -1, 7], [7, 8, 9], [-1, -1, -1]])
    value = torch.rand(5, COUNT, dtype=torch.float64)
    found = tagger.with_given(labels, given, value)
    for event in range(5):
        for place in range(2 * COUNT):
            column = place - COUNT
            used = column >= 0 and not labels.valid_PN[event, place] and int(given[event, column]) >= 0
            want = (given, value) if used else (labels.label_PN, labels.value_PN)
            at = (event, column if used else place)
            assert found.label_PN[event, place] == want[0][at]
            assert float(found.value_PN[event, place]) == pytest.approx(float(want[1][at]))
            assert bool(found.valid_PN[event, place]) == (bool(labels.valid_PN[event, place]) or used)


def test_tags_have_the_words_of_their_classes_and_know_their_stream(tagger: Tagger) -> None:
    every = torch.arange(sum(CLASSES))[:, None]
    labels = Labels(every, torch.rand(12, 1), torch.ones(12, 1, dtype=torch.bool), torch.zeros(12, 1, len(EVIDENCE)))
    tags = tagger.tags(labels)
    assert tags.kind_PN[:, 0].tolist() == [0] * 7 + [2] * 5
    assert torch.equal(tags.words_PNW[:, 0], tagger.words_CW) and tagger.words_CW.shape == (12, 4)
    assert (tagger.words_CW[:7, 2:] == -1).all(), "the longest name is one of the last stream"
    part = tags.select(torch.tensor([11, 0]))
    assert part.kind_PN.tolist() == [[2], [0]] and torch.equal(part.words_PNW, tags.words_PNW[[11, 0]])


def random_tags(events: int = 3, tags: int = 4, seed: int = 0) -> Tags:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(-1, VOCABULARY, (events, tags, 3), generator=generator)
    words[0, 0], words[1, 1, :] = -1, torch.tensor([5, 5, 6])  # a name without a known word, a word twice
    valid = torch.rand(events, tags, generator=generator) < 0.7
    valid[2] = False
    kinds = torch.randint(0, 2, (events, tags), generator=generator)
    return Tags(words, torch.rand(events, tags, generator=generator), kinds, valid)


def test_a_tags_vector_is_that_of_its_words_value_and_stream() -> None:
    torch.manual_seed(3)
    embedding, words, tags = TagEmbedding(WIDTH, 2), torch.randn(VOCABULARY, WIDTH), random_tags()
    found = embedding(tags, words)
    for event in range(3):
        for place in range(4):
            own = [words[number] * 4 for number in tags.words_PNW[event, place].tolist() if number >= 0]  # sqrt(16)
            mean = sum(own, torch.zeros(WIDTH)) / max(len(own), 1)
            value = float(tags.value_PN[event, place])
            columns = torch.tensor([value, value**2, value**0.5])
            raw = embedding.words.weight @ mean + embedding.words.bias + embedding.value.weight @ columns
            raw = raw + embedding.value.bias + embedding.kind.weight[int(tags.kind_PN[event, place])]
            want = (raw - raw.mean()) / (raw.var(unbiased=False) + 1e-5).sqrt()
            torch.testing.assert_close(found[event, place], want, atol=1e-4, rtol=1e-4)


def copied_words(seed: int = 0) -> tuple[CopyHead, CopyKeys, torch.Tensor, torch.Tensor]:
    """A head, what it can copy of three events, and outputs and logits of two sentences of each."""
    torch.manual_seed(seed)
    head, tags, words = CopyHead(WIDTH, 8), random_tags(seed=seed), torch.randn(VOCABULARY, WIDTH) / 4
    keys = head.keys(tags, torch.randn(3, 4, WIDTH), words)
    return head, keys, torch.randn(6, 5, WIDTH), torch.randn(6, 5, VOCABULARY)


@given(st.integers(0, 50))
def test_the_words_probabilities_sum_to_one(seed: int) -> None:
    head, keys, output, logits = copied_words(seed)
    sums = head(output, logits, keys).exp().sum(dim=-1)
    torch.testing.assert_close(sums, torch.ones(6, 5), atol=1e-5, rtol=1e-5)


def test_copied_words_have_the_probability_of_a_plain_loop() -> None:
    head, keys, output, logits = copied_words()
    found, slots = head(output, logits, keys), keys.word_PS.shape[1]
    for row in range(6):
        event = row // 2
        for place in range(5):
            query = head.query.weight @ output[row, place] + head.query.bias
            valid = [slot for slot in range(slots) if keys.valid_PS[event, slot]]
            points = [(query @ keys.keys_PSD[event, slot]).item() / 4 for slot in valid]
            shares = softmax(np.array([head.sentinel(output[row, place]).item(), *points]))
            want = shares[0] * softmax(logits[row, place].double().numpy())
            for share, slot in zip(shares[1:], valid, strict=True):
                want[int(keys.word_PS[event, slot])] += share
            np.testing.assert_allclose(found[row, place].exp().detach(), want, atol=1e-5)


def test_keys_are_words_at_their_place_in_a_tag() -> None:
    torch.manual_seed(4)
    head, tags, words = CopyHead(WIDTH, 8), random_tags(), torch.randn(VOCABULARY, WIDTH)
    tag = torch.randn(3, 4, WIDTH)
    keys = head.keys(tags, tag, words)
    for event in range(3):
        for place in range(4):
            for word in range(3):
                slot, number = place * 3 + word, int(tags.words_PNW[event, place, word])
                assert bool(keys.valid_PS[event, slot]) == (number >= 0 and bool(tags.valid_PN[event, place]))
                if number >= 0:
                    want = words[number] * 4 + head.tag_key.weight @ tag[event, place] + head.place.weight[word]
                    torch.testing.assert_close(keys.keys_PSD[event, slot], want, atol=1e-4, rtol=1e-4)
                    assert int(keys.word_PS[event, slot]) == number


def test_with_nothing_to_copy_the_decoder_speaks_alone() -> None:
    head, keys, output, logits = copied_words()
    nothing = replace(keys, valid_PS=torch.zeros_like(keys.valid_PS))
    torch.testing.assert_close(head(output, logits, nothing), logits.log_softmax(dim=-1))


@pytest.mark.parametrize("padded", [False, True])
def test_absent_tags_change_nothing(padded: bool) -> None:
    """As where no stream has a classifier; `padded` as in a batch of videos of different lengths."""
    torch.manual_seed(5)
    decoder = SelfAttentionDecoder(2, WIDTH, 32, 4, VOCABULARY, 0.0, tag_streams=2).eval()
    valid = torch.arange(7) < torch.tensor([[7], [4], [6]]) if padded else torch.ones(3, 7, dtype=torch.bool)
    memory = Memory((torch.randn(3, 7, WIDTH), torch.randn(3, 7, WIDTH)), valid, padded=padded)
    words = torch.randint(4, VOCABULARY, (3, 5))
    tags = random_tags()
    none = replace(tags, valid_PN=torch.zeros_like(tags.valid_PN))
    alone, without, told = (
        decoder(words, decoder.begin(replace(memory, tags=each))).log_softmax(dim=-1) for each in (None, none, tags)
    )
    torch.testing.assert_close(without, alone, atol=1e-5, rtol=1e-5)
    assert (told[:2] - alone[:2]).abs().max() > 1e-3, "those that are there do"
    torch.testing.assert_close(told[2], alone[2], atol=1e-5, rtol=1e-5)  # the third event has none
