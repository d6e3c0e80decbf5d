"""What the model saw: event masks of sure and unsure proposals, and where each word of their sentences looked.

The network is run as it is for captions; its attention to the memory is watched while it reads its own words again.
`export/plots.py` draws the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from densevid.inference.shown_proposals import Candidates, sure_and_unsure, windows_read
from densevid.inference.windows import Windows, cut
from densevid.model.anchors import anchor_intervals
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.event_mask import EventMask
from densevid.model.layers import MultiHeadAttention
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.proposal_decoder import PickedProposals, Proposals
from densevid.tracks import FeatureTrack

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedProposal:
    """One proposal over the T steps of the window it was found in; `edges` are their times, one more than there are.

    `window_T` is where it lies, `learned_T` the mask f_M (None without one), `mask_T` the mask that was applied.
    `attention_LHWT` says per layer and head where the decoder looked when it chose each word W of the sentence.
    """

    event: Event
    edges: Floats
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
    """Sure and unsure proposals of a video, from wherever in it they are."""

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
    """Look inside the model at `each` sure and `each` unsure proposals of a video, each in its window."""
    loaded.model.eval()
    windows = windows_read(loaded, track)
    sure, unsure = sure_and_unsure([_best(loaded, track, windows, number) for number in range(len(windows))], each)
    shown: dict[tuple[int, int], ExplainedProposal] = {}
    for number in sorted({number for number, _ in sure + unsure}):
        anchors = [anchor for other, anchor in sure + unsure if other == number]
        first = float(track.seconds(windows.starts[number]))
        explained = _explained(loaded, windows.part(track, number), anchors, first)
        shown |= zip([(number, anchor) for anchor in anchors], explained, strict=True)
    return Explanation(tuple(map(shown.__getitem__, sure)), tuple(map(shown.__getitem__, unsure)))


@torch.inference_mode()
def masks_of_anchors(loaded: LoadedModel, track: FeatureTrack, anchors: Sequence[int]) -> Floats:
    """The masks under which the events of anchors of one window are captioned, P x T; an anchor of -1 is all of it."""
    loaded.model.eval()
    _, proposals = _proposed(loaded, track)
    if not len(proposals.anchors_A2):
        return np.ones((len(anchors), len(track)))
    anchor_P = torch.tensor(anchors, dtype=torch.long, device=proposals.logits_BA.device)
    _, masks = _masked(loaded, track, proposals, anchor_P.clamp(min=0))
    return _array(torch.where(anchor_P[:, None] < 0, 1.0, masks.mask_PT))[:, : len(track)]


def _proposed(loaded: LoadedModel, part: FeatureTrack) -> tuple[EncodedVideo, Proposals]:
    """What the network makes of one window."""
    model, config, steps = loaded.model, loaded.config, len(part)
    with np.errstate(over="ignore"):
        values = np.asarray(part.values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise InputError("its features hold NaN, infinity or numbers too large for float32")
    values = np.pad(values, ((0, rules_of(config).steps_read(steps) - steps), (0, 0)))
    features_1TF = torch.from_numpy(values)[None].to(model.device)
    valid_1T = torch.ones(features_1TF.shape[:2], dtype=torch.bool, device=model.device)
    video, own_1 = model.encode(features_1TF, valid_1T), torch.tensor([steps], device=model.device)
    return video, at_changes(model.propose(video), features_1TF, own_1, config.inference)


def _best(loaded: LoadedModel, track: FeatureTrack, windows: Windows, number: int) -> Candidates:
    """The proposals of one window that lie inside it and are not cut by its borders."""
    part, first = windows.part(track, number), windows.starts[number]
    _, proposals = _proposed(loaded, part)
    intervals_A2 = proposals.intervals_BA2[0].clamp(0, windows.size)
    inside_A = anchor_intervals(proposals.anchors_A2)[:, 1] <= windows.size + 1e-3
    whole_A = ~cut(replace(windows, starts=(first,)), intervals_A2[None] + first)[0]
    usable_A = inside_A & whole_A & (intervals_A2[:, 1] - intervals_A2[:, 0] > 1e-3)
    anchor_P = usable_A.nonzero()[:, 0]
    window_P, score_P = torch.full_like(anchor_P, number), proposals.scores_BA[0, anchor_P]
    return Candidates(window_P, anchor_P, intervals_A2[anchor_P] + first, score_P).different()


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
    loaded: LoadedModel, part: FeatureTrack, anchors: Sequence[int], first: float
) -> list[ExplainedProposal]:
    """Proposals of one window, which begins `first` seconds into the video; words end before `<eos>`."""
    video, proposals = _proposed(loaded, part)
    picked, masks = _masked(loaded, part, proposals, torch.tensor(anchors, device=proposals.logits_BA.device))
    alike_P = torch.zeros(len(anchors), dtype=torch.long, device=masks.mask_PT.device)
    words_PW, attention_PLHWT = _words_and_attention(loaded, video.select(alike_P), masks.mask_PT)
    edges = first + part.seconds(np.arange(proposals.steps + 1))
    seconds_P2 = first + part.seconds(np.clip(_array(picked.intervals_P2), 0, len(part)))
    learned_PT = None if masks.soft_logits_PT is None else _array(masks.soft_logits_PT.sigmoid())
    window_PT, mask_PT, attention = _array(masks.window_PT), _array(masks.mask_PT), _array(attention_PLHWT)
    scores = proposals.scores_BA[0, list(anchors)].tolist()
    shown = []
    for place, words in enumerate(words_PW.tolist()):
        said = words[: words.index(EOS)] if EOS in words else words
        start, end = seconds_P2[place].tolist()
        event = Event(start, end, loaded.vocabulary.decode(said), scores[place])
        learned_T = None if learned_PT is None else learned_PT[place]
        tokens = tuple(loaded.vocabulary.tokens[word] for word in said)
        looked = attention[place, :, :, : len(said)]
        shown.append(ExplainedProposal(event, edges, window_PT[place], learned_T, mask_PT[place], tokens, looked))
    return shown


def _masked(
    loaded: LoadedModel, part: FeatureTrack, proposals: Proposals, anchor_P: Tensor
) -> tuple[PickedProposals, EventMask]:
    """Some proposals of a video of at most one window, and the masks they are captioned under."""
    picked = proposals.pick(torch.zeros_like(anchor_P), anchor_P)
    end = rules_of(loaded.config).end(len(part), part.clock.seconds_per_step)
    return picked, loaded.model.event_mask(picked, proposals.steps, torch.full_like(picked.logits_P, end))


def _array(values: Tensor) -> Floats:
    return values.double().cpu().numpy()
