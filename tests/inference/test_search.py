"""Greedy and beam search against exhaustive search over every sentence of a tiny vocabulary."""

from __future__ import annotations

import itertools

import pytest
import torch

from densevid.config import Config, InferenceConfig
from densevid.data.vocabulary import EOS, INIT, PAD
from densevid.inference.reranking import choose_sentences, generate_sentences
from densevid.inference.search import beam_search, greedy
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.training.sentence_scores import WordMatches

WORDS, EVENTS = 7, 3


@pytest.fixture(params=["self-attention", "lstm"])
def model(request: pytest.FixtureRequest) -> MaskedTransformer:
    torch.manual_seed(0)
    values = {"width": 16, "hidden": 16, "heads": 2, "window": 8, "kernels": [1, 4], "decoder": request.param}
    config = Config().with_values({"model": values, "features": {"streams": ["one"], "widths": [6]}})
    model = MaskedTransformer(config, WORDS).eval()
    torch.nn.init.normal_(model.caption_decoder.words.weight, std=1.5)
    return model


@pytest.fixture
def video(model: MaskedTransformer) -> EncodedVideo:
    torch.manual_seed(1)
    return model.encode(torch.randn(EVENTS, 8, 6), torch.ones(EVENTS, 8, dtype=torch.bool))


def log_probability(model: MaskedTransformer, video: EncodedVideo, event: int, words: list[int]) -> float:
    """Of one whole sentence, special words left out of the distribution as in decoding."""
    one = video.select(torch.tensor([event]))
    logits = model.next_words(torch.tensor([[INIT, *words[:-1]]]), model.begin_caption(one, torch.ones(1, 8)))[0]
    logits[:, :3] = -torch.inf
    scores = logits.log_softmax(-1)
    return float(scores[torch.arange(len(words)), torch.tensor(words)].sum())


def every_sentence(longest: int) -> list[list[int]]:
    ended = [[*words, EOS] for size in range(longest) for words in itertools.product(range(4, WORDS), repeat=size)]
    return ended + [list(words) for words in itertools.product(range(4, WORDS), repeat=longest)]


@torch.inference_mode()
def test_mbr_takes_the_sentence_most_similar_to_all(model: MaskedTransformer, video: EncodedVideo) -> None:
    """The beam holds every sentence there is, so the choice can be made by counting words."""
    config = InferenceConfig(beam=60, max_words=3, mbr_weight=0.7)
    beams = beam_search(model, model.begin_caption(video, torch.ones(EVENTS, 8)), EVENTS, config)
    found = choose_sentences(beams, config).words_PL
    candidates = every_sentence(3)
    texts = [tuple(str(word) for word in words if word != EOS) for words in candidates]
    matches = WordMatches([[text] for text in texts])
    like = torch.tensor([[matches.score(one, other) for other in range(len(texts))] for one in texts])
    for event, words in enumerate(found.tolist()):
        logs = torch.tensor([log_probability(model, video, event, sentence) for sentence in candidates])
        value = like.double() @ (0.7 * logs).softmax(dim=0).double()
        best = [word for word in words if word != PAD]
        assert float(value[candidates.index(best)]) == pytest.approx(float(value.max()), abs=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_sentences(
    model: MaskedTransformer, video: EncodedVideo, penalty: float
) -> None:
    config = InferenceConfig(beam=60, max_words=3, length_penalty=penalty)
    beams = beam_search(model, model.begin_caption(video, torch.ones(EVENTS, 8)), EVENTS, config)
    found = choose_sentences(beams, config).words_PL
    for event, words in enumerate(found.tolist()):
        candidates = every_sentence(3)
        values = [log_probability(model, video, event, s) / len(s) ** penalty for s in candidates]
        best = [word for word in words if word != PAD]
        assert log_probability(model, video, event, best) / len(best) ** penalty == pytest.approx(max(values), abs=1e-4)


@torch.inference_mode()
def test_a_beam_of_one_is_greedy(model: MaskedTransformer, video: EncodedVideo) -> None:
    state = model.begin_caption(video, torch.ones(EVENTS, 8))
    ours = beam_search(model, state, EVENTS, InferenceConfig(beam=1, max_words=9)).words_PKL[:, 0]
    theirs = greedy(model, model.begin_caption(video, torch.ones(EVENTS, 8)), EVENTS, 9).words_PKL[:, 0]
    length = min(ours.shape[1], theirs.shape[1])
    assert ours[:, :length].tolist() == theirs[:, :length].tolist()


@torch.inference_mode()
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("size", [1, 2])
def test_no_repeated_ngram_where_no_repeat_forbids_it(
    model: MaskedTransformer, video: EncodedVideo, size: int, beam: int
) -> None:
    config = InferenceConfig(beam=beam, max_words=8, no_repeat=size)
    found = generate_sentences(model, model.begin_caption(video, torch.ones(EVENTS, 8)), EVENTS, config).words_PL
    for words in found.tolist():
        best = [word for word in words if word not in (PAD, EOS)]
        runs = [tuple(best[i : i + size]) for i in range(len(best) - size + 1)]
        assert len(runs) == len(set(runs))


@torch.inference_mode()
def test_a_sentence_ends_once(model: MaskedTransformer, video: EncodedVideo) -> None:
    for beam in (1, 3):
        config = InferenceConfig(beam=beam, max_words=12)
        found = generate_sentences(model, model.begin_caption(video, torch.ones(EVENTS, 8)), EVENTS, config)
        for words in found.words_PL.tolist():
            if EOS in words:
                assert set(words[words.index(EOS) + 1 :]) <= {PAD}
            assert not {0, INIT} & set(words)
