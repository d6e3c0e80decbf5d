"""Tags: the names of predicted classes as extra memory of the caption decoder, and a pointer that copies their words.

The classifiers that the streams of a video were pretrained with (ImageNet's 1,000 classes, Kinetics' 400) are linear
maps of its features. `Tagger` gives the best classes of an event with a value from 0 to 1, how far each can be trusted;
`TagEmbedding` makes each a vector that stands behind the steps of the memory; `CopyHead` mixes the decoder's own words
with those of the tags (a pointer with a sentinel: Merity et al., 2017), so a word can be written that no caption had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from densevid.model.word_likelihood import CopiedWords

VALUES = 3  # functions of a tag's value that its vector is made of
EVIDENCE = ("logit", "margin", "rank", "entropy", "steadiness")  # what the value of a class follows from
SMALLEST = 1e-9  # of a word's probability before the logarithm
CERTAIN = 12.0  # the largest logit of a probability


@dataclass(frozen=True)
class Tags:
    """N tags of each of P events.

    Attributes:
        words_PNW: The words of each name, filled up with -1.
        value_PN: How far each can be trusted, 0 to 1.
        kind_PN: The stream that each comes from.
        valid_PN: Which tags there are; none of a stream that is absent.
    """

    words_PNW: Tensor
    value_PN: Tensor
    kind_PN: Tensor
    valid_PN: Tensor

    def select(self, index_P: Tensor) -> Tags:
        """The tags of the events in `index_P`."""
        return Tags(self.words_PNW[index_P], self.value_PN[index_P], self.kind_PN[index_P], self.valid_PN[index_P])


@dataclass(frozen=True)
class Labels:
    """N classes of each of P events, numbered over all streams.

    Attributes:
        label_PN: The number of each class.
        value_PN: How far each can be trusted, 0 to 1.
        valid_PN: False where the stream is absent.
        evidence_PNE: What the values follow from (`EVIDENCE`).
    """

    label_PN: Tensor
    value_PN: Tensor
    valid_PN: Tensor
    evidence_PNE: Tensor


@dataclass(frozen=True)
class Classes:
    """The classes of a stream: a linear classifier of its features, F x C and C, and the words of every class."""

    weight_FC: Tensor
    bias_C: Tensor
    words_CW: Tensor


class Tagger(nn.Module):
    """The best classes of events, by the mean logits of their steps.

    The classifiers and the words of the classes are not part of the weights: `set_classes` puts them in. `gate_SE` and
    `bias_S` are: the value of a class of stream s is sigmoid(gate_s . evidence + bias_s), a logistic regression that is
    fitted to what annotators write (`training/tag_gate.py`); before that, it is the probability of the class.

    Args:
        widths: Of the streams of the features.
        count: Tags of each stream.
    """

    gate_SE: Tensor
    bias_S: Tensor
    words_CW: Tensor

    def __init__(self, widths: Sequence[int], count: int) -> None:
        super().__init__()
        self.widths, self.count = tuple(widths), count
        gate_SE = torch.zeros(len(self.widths), len(EVIDENCE))
        gate_SE[:, 0] = 1
        self.register_buffer("gate_SE", gate_SE)
        self.register_buffer("bias_S", torch.zeros(len(self.widths)))
        self.register_buffer("words_CW", torch.zeros(0, 1, dtype=torch.long), persistent=False)
        self.classes: list[int] = [0] * len(self.widths)
        for stream, width in enumerate(self.widths):
            self.register_buffer(f"weight_{stream}", torch.zeros(width, 0), persistent=False)
            self.register_buffer(f"logit_bias_{stream}", torch.zeros(0), persistent=False)

    def set_classes(self, streams: Sequence[Classes | None]) -> None:
        """Give it the classes of each stream; None: the stream has none."""
        self.classes = [0 if each is None else each.weight_FC.shape[1] for each in streams]
        device, known = self.gate_SE.device, [each for each in streams if each is not None]
        longest = max((each.words_CW.shape[1] for each in known), default=1)
        padded = [F.pad(each.words_CW, (0, longest - each.words_CW.shape[1]), value=-1) for each in known]
        self.words_CW = torch.cat([self.words_CW.new_zeros(0, longest), *padded]).to(device)
        for stream, each in enumerate(streams):
            if each is not None:
                setattr(self, f"weight_{stream}", each.weight_FC.to(device))
                setattr(self, f"logit_bias_{stream}", each.bias_C.to(device))

    @property
    def first_S(self) -> list[int]:
        """The number of each stream's first class."""
        return [sum(self.classes[:stream]) for stream in range(len(self.classes))]

    def forward(self, features_BTF: Tensor, mask_PT: Tensor, video_P: Tensor | None = None) -> Labels:
        """The labels of events.

        Args:
            features_BTF: Features of the videos; a stream that is zero at a step is absent there.
            mask_PT: The event masks.
            video_P: The video of each event; without it there is one event a video, in order.

        Returns:
            `count` labels of each stream that has classes.
        """
        with torch.no_grad(), torch.autocast(features_BTF.device.type, enabled=False):
            streams = enumerate(features_BTF.float().split(self.widths, dim=-1))
            parts = [self._of_stream(n, part_BTf, mask_PT, video_P) for n, part_BTf in streams if self.classes[n]]
            return Labels(*(torch.cat(columns, dim=1) for columns in zip(*map(_columns, parts), strict=True)))

    def _of_stream(self, stream: int, part_BTf: Tensor, mask_PT: Tensor, video_P: Tensor | None) -> Labels:
        present_BT = (part_BTf != 0).any(dim=-1)
        weight_PT = mask_PT.float().clamp(min=0) * (present_BT if video_P is None else present_BT[video_P])
        weight_FC, bias_C = getattr(self, f"weight_{stream}").float(), getattr(self, f"logit_bias_{stream}").float()
        logits_BTC = part_BTf @ weight_FC + bias_C
        log_PC = event_means(logits_BTC, weight_PT, video_P).log_softmax(dim=-1)
        often_PC = event_means(logits_BTC.softmax(dim=-1), weight_PT, video_P)
        best = log_PC.topk(self.count + 1, dim=-1)
        label_PN = best.indices[:, :-1]
        evidence_PNE = _evidence(log_PC, best.values, often_PC.gather(1, label_PN))
        value_PN = (evidence_PNE @ self.gate_SE[stream].float() + self.bias_S[stream].float()).sigmoid()
        valid_PN = (weight_PT > 0).any(dim=-1, keepdim=True).expand_as(label_PN)
        return Labels(label_PN + self.first_S[stream], value_PN, valid_PN, evidence_PNE)

    def with_given(self, labels: Labels, label_PN: Tensor, value_PN: Tensor) -> Labels:
        """Labels with given ones of the last stream where it is absent; a given label of -1 is none."""
        others = labels.label_PN.shape[1] - self.count
        used_PN = F.pad((label_PN >= 0) & ~labels.valid_PN[:, others:], (others, 0))
        return replace(
            labels,
            label_PN=F.pad(label_PN, (others, 0)).where(used_PN, labels.label_PN),
            value_PN=F.pad(value_PN, (others, 0)).to(labels.value_PN.dtype).where(used_PN, labels.value_PN),
            valid_PN=labels.valid_PN | used_PN,
        )

    def tags(self, labels: Labels) -> Tags:
        """The words of labels."""
        first_S = torch.tensor(self.first_S, device=labels.label_PN.device)
        kind_PN = torch.searchsorted(first_S, labels.label_PN, right=True) - 1
        return Tags(self.words_CW[labels.label_PN], labels.value_PN, kind_PN, labels.valid_PN)


