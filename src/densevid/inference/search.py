"""Greedy and beam search: words, one after another, for many events at once.

A `WordStepper` gives the logits of the next word; what it has read of the events and of the words so far is in its
state. Finished sentences leave the batch: on a CPU at once; on a GPU, where looking means waiting, every few words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from densevid.config import InferenceConfig
from densevid.data.vocabulary import EOS, INIT, PAD
from densevid.fast_forms import FastForm

NEVER_GENERATED = INIT + 1  # the first so many words: <unk>, <pad>, <init>
WORDS_BETWEEN_SYNCS = 5
WORTH_COMPACTING = 3 / 4  # of the events are unfinished: fewer rows, at the cost of selecting them
# `most_likely` on a GPU
FAST_MOST_LIKELY: FastForm[Callable[[Tensor, int], tuple[Tensor, Tensor]]] = FastForm()


class State(Protocol):
    """What a decoder has read of P events, and the words it has generated about them."""

    def branch(self, count: int) -> None:
        """Before the first word: go on with `count` sentences of each event, side by side."""

    def select(self, index_P: Tensor) -> None:
        """Go on with these rows, of events with one sentence each."""

    def reorder(self, index_P: Tensor) -> None:
        """The same among rows of one event: only the words move, nothing that was read is copied."""


class WordStepper(Protocol):
    """A network that gives the next word: `MaskedTransformer`, or a faster form of its caption decoder."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    def next_words(self, words_PL: Tensor, state: Any) -> Tensor:
        """Logits of the word that follows each of `words_PL`."""


@dataclass(frozen=True)
class Beams:
    """K sentences of each of P events: words, padded after `<eos>`, and the mean log-probability of a word.

    Greedy search gives K = 1. A place without a sentence has log-probability -inf.
    """

    words_PKL: Tensor
    log_probability_PK: Tensor

    @classmethod
    def single(cls, words_PL: Tensor, log_probability_P: Tensor) -> Beams:
        """One sentence for each event."""
        return cls(words_PL[:, None], log_probability_P[:, None])

    @classmethod
    def empty(cls, events: int, config: InferenceConfig, device: torch.device) -> Beams:
        """Padding alone, for `put` to fill."""
        words_PKL = torch.full((events, config.beam, config.max_words), PAD, device=device)
        return cls(words_PKL, torch.zeros(events, config.beam, device=device))

    def put(self, event_P: Tensor, beams: Beams) -> None:
        """Write the sentences of some events to their places."""
        self.words_PKL[event_P, :, : beams.words_PKL.shape[2]] = beams.words_PKL
        self.log_probability_PK[event_P] = beams.log_probability_PK

    def rows(self, index: Tensor | slice) -> Beams:
        """The sentences of some events, copied."""
        return Beams(self.words_PKL[index].clone(), self.log_probability_PK[index].clone())


def search(
    stepper: WordStepper, state: State, events: int, config: InferenceConfig, *, allow_sync: bool = True
) -> Beams:
    """Generate with the settings' method: greedy, or beam search with `beam` above 1 or `no_repeat`.

    Args:
        stepper: The decoder.
        state: Its state at the beginning of a sentence.
        events: How many events the state holds.
        config: Beam width, longest sentence, and so on.
        allow_sync: Whether the host may wait for the device to see which sentences are finished.

    Returns:
        The candidate sentences of every event.
    """
    if is_greedy(config):
        return greedy(stepper, state, events, config.max_words, allow_sync=allow_sync)
    return beam_search(stepper, state, events, config, allow_sync=allow_sync)


def is_greedy(config: InferenceConfig) -> bool:
    """Whether the most likely word is all that counts: no beam, and no words that must not be repeated."""
    return config.beam == 1 and not config.no_repeat


def greedy(stepper: WordStepper, state: State, events: int, max_words: int, *, allow_sync: bool = True) -> Beams:
    """Take the most likely word at each position; a sentence ends with `<eos>` and is padded from there.

    `<unk>`, `<pad>` and `<init>` are never generated. R of the P events are unfinished; without `allow_sync` nobody
    looks which are, and all stay to the end.
    """
    device = stepper.device
    words_PL = torch.full((events, max_words), PAD, device=device)
    sum_P = torch.zeros(events, device=device)
    row_R: Tensor | slice = slice(None)  # all, until some leave
    word_R = torch.full((events,), INIT, device=device)
    finished_R = torch.zeros(events, dtype=torch.bool, device=device)
    between = WORDS_BETWEEN_SYNCS if device.type == "cuda" else 1
    for position in range(max_words):
        logits_RV = stepper.next_words(word_R[:, None], state)[:, -1].float()
        best_R, log_R = most_likely(logits_RV, NEVER_GENERATED)
        word_R = torch.where(finished_R, PAD, best_R)
        words_PL[row_R, position] = word_R
        sum_P[row_R] += torch.where(finished_R, 0, log_R)
        finished_R = finished_R | (word_R == EOS)
        if allow_sync and position % between == between - 1 and position < max_words - 1:
            left_R = (~finished_R).nonzero()[:, 0]
            if not len(left_R):
                break
            if len(left_R) <= WORTH_COMPACTING * len(word_R):
                state.select(left_R)
                row_R = left_R if isinstance(row_R, slice) else row_R[left_R]
                word_R, finished_R = word_R[left_R], finished_R[left_R]
    return Beams.single(words_PL[:, : position + 1], sum_P / sentence_lengths(words_PL))


