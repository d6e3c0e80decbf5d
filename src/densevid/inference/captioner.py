"""Feature tracks become events: encode, propose, select, mask, caption, and at the very end steps become seconds.

Videos of different lengths share a batch, and so do their events; neither changes any result. Up to the selection every
number is float32 (with `precision = "bfloat16"` in TF32 products), so that the same events are found; their encoding
and their words, nearly all of the work, are computed in the precision that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel, load_model
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioned_video import CaptionedVideo, ReadTrack, deal_out
from densevid.inference.event_speaker import EventSpeaker, SpeakerLimits
from densevid.inference.folded_heads import proposer
from densevid.inference.rules import rules_of
from densevid.inference.selection import WHOLE_VIDEO, Choose, Lengths
from densevid.model.masked_transformer import EncodedVideo
from densevid.model.proposal_decoder import Proposals
from densevid.progress import Watch, unwatched
from densevid.tracks import FeatureTrack

Segments = Sequence[tuple[float, float]]
Precision = Literal["float32", "bfloat16"]


@contextmanager
def float32_products(*, exact: bool) -> Iterator[None]:
    """Inside, a GPU gives the numbers of a CPU, and the same proposals in the same order; or it may use TF32."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = not exact
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = before


@dataclass(frozen=True)
class _Batch:
    """Videos that are encoded together."""

    video: EncodedVideo
    lengths: Lengths


