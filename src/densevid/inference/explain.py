"""What the model saw: masks of the timeline's events and of unsure proposals, and where each word of theirs looked.

The network is run as it is for captions; its attention to the memory is watched while it reads the words again.
`export/explanation_plots.py` draws the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from densevid.checkpoint import LoadedModel
from densevid.data.vocabulary import EOS, INIT
from densevid.events import Event
from densevid.inference.explain_window import (
    GIVEN,
    Candidates,
    MaskedEvent,
    ProposalRef,
    ReadWindow,
    sure_and_unsure,
    windows_read,
)
from densevid.inference.reranking import EventFeatures, rerank
from densevid.inference.search import search
from densevid.inference.windows import Windows
from densevid.model.attention import MultiHeadAttention
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import FeatureTrack

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedProposal:
    """One proposal over the T steps of the window it was found in; `edges` are their times, one more than there are.

    `window_T` is where it lies, `learned_T` the mask f_M (None without one), `mask_T` the mask that was applied.
    `attention_LHWT` says per layer and head where the decoder looked when it chose each word W of the sentence.
    `confidence` is what the timeline says of it (None: it does not show it, or a person gave the span), `score` what
    chose it among the proposals, `gate` the P_e of its mask; None where no anchor proposed it, or no gate mixes masks.
    """

    event: Event
    edges: Floats
    window_T: Floats
    learned_T: Floats | None
    mask_T: Floats
    words: tuple[str, ...]
    attention_LHWT: Floats
    confidence: float | None = None
    score: float | None = None
    gate: float | None = None

    @property
    def entropy_L(self) -> Floats:
        """How spread the attention of each layer is, in nats, averaged over heads and words; log T at most."""
        weights = np.clip(self.attention_LHWT, 1e-30, None)
        return np.asarray(-(weights * np.log(weights)).sum(axis=-1).mean(axis=(1, 2)))


@dataclass(frozen=True)
class Explanation:
    """The surest events of the timeline, or the best proposals where it is empty; and unsure proposals of the video."""

    confident: tuple[ExplainedProposal, ...]
    unconfident: tuple[ExplainedProposal, ...]
    of_timeline: bool = False

    @property
    def proposals(self) -> tuple[ExplainedProposal, ...]:
        """All of them, the surest first."""
        return self.confident + self.unconfident

    @property
    def entropy_L(self) -> Floats:
        """Mean entropy of each layer's attention over all proposals that have words."""
        told = [proposal.entropy_L for proposal in self.proposals if proposal.words]
        return np.mean(told, axis=0) if told else np.zeros(0)


@torch.inference_mode()
def explain(
    loaded: LoadedModel, track: FeatureTrack, told: Sequence[ProposalRef] = (), *, each: int = 2
) -> Explanation:
    """Look inside the model at the `each` surest events `told` of a video, and at `each` unsure proposals.

    Each is looked at in its window. Where nothing is told of the video, the best proposals are looked at.
    """
    loaded.model.eval()
    windows = windows_read(loaded, track)
    kept = Candidates.joined([ReadWindow.of(loaded, track, windows, first).kept() for first in windows.starts])
    spans = [(found.event.start, found.event.end) for found in told if found.event]
    told_S2 = torch.from_numpy(track.clock.steps(np.array(spans).reshape(-1, 2))).to(kept.interval_P2)
    sure, unsure = sure_and_unsure(kept, told, told_S2, each)
    explained = _looked_at(loaded, track, windows, [*sure, *unsure])
    return Explanation(tuple(explained[: len(sure)]), tuple(explained[len(sure) :]), of_timeline=bool(told))


@torch.inference_mode()
def masks_of_anchors(loaded: LoadedModel, part: FeatureTrack, anchors: Sequence[int]) -> Floats:
    """The masks under which the events of anchors of one window are captioned, P x T; an anchor of -1 is all of it."""
    loaded.model.eval()
    return _array(ReadWindow.of(loaded, part, Windows((0,), len(part), len(part)), 0).masks_of(anchors))


def _looked_at(
    loaded: LoadedModel, track: FeatureTrack, windows: Windows, sought: Sequence[ProposalRef]
) -> list[ExplainedProposal]:
    """Each in the window it was found in, in their order; a window is read once for all of its own."""
    shown: dict[int, ExplainedProposal] = {}
    for first in sorted({found.first for found in sought}):
        places = [place for place, found in enumerate(sought) if found.first == first]
        window = ReadWindow.of(loaded, track, windows, first)
        shown |= zip(places, _explained(window, [sought[place] for place in places]), strict=True)
    return [shown[place] for place in range(len(sought))]


