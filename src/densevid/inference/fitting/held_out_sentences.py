"""Held-out sentences: what a model writes about videos that it was not trained on, beside those videos' annotators.

    tracks -> summaries -> the true event that each found event lies in -> HeldOutSentence

`fit_sentence_confidence` is fitted to them; those of several models may be put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from densevid.inference.batches import CaptionedVideo
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.sentence_evidence import SentenceEvidence
from densevid.inference.summary import SummaryRules
from densevid.tracks import FeatureTrack

MOST = 0.5  # of a span that lies in a true event, for its sentence to be about that event


class Annotators(Protocol):
    """The annotators of one event, such as `evaluation.metrics.content_words.AnnotatorWords`."""

    @property
    def annotators(self) -> int:
        """How many there are."""

    def users(self, word: str) -> int:
        """How many of them used a word, its stem or a synonym."""


class NoAnnotators:
    """The annotators of an event that is none: nothing about it is right."""

    annotators = 0

    def users(self, word: str) -> int:
        """Nobody."""
        return 0


@dataclass(frozen=True)
class AnnotatedEvents:
    """The true events of a held-out video.

    Attributes:
        spans: Start and end of each event in seconds.
        annotators: The annotators of each.
        source: The video that this one is a part of, or was made from; its own id if there is none.
        sources: That of each event, where the video was composed of several.
    """

    spans: tuple[tuple[float, float], ...]
    annotators: tuple[Annotators, ...]
    source: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class HeldOutSentence:
    """A held-out event: what is known about its sentences, the video that it comes from, and its annotators."""

    evidence: SentenceEvidence
    source: str
    annotators: Annotators


def held_out_sentences(
    captioner: Captioner,
    tracks: Mapping[str, FeatureTrack],
    truth: Mapping[str, AnnotatedEvents],
    *,
    calibration: Calibration | None = None,
    top: int | None = None,
) -> list[HeldOutSentence]:
    """Find and caption the events of held-out videos, and look up who annotated them.

    A sentence is about the true event that most of its span lies in, if that is at least half of the span: whether the
    borders are right as well is the other confidence's matter. A span that lies in none counts with no annotators, so
    that nothing about it is right.

    Args:
        captioner: A model that was not trained on these videos.
        tracks: Features by video.
        truth: True events by video; tracks of other videos are left out.
        calibration: The calibration that summaries are chosen with; the model's own unless given.
        top: Summaries of at most so many events, whatever their confidence; by default those of `caption`.

    Returns:
        Every event of the summaries, video by video.
    """
    videos = [video for video in tracks if video in truth]
    rules = SummaryRules.of(captioner.config.inference, captioner.config.model.window, top)
    calibration = captioner.calibration if calibration is None else calibration
    summaries = LongVideoCaptioner(captioner, summary=rules, calibration=calibration, evidence=True)
    captioned = summaries.captioned(tracks[video] for video in videos)
    return [
        sentence
        for video, found in zip(videos, captioned, strict=True)
        for sentence in _of_video(summaries.finished(found), truth[video])
    ]


def _of_video(found: CaptionedVideo, truth: AnnotatedEvents) -> list[HeldOutSentence]:
    spans_P2 = torch.from_numpy(found.clock.seconds(found.reported_P2)).reshape(-1, 2)
    truth_G2 = torch.from_numpy(np.array(truth.spans, dtype=np.float64).reshape(-1, 2))
    if not len(truth_G2):
        return [HeldOutSentence(evidence, truth.source, NoAnnotators()) for evidence in found.evidence]
    shares_PG = shares_within(spans_P2.double(), truth_G2)
    best = shares_PG.max(dim=1)
    matched = zip(found.evidence, best.values.tolist(), best.indices.tolist(), strict=True)
    sources = truth.sources or (truth.source,) * len(truth_G2)
    return [
        HeldOutSentence(evidence, sources[place], truth.annotators[place] if share >= MOST else NoAnnotators())
        for evidence, share, place in matched
    ]


def shares_within(spans_P2: Tensor, truth_G2: Tensor) -> Tensor:
    """How much of each span lies in each true event, P x G."""
    start_PG = torch.maximum(spans_P2[:, None, 0], truth_G2[None, :, 0])
    end_PG = torch.minimum(spans_P2[:, None, 1], truth_G2[None, :, 1])
    return (end_PG - start_PG).clamp(min=0) / (spans_P2[:, 1] - spans_P2[:, 0]).clamp(min=1e-9)[:, None]
