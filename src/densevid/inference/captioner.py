"""A feature track becomes events: encode, propose, select, mask, caption, and at the very end steps become seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel, load_model
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.rules import rules_of
from densevid.inference.selection import Selection
from densevid.model.masked_transformer import EncodedVideo
from densevid.model.proposal_decoder import Proposals
from densevid.tracks import FeatureTrack


@contextmanager
def exact_float32() -> Iterator[None]:
    """No TF32 inside: a GPU then gives the numbers of a CPU, and the same proposals in the same order."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = before


class Captioner:
    """Captions videos with one trained model. `at_once` events share a batch, which bounds memory."""

    def __init__(self, loaded: LoadedModel, *, device: str | torch.device = "cpu", at_once: int = 64) -> None:
        self.config = loaded.config
        self.rules = rules_of(loaded.config)
        self.vocabulary = loaded.vocabulary
        self.model = loaded.model.to(device).eval()
        self.device = torch.device(device)
        self.at_once = at_once

    @classmethod
    def open(cls, folder: Path | str, *, device: str | torch.device = "cpu") -> Captioner:
        """Load a model folder."""
        return cls(load_model(folder), device=device)

    @torch.inference_mode()
    @exact_float32()
    def caption(self, track: FeatureTrack) -> list[Event]:
        """Find the events of a video and say what happens in each, in the order of selection."""
        steps, seconds_per_step = self._steps(track), track.clock.seconds_per_step
        end = self.rules.end(steps, seconds_per_step)
        video = self._encode(track)
        proposals = self.model.propose(video)
        selection = self.rules.select(proposals, steps, seconds_per_step)
        if not len(selection.anchor_P):
            return self._whole_video(video, track, end)
        sentences = self._sentences(video, self._event_masks(proposals, selection, end))
        return self._events(track, selection.reported_P2, selection.score_P, sentences)

    @torch.inference_mode()
    @exact_float32()
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

    def unseen(self, track: FeatureTrack, segments: Sequence[tuple[float, float]]) -> int:
        """How many segments begin after the last step that is read: nobody sees them, so the last step stands in."""
        starts = track.clock.steps(np.asarray([start for start, _ in segments]))
        return int((starts >= self._steps(track)).sum())

    def _steps(self, track: FeatureTrack) -> int:
        return min(len(track), self.config.model.window)

    def _encode(self, track: FeatureTrack) -> EncodedVideo:
        """The window's first steps, with zeros after them where the rules want some."""
        steps = self._steps(track)
        with np.errstate(over="ignore"):
            values = np.asarray(track.values[:steps], dtype=np.float32)
        if not np.isfinite(values).all():
            raise InputError("its features hold NaN, infinity or numbers too large for float32")
        values = np.pad(values, ((0, self.rules.steps_read(steps) - steps), (0, 0)))
        features_1TF = torch.from_numpy(values)[None].to(self.device)
        return self.model.encode(features_1TF, torch.ones(features_1TF.shape[:2], dtype=torch.bool, device=self.device))

    def _event_masks(self, proposals: Proposals, selection: Selection, end: float) -> Tensor:
        picked = proposals.pick(torch.zeros_like(selection.anchor_P), selection.anchor_P)
        limit_P = torch.full_like(selection.score_P, end)
        return self.model.event_mask(picked, proposals.steps, limit_P).mask_PT

    def _sentences(self, video: EncodedVideo, masks_PT: Tensor) -> list[str]:
        """Caption every mask of one video, `at_once` of them in a batch."""
        sentences: list[str] = []
        for masks in masks_PT.split(self.at_once):
            same_video = video.select(torch.zeros(len(masks), dtype=torch.long, device=self.device))
            state = self.model.begin_caption(same_video, masks)
            sentences += self.rules.sentences(self.model, state, len(masks), self.vocabulary)
        return sentences

    def _whole_video(self, video: EncodedVideo, track: FeatureTrack, end: float) -> list[Event]:
        """Nothing was proposed: one event over everything, scored as the threshold, as the release does."""
        sentences = self._sentences(video, video.memory.valid_BT.float())
        score = torch.tensor([self.config.inference.score_threshold], dtype=torch.float64)
        return self._events(track, torch.tensor([[0.0, end]], dtype=torch.float64), score, sentences)

    def _events(self, track: FeatureTrack, reported_P2: Tensor, score_P: Tensor, sentences: list[str]) -> list[Event]:
        seconds = track.clock.seconds(reported_P2.double().cpu().numpy()).tolist()
        rows = zip(seconds, sentences, score_P.tolist(), strict=True)
        return [Event(start, end, sentence, score) for (start, end), sentence, score in rows]