def greedy_released(stepper: WordStepper, state: State, events: int, max_words: int) -> Beams:
    """The release's greedy search: it also generates special words, and it never stops early."""
    word_P = torch.full((events,), INIT, device=stepper.device)
    words, logs = list[Tensor](), list[Tensor]()
    for _ in range(max_words):
        logits_PV = stepper.next_words(word_P[:, None], state)[:, -1].float()
        word_P, log_P = most_likely(logits_PV)
        words.append(word_P)
        logs.append(log_P)
    return Beams.single(torch.stack(words, dim=1), torch.stack(logs, dim=1).mean(dim=1))


def most_likely(logits_PV: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
    """The best word of each event from number `first` on, and its log-probability among those."""
    fast = FAST_MOST_LIKELY.find() if logits_PV.is_cuda else None
    return (fast or plain_most_likely)(logits_PV, first)


def plain_most_likely(logits_PV: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """`most_likely` by torch; writes to the logits."""
    logits_PV[:, :first] = -torch.inf
    best = logits_PV.max(dim=-1)
    return best.indices, best.values - logits_PV.logsumexp(dim=-1)


def beam_search(
    stepper: WordStepper, state: State, events: int, config: InferenceConfig, *, allow_sync: bool = True
) -> Beams:
    """Keep the `beam` likeliest beginnings of each event at every word.

    A finished sentence stays in the beam at its score; every event keeps its own `beam` candidates. Without
    `allow_sync` nobody looks whether all have finished, and there are `max_words` words.
    """
    beam = config.beam
    device = stepper.device
    state.branch(beam)
    score_PK = torch.full((events, beam), -torch.inf, device=device)
    score_PK[:, 0] = 0
    words_PKL = torch.full((events, beam, 1), INIT, device=device)
    first_P1 = torch.arange(events, device=device)[:, None] * beam
    for _ in range(config.max_words):
        logits_NV = stepper.next_words(words_PKL[:, :, -1].reshape(-1, 1), state)[:, -1].float()
        step_PKV = _step_scores(logits_NV.view(events, beam, -1), words_PKL, config)
        best = (score_PK[..., None] + step_PKV).flatten(1).topk(beam, dim=1)
        score_PK = best.values
        parent_PK, word_PK = best.indices // step_PKV.shape[-1], best.indices % step_PKV.shape[-1]
        words_PKL = torch.cat((words_PKL.gather(1, _along(parent_PK, words_PKL)), word_PK[..., None]), dim=2)
        if allow_sync and bool(((word_PK == EOS) | (word_PK == PAD)).all()):
            break
        state.reorder((first_P1 + parent_PK).flatten())
    words_PKL = words_PKL[..., 1:]
    return Beams(words_PKL, score_PK / sentence_lengths(words_PKL))


def _step_scores(logits_PKV: Tensor, words_PKL: Tensor, config: InferenceConfig) -> Tensor:
    """Log-probabilities of the next word; a finished sentence can only go on with `<pad>`, at no cost."""
    logits_PKV[..., :NEVER_GENERATED].fill_(-torch.inf)  # fills, never copies to the device: a CUDA graph holds it
    scores_PKV = logits_PKV.log_softmax(dim=-1)
    if config.no_repeat:
        scores_PKV = scores_PKV.masked_fill(_repeats(words_PKL, scores_PKV.shape[-1], config.no_repeat), -torch.inf)
    finished_PK = (words_PKL[..., -1] == EOS) | (words_PKL[..., -1] == PAD)
    only_pad_V = torch.full((scores_PKV.shape[-1],), -torch.inf, device=scores_PKV.device)
    only_pad_V[PAD].zero_()
    return torch.where(finished_PK[..., None], only_pad_V, scores_PKV)


def _repeats(words_PKL: Tensor, vocabulary: int, size: int) -> Tensor:
    """The words that would repeat some `size` words in a row, P x K x V."""
    generated_PKL = words_PKL[..., 1:]
    counts_PKV = torch.zeros(*words_PKL.shape[:2], vocabulary, device=words_PKL.device)
    if generated_PKL.shape[-1] < size:
        return counts_PKV > 0
    windows_PKWN = generated_PKL.unfold(-1, size, 1)
    tail_PK1N = generated_PKL[..., generated_PKL.shape[-1] - size + 1 :][..., None, :]
    again_PKW = (windows_PKWN[..., :-1] == tail_PK1N).all(dim=-1)
    return counts_PKV.scatter_add(-1, windows_PKWN[..., -1], again_PKW.float()) > 0


def sentence_lengths(words_PL: Tensor) -> Tensor:
    """How many words each sentence has, `<eos>` included, at least 1."""
    return (words_PL != PAD).sum(dim=-1).clamp(min=1)


def _along(parent_PK: Tensor, words_PKL: Tensor) -> Tensor:
    return parent_PK[..., None].expand(-1, -1, words_PKL.shape[-1])
