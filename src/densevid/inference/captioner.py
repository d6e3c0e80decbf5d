"""A feature track becomes events: encode, propose, select, mask, caption, and at the very end steps become seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel, load_model
from densevid.events import Event
from densevid.inference.decoding import sentences as decode_sentences
from densevid.inference.selection import Selection, select, select_released
from densevid.model.masked_transformer import EncodedVideo
from densevid.model.proposal_decoder import Proposals
from densevid.tracks import FeatureTrack


class Captioner:
    """Captions videos with one trained model. `at_once` events share a batch, which bounds memory."""

    def __init__(self, loaded: LoadedModel, *, device: str | torch.device = "cpu", at_once: int = 64) -> None:
        self.config = loaded.config
        self.vocabulary = loaded.vocabulary
        self.model = loaded.model.to(device).eval()
        self.device = torch.device(device)
        self.at_once = at_once

    @classmethod
    def open(cls, folder: Path | str, *, device: str | torch.device = "cpu") -> Captioner:
        """Load a model folder."""
        return cls(load_model(folder), device=device)

    @torch.inference_mode()
    def caption(self, track: FeatureTrack) -> list[Event]:
        """Find the events of a video and say what happens in each, in the order of selection."""
        steps = self._steps(track)
        video = self._encode(track)
        proposals = self.model.propose(video)
        selection = self._select(proposals, steps, track.clock.seconds_per_step)
        if not len(selection.anchor_P):
            return self._whole_video(video, track, steps)
        masks_PT = self._event_masks(proposals, selection, self._limit(proposals, steps, track))
        return self._events(track, selection.reported_P2, selection.score_P, self._sentences(video, masks_PT))

    @torch.inference_mode()
    def caption_segments(self, track: FeatureTrack, segments: Sequence[tuple[float, float]]) -> list[Event]:
        """Say what happens in given spans (seconds); the spans are reported as they were given, score 1."""
        if not segments:
            return []
        video = self._encode(track)
        steps_P2 = torch.from_numpy(track.clock.steps(np.asarray(segments))).float().to(self.device)
        limit = torch.tensor(float(self._steps(track)), device=self.device)
        masks_PT = self.model.segment_mask(steps_P2, video.embedded_BTD.shape[1], limit)
        sentences = self._sentences(video, masks_PT)
        return [Event(start, end, text) for (start, end), text in zip(segments, sentences, strict=True)]

    def caption_many(self, tracks: Iterable[FeatureTrack]) -> Iterator[list[Event]]:
        """Caption one video after another."""
        return map(self.caption, tracks)

    def _steps(self, track: FeatureTrack) -> int:
        return min(len(track), self.config.model.window)

    def _encode(self, track: FeatureTrack) -> EncodedVideo:
        """The window's first steps; the release zero-pads them to the whole window if its mask is learned."""
        values = np.asarray(track.values[: self._steps(track)], dtype=np.float32)
        if self.model.released and self.config.model.mask != "discrete":
            values = np.pad(values, ((0, self.config.model.window - len(values)), (0, 0)))
        features_1TF = torch.from_numpy(values)[None].to(self.device)
        return self.model.encode(features_1TF, torch.ones(features_1TF.shape[:2], dtype=torch.bool, device=self.device))

    def _select(self, proposals: Proposals, steps: int, seconds_per_step: float) -> Selection:
        if self.model.released:
            return select_released(proposals, 0, steps, self.config.inference, seconds_per_step)
        return select(proposals, 0, steps, self.config.inference)

    def _limit(self, proposals: Proposals, steps: int, track: FeatureTrack) -> float:
        if self.model.released:
            return min(steps + 2 * track.clock.seconds_per_step, proposals.steps)
        return steps

    def _event_masks(self, proposals: Proposals, selection: Selection, limit: float) -> Tensor:
        picked = proposals.pick(torch.zeros_like(selection.anchor_P), selection.anchor_P)
        limit_P = torch.full_like(selection.score_P, limit)
        return self.model.event_mask(picked, proposals.steps, limit_P).mask_PT

    def _sentences(self, video: EncodedVideo, masks_PT: Tensor) -> list[str]:
        """Caption every mask of one video, `at_once` of them in a batch."""
        sentences: list[str] = []
        for masks in masks_PT.split(self.at_once):
            same_video = video.select(torch.zeros(len(masks), dtype=torch.long, device=self.device))
            state = self.model.begin_caption(same_video, masks)
            words_PL = decode_sentences(self.model, state, len(masks), self.config.inference).tolist()
            decode = self.vocabulary.decode_released if self.model.released else self.vocabulary.decode
            sentences += map(decode, words_PL)
        return sentences

    def _whole_video(self, video: EncodedVideo, track: FeatureTrack, steps: int) -> list[Event]:
        """Nothing was proposed: one event over everything, scored as the threshold, as the release does."""
        total = video.embedded_BTD.shape[1]
        end = float(min(steps + 2 * track.clock.seconds_per_step, total)) if self.model.released else float(steps)
        sentences = self._sentences(video, video.memory.valid_BT.float())
        score = torch.tensor([self.config.inference.score_threshold])
        return self._events(track, torch.tensor([[0.0, end]]), score, sentences)

    def _events(self, track: FeatureTrack, reported_P2: Tensor, score_P: Tensor, sentences: list[str]) -> list[Event]:
        seconds = track.clock.seconds(reported_P2.double().cpu().numpy()).tolist()
        rows = zip(seconds, sentences, score_P.tolist(), strict=True)
        return [Event(start, end, sentence, score) for (start, end), sentence, score in rows]
