"""Of several sentences the one that is most like all of them: what a model means rather than what it is surest to say.

The likeliest sentence is often an odd one, because many alike share the chance between them. So every candidate is
compared with all the others (minimum Bayes risk: Kumar and Byrne, 2004), by METEOR's formula over equal words as in
`training/rewards.py`: F = P R / (.85 P + .15 R) of the m words they share, times 1 - .6 (chunks / m)^.2.

Words, one after another, for many events at once; what was read of the events and said so far is kept in the state.

Sentences that are finished leave the batch: on a CPU at once, on a GPU, where to ask is to wait, every few words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from densevid.config import InferenceConfig
from densevid.data.vocabulary import EOS, INIT, PAD, SPECIAL_TOKENS
from densevid.kernels.fused import has_triton

ALPHA, BETA, GAMMA = 0.85, 0.2, 0.6  # METEOR 1.5, English
EVENTS_AT_ONCE = 256  # their comparisons, K x K x L x L each, are in memory together
NOT_SAID, NOT_TOLD = -1, -2  # never equal
MORE_THAN_WORDS = 1 << 20  # than any vocabulary has, so that a pair of words is one number


def expected_similarity(words_PKL: Tensor, log_probability_PK: Tensor, power: float) -> Tensor:
    """How like the others each of K candidates is, each counted by `power` of its probability, P x K."""
    chance_PK = (power * log_probability_PK).softmax(dim=1)
    parts = [similarity(some_PKL) for some_PKL in words_PKL.split(EVENTS_AT_ONCE)]
    expected_PK = torch.einsum("pkc,pc->pk", torch.cat(parts), chance_PK)
    return expected_PK.masked_fill(log_probability_PK.isneginf(), -torch.inf)


def similarity(words_PKL: Tensor) -> Tensor:
    """METEOR's formula for every candidate against every other and itself, P x K x K; special words do not count."""
    real_PKL = words_PKL >= len(SPECIAL_TOKENS)
    length_PK = real_PKL.sum(dim=-1)
    matched_PKK = _shared(words_PKL, real_PKL)
    pair_PKL = words_PKL[..., :-1] * MORE_THAN_WORDS + words_PKL[..., 1:]
    joined_PKK = _shared(pair_PKL, real_PKL[..., :-1] & real_PKL[..., 1:])
    chunks_PKK = (matched_PKK - joined_PKK).clamp(min=1)
    precision_PKK = matched_PKK / length_PK[:, :, None].clamp(min=1)
    recall_PKK = matched_PKK / length_PK[:, None, :].clamp(min=1)
    mean_PKK = precision_PKK * recall_PKK / (ALPHA * precision_PKK + (1 - ALPHA) * recall_PKK).clamp(min=1e-9)
    return mean_PKK * (1 - GAMMA * (chunks_PKK / matched_PKK.clamp(min=1)) ** BETA)


def _shared(said_PKL: Tensor, real_PKL: Tensor) -> Tensor:
    """How many items two sentences share, as often as both have them: the n-th of one meets the n-th of the other."""
    longest = said_PKL.shape[-1]
    same_PKLL = (said_PKL[..., None] == said_PKL[..., None, :]) & real_PKL[..., None, :]
    numbered_PKL = said_PKL * (longest + 1) + same_PKLL.tril(-1).sum(dim=-1)
    said_PKL = torch.where(real_PKL, numbered_PKL, NOT_SAID)
    told_PKL = torch.where(real_PKL, numbered_PKL, NOT_TOLD)
    return (said_PKL[:, :, None, :, None] == told_PKL[:, None, :, None, :]).sum(dim=(-2, -1))


NEVER_SAID = INIT + 1  # <unk>, <pad>, <init>
WORDS_BETWEEN_LOOKS = 5
WORTH_LEAVING = 3 / 4  # of the events are left: fewer rows, at the cost of choosing them


class State(Protocol):
    """What a speaker knows of P events and has said about them."""

    def branch(self, count: int) -> None:
        """Before the first word: go on with `count` sentences of each event, side by side."""

    def select(self, index_P: Tensor) -> None:
        """Go on with these rows, of events with one sentence each."""

    def reorder(self, index_P: Tensor) -> None:
        """The same among rows of one event: only what was said moves, and nothing that was read is copied."""


