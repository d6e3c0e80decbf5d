"""Laws every decoder keeps: the future is unseen, portions do not matter, padding of the memory does not matter."""

from __future__ import annotations

import pytest
import torch

from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.recurrent import LSTMDecoder
from densevid.model.video_encoder import Memory

Decoder = SelfAttentionDecoder | LSTMDecoder


@pytest.fixture(params=["self-attention", "lstm"])
def decoder(request: pytest.FixtureRequest) -> Decoder:
    torch.manual_seed(0)
    if request.param == "lstm":
        return LSTMDecoder(2, 16, 30, dropout=0.3).eval()
    return SelfAttentionDecoder(2, 16, 32, 4, 30, dropout=0.3).eval()


@pytest.fixture
def memory() -> Memory:
    torch.manual_seed(1)
    return Memory((torch.randn(3, 8, 16), torch.randn(3, 8, 16)), torch.ones(3, 8, dtype=torch.bool))


WORDS = torch.tensor([[2, 5, 9, 4, 7], [2, 6, 6, 6, 6], [2, 29, 0, 1, 3]])


def test_later_words_never_change_earlier_logits(decoder: Decoder, memory: Memory) -> None:
    logits = decoder(WORDS, decoder.begin(memory))
    assert logits.shape == (3, 5, 30)
    changed = WORDS.clone()
    changed[:, 3:] = 11
    again = decoder(changed, decoder.begin(memory))
    torch.testing.assert_close(logits[:, :3], again[:, :3])
    assert (logits[:, 3:] - again[:, 3:]).abs().max() > 1e-3


def test_word_by_word_equals_all_at_once(decoder: Decoder, memory: Memory) -> None:
    whole = decoder(WORDS, decoder.begin(memory))
    state = decoder.begin(memory)
    parts = [decoder(WORDS[:, :2], state), decoder(WORDS[:, 2:3], state), decoder(WORDS[:, 3:], state)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-5)


def test_padding_of_the_memory_changes_nothing(decoder: Decoder, memory: Memory) -> None:
    padding = torch.zeros(3, 4, 16)
    valid = (torch.arange(12) < 8).expand(3, 12)
    longer = Memory(tuple(torch.cat((layer, padding), dim=1) for layer in memory.layers), valid)
    want = decoder(WORDS, decoder.begin(memory))
    torch.testing.assert_close(decoder(WORDS, decoder.begin(longer)), want, atol=1e-5, rtol=1e-5)


def test_sentences_of_one_event_read_its_memory_as_each_would_alone(decoder: Decoder, memory: Memory) -> None:
    """Two sentences of each event, side by side, some of which change places in between."""
    valid = torch.arange(8) < torch.tensor([[8], [5], [6]])
    memory = Memory(memory.layers, valid)
    rows = torch.tensor([0, 0, 1, 1, 2, 2])
    words = torch.randint(4, 30, (6, 5), generator=torch.Generator().manual_seed(0))
    want = decoder(words, decoder.begin(memory.select(rows)))
    swapped = torch.tensor([1, 0, 2, 3, 5, 4])
    state = decoder.begin(memory)
    state.branch(2)
    first = decoder(words[swapped, :2], state)
    state.reorder(swapped)
    torch.testing.assert_close(first[swapped], want[:, :2], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(decoder(words[:, 2:], state), want[:, 2:], atol=1e-5, rtol=1e-5)


def test_without_events_there_are_no_captions(decoder: Decoder, memory: Memory) -> None:
    nobody = torch.zeros(0, dtype=torch.long)
    assert decoder(WORDS[nobody], decoder.begin(memory.select(nobody))).shape == (0, 5, 30)


def test_layer_l_reads_layer_l_of_the_memory(decoder: Decoder, memory: Memory) -> None:
    for changed in range(2):
        layers = tuple(layer + (index == changed) for index, layer in enumerate(memory.layers))
        other = decoder(WORDS, decoder.begin(Memory(layers, memory.valid_BT)))
        assert (other - decoder(WORDS, decoder.begin(memory))).abs().max() > 1e-4


def test_the_embedding_is_the_output_matrix(decoder: Decoder, memory: Memory) -> None:
    decoder(WORDS, decoder.begin(memory)).sum().backward()
    names = [name for name, parameter in decoder.named_parameters() if parameter.shape == (30, 16)]
    assert names == ["words.weight"]
