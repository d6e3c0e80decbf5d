"""What the model saw: event masks of sure and unsure proposals, and where each word of their sentences looked.

The network is run as it is for captions; its attention to the memory is watched while it reads its own words again.
`export/plots.py` draws the result.
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
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.borders import at_changes
from densevid.inference.decoding import sentences
from densevid.inference.rules import rules_of
from densevid.intervals import suppress, temporal_iou
from densevid.model.anchors import anchor_intervals
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.event_mask import EventMask
from densevid.model.layers import MultiHeadAttention
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.proposal_decoder import PickedProposals, Proposals
from densevid.tracks import FeatureTrack

Floats = npt.NDArray[np.float64]
DIFFERENT = 0.5  # proposals that overlap a better one by more than this would show the same event again
UNSURE = 0.7  # the paper shows two proposals scored above .9 and two below .7
MOST_COMPARED = 2000  # suppression compares all pairs


@dataclass(frozen=True)
class ExplainedProposal:
    """One proposal over T steps: its window, the learned mask f_M (None without one), the mask that was applied.

    `attention_LHWT` says per layer and head where the decoder looked when it chose each word W of the sentence.
    """

    event: Event
    window_T: Floats
    learned_T: Floats | None
    mask_T: Floats
    words: tuple[str, ...]
    attention_LHWT: Floats

    @property
    def entropy_L(self) -> Floats:
        """How spread the attention of each layer is, in nats, averaged over heads and words; log T at most."""
        weights = np.clip(self.attention_LHWT, 1e-30, None)
        return np.asarray(-(weights * np.log(weights)).sum(axis=-1).mean(axis=(1, 2)))


@dataclass(frozen=True)
class Explanation:
    """Sure and unsure proposals of a video; `edges` are the times of its T steps, one more than there are."""

    edges: Floats
    confident: tuple[ExplainedProposal, ...]
    unconfident: tuple[ExplainedProposal, ...]

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
def explain(loaded: LoadedModel, track: FeatureTrack, *, each: int = 2) -> Explanation:
    """Look inside the model at `each` sure and `each` unsure proposals of a video (of its first window)."""
    model, rules = loaded.model.eval(), rules_of(loaded.config)
    steps = min(len(track), loaded.config.model.window)
    video, proposals = _proposed(loaded, track, steps)
    sure_P, unsure_P = _sure_and_unsure(proposals, steps, each)
    anchor_P = torch.cat((sure_P, unsure_P))
    if not len(anchor_P):
        return Explanation(track.clock.seconds(np.arange(steps + 1)), (), ())
    picked = proposals.pick(torch.zeros_like(anchor_P), anchor_P)
    limit_P = torch.full_like(picked.logits_P, rules.end(steps, track.clock.seconds_per_step))
    masks = model.event_mask(picked, proposals.steps, limit_P)
    words, attention_PLHWT = _words_and_attention(loaded, video.select(torch.zeros_like(anchor_P)), masks.mask_PT)
    shown = _explained(loaded, picked, masks, track, (words, attention_PLHWT))
    edges = track.clock.seconds(np.arange(proposals.steps + 1))
    return Explanation(edges, tuple(shown[: len(sure_P)]), tuple(shown[len(sure_P) :]))


@torch.inference_mode()
def masks_of_anchors(loaded: LoadedModel, track: FeatureTrack, anchors: Sequence[int]) -> Floats:
    """The masks under which the events of anchors are captioned, P x T; an anchor of -1 is the whole video."""
    model, rules = loaded.model.eval(), rules_of(loaded.config)
    steps = min(len(track), loaded.config.model.window)
    _, proposals = _proposed(loaded, track, steps)
    if not len(proposals.anchors_A2):
        return np.ones((len(anchors), steps))
    anchor_P = torch.tensor(anchors, dtype=torch.long, device=proposals.logits_BA.device)
    picked = proposals.pick(torch.zeros_like(anchor_P), anchor_P.clamp(min=0))
    limit_P = torch.full_like(picked.logits_P, rules.end(steps, track.clock.seconds_per_step))
    mask_PT = model.event_mask(picked, proposals.steps, limit_P).mask_PT
    return _array(torch.where(anchor_P[:, None] < 0, 1.0, mask_PT))[:, :steps]


def _proposed(loaded: LoadedModel, track: FeatureTrack, steps: int) -> tuple[EncodedVideo, Proposals]:
    model, config = loaded.model, loaded.config
    with np.errstate(over="ignore"):
        values = np.asarray(track.values[:steps], dtype=np.float32)
    if not np.isfinite(values).all():
        raise InputError("its features hold NaN, infinity or numbers too large for float32")
    values = np.pad(values, ((0, rules_of(config).steps_read(steps) - steps), (0, 0)))
    features_1TF = torch.from_numpy(values)[None].to(model.device)
    valid_1T = torch.ones(features_1TF.shape[:2], dtype=torch.bool, device=model.device)
    video, own_1 = model.encode(features_1TF, valid_1T), torch.tensor([steps], device=model.device)
    return video, at_changes(model.propose(video), features_1TF, own_1, config.inference.border_reach)


def _sure_and_unsure(proposals: Proposals, steps: int, each: int) -> tuple[Tensor, Tensor]:
    """The best anchors inside the video, and the best after them that are unsure; no two show the same event."""
    anchors_A2 = anchor_intervals(proposals.anchors_A2)
    intervals_A2 = proposals.intervals_BA2[0].clamp(0, steps)
    usable_A = (anchors_A2[:, 1] <= steps + 1e-3) & (intervals_A2[:, 1] - intervals_A2[:, 0] > 1e-3)
    score_A = proposals.logits_BA[0].masked_fill(~usable_A, -torch.inf)
    order_A = score_A.argsort(descending=True, stable=True)[: int(usable_A.sum())][:MOST_COMPARED]
    overlap_AA = temporal_iou(intervals_A2[order_A], intervals_A2[order_A])
    different_P = order_A[suppress(overlap_AA > DIFFERENT)]
    others_P = different_P[each:]
    return different_P[:each], others_P[score_A[others_P].sigmoid() < UNSURE][:each]


def _words_and_attention(loaded: LoadedModel, video: EncodedVideo, mask_PT: Tensor) -> tuple[Tensor, Tensor]:
    """The words of each event, P x W, and what the decoder looked at for each, P x L x H x W x T."""
    model = loaded.model
    told = sentences(model, model.begin_caption(video, mask_PT), len(mask_PT), loaded.config.inference)
    words_PW = told.words_PL
    before_PW = torch.cat((torch.full_like(words_PW[:, :1], INIT), words_PW[:, :-1]), dim=1)
    with watched_attention(model) as seen:
        model.next_words(before_PW, model.begin_caption(video, mask_PT))
    return words_PW, torch.stack([torch.cat(portions, dim=2) for portions in seen], dim=1)


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


def _explained(
    loaded: LoadedModel,
    picked: PickedProposals,
    masks: EventMask,
    track: FeatureTrack,
    told: tuple[Tensor, Tensor],
) -> list[ExplainedProposal]:
    """Everything on the CPU, one proposal after another; words end before `<eos>`."""
    words_PW, attention_PLHWT = told
    whole = track.clock.seconds(min(len(track), masks.mask_PT.shape[1]))
    seconds_P2 = np.clip(track.clock.seconds(picked.intervals_P2.double().cpu().numpy()), 0, whole)
    learned_PT = None if masks.soft_logits_PT is None else _array(masks.soft_logits_PT.sigmoid())
    window_PT, mask_PT, attention = _array(masks.window_PT), _array(masks.mask_PT), _array(attention_PLHWT)
    scores = picked.logits_P.sigmoid().tolist()
    shown = []
    for place, words in enumerate(words_PW.tolist()):
        said = words[: words.index(EOS)] if EOS in words else words
        start, end = seconds_P2[place].tolist()
        event = Event(start, end, loaded.vocabulary.decode(said), scores[place])
        learned_T = None if learned_PT is None else learned_PT[place]
        tokens = tuple(loaded.vocabulary.tokens[word] for word in said)
        looked = attention[place, :, :, : len(said)]
        shown.append(ExplainedProposal(event, window_PT[place], learned_T, mask_PT[place], tokens, looked))
    return shown


def _array(values: Tensor) -> Floats:
    return values.double().cpu().numpy()
