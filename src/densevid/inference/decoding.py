"""Words, one after another, for many events at once; keys and values of earlier words are kept in the state."""

from __future__ import annotations

import torch
from torch import Tensor

from densevid.config import InferenceConfig
from densevid.data.vocabulary import EOS, INIT, PAD, UNKNOWN
from densevid.model.caption_decoder import DecodingState
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.recurrent import RecurrentState

State = DecodingState | RecurrentState
NEVER_SAID = [UNKNOWN, PAD, INIT]


def sentences(model: MaskedTransformer, state: State, events: int, config: InferenceConfig) -> Tensor:
    """The words of each event, P x L, by greedy choice, or by beam search where the settings ask for more."""
    if plain_greedy(config):
        return greedy(model, state, events, config.max_words)
    return beam_search(model, state, events, config)


def plain_greedy(config: InferenceConfig) -> bool:
    """Whether the most likely word is all that counts: no beam, and nothing that must not be repeated."""
    return config.beam == 1 and not config.no_repeat


def greedy(model: MaskedTransformer, state: State, events: int, max_words: int) -> Tensor:
    """The most likely word at each position, P x L; a sentence ends with `<eos>` and is padded from there.

    `<unk>`, `<pad>` and `<init>` are never chosen.
    """
    device = model.caption_decoder.words.weight.device
    word_P = torch.full((events,), INIT, device=device)
    finished_P = torch.zeros(events, dtype=torch.bool, device=device)
    words: list[Tensor] = []
    for _ in range(max_words):
        logits_PV = model.next_words(word_P[:, None], state)[:, -1]
        logits_PV[:, NEVER_SAID] = -torch.inf
        word_P = torch.where(finished_P, PAD, logits_PV.argmax(dim=-1))
        finished_P |= word_P == EOS
        words.append(word_P)
        if bool(finished_P.all()):
            break
    return torch.stack(words, dim=1)


def greedy_released(model: MaskedTransformer, state: State, events: int, max_words: int) -> Tensor:
    """The release's greedy choice, P x L: among all words, special ones too, and it never stops early."""
    word_P = torch.full((events,), INIT, device=model.caption_decoder.words.weight.device)
    words: list[Tensor] = []
    for _ in range(max_words):
        word_P = model.next_words(word_P[:, None], state)[:, -1].argmax(dim=-1)
        words.append(word_P)
    return torch.stack(words, dim=1)


def beam_search(model: MaskedTransformer, state: State, events: int, config: InferenceConfig) -> Tensor:
    """The sentence with the highest log-probability / length^`length_penalty` among the `beam` best, P x L.

    A finished sentence stays in the beam at its score; every event keeps its own `beam` candidates.
    """
    beam = config.beam
    device = model.caption_decoder.words.weight.device
    state.select(torch.arange(events, device=device).repeat_interleave(beam))
    score_PK = torch.full((events, beam), -torch.inf, device=device)
    score_PK[:, 0] = 0
    words_PKL = torch.full((events, beam, 1), INIT, device=device)
    first_P1 = torch.arange(events, device=device)[:, None] * beam
    for _ in range(config.max_words):
        logits_NV = model.next_words(words_PKL[:, :, -1].reshape(-1, 1), state)[:, -1].float()
        step_PKV = _step_scores(logits_NV.view(events, beam, -1), words_PKL, config)
        best = (score_PK[..., None] + step_PKV).flatten(1).topk(beam, dim=1)
        score_PK = best.values
        parent_PK, word_PK = best.indices // step_PKV.shape[-1], best.indices % step_PKV.shape[-1]
        words_PKL = torch.cat((words_PKL.gather(1, _along(parent_PK, words_PKL)), word_PK[..., None]), dim=2)
        if bool(((word_PK == EOS) | (word_PK == PAD)).all()):
            break
        state.select((first_P1 + parent_PK).flatten())
    words_PKL = words_PKL[..., 1:]
    length_PK = (words_PKL != PAD).sum(dim=-1).clamp(min=1)
    best_P = (score_PK / length_PK**config.length_penalty).argmax(dim=1)
    return words_PKL[torch.arange(events, device=device), best_P]


def _step_scores(logits_PKV: Tensor, words_PKL: Tensor, config: InferenceConfig) -> Tensor:
    """Log-probabilities of the next word; a finished sentence can only go on with `<pad>`, at no cost."""
    logits_PKV[..., NEVER_SAID] = -torch.inf
    scores_PKV = logits_PKV.log_softmax(dim=-1)
    if config.no_repeat:
        scores_PKV = scores_PKV.masked_fill(_repeats(words_PKL, scores_PKV.shape[-1], config.no_repeat), -torch.inf)
    finished_PK = (words_PKL[..., -1] == EOS) | (words_PKL[..., -1] == PAD)
    only_pad_V = torch.full((scores_PKV.shape[-1],), -torch.inf, device=scores_PKV.device)
    only_pad_V[PAD] = 0
    return torch.where(finished_PK[..., None], only_pad_V, scores_PKV)


def _repeats(words_PKL: Tensor, vocabulary: int, size: int) -> Tensor:
    """The words that would say some `size` words in a row a second time, P x K x V."""
    said_PKL = words_PKL[..., 1:]
    counts_PKV = torch.zeros(*words_PKL.shape[:2], vocabulary, device=words_PKL.device)
    if said_PKL.shape[-1] < size:
        return counts_PKV > 0
    windows_PKWN = said_PKL.unfold(-1, size, 1)
    tail_PK1N = said_PKL[..., said_PKL.shape[-1] - size + 1 :][..., None, :]
    again_PKW = (windows_PKWN[..., :-1] == tail_PK1N).all(dim=-1)
    return counts_PKV.scatter_add(-1, windows_PKWN[..., -1], again_PKW.float()) > 0


def _along(parent_PK: Tensor, words_PKL: Tensor) -> Tensor:
    return parent_PK[..., None].expand(-1, -1, words_PKL.shape[-1])
