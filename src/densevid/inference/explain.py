"""explain: the masks of events and of low-scored proposals, and what the decoder attends to at each of their words.

The proposals and masks are those of captioning; the attention to the memory is recorded while the decoder reads the
words again. `export/explanation_plots.py` draws the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    confident_and_unsure,
    windows_read,
)
from densevid.inference.proposals import ProposedBatch
from densevid.inference.reranking import EventFeatures, rerank
from densevid.inference.search import search
from densevid.model.attention import MultiHeadAttention
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import FeatureTrack

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedProposal:
    """One proposal over the T steps of its window; `edges` are the T + 1 times of the steps.

    `window_T` is its window mask, `learned_T` the mask f_M (None without one), `mask_T` the mask that was applied.
    `attention_LHWT` is the attention of each layer and head for each word W of the sentence.
    `confidence` is that of the timeline (None where it does not show the proposal, and for given spans), `score` the
    proposal score, `gate` the P_e of its mask; both None where no anchor proposed it or the mask has no gate.
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
        """The entropy of each layer's attention in nats, averaged over heads and words; log T at most."""
        weights = np.clip(self.attention_LHWT, 1e-30, None)
        return np.asarray(-(weights * np.log(weights)).sum(axis=-1).mean(axis=(1, 2)))


@dataclass(frozen=True)
class Explanation:
    """The most confident events of the timeline (or the best proposals, if it is empty), and low-scored proposals."""

    confident: tuple[ExplainedProposal, ...]
    unconfident: tuple[ExplainedProposal, ...]
    of_timeline: bool = False

    @property
    def proposals(self) -> tuple[ExplainedProposal, ...]:
        """All of them, the most confident first."""
        return self.confident + self.unconfident

    @property
    def entropy_L(self) -> Floats:
        """Mean entropy of each layer's attention over all proposals that have words."""
        rows = [proposal.entropy_L for proposal in self.proposals if proposal.words]
        return np.mean(rows, axis=0) if rows else np.zeros(0)


@torch.inference_mode()
def explain(
    loaded: LoadedModel,
    track: FeatureTrack,
    shown: Sequence[ProposalRef] = (),
    *,
    each: int = 2,
    kept: Mapping[int, ProposedBatch] | None = None,
) -> Explanation:
    """Look into the model at the most confident events of a timeline and at proposals of low score.

    Args:
        loaded: The model.
        track: The features of the video.
        shown: The events of the timeline and where they were proposed; without any the best proposals are explained.
        each: How many of both kinds.
        kept: Windows by their first step as `LongVideoCaptioner` kept them; the others are computed.
    """
    loaded.model.eval()
    windows = windows_read(loaded, track)
    candidates = [ReadWindow.of(loaded, track, windows, first, kept).kept() for first in windows.starts]
    joined = Candidates.joined(candidates)
    spans = [(ref.event.start, ref.event.end) for ref in shown if ref.event]
    shown_S2 = torch.from_numpy(track.clock.steps(np.array(spans).reshape(-1, 2))).to(joined.interval_P2)
    confident, unsure = confident_and_unsure(joined, shown, shown_S2, each)
    refs = [*confident, *unsure]
    explained: dict[int, ExplainedProposal] = {}
    for first in sorted({ref.first for ref in refs}):
        places = [place for place, ref in enumerate(refs) if ref.first == first]
        window = ReadWindow.of(loaded, track, windows, first, kept)
        explained |= zip(places, _explained(window, [refs[place] for place in places]), strict=True)
    in_order = [explained[place] for place in range(len(refs))]
    return Explanation(tuple(in_order[: len(confident)]), tuple(in_order[len(confident) :]), of_timeline=bool(shown))


def _words_and_attention(
    window: ReadWindow, refs: Sequence[ProposalRef], mask_PT: Tensor
) -> tuple[list[list[int]], Tensor]:
    """The words of each event, up to `<eos>`, and the attention to the memory for each, P x L x H x W x T."""
    model = window.loaded.model
    row_P = torch.zeros(len(mask_PT), dtype=torch.long, device=mask_PT.device)
    memory = window.video.select(row_P)
    words = [_shown_words(window.loaded, ref) for ref in refs]
    missing = [place for place, shown in enumerate(words) if shown is None]
    if missing:
        for place, generated in zip(missing, _generated(window, mask_PT[missing]), strict=True):
            words[place] = generated
    sentences = [shown or [] for shown in words]
    longest = 1 + max(map(len, sentences))
    words_PW = torch.tensor([shown + [EOS] * (longest - len(shown)) for shown in sentences], device=mask_PT.device)
    before_PW = torch.cat((torch.full_like(words_PW[:, :1], INIT), words_PW[:, :-1]), dim=1)
    with watched_attention(model) as weights:
        model.next_words(before_PW, model.begin_caption(memory, mask_PT, model.tags(window.video, mask_PT, row_P)))
    seen_PLHWT = torch.stack([torch.cat(portions, dim=2) for portions in weights], dim=1)
    return sentences, seen_PLHWT[..., : mask_PT.shape[1]]  # without the tags