class WordStepper(Protocol):
    """A network that says the next word: `MaskedTransformer`, or a faster form of its caption decoder."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    def next_words(self, words_PL: Tensor, state: Any) -> Tensor:
        """Logits of the word that follows each of `words_PL`."""


@dataclass(frozen=True)
class Sentences:
    """Words of P events, padded after `<eos>`, and the mean log-probability of a word, `<eos>` included."""

    words_PL: Tensor
    log_probability_P: Tensor


@dataclass(frozen=True)
class Beams:
    """The same of K sentences for each event, greedy choice being a beam of one; what is no sentence has -inf."""

    words_PKL: Tensor
    log_probability_PK: Tensor

    @classmethod
    def only(cls, words_PL: Tensor, log_probability_P: Tensor) -> Beams:
        """One for each event."""
        return cls(words_PL[:, None], log_probability_P[:, None])

    @classmethod
    def room(cls, events: int, config: InferenceConfig, device: torch.device) -> Beams:
        """Where those of many events are put."""
        words_PKL = torch.full((events, config.beam, config.max_words), PAD, device=device)
        return cls(words_PKL, torch.zeros(events, config.beam, device=device))

    def put(self, event_P: Tensor, some: Beams) -> None:
        """Write those of some events to their places."""
        self.words_PKL[event_P, :, : some.words_PKL.shape[2]] = some.words_PKL
        self.log_probability_PK[event_P] = some.log_probability_PK

    def rows(self, index: Tensor | slice) -> Beams:
        """Those of some events, copied."""
        return Beams(self.words_PKL[index].clone(), self.log_probability_PK[index].clone())


def beams(speaker: WordStepper, state: State, events: int, config: InferenceConfig, *, looks: bool = True) -> Beams:
    """What might be said of each event: one sentence by greedy choice, or a beam where the settings ask for more."""
    if plain_greedy(config):
        return greedy(speaker, state, events, config.max_words, looks=looks)
    return beam_search(speaker, state, events, config, looks=looks)


def sentences(speaker: WordStepper, state: State, events: int, config: InferenceConfig) -> Sentences:
    """What is said of each event by the network alone, as while it learns."""
    return chosen(beams(speaker, state, events, config), config)


def plain_greedy(config: InferenceConfig) -> bool:
    """Whether the most likely word is all that counts: no beam, and nothing that must not be repeated."""
    return config.beam == 1 and not config.no_repeat


def greedy(speaker: WordStepper, state: State, events: int, max_words: int, *, looks: bool = True) -> Beams:
    """The most likely word at each position; a sentence ends with `<eos>` and is padded from there.

    `<unk>`, `<pad>` and `<init>` are never chosen. R of the P events are still being spoken of; with `looks = False`
    nobody looks who has finished, and all stay to the end.
    """
    device = speaker.device
    words_PL = torch.full((events, max_words), PAD, device=device)
    sum_P = torch.zeros(events, device=device)
    row_R: Tensor | slice = slice(None)  # all, until some leave
    word_R = torch.full((events,), INIT, device=device)
    finished_R = torch.zeros(events, dtype=torch.bool, device=device)
    between = WORDS_BETWEEN_LOOKS if device.type == "cuda" else 1
    for position in range(max_words):
        logits_RV = speaker.next_words(word_R[:, None], state)[:, -1].float()
        best_R, log_R = likeliest(logits_RV, NEVER_SAID)
        word_R = torch.where(finished_R, PAD, best_R)
        words_PL[row_R, position] = word_R
        sum_P[row_R] += torch.where(finished_R, 0, log_R)
        finished_R = finished_R | (word_R == EOS)
        if looks and position % between == between - 1 and position < max_words - 1:
            left_R = (~finished_R).nonzero()[:, 0]
            if not len(left_R):
                break
            if len(left_R) <= WORTH_LEAVING * len(word_R):
                state.select(left_R)
                row_R = left_R if isinstance(row_R, slice) else row_R[left_R]
                word_R, finished_R = word_R[left_R], finished_R[left_R]
    return Beams.only(words_PL[:, : position + 1], sum_P / _lengths(words_PL))


def greedy_released(speaker: WordStepper, state: State, events: int, max_words: int) -> Beams:
    """The release's greedy choice: among all words, special ones too, and it never stops early."""
    word_P = torch.full((events,), INIT, device=speaker.device)
    words, logs = list[Tensor](), list[Tensor]()
    for _ in range(max_words):
        logits_PV = speaker.next_words(word_P[:, None], state)[:, -1].float()
        word_P, log_P = likeliest(logits_PV)
        words.append(word_P)
        logs.append(log_P)
    return Beams.only(torch.stack(words, dim=1), torch.stack(logs, dim=1).mean(dim=1))


def likeliest(logits_PV: Tensor, never_said: int = 0) -> tuple[Tensor, Tensor]:
    """The best word of each event but the first `never_said`, and its log-probability; on a GPU in one pass."""
    if logits_PV.is_cuda and has_triton():
        return likeliest_by_kernel(logits_PV, never_said)
    logits_PV[:, :never_said] = -torch.inf
    best = logits_PV.max(dim=-1)
    return best.indices, best.values - logits_PV.logsumexp(dim=-1)