def _columns(labels: Labels) -> tuple[Tensor, ...]:
    return labels.label_PN, labels.value_PN, labels.valid_PN, labels.evidence_PNE


def _evidence(log_PC: Tensor, best_PM: Tensor, often_PN: Tensor) -> Tensor:
    """About each of the best classes: logit, margin to the next in logs, rank, entropy of all, and steadiness.

    Steadiness is the logit of the class's mean probability over the steps, each by itself.
    """
    log_PN, next_PN = best_PM[:, :-1], best_PM[:, 1:]
    entropy_P1 = -(log_PC.exp() * log_PC).sum(dim=-1, keepdim=True)
    rank_N = torch.arange(log_PN.shape[1], device=log_PN.device, dtype=log_PN.dtype)
    margin_PN = (log_PN - next_PN).clamp(max=CERTAIN)
    logits = (share_PN.clamp(1e-6, 1 - 1e-6).logit().clamp(-CERTAIN, CERTAIN) for share_PN in (log_PN.exp(), often_PN))
    logit_PN, steady_PN = logits
    return torch.stack((logit_PN, margin_PN, rank_N.expand_as(log_PN), entropy_P1.expand_as(log_PN), steady_PN), dim=-1)


def event_means(features_BTF: Tensor, weight_PT: Tensor, video_P: Tensor | None) -> Tensor:
    """The weighted means of steps over events, P x F; no copy of the steps is made."""
    weight_PT = weight_PT / weight_PT.sum(dim=1, keepdim=True).clamp(min=1e-6)
    if video_P is None:
        return torch.bmm(weight_PT[:, None], features_BTF)[:, 0]
    mean_PF = features_BTF.new_zeros(len(weight_PT), features_BTF.shape[2])
    for video in video_P.unique().tolist():
        rows = video_P == video
        mean_PF[rows] = weight_PT[rows] @ features_BTF[video]
    return mean_PF


class TagEmbedding(nn.Module):
    """A vector for each tag: the mean embedding of its words, its value and its stream."""

    def __init__(self, width: int, streams: int) -> None:
        super().__init__()
        self.words = nn.Linear(width, width)
        self.value = nn.Linear(VALUES, width)
        self.kind = nn.Embedding(streams, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, tags: Tags, words_VD: Tensor) -> Tensor:
        """P x N x D, of the decoder's own word embeddings."""
        known_PNW1 = (tags.words_PNW >= 0)[..., None]
        embedded_PNWD = F.embedding(tags.words_PNW.clamp(min=0), words_VD) * math.sqrt(words_VD.shape[1])
        mean_PND = (embedded_PNWD * known_PNW1).sum(dim=2) / known_PNW1.sum(dim=2).clamp(min=1)
        value_PN3 = torch.stack((tags.value_PN, tags.value_PN.square(), tags.value_PN.sqrt()), dim=-1)
        return self.norm(self.words(mean_PND) + self.value(value_PN3.to(mean_PND.dtype)) + self.kind(tags.kind_PN))