def _shown_words(loaded: LoadedModel, ref: ProposalRef) -> list[int] | None:
    """The words of an event of the timeline, which half precision may have chosen; None where there are none."""
    if ref.event is None:
        return None
    sentence = ref.event.sentence if ref.event.full_sentence is None else ref.event.full_sentence
    words = loaded.vocabulary.encode(sentence, loaded.config.inference.max_words + 1)[1:-1]
    return words if loaded.vocabulary.decode(words) == sentence else None


def _generated(window: ReadWindow, mask_PT: Tensor) -> list[list[int]]:
    """The words that the model generates under masks."""
    loaded, model = window.loaded, window.loaded.model
    row_P = torch.zeros(len(mask_PT), dtype=torch.long, device=mask_PT.device)
    video, inference = window.video.select(row_P), loaded.config.inference
    state = model.begin_caption(video, mask_PT, model.tags(window.video, mask_PT, row_P))
    found = search(model, state, len(mask_PT), inference)
    own_1 = torch.tensor([len(window.part)], device=mask_PT.device)
    features = EventFeatures(window.features_1TF, own_1, mask_PT, row_P)
    best = rerank(loaded.word_prior_on(mask_PT.device), found, inference, lambda: features, model)
    rows = best.words_PL.tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


@contextmanager
def watched_attention(model: MaskedTransformer) -> Iterator[list[list[Tensor]]]:
    """Inside, record the weights (P x H x W x T) that every layer of the caption decoder gives to the memory."""
    decoder = model.caption_decoder
    if isinstance(decoder, SelfAttentionDecoder):
        watched: list[Any] = [layer.cross_attention for layer in decoder.layers]
    else:
        watched = list(decoder.attention)
    weights: list[list[Tensor]] = [[] for _ in watched]
    handles = [
        attention.register_forward_pre_hook(_note(portions))
        for attention, portions in zip(watched, weights, strict=True)
    ]
    try:
        yield weights
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


def _explained(window: ReadWindow, refs: Sequence[ProposalRef]) -> list[ExplainedProposal]:
    """The proposals of one window."""
    masked = list(map(window.masked, refs))
    mask_PT = torch.cat([event.masks.mask_PT for event in masked])
    sentences, attention_PLHWT = _words_and_attention(window, refs, mask_PT)
    attention = _array(attention_PLHWT)
    return [
        _put_together(window, ref, event, words, attention[place, :, :, : len(words)])
        for place, (ref, event, words) in enumerate(zip(refs, masked, sentences, strict=True))
    ]


def _put_together(
    window: ReadWindow, ref: ProposalRef, masked: MaskedEvent, words: list[int], attention_LHWT: Floats
) -> ExplainedProposal:
    """In seconds of the video, with the event of the timeline if there is one."""
    vocabulary, masks, part = window.loaded.vocabulary, masked.masks, window.part
    start, end = (window.begin + part.seconds(masked.interval)).tolist()
    return ExplainedProposal(
        event=ref.event or Event(start, end, vocabulary.decode(words), masked.score or 0.0),
        edges=window.begin + part.seconds(np.arange(window.proposals.steps + 1)),
        window_T=_array(masks.window_PT[0]),
        learned_T=None if masks.soft_logits_PT is None else _array(masks.soft_logits_PT[0].sigmoid()),
        mask_T=_array(masks.mask_PT[0]),
        words=tuple(vocabulary.tokens[word] for word in words),
        attention_LHWT=attention_LHWT,
        confidence=None if ref.event is None or ref.anchor == GIVEN else ref.event.score,
        score=masked.score,
        gate=masked.gate,
    )


def _array(values: Tensor) -> Floats:
    return values.double().cpu().numpy()
