"""Where events go on the page: their order in the list, and the group, lane and colour of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.export.document import ShownEvent

HUES = 8  # as many as the style sheet has
NO_HUE = -1
SAME_EVENT = 0.3  # temporal IoU from which a prediction takes the colour of a reference


@dataclass(frozen=True)
class Layout:
    """Per event, by its index in the document: the order to list them in, and its group, lane and hue."""

    groups: tuple[str, ...]
    order: tuple[int, ...]
    group: tuple[int, ...]
    lane: tuple[int, ...]
    hue: tuple[int, ...]


def lay_out(events: Sequence[ShownEvent]) -> Layout:
    """Groups of references first; within a group, events that overlap lie in different lanes, as few as possible."""
    groups = tuple(dict.fromkeys(shown.heading for shown in sorted(events, key=lambda shown: not shown.reference)))
    group = tuple(groups.index(shown.heading) for shown in events)
    order = tuple(sorted(range(len(events)), key=lambda index: _place(events[index], group[index])))
    lane = [0] * len(events)
    for which in range(len(groups)):
        members = [index for index in order if group[index] == which]
        for index, row in zip(members, lanes([events[index] for index in members]), strict=True):
            lane[index] = row
    return Layout(groups, order, group, tuple(lane), _hues(events, order))


def lanes(events: Sequence[ShownEvent]) -> list[int]:
    """The first lane that is free when each event starts; for events in order of start that is the fewest lanes."""
    free_from: list[float] = []
    chosen = []
    for shown in events:
        row = next((row for row, end in enumerate(free_from) if end <= shown.event.start), len(free_from))
        free_from[row : row + 1] = [shown.event.end]
        chosen.append(row)
    return chosen


def _place(shown: ShownEvent, group: int) -> tuple[float, int, float]:
    return shown.event.start, group, -shown.event.end


def _hues(events: Sequence[ShownEvent], order: Sequence[int]) -> tuple[int, ...]:
    """Colours in turn; beside references, a prediction has the colour of the one it overlaps most, or none."""
    reference = [index for index in order if events[index].reference]
    predicted = [index for index in order if not events[index].reference]
    hue = [NO_HUE] * len(events)
    for place, index in enumerate(reference or predicted):
        hue[index] = place % HUES
    if reference and predicted:
        overlap = temporal_iou(_spans(events, predicted), _spans(events, reference))
        for index, best, iou in zip(predicted, overlap.argmax(axis=1), overlap.max(axis=1), strict=True):
            hue[index] = hue[reference[best]] if iou >= SAME_EVENT else NO_HUE
    return tuple(hue)


def _spans(events: Sequence[ShownEvent], which: Sequence[int]) -> npt.NDArray[np.float64]:
    return np.array([(events[index].event.start, events[index].event.end) for index in which])


def temporal_iou(first_A2: npt.NDArray[np.float64], second_B2: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Intersection over union of all pairs, A x B; numpy, so that a page needs no torch."""
    start = np.maximum(first_A2[:, None, 0], second_B2[None, :, 0])
    end = np.minimum(first_A2[:, None, 1], second_B2[None, :, 1])
    shared = np.clip(end - start, 0, None)
    return shared / (np.diff(first_A2) + np.diff(second_B2).T - shared)
