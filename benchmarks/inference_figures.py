"""The figures of the inference bench: how fast, how much arithmetic, and how far what is said agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.hardware import share_of_peak
from benchmarks.plain_captioner import PlainEvents
from densevid.config import Config
from densevid.inference.batches import CaptionedVideo
from densevid.tracks import FeatureTrack


@dataclass(frozen=True)
class Figure:
    """What one way of captioning reached; `teraflops` counts the arithmetic of the dense version."""

    mask: str
    name: str
    milliseconds: float
    captions_per_second: float
    teraflops: float
    times_plain: float | None = None
    same_intervals: float | None = None
    same_sentences: float | None = None


def figure_of(
    name: str,
    config: Config,
    seconds: float,
    tracks: Sequence[FeatureTrack],
    found: Sequence[CaptionedVideo | PlainEvents],
    plain: Figure | None = None,
    told: Sequence[PlainEvents] = (),
) -> Figure:
    """What came of captioning these videos in so many seconds, held against the plain version's."""
    captions = sum(len(video.sentences) for video in found)
    steps = [min(len(track), config.model.window) for track in tracks]
    flop = sum(dense_flop(config, count, len(video.sentences)) for count, video in zip(steps, found, strict=True))
    each = seconds / len(tracks)
    ratio = None if plain is None else plain.milliseconds / each / 1e3
    same = [agreement(video, theirs) for video, theirs in zip(found, told, strict=False)]
    intervals, sentences = np.mean(same, axis=0).tolist() if same else (None, None)
    return Figure(
        config.model.mask, name, each * 1e3, captions / seconds, flop / seconds / 1e12, ratio, intervals, sentences
    )


def agreement(ours: CaptionedVideo | PlainEvents, theirs: PlainEvents) -> tuple[float, float]:
    """Shares of events that the plain version also has, both borders within one step, and says the same of.

    Each of the plain version's events is taken once, by the first of ours that is near it, the same rank before others:
    scores that differ in their last digits may change places, and remain the same events.
    """
    assert isinstance(ours, CaptionedVideo)
    count = len(ours.sentences)
    far_PQ = np.abs(ours.reported_P2[:, None] - np.array(theirs.intervals)[None]).max(axis=2)
    rank_PQ = np.abs(np.arange(count)[:, None] - np.arange(far_PQ.shape[1]))
    near, said, free = 0, 0, np.ones(far_PQ.shape[1], dtype=bool)
    for event in range(count):
        usable = np.flatnonzero(free & (far_PQ[event] <= 1))
        if len(usable):
            other = usable[rank_PQ[event, usable].argmin()]
            free[other] = False
            near, said = near + 1, said + (ours.sentences[event] == theirs.sentences[other])
    return near / count, said / max(1, near)


def dense_flop(config: Config, steps: int, events: int) -> float:
    """Multiplications and additions of encoding `events` events over all steps and saying all words, products alone."""
    model, words = config.model, config.inference.max_words
    d, hidden = model.width, model.hidden
    encoder_layer = steps * (4 * d * d + 2 * d * hidden) + 2 * steps * steps * d
    decoder_layer = words * (6 * d * d + 2 * d * hidden + 2 * words * d + 2 * steps * d) + 2 * steps * d * d
    return (
        2.0 * model.layers * (encoder_layer * (events + 1) + decoder_layer * events) + 2.0 * events * words * d * 4000
    )


def row(figure: Figure) -> str:
    """One line of the table."""
    line = f"{figure.name:32} {figure.milliseconds:10.2f} ms a video  {figure.captions_per_second:9.0f} captions/s"
    line += f"  {figure.teraflops:7.3g} dense TFLOP/s"
    if torch.cuda.is_available() and (share := share_of_peak(figure.teraflops, torch.cuda.get_device_name())):
        line += f" ({share:4.0%} of bfloat16's peak)"
    if figure.times_plain is not None:
        line += f"  {figure.times_plain:7.1f} x plain"
    if figure.same_sentences is not None and figure.same_intervals is not None:
        line += f"  same: {figure.same_intervals:.1%} intervals to a step, {figure.same_sentences:.1%} sentences"
    return line
