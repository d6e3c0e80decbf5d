"""Fit whether anything happens, on what a model learnt from: events against videos of which there is nothing to tell.

Spans of `SPAN` steps of both are told apart by logistic regression. Every video counts alike, and both kinds do. Each
stream, and the changes of each, are scaled to the same size first, all features of a stream alike: of reduced features
those that vary much say more.
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

SPAN, STRIDE = 6, 3  # steps of what is told apart, and from the beginning of one to that of the next
MOST_SPANS = 20_000  # in memory at once; at least one of every video
RIDGE = 0.08  # docs/research/bundled-model.md has what others are worth on held-out clips
Floats = npt.NDArray[np.float64]


def fit_actionness(source: FeatureSource, told: Annotations, ridge: float = RIDGE) -> Actionness | None:
    """The fit on all videos that have features; none if there is something to tell of each of them."""
    videos = [video for video in told.events if video in source]
    happens_V = np.array([bool(told.events[video]) for video in videos], dtype=np.float64)
    if happens_V.all():
        return None
    if not happens_V.any():
        raise InputError("nothing is told of any video that has features: what happens cannot be learnt")
    parts = [_spans(source.track(video), video, told, max(1, MOST_SPANS // len(videos))) for video in videos]
    count_V = np.array([len(part_NC) for part_NC in parts])
    share_V = 0.5 / np.where(happens_V == 1, happens_V.sum(), (1 - happens_V).sum()) / count_V
    values_NC, happens_N, share_N = np.concatenate(parts), happens_V.repeat(count_V), share_V.repeat(count_V)
    weights_C, bias = _fitted(values_NC, happens_N, share_N, [width for _, width in source.streams], ridge)
    about = {"fitted": {"videos": len(videos), "quiet": int((1 - happens_V).sum()), "spans": len(values_NC)}}
    value_F, change_F, bias_1 = (torch.from_numpy(part).float() for part in (*np.split(weights_C, 2), np.array([bias])))
    return Actionness(value_F, change_F, bias_1, about=about)


def _fitted(
    values_NC: Floats, happens_N: Floats, share_N: Floats, widths: list[int], ridge: float
) -> tuple[Floats, float]:
    """Weights and bias for values as they are."""
    mean_C = share_N @ values_NC
    square_C = share_N @ (values_NC - mean_C) ** 2
    blocks = np.repeat(np.arange(2 * len(widths)), widths * 2)
    size_K = np.sqrt(np.bincount(blocks, weights=square_C) / np.bincount(blocks))
    size_C = np.where(size_K > 0, size_K, 1)[blocks]
    weights_C, bias = logistic_fit((values_NC - mean_C) / size_C, happens_N, share_N, ridge)
    weights_C /= size_C
    return weights_C, bias - float(weights_C @ mean_C)


def _spans(track: FeatureTrack, video: str, told: Annotations, most: int) -> Floats:
    """Mean features and changes of spans of all events, or of the whole video where there are none, N x 2F."""
    values_TF = np.asarray(track.values, dtype=np.float32)
    if not np.isfinite(values_TF).all():
        raise InputError(f"{video}: its features hold NaN or infinity")
    steps_TC = np.concatenate([values_TF, changes(values_TF)], axis=1, dtype=np.float64)
    total_TC = np.concatenate([np.zeros_like(steps_TC[:1]), steps_TC.cumsum(axis=0)])
    events = {track.whole_steps(event.start, event.end) for event in told.events[video]} or {(0, len(track))}
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