class Captioner:
    """Captions videos with one trained model, `steps_at_once` steps of video in a batch, which bounds memory."""

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        device: str | torch.device = "cpu",
        precision: Precision | None = None,
        steps_at_once: int | None = None,
        limits: SpeakerLimits | None = None,
    ) -> None:
        self.config = loaded.config
        self.rules = rules_of(loaded.config)
        self.vocabulary = loaded.vocabulary
        self.device = torch.device(device)
        self.model = loaded.model.to(self.device).eval()
        self.precision = precision or usual_precision(self.device)
        self.propose = proposer(self.model.proposal_decoder, folded=self.precision == "bfloat16")
        on_gpu = self.device.type == "cuda"
        self.steps_at_once = steps_at_once or (32 if on_gpu else 4) * self.config.model.window
        speaking = self.model if self.precision == "float32" else deepcopy(self.model).bfloat16()
        self.speaker = EventSpeaker(speaking, self.rules, limits or SpeakerLimits.of(self.device))

    @classmethod
    def open(
        cls, folder: Path | str, *, device: str | torch.device = "cpu", precision: Precision | None = None
    ) -> Captioner:
        """Load a model folder."""
        return cls(load_model(folder), device=device, precision=precision)

    def caption(self, track: FeatureTrack | ReadTrack, *, choose: Choose | None = None) -> list[Event]:
        """Find the events of a video and say what happens in each, in the order of selection."""
        return next(self.caption_many([track], choose=choose))

    def caption_many(
        self, tracks: Iterable[FeatureTrack | ReadTrack], *, choose: Choose | None = None
    ) -> Iterator[list[Event]]:
        """The events of many videos, in their order, several videos at a time."""
        return (captioned.events() for captioned in self.captioned(tracks, choose=choose))

    def captioned(
        self, tracks: Iterable[FeatureTrack | ReadTrack], *, choose: Choose | None = None, watch: Watch = unwatched
    ) -> Iterator[CaptionedVideo]:
        """The same in steps and with more to know of every event; only what `choose` leaves is captioned."""
        for reads in self._batches(map(self.read, tracks)):
            yield from self._captioned(reads, choose, watch)

    def caption_segments(self, track: FeatureTrack | ReadTrack, segments: Segments) -> list[Event]:
        """Say what happens in given spans (seconds); the spans are reported as they were given, score 1."""
        return next(self.caption_segments_many([(track, segments)]))

    def caption_segments_many(self, told: Iterable[tuple[FeatureTrack | ReadTrack, Segments]]) -> Iterator[list[Event]]:
        """What happens in given spans of many videos, in their order."""
        given: list[Segments] = []

        def tracks() -> Iterator[ReadTrack]:
            for track, segments in told:
                given.append(segments)
                yield self.read(track)

        for reads in self._batches(tracks()):
            yield from self._segments(reads, [given.pop(0) for _ in reads])

    def read(self, track: FeatureTrack | ReadTrack) -> ReadTrack:
        """The window's first steps, if they are numbers."""
        if isinstance(track, ReadTrack):
            return track
        with np.errstate(over="ignore"):
            values = np.require(track.values[: self.config.model.window], np.float32, ["C", "W"])
        certain = bool(torch.from_numpy(values).sum().isfinite())  # all threads, one pass; most videos pass it
        if not certain and not np.isfinite(values).all():
            raise InputError("its features hold NaN, infinity or numbers too large for float32")
        return ReadTrack(values, track.clock)

    def unseen(self, track: FeatureTrack | ReadTrack, segments: Segments) -> int:
        """How many segments begin after the last step that is read: nobody sees them, so the last step stands in."""
        starts = track.clock.steps(np.asarray([start for start, _ in segments]))
        return int((starts >= len(self.read(track).values_TF)).sum())

    @property
    def videos_at_once(self) -> int:
        """How many videos of full length make a batch."""
        return max(1, self.steps_at_once // self.config.model.window)

    def _batches(self, reads: Iterable[ReadTrack]) -> Iterator[list[ReadTrack]]:
        """As many videos as have `steps_at_once` steps together, padded to the longest, at least one."""
        batch: list[ReadTrack] = []
        longest = 0
        for read in reads:
            longest = max(longest, len(read.values_TF))
            if batch and longest * (len(batch) + 1) > self.steps_at_once:
                yield batch
                batch, longest = [], len(read.values_TF)
            batch.append(read)
        if batch:
            yield batch

    @torch.inference_mode()
    def _captioned(self, reads: list[ReadTrack], choose: Choose | None, watch: Watch) -> list[CaptionedVideo]:
        with float32_products(exact=self.precision == "float32"):
            batch = self._encode(reads)
            proposals = self.propose(batch.video.memory.last_BTD)
            selection = self.rules.select(proposals, batch.lengths)
            selection = selection.at_least_one(batch.lengths, self.config.inference.score_threshold)
            selection = selection if choose is None else choose(selection)
            rows = selection.kept_BK.nonzero(as_tuple=True)
            video_P = rows[0]
            mask_PT = self._event_masks(batch, proposals, video_P, selection.anchor_BK[rows])
            said = self.speaker(batch.video, mask_PT, video_P, watch)
        chosen = (selection.anchor_BK[rows], selection.score_BK[rows], selection.reported_BK2[rows])
        clocks = [read.clock for read in reads]
        return deal_out(clocks, video_P, chosen, self._texts(said.words_PL), said.log_probability_P)

    @torch.inference_mode()
    def _segments(self, reads: list[ReadTrack], segments: list[Segments]) -> list[list[Event]]:
        with float32_products(exact=self.precision == "float32"):
            batch = self._encode(reads)
            counts = torch.tensor([len(spans) for spans in segments], device=self.device)
            video_P = torch.arange(len(reads), device=self.device).repeat_interleave(counts)
            in_steps = [
                read.clock.steps(np.asarray(spans, dtype=np.float64).reshape(-1, 2))
                for read, spans in zip(reads, segments, strict=True)
            ]
            steps_P2 = torch.from_numpy(np.concatenate(in_steps)).float().to(self.device)
            steps = batch.video.embedded_BTD.shape[1]
            mask_PT = self.model.segment_mask(steps_P2, steps, batch.lengths.steps_B[video_P].float())
            said = self.speaker(batch.video, mask_PT, video_P)
        texts = iter(self._texts(said.words_PL))
        return [[Event(start, end, next(texts)) for start, end in spans] for spans in segments]

    def _encode(self, reads: list[ReadTrack]) -> _Batch:
        """All videos padded to the longest; those steps that the rules want read are valid."""
        steps = [len(read.values_TF) for read in reads]
        read_steps = [self.rules.steps_read(count) for count in steps]
        shape = (len(reads), max(read_steps), reads[0].values_TF.shape[1])
        features_BTF = torch.empty(shape, pin_memory=self.device.type == "cuda")
        for row_TF, read in zip(features_BTF, reads, strict=True):
            row_TF[: len(read.values_TF)] = torch.from_numpy(read.values_TF)
            row_TF[len(read.values_TF) :] = 0
        ends = [self.rules.end(count, read.clock.seconds_per_step) for count, read in zip(steps, reads, strict=True)]
        exact = torch.float32 if self.device.type == "mps" else torch.float64  # Apple's GPUs have no float64
        lengths = Lengths(*torch.tensor([steps, read_steps, ends], dtype=exact, device=self.device))
        valid_BT = torch.arange(max(read_steps), device=self.device) < lengths.read_B[:, None]
        padded = min(read_steps) < max(read_steps)
        video = self.model.encode(features_BTF.to(self.device, non_blocking=True), valid_BT, padded=padded)
        return _Batch(video, lengths)

    def _event_masks(self, batch: _Batch, proposals: Proposals, video_P: Tensor, anchor_P: Tensor) -> Tensor:
        """The mask of every chosen proposal; all that is read of a video where no anchor proposed the event."""
        whole_P1 = (anchor_P == WHOLE_VIDEO)[:, None]
        if not len(proposals.anchors_A2):
            return batch.video.memory.valid_BT[video_P].float()
        limit_P = batch.lengths.limit_B[video_P].to(proposals.offsets_BA2.dtype)
        picked = proposals.pick(video_P, anchor_P.clamp(min=0))
        mask_PT = self.model.event_mask(picked, proposals.steps, limit_P).mask_PT
        return torch.where(whole_P1, batch.video.memory.valid_BT[video_P].to(mask_PT.dtype), mask_PT)

    def _texts(self, words_PL: Tensor) -> list[str]:
        return [self.rules.text(self.vocabulary, words) for words in words_PL.tolist()]


def usual_precision(device: torch.device) -> Precision:
    """bfloat16 where tensor cores make it fast, float32 elsewhere."""
    return "bfloat16" if device.type == "cuda" else "float32"
