"""Which videos share a batch: as many as a device likes, by the events that are spoken of in each.

On a GPU few videos with many events each keep it busy, and the fewer they are the sooner it begins; of videos with few
events it takes more to make the reading of weights and the launching of kernels worth it. How many events a video has,
the batch before tells: the first is as small as any.

Feature tracks become events: encode, propose, select, mask, caption, and at the very end steps become seconds.

Videos of different lengths share a batch, and so do their events; neither changes any result. Up to the selection every
number is float32 (in TF32 products unless `precision = "float32"`), so that the same events are found; their encoding
and their words, nearly all of the work, are computed in the precision that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel, load_model
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.batches import (
    CaptionedVideo,
    DeviceBatch,
    DeviceUploader,
    ModelInput,
    require_numbers,
    split_by_video,
)
from densevid.inference.compat import behavior_of
from densevid.inference.generator import GeneratorLimits, build_generators
from densevid.inference.nms import Choose
from densevid.inference.proposals import ProposalBatch, event_masks
from densevid.inference.reranking import EventFeatures, Sentences, rerank
from densevid.inference.search import Beams
from densevid.inference.stage_times import Stages
from densevid.progress import ProgressCallback, no_progress
from densevid.tracks import Clock, FeatureTrack

EVENTS_TOGETHER = 3000  # of a batch, about
VIDEOS_ON_GPU = (16, 64)  # of full length, at least and at most
VIDEOS_ON_CPU = (4, 4)


class Batches:
    """Batches of one run over videos; `steps` fixes how many steps of video each has at most."""

    def __init__(self, window: int, *, on_gpu: bool, steps: int | None = None) -> None:
        self.window, self.fixed = window, steps is not None
        self.fewest, self.most = VIDEOS_ON_GPU if on_gpu else VIDEOS_ON_CPU
        self.steps = self.fewest * window if steps is None else steps

    def __call__(self, reads: Iterable[ModelInput]) -> Iterator[list[ModelInput]]:
        """As many videos as have `steps` steps together, padded to the longest, at least one."""
        batch: list[ModelInput] = []
        longest = 0
        try:
            for read in reads:
                longest = max(longest, len(read.values_TF))
                if batch and longest * (len(batch) + 1) > self.steps:
                    yield batch
                    batch, longest = [], len(read.values_TF)
                batch.append(read)
        except Exception:  # what is wrong with a video is no reason to lose those before it
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def learn(self, videos: int, events: int) -> None:
        """So many events were spoken of in so many videos: the next batch has as many videos as suits that."""
        if not self.fixed:
            suits = EVENTS_TOGETHER * videos // max(1, events)
            self.steps = min(max(suits, self.fewest), self.most) * self.window


Segments = Sequence[tuple[float, float]]
Precision = Literal["float32", "bfloat16", "float16"]


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
class _Spoken:
    """What was found and said of a batch, on its way from the device: by event its video, anchor, score, interval,
    words and their log-probability. `there` is when it has arrived.
    """

    clocks: list[Clock]
    columns: list[Tensor]
    there: torch.cuda.Event | None


class Captioner:
    """Captions videos with one trained model; `steps_at_once` steps of video in a batch, at most, bound memory."""

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        device: str | torch.device = "cpu",
        precision: Precision | None = None,
        steps_at_once: int | None = None,
        limits: GeneratorLimits | None = None,
    ) -> None:
        self.config = loaded.config
        self.behavior = behavior_of(loaded.config)
        self.vocabulary = loaded.vocabulary
        self.detokenize = self.behavior.detokenizer(loaded.vocabulary)
        self.device = torch.device(device)
        self.model = loaded.model.to(self.device).eval()
        self.precision = precision or default_precision(self.device)
        self.ahead = self.device.type == "cuda"
        self.steps_at_once = steps_at_once
        half = self.precision != "float32"
        caption_model = deepcopy(self.model).to(getattr(torch, self.precision)) if half else self.model
        self.uploads = DeviceUploader(self.behavior, self.device)
        self.word_prior, self.actionness = loaded.word_prior_on(self.device), loaded.actionness
        self.proposal_generator, self.caption_generator = build_generators(
            self.model, caption_model, self.behavior, limits, self.word_prior
        )
        self.listen(Stages())

    @classmethod
    def open(
        cls, folder: Path | str, *, device: str | torch.device = "cpu", precision: Precision | None = None
    ) -> Captioner:
        """Load a model folder."""
        return cls(load_model(folder), device=device, precision=precision)

    def listen(self, stages: Stages) -> None:
        """Tell `stages` when each stage begins and ends."""
        self.stages = self.proposal_generator.stages = self.caption_generator.stages = stages

    def caption(self, track: FeatureTrack | ModelInput, *, choose: Choose | None = None) -> list[Event]:
        """Find the events of a video and say what happens in each, in the order of selection."""
        return next(self.caption_many([track], choose=choose))

    def caption_many(
        self, tracks: Iterable[FeatureTrack | ModelInput], *, choose: Choose | None = None
    ) -> Iterator[list[Event]]:
        """The events of many videos, in their order, several videos at a time."""
        return (captioned.events() for captioned in self.captioned(tracks, choose=choose))

    def captioned(
        self,
        tracks: Iterable[FeatureTrack | ModelInput],
        *,
        choose: Choose | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> Iterator[CaptionedVideo]:
        """The same in steps and with more to know of every event; only what `choose` leaves is captioned.

        While a GPU speaks of a batch, the words of the one before become text here, and the next is read.
        """
        waiting: list[_Spoken] = []
        batches = self._batches()
        try:
            for reads in batches(map(self.read, tracks)):
                waiting.append(self._spoken(reads, choose, on_progress))
                batches.learn(len(reads), len(waiting[-1].columns[0]))
                if len(waiting) > self.ahead:
                    yield from self._dealt(waiting.pop(0))
        except Exception:  # those before it are finished
            yield from chain.from_iterable(map(self._dealt, waiting))
            raise
        yield from chain.from_iterable(map(self._dealt, waiting))

    def caption_segments(self, track: FeatureTrack | ModelInput, segments: Segments) -> list[Event]:
        """Say what happens in given spans (seconds); the spans are reported as they were given, score 1."""
        return next(self.caption_segments_many([(track, segments)]))

    def caption_segments_many(
        self, told: Iterable[tuple[FeatureTrack | ModelInput, Segments]]
    ) -> Iterator[list[Event]]:
        """What happens in given spans of many videos, in their order."""
        given: list[Segments] = []

        def tracks() -> Iterator[ModelInput]:
            for track, segments in told:
                given.append(segments)
                yield self.read(track)

        for reads in self._batches()(tracks()):
            yield from self._segments(reads, [given.pop(0) for _ in reads])

    def read(self, track: FeatureTrack | ModelInput) -> ModelInput:
        """The window's first steps, if they are numbers."""
        if isinstance(track, ModelInput):
            return track
        with self.stages("read"), np.errstate(over="ignore"):
            stored = track.values[: self.config.model.window]
            values = np.require(stored, np.float16 if stored.dtype == np.float16 else np.float32, ["C", "W"])
            extremes = torch.stack(torch.from_numpy(values).aminmax()) if values.size else torch.zeros(2)
        if not bool(extremes.isfinite().all()):  # NaN is both
            raise InputError("its features hold NaN, infinity or numbers too large for float32")
        return ModelInput(values, track.clock)

    def unseen(self, track: FeatureTrack | ModelInput, segments: Segments) -> int:
        """How many segments begin after the last step that is read: nobody sees them, so the last step stands in."""
        starts = track.clock.steps(np.asarray([start for start, _ in segments]))
        return int((starts >= len(self.read(track).values_TF)).sum())

    @property
    def videos_at_once(self) -> int:
        """How many videos of full length make a batch, at least."""
        return max(1, self._batches().steps // self.config.model.window)

    def _batches(self) -> Batches:
        return Batches(self.config.model.window, on_gpu=self.ahead, steps=self.steps_at_once)

    @torch.inference_mode()
    def _spoken(
        self, reads: list[ModelInput], choose: Choose | None, on_progress: ProgressCallback = no_progress
    ) -> _Spoken:
        """Have a batch encoded, proposed, selected and spoken of, without waiting for the end of it."""
        with self.stages("upload"):
            uploaded = self.uploads(reads, self.proposal_generator.padding_multiple(len(reads)))
        with float32_products(exact=self.precision == "float32"):
            found, selection = self.proposal_generator(self.uploads.arrived(uploaded))
            with self.stages("choose"):
                selection = selection if choose is None else choose(selection)
                rows = selection.kept_BK.nonzero(as_tuple=True)
                events = (selection.anchor_BK[rows], selection.score_BK[rows], selection.reported_BK2[rows])
            masks = cache(lambda: self._masks(found, rows[0], events[0]))
            beams = self.caption_generator.caption_proposals(found, rows[0], events[0], masks, on_progress)
            said = self._chosen(beams, uploaded, rows[0], masks)
        columns = (rows[0], *events, said.words_PL, said.log_probability_P)
        with self.stages("download"):
            return _Spoken([read.clock for read in reads], *_downloaded(columns))

    def _masks(self, found: ProposalBatch, video_P: Tensor, anchor_P: Tensor) -> Tensor:
        with self.stages("mask"):
            return event_masks(self.model, found, video_P, anchor_P)

    def _chosen(self, beams: Beams, uploaded: DeviceBatch, video_P: Tensor, masks: Callable[[], Tensor]) -> Sentences:
        with self.stages("words"):
            seen = lambda: EventFeatures(uploaded.features_BTF, uploaded.lengths.steps_B, masks(), video_P)  # noqa: E731
            return rerank(self.word_prior, beams, self.config.inference, seen)

    def _dealt(self, spoken: _Spoken) -> list[CaptionedVideo]:
        """Each video its own, with sentences."""
        if spoken.there is not None:
            spoken.there.synchronize()
        with self.stages("text"):
            video_P, anchor_P, score_P, reported_P2, words_PL, log_P = spoken.columns
            require_numbers(log_P, self.precision)
            return split_by_video(
                spoken.clocks, video_P, (anchor_P, score_P, reported_P2), self.detokenize(words_PL), log_P
            )

    @torch.inference_mode()
    def _segments(self, reads: list[ModelInput], segments: list[Segments]) -> list[list[Event]]:
        uploaded = self.uploads(reads)
        with float32_products(exact=self.precision == "float32"):
            video = self.proposal_generator.encode(self.uploads.arrived(uploaded))
            counts = torch.tensor([len(spans) for spans in segments], device=self.device)
            video_P = torch.arange(len(reads), device=self.device).repeat_interleave(counts)
            in_steps = [
                read.clock.steps(np.asarray(spans, dtype=np.float64).reshape(-1, 2))
                for read, spans in zip(reads, segments, strict=True)
            ]
            steps_P2 = torch.from_numpy(np.concatenate(in_steps)).float().to(self.device)
            steps = video.embedded_BTD.shape[1]
            mask_PT = self.model.segment_mask(steps_P2, steps, uploaded.lengths.steps_B[video_P].float())
            said = self._chosen(self.caption_generator(video, mask_PT, video_P), uploaded, video_P, lambda: mask_PT)
        require_numbers(said.log_probability_P, self.precision)
        texts = iter(self.detokenize(said.words_PL.cpu()))
        return [[Event(start, end, next(texts)) for start, end in spans] for spans in segments]


def _downloaded(columns: Sequence[Tensor]) -> tuple[list[Tensor], torch.cuda.Event | None]:
    """Tensors on the host, and when their numbers are there: at once, or when a GPU gets to it."""
    if not columns[0].is_cuda:
        return [column.cpu() for column in columns], None
    arriving = [column.to("cpu", non_blocking=True) for column in columns]
    there = torch.cuda.Event()
    there.record()
    return arriving, there


def default_precision(device: torch.device) -> Precision:
    """bfloat16 where tensor cores make it fast, float32 elsewhere."""
    return "bfloat16" if device.type == "cuda" else "float32"
