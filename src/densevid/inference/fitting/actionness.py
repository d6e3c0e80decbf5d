"""Fit a model's actionness to its training data: events against videos without events, by logistic regression.

The samples are spans of `SPAN` steps. Every video counts the same, and so do both classes. Each stream, and the changes
of each, are scaled to the same size first, all features of a stream by one factor: of reduced features those that vary
more carry more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from densevid.data.annotations import Annotations
from densevid.data.sources import FeatureSource
from densevid.errors import InputError
from densevid.inference.fitting.logistic import logistic_fit
from densevid.model.priors import Actionness, changes
from densevid.tracks import FeatureTrack

SPAN, STRIDE = 6, 3  # steps of a sample, and from the beginning of one to that of the next
MOST_SPANS = 20_000  # in memory at once; at least one of every video
RIDGE = 0.08  # docs/research/first-bundled-model.md has what others are worth on held-out clips
Floats = npt.NDArray[np.float64]


def fit_actionness(source: FeatureSource, annotations: Annotations, ridge: float = RIDGE) -> Actionness | None:
    """Fit the actionness.

    Args:
        source: The features.
        annotations: The events of videos, none for those without events. Videos without features do not count.
        ridge: How strongly weights are pulled towards 0.

    Returns:
        The actionness, or None where every video has events.

    Raises:
        InputError: No video has events, or features hold NaN or infinity.
    """
    videos = [video for video in annotations.events if video in source]
    shown_V = np.array([bool(annotations.events[video]) for video in videos], dtype=np.float64)
    if shown_V.all():
        return None
    if not shown_V.any():
        raise InputError("no video with features has events: actionness cannot be fitted")
    parts = [_spans(source.track(video), video, annotations, max(1, MOST_SPANS // len(videos))) for video in videos]
    count_V = np.array([len(part_NC) for part_NC in parts])
    share_V = 0.5 / np.where(shown_V == 1, shown_V.sum(), (1 - shown_V).sum()) / count_V
    values_NC, shown_N, share_N = np.concatenate(parts), shown_V.repeat(count_V), share_V.repeat(count_V)
    weights_C, bias = _fitted(values_NC, shown_N, share_N, [width for _, width in source.streams], ridge)
    about = {"fitted": {"videos": len(videos), "negatives": int((1 - shown_V).sum()), "spans": len(values_NC)}}
    value_F, change_F, bias_1 = (torch.from_numpy(part).float() for part in (*np.split(weights_C, 2), np.array([bias])))
    return Actionness(value_F, change_F, bias_1, about=about)


def _fitted(
    values_NC: Floats, shown_N: Floats, share_N: Floats, widths: list[int], ridge: float
) -> tuple[Floats, float]:
    """Weights and bias for values as they are."""
    mean_C = share_N @ values_NC
    square_C = share_N @ (values_NC - mean_C) ** 2
    blocks = np.repeat(np.arange(2 * len(widths)), widths * 2)
    size_K = np.sqrt(np.bincount(blocks, weights=square_C) / np.bincount(blocks))
    size_C = np.where(size_K > 0, size_K, 1)[blocks]
    weights_C, bias = logistic_fit((values_NC - mean_C) / size_C, shown_N, share_N, ridge)
    weights_C /= size_C
    return weights_C, bias - float(weights_C @ mean_C)


def _spans(track: FeatureTrack, video: str, annotations: Annotations, most: int) -> Floats:
    """Mean features and changes of spans of all events, or of the whole video where there are none, N x 2F."""
    values_TF = np.asarray(track.values, dtype=np.float32)
    if not np.isfinite(values_TF).all():
        raise InputError(f"{video}: its features hold NaN or infinity")
    steps_TC = np.concatenate([values_TF, changes(values_TF)], axis=1, dtype=np.float64)
    total_TC = np.concatenate([np.zeros_like(steps_TC[:1]), steps_TC.cumsum(axis=0)])
    events = {track.whole_steps(event.start, event.end) for event in annotations.events[video]} or {(0, len(track))}
    spans_N2 = np.array(
        [
            (start, min(start + SPAN, end))
            for first, end in sorted(events)
            for start in range(first, max(first + 1, end - SPAN + 1), STRIDE)
        ]
    )
    spans_N2 = spans_N2[np.linspace(0, len(spans_N2) - 1, min(most, len(spans_N2))).round().astype(int)]
    starts_N, ends_N = spans_N2.T
    return np.asarray((total_TC[ends_N] - total_TC[starts_N]) / (ends_N - starts_N)[:, None])