def likeliest_by_kernel(logits_PV: Tensor, never_said: int = 0) -> tuple[Tensor, Tensor]:
    """The same by Triton."""
    from densevid.kernels import word_triton as word_kernels

    events, words = logits_PV.shape
    word_P = torch.empty(events, dtype=torch.long, device=logits_PV.device)
    log_P = torch.empty(events, device=logits_PV.device)
    block = min(4096, 1 << (words - 1).bit_length())
    word_kernels.likeliest[(events,)](logits_PV.contiguous(), word_P, log_P, words, never_said, BLOCK=block)
    return word_P, log_P


def beam_search(
    speaker: WordStepper, state: State, events: int, config: InferenceConfig, *, looks: bool = True
) -> Beams:
    """The `beam` likeliest sentences of each event that are found by going on with so many at every word.

    A finished sentence stays in the beam at its score; every event keeps its own `beam` candidates. With
    `looks = False` nobody looks whether all have finished, and there are `max_words` words.
    """
    beam = config.beam
    device = speaker.device
    state.branch(beam)
    score_PK = torch.full((events, beam), -torch.inf, device=device)
    score_PK[:, 0] = 0
    words_PKL = torch.full((events, beam, 1), INIT, device=device)
    first_P1 = torch.arange(events, device=device)[:, None] * beam
    for _ in range(config.max_words):
        logits_NV = speaker.next_words(words_PKL[:, :, -1].reshape(-1, 1), state)[:, -1].float()
        step_PKV = _step_scores(logits_NV.view(events, beam, -1), words_PKL, config)
        best = (score_PK[..., None] + step_PKV).flatten(1).topk(beam, dim=1)
        score_PK = best.values
        parent_PK, word_PK = best.indices // step_PKV.shape[-1], best.indices % step_PKV.shape[-1]
        words_PKL = torch.cat((words_PKL.gather(1, _along(parent_PK, words_PKL)), word_PK[..., None]), dim=2)
        if looks and bool(((word_PK == EOS) | (word_PK == PAD)).all()):
            break
        state.reorder((first_P1 + parent_PK).flatten())
    words_PKL = words_PKL[..., 1:]
    return Beams(words_PKL, score_PK / _lengths(words_PKL))


def chosen(found: Beams, config: InferenceConfig, worth_PK: Tensor | None = None) -> Sentences:
    """What is said of each event: the candidate that is most like all of them, or the likeliest.

    `worth_PK` is what speaks for each beside that, and counts `word_prior_weight` times.
    """
    words_PKL, mean_PK = found.words_PKL, found.log_probability_PK
    if mean_PK.shape[1] == 1:
        return Sentences(words_PKL[:, 0], mean_PK[:, 0])
    length_PK = _lengths(words_PKL)
    if config.mbr_weight:
        value_PK = expected_similarity(words_PKL, mean_PK * length_PK, config.mbr_weight)
    else:
        value_PK = mean_PK * length_PK ** (1 - config.length_penalty)
    if worth_PK is not None:
        value_PK = value_PK + config.word_prior_weight * worth_PK
    row_P, best_P = torch.arange(len(words_PKL), device=words_PKL.device), value_PK.argmax(dim=1)
    return Sentences(words_PKL[row_P, best_P], mean_PK[row_P, best_P])


def _step_scores(logits_PKV: Tensor, words_PKL: Tensor, config: InferenceConfig) -> Tensor:
    """Log-probabilities of the next word; a finished sentence can only go on with `<pad>`, at no cost."""
    logits_PKV[..., :NEVER_SAID].fill_(-torch.inf)  # nothing is copied to the device, or it could not be replayed
    scores_PKV = logits_PKV.log_softmax(dim=-1)
    if config.no_repeat:
        scores_PKV = scores_PKV.masked_fill(_repeats(words_PKL, scores_PKV.shape[-1], config.no_repeat), -torch.inf)
    finished_PK = (words_PKL[..., -1] == EOS) | (words_PKL[..., -1] == PAD)
    only_pad_V = torch.full((scores_PKV.shape[-1],), -torch.inf, device=scores_PKV.device)
    only_pad_V[PAD].zero_()
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


def _lengths(words_PL: Tensor) -> Tensor:
    return (words_PL != PAD).sum(dim=-1).clamp(min=1)


def _along(parent_PK: Tensor, words_PKL: Tensor) -> Tensor:
    return parent_PK[..., None].expand(-1, -1, words_PKL.shape[-1])
