"""Batches of tracks: grouped, padded, sent to the device; and the captions they become.

Videos of a batch stand side by side, zeros where one is shorter. On a GPU a batch travels on a stream of its own, from
pinned memory, while the device works on the batch before. Half precision travels as it is stored and becomes float32 on
the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.compat import PaperBehavior
from densevid.inference.nms import Lengths
from densevid.inference.sentence_confidence import SentenceConfidence, ShownSentence, with_sentence_scores
from densevid.inference.sentence_evidence import BeamEvidence, SentenceEvidence
from densevid.tracks import Clock

EVENTS_PER_BATCH = 3000  # about
VIDEOS_ON_GPU = (16, 64)  # of full length, at least and at most
VIDEOS_ON_CPU = (4, 4)


@dataclass(frozen=True)
class ModelInput:
    """The steps of a track that the network reads, checked to be finite, and their clock. Half precision stays."""

    values_TF: npt.NDArray[np.float16] | npt.NDArray[np.float32]
    clock: Clock


@dataclass(frozen=True)
class ModelInputs:
    """How many steps of each video of a batch are read; running totals B x T of step features (`confidence.py`)."""

    steps_B: Tensor
    totals: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class CaptionedVideo:
    """The P events of one video in steps, in the order of selection.

    `anchor_P` is the number of an anchor in the grid of the window that begins at step `first_P` (`WHOLE_VIDEO` where
    no anchor proposed the event). `score_P` is the score the event was selected by, a confidence where the model is
    calibrated; `proposal_score_P` is the network's own. `log_probability_P` is the mean over the words of a sentence.
    `masks` has the event mask of each over the steps of its window, if masks were requested; `evidence` what is known
    about each sentence, if that was collected, and `confidence` the model's sentence confidence, if it has one.
    """

    clock: Clock
    anchor_P: npt.NDArray[np.int64]
    first_P: npt.NDArray[np.int64]
    score_P: npt.NDArray[np.float64]
    proposal_score_P: npt.NDArray[np.float64]
    reported_P2: npt.NDArray[np.float64]
    log_probability_P: npt.NDArray[np.float64]
    sentences: list[str]
    masks: list[npt.NDArray[np.float32]] = field(default_factory=list)
    evidence: list[SentenceEvidence] = field(default_factory=list)
    confidence: SentenceConfidence | None = None

    @property
    def shown(self) -> list[ShownSentence]:
        """What is shown of each event; empty if the model has no sentence confidence."""
        return [] if self.confidence is None else list(map(self.confidence.shown, self.evidence))

    def events(self) -> list[Event]:
        """The same in seconds, with the full sentences."""
        rows = zip(self.clock.seconds(self.reported_P2).tolist(), self.sentences, self.score_P.tolist(), strict=True)
        events = [Event(start, end, sentence, score) for (start, end), sentence, score in rows]
        return with_sentence_scores(events, self.evidence, self.confidence)

    def take(self, places: npt.NDArray[np.int64]) -> CaptionedVideo:
        """Some of the events, in the order of `places`."""
        return CaptionedVideo(
            self.clock,
            self.anchor_P[places],
            self.first_P[places],
            self.score_P[places],
            self.proposal_score_P[places],
            self.reported_P2[places],
            self.log_probability_P[places],
            [self.sentences[place] for place in places],
            [self.masks[place] for place in places] if self.masks else [],
            [self.evidence[place] for place in places] if self.evidence else [],
            self.confidence,
        )

    def by_time(self) -> CaptionedVideo:
        """The same in the order of time: by start, of two that start together the longer first."""
        return self.take(np.lexsort((-self.reported_P2[:, 1], self.reported_P2[:, 0])))


@dataclass(frozen=True)
class CaptionedSpans:
    """The captions of given spans of one video: events with the full sentences, and what is known about each."""

    events: list[Event]
    evidence: list[SentenceEvidence] = field(default_factory=list)


class Batches:
    """Groups videos into batches that suit the device; a fixed `steps` bounds the steps of video in a batch.

    A GPU is busy with few videos of many events, and begins sooner with few; of videos with few events it takes more.
    So the size of a batch follows from how many events the one before it had; the first is the smallest.
    """

    def __init__(self, window: int, *, on_gpu: bool, steps: int | None = None) -> None:
        self.window, self.fixed = window, steps is not None
        self.fewest, self.most = VIDEOS_ON_GPU if on_gpu else VIDEOS_ON_CPU
        self.steps = self.fewest * window if steps is None else steps

    def __call__(self, inputs: Iterable[ModelInput]) -> Iterator[list[ModelInput]]:
        """As many videos as have `steps` steps together, padded to the longest, at least one."""
        batch: list[ModelInput] = []
        longest = 0
        try:
            for each in inputs:
                longest = max(longest, len(each.values_TF))
                if batch and longest * (len(batch) + 1) > self.steps:
                    yield batch
                    batch, longest = [], len(each.values_TF)
                batch.append(each)
        except Exception:  # a video that cannot be read does not take those before it with it
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def learn(self, videos: int, events: int) -> None:
        """Choose the size of the next batch from how many events were captioned in how many videos."""
        if not self.fixed:
            suits = EVENTS_PER_BATCH * videos // max(1, events)
            self.steps = min(max(suits, self.fewest), self.most) * self.window


def require_numbers(log_probability_P: Tensor, precision: str) -> None:
    """Raise where the network computed no finite numbers, instead of events without a word."""
    if bool(log_probability_P.isfinite().all()):
        return
    if precision == "float16":
        raise InputError("this model computes numbers too large for float16; use bfloat16 or float32")
    raise InputError("its features are too large for this model; were they made for another?")


@dataclass(frozen=True)
class DeviceBatch:
    """Features B x T x F; `lengths_3B` as `Lengths` has them; whether any video is shorter than T."""

    features_BTF: Tensor
    lengths_3B: Tensor
    padded: bool

    @property
    def lengths(self) -> Lengths:
        """Of every video."""
        return Lengths(*self.lengths_3B)


@dataclass(frozen=True)
class PendingCaptions:
    """The captions of a batch on their way from the device: one row an event, in the order of videos.

    Attributes:
        clocks: The clock of each video.
        steps: How many steps were read of each video.
        arrived: When the tensors are on the host; None where they are there.
        video_P: The row of each event's video.
        anchor_P: The number of its anchor.
        score_P: The score it was selected by.
        network_P: The network's own score.
        reported_P2: Its interval in steps.
        words_PL: Its sentence.
        log_probability_P: The mean log-probability of a word.
        mask_PT: Its mask, if requested.
        beams: What the confidence of its sentence follows from, if needed.
    """

    clocks: list[Clock]
    steps: list[int]
    arrived: torch.cuda.Event | None
    video_P: Tensor
    anchor_P: Tensor
    score_P: Tensor
    network_P: Tensor
    reported_P2: Tensor
    words_PL: Tensor
    log_probability_P: Tensor
    mask_PT: Tensor | None = None
    beams: BeamEvidence | None = None

    @property
    def events(self) -> int:
        """How many events are captioned."""
        return len(self.video_P)


class DeviceUploader:
    """Sends batches to a device; videos are padded to a multiple of `multiple` steps, at most to the window."""

    def __init__(self, behavior: PaperBehavior, device: torch.device) -> None:
        self.behavior, self.device, self.window = behavior, device, behavior.config.model.window
        self.queue = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, inputs: list[ModelInput], multiple: int = 1) -> DeviceBatch:
        """All videos padded to the longest; call `arrived` before anything is computed."""
        steps = [len(read.values_TF) for read in inputs]
        read_steps = [self.behavior.steps_read(count) for count in steps]
        longest = max(max(read_steps), min(-(-max(read_steps) // multiple) * multiple, self.window))
        half = all(read.values_TF.dtype == np.float16 for read in inputs)
        shape = (len(inputs), longest, inputs[0].values_TF.shape[1])
        features_BTF = torch.empty(shape, dtype=torch.half if half else None, pin_memory=self.queue is not None)
        for row_TF, read in zip(features_BTF.numpy(), inputs, strict=True):
            _copied(row_TF[: len(read.values_TF)], read, alone=len(inputs) == 1)
            row_TF[len(read.values_TF) :] = 0
        ends = [
            self.behavior.end(count, read.clock.seconds_per_step) for count, read in zip(steps, inputs, strict=True)
        ]
        lengths_3B = torch.tensor([steps, read_steps, ends], dtype=torch.float64)
        if self.device.type == "mps":  # Apple's GPUs have no float64
            lengths_3B = lengths_3B.float()
        with nullcontext() if self.queue is None else torch.cuda.stream(self.queue):
            sent = [self._sent(values) for values in (features_BTF, lengths_3B)]
            return DeviceBatch(sent[0].float(), sent[1], min(read_steps) < longest)

    def arrived(self, uploaded: DeviceBatch) -> DeviceBatch:
        """Make what is computed from now on wait for the batch."""
        if self.queue is not None:
            now = torch.cuda.current_stream(self.device)
            now.wait_stream(self.queue)
            for values in (uploaded.features_BTF, uploaded.lengths_3B):
                values.record_stream(now)
        return uploaded

    def _sent(self, values: Tensor) -> Tensor:
        if self.queue is None:
            return values.to(self.device)
        return values.pin_memory().to(self.device, non_blocking=True)


def _copied(row_TF: npt.NDArray[Any], read: ModelInput, *, alone: bool) -> None:
    """By torch's threads; for one video without, as waking them takes longer than the copy."""
    if alone:
        np.copyto(row_TF, read.values_TF)
    else:
        torch.from_numpy(row_TF).copy_(torch.from_numpy(read.values_TF))