@dataclass(frozen=True)
class CopyKeys:
    """The words of the tags of P events, S slots each: what is pointed at, and which words they are."""

    keys_PSD: Tensor
    word_PS: Tensor
    valid_PS: Tensor

    def select(self, index_P: Tensor) -> CopyKeys:
        """Those of the events in `index_P`."""
        return CopyKeys(self.keys_PSD[index_P], self.word_PS[index_P], self.valid_PS[index_P])


class CopyHead(nn.Module):
    """p(word) = a_0 softmax(logits) + the attention to the slots that hold the word; a_0 is that of the sentinel."""

    def __init__(self, width: int, longest: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.tag_key = nn.Linear(width, width, bias=False)
        self.place = nn.Embedding(longest, width)
        self.sentinel = nn.Linear(width, 1)
        nn.init.constant_(self.sentinel.bias, 3.0)
        nn.init.normal_(self.place.weight, std=0.02)

    def keys(self, tags: Tags, tag_PND: Tensor, words_VD: Tensor) -> CopyKeys:
        """Keys of the words of all tags."""
        words_PNW, width = tags.words_PNW, words_VD.shape[1]
        embedded_PNWD = F.embedding(words_PNW.clamp(min=0), words_VD) * math.sqrt(width)
        keys_PNWD = embedded_PNWD + self.tag_key(tag_PND)[:, :, None]
        keys_PNWD = keys_PNWD + self.place.weight[: words_PNW.shape[2]]
        valid_PNW = (words_PNW >= 0) & tags.valid_PN[..., None]
        return CopyKeys(keys_PNWD.flatten(1, 2), words_PNW.clamp(min=0).flatten(1), valid_PNW.flatten(1))

    def forward(self, output_PLD: Tensor, logits_PLV: Tensor, copied: CopyKeys) -> Tensor:
        """Log-probabilities of the words after each of `output_PLD`.

        Several sentences of an event may stand side by side: rows of the output are a multiple of those of the keys.
        """
        rows, length = output_PLD.shape[:2]
        share_ELS = self._log_shares(output_PLD, copied).exp()
        own_PLV = logits_PLV.float().softmax(dim=-1) * share_ELS[..., :1].reshape(rows, length, 1)
        word_ELS = copied.word_PS[:, None].expand(-1, share_ELS.shape[1], -1)
        slots = word_ELS.shape[2]
        mixed_PLV = own_PLV.scatter_add(
            2, word_ELS.reshape(rows, length, slots), share_ELS[..., 1:].reshape(rows, length, slots)
        )
        return mixed_PLV.clamp(min=SMALLEST).log()

    def copied(self, output_PLD: Tensor, copied: CopyKeys, place_N: Tensor, words: nn.Linear) -> CopiedWords:
        """What the pointer adds at N of the flat places of the output (`model/word_likelihood.py`)."""
        events, slots = copied.word_PS.shape
        log_share_ELS = self._log_shares(output_PLD, copied)
        same_ESS = (copied.word_PS[:, :, None] == copied.word_PS[:, None]) & copied.valid_PS[:, None]
        with torch.autocast(output_PLD.device.type, enabled=False):
            copied_ELS = log_share_ELS[..., 1:].exp() @ same_ESS.float().transpose(1, 2)
        output_ELD = output_PLD.reshape(events, -1, output_PLD.shape[2])
        logits_ELS = output_ELD @ F.embedding(copied.word_PS, words.weight).transpose(1, 2)
        event_N = place_N // max(1, output_ELD.shape[1])
        weight_ES = copied.valid_PS / same_ESS.sum(dim=2).clamp(min=1)
        word_NS = copied.word_PS[event_N]
        return CopiedWords(
            log_own_N=log_share_ELS[..., 0].flatten()[place_N],
            copied_NS=copied_ELS.reshape(-1, slots)[place_N],
            weight_NS=weight_ES[event_N],
            word_NS=word_NS,
            logits_NS=logits_ELS.reshape(-1, slots)[place_N] + words.bias[word_NS],
        )

    def _log_shares(self, output_PLD: Tensor, copied: CopyKeys) -> Tensor:
        """The log of the attention to the sentinel and to every slot, by event."""
        events, _, width = copied.keys_PSD.shape
        query_ELD = self.query(output_PLD).reshape(events, -1, width)
        points_ELS = query_ELD @ copied.keys_PSD.transpose(1, 2) / math.sqrt(width)
        points_ELS = points_ELS.float().masked_fill(~copied.valid_PS[:, None], -torch.inf)
        sentinel_EL1 = self.sentinel(output_PLD).float().reshape(events, -1, 1)
        return torch.cat((sentinel_EL1, points_ELS), dim=-1).log_softmax(dim=-1)