def _words_and_attention(
    window: ReadWindow, sought: Sequence[ProposalRef], mask_PT: Tensor
) -> tuple[list[list[int]], Tensor]:
    """The words of each event, up to `<eos>`, and what the decoder looked at for each, P x L x H x W x T."""
    loaded, model = window.loaded, window.loaded.model
    row_P = torch.zeros(len(mask_PT), dtype=torch.long, device=mask_PT.device)
    video, inference = window.video.select(row_P), loaded.config.inference
    found = search(model, model.begin_caption(video, mask_PT), len(mask_PT), inference)
    own_1 = torch.tensor([len(window.part)], device=mask_PT.device)
    events = EventFeatures(window.features_1TF, own_1, mask_PT, row_P)
    told = rerank(loaded.word_prior_on(mask_PT.device), found, inference, lambda: events)
    said = [_said(loaded, words, found) for words, found in zip(told.words_PL.tolist(), sought, strict=True)]
    longest = 1 + max(map(len, said))
    words_PW = torch.tensor([words + [EOS] * (longest - len(words)) for words in said], device=mask_PT.device)
    before_PW = torch.cat((torch.full_like(words_PW[:, :1], INIT), words_PW[:, :-1]), dim=1)
    with watched_attention(model) as seen:
        model.next_words(before_PW, model.begin_caption(video, mask_PT))
    return said, torch.stack([torch.cat(portions, dim=2) for portions in seen], dim=1)


def _said(loaded: LoadedModel, words: list[int], found: ProposalRef) -> list[int]:
    """The words that the timeline shows, which half the digits may have chosen; else those that are said here."""
    if found.event is not None:
        shown = loaded.vocabulary.encode(found.event.sentence, loaded.config.inference.max_words + 1)[1:-1]
        if loaded.vocabulary.decode(shown) == found.event.sentence:
            return shown
    return words[: words.index(EOS)] if EOS in words else words


@contextmanager
def watched_attention(model: MaskedTransformer) -> Iterator[list[list[Tensor]]]:
    """Inside, notes for every layer of the caption decoder the weights (P x H x W x T) it gives to the memory."""
    decoder = model.caption_decoder
    if isinstance(decoder, SelfAttentionDecoder):
        watched: list[Any] = [layer.cross_attention for layer in decoder.layers]
    else:
        watched = list(decoder.attention)
    seen: list[list[Tensor]] = [[] for _ in watched]
    handles = [
        attention.register_forward_pre_hook(_note(portions)) for attention, portions in zip(watched, seen, strict=True)
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _note(portions: list[Tensor]) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def note(attention: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(attention, MultiHeadAttention):
            portions.append(attention.weights(*given))
        else:  # temporal attention: a weighted mean of the steps themselves is the weights, for one head and one word
            hidden_PD, keys_PTD, memory_PTD, valid = given
            steps_PTT = torch.eye(memory_PTD.shape[1], device=memory_PTD.device).expand(len(memory_PTD), -1, -1)
            portions.append(attention.forward(hidden_PD, keys_PTD, steps_PTT, valid)[:, None, None])

    return note


def _explained(window: ReadWindow, sought: Sequence[ProposalRef]) -> list[ExplainedProposal]:
    """What was found in one window."""
    masked = list(map(window.masked, sought))
    mask_PT = torch.cat([event.masks.mask_PT for event in masked])
    said, attention_PLHWT = _words_and_attention(window, sought, mask_PT)
    attention = _array(attention_PLHWT)
    return [
        _put_together(window, found, event, words, attention[place, :, :, : len(words)])
        for place, (found, event, words) in enumerate(zip(sought, masked, said, strict=True))
    ]


def _put_together(
    window: ReadWindow, found: ProposalRef, masked: MaskedEvent, words: list[int], attention_LHWT: Floats
) -> ExplainedProposal:
    """In seconds of the video, and as the timeline shows it if it does."""
    vocabulary, masks, part = window.loaded.vocabulary, masked.masks, window.part
    start, end = (window.begin + part.seconds(masked.interval)).tolist()
    event = found.event or Event(start, end, vocabulary.decode(words), masked.score or 0.0)
    return ExplainedProposal(
        event=event,
        edges=window.begin + part.seconds(np.arange(window.proposals.steps + 1)),
        window_T=_array(masks.window_PT[0]),
        learned_T=None if masks.soft_logits_PT is None else _array(masks.soft_logits_PT[0].sigmoid()),
        mask_T=_array(masks.mask_PT[0]),
        words=tuple(vocabulary.tokens[word] for word in words),
        attention_LHWT=attention_LHWT,
        confidence=None if found.event is None or found.anchor == GIVEN else found.event.score,
        score=masked.score,
        gate=masked.gate,
    )


def _array(values: Tensor) -> Floats:
    return values.double().cpu().numpy()
