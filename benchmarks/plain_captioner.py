"""The plain way to caption a video, which ours is compared with: everything written out, nothing skipped.

One video at a time; selection by a loop over proposals; every proposal encoded over all steps of the video, a batch of
them at a time; keys and values of the memory projected; those of earlier words concatenated; no sentence leaves early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel
from densevid.config import InferenceConfig
from densevid.data.vocabulary import EOS, INIT, PAD
from densevid.inference.captioner import float32_products
from densevid.inference.rescoring import refine_boundaries, similarity_space
from densevid.model.anchors import anchor_intervals
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.proposal_decoder import Proposals
from densevid.tracks import FeatureTrack


@dataclass(frozen=True)
class PlainEvents:
    """Events of one video, best first: intervals in steps, scores, sentences."""

    intervals: list[tuple[float, float]]
    scores: list[float]
    sentences: list[str]


class PlainCaptioner:
    """The paper's procedure for self-attention models with `model.compat = "paper"`, greedy words, in float32."""

    def __init__(self, loaded: LoadedModel, *, device: str | torch.device = "cpu", at_once: int = 64) -> None:
        self.model: MaskedTransformer = loaded.model.to(device).eval()
        self.config, self.vocabulary = loaded.config, loaded.vocabulary
        self.device, self.at_once = torch.device(device), at_once
        self.compared = similarity_space(loaded.word_prior_on(self.device), loaded.config.inference)

    @torch.inference_mode()
    def caption(self, track: FeatureTrack) -> PlainEvents:
        """Find and caption the events of one video."""
        with float32_products(exact=True):
            values_TF = torch.from_numpy(track.values[: self.config.model.window].astype(np.float32))
            features_1TF = values_TF[None].to(self.device)
            valid_1T = torch.ones(features_1TF.shape[:2], dtype=torch.bool, device=self.device)
            video = self.model.encode(features_1TF, valid_1T)
            steps = features_1TF.shape[1]
            own_1 = torch.tensor([steps], device=self.device)
            compared_1TC = self.compared(features_1TF)
            proposals = refine_boundaries(self.model.propose(video), compared_1TC, own_1, self.config.inference)
            chosen = greedily_chosen(proposals, steps, self.config.inference)
            anchors = [anchor for anchor, _ in chosen]
            masks_PT = self._masks(proposals, anchors, steps) if chosen else valid_1T.float()
            sentences = [text for masks in masks_PT.split(self.at_once) for text in self._sentences(video, masks)]
        if not chosen:  # where nothing is proposed, the whole is one event
            return PlainEvents([(0.0, float(steps))], [self.config.inference.score_threshold], sentences)
        return PlainEvents([span for _, span in chosen], proposals.scores_BA[0, anchors].tolist(), sentences)

    def _masks(self, proposals: Proposals, anchors: list[int], steps: int) -> Tensor:
        anchor_P = torch.tensor(anchors, device=self.device)
        picked = proposals.pick(torch.zeros_like(anchor_P), anchor_P)
        return self.model.event_mask(picked, steps, torch.full_like(picked.logits_P, steps)).mask_PT

    def _sentences(self, video: EncodedVideo, masks_PT: Tensor) -> Iterator[str]:
        rows = torch.zeros(len(masks_PT), dtype=torch.long, device=self.device)
        state = self.model.begin_caption(video.select(rows), masks_PT)
        words_PL = torch.full((len(masks_PT), 1), INIT, device=self.device)
        for _ in range(self.config.inference.max_words):
            logits_PV = self.model.next_words(words_PL[:, -1:], state)[:, -1]
            logits_PV[:, : INIT + 1] = -torch.inf
            finished_P = (words_PL == EOS).any(dim=1)
            words_PL = torch.cat((words_PL, torch.where(finished_P, PAD, logits_PV.argmax(dim=-1))[:, None]), dim=1)
        return map(self.vocabulary.decode, words_PL[:, 1:].tolist())


def greedily_chosen(proposals: Proposals, steps: int, config: InferenceConfig) -> list[tuple[int, tuple[float, float]]]:
    """Anchors and their intervals, best first, as the paper describes it: over the threshold or among the first few."""
    score_A = proposals.scores_BA[0]
    spans_A2 = proposals.intervals_BA2[0].clamp(min=0, max=steps)
    fits_A = (anchor_intervals(proposals.anchors_A2)[:, 1] <= steps) & (spans_A2[:, 1] - spans_A2[:, 0] > 1e-3)
    fits, spans = fits_A.tolist(), spans_A2.tolist()
    order = [anchor for anchor in score_A.sort(descending=True, stable=True).indices.tolist() if fits[anchor]]
    over = int(((score_A > config.score_threshold) & fits_A).sum())
    entering = max(over, config.min_before_suppression)
    kept: list[tuple[int, tuple[float, float]]] = []
    for rank, anchor in enumerate(order):
        if len(kept) >= (config.max_proposals if rank < entering else config.min_proposals):
            break
        start, end = spans[anchor]
        if all(_overlap((start, end), other) < config.suppression_iou for _, other in kept):
            kept.append((anchor, (start, end)))
    return kept


def _overlap(first: tuple[float, float], second: tuple[float, float]) -> float:
    shared = max(0.0, min(first[1], second[1]) - max(first[0], second[0]))
    return shared / (first[1] - first[0] + second[1] - second[0] - shared)
