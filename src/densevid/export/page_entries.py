"""The list of events on a timeline page, with the order, group, lane and colour of each.

The list is what a reader without scripts sees, and it holds all the data of the scripts.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.events import Event
from densevid.export.document import ShownEvent, TimedMask, TimelineDocument
from densevid.export.page_parts import clock_text, data_address, escaped
from densevid.export.shown_sentences import (
    confidences_text,
    guess,
    has_two_confidences,
    whose_sentences,
)

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


SEEN_AT_ONCE = 10  # events
WIDELY = 20  # percent
MASK_POINTS = 240  # more than a lane has pixels for, few enough for hundreds of events


def event_list(document: TimelineDocument, layout: Layout) -> str:
    """All events in the order of the layout; a line where there is none."""
    if not document.events:
        return (
            '<div class="empty"><p>No event was found in this video with enough confidence to be shown.</p>'
            '<p class="advice">What comes nearest: <code>densevid caption VIDEO --top 3</code></p></div>'
        )
    items = "\n".join(_item(document, layout, index) for index in layout.order)
    return f'<ol class="list">\n{items}\n</ol>'


def group_filter(layout: Layout) -> str:
    """Buttons that choose whose events are listed, where there are several groups."""
    if len(layout.groups) < 2:
        return ""
    buttons = [_group_button("", "All", pressed=True)]
    buttons += [_group_button(str(place), name, pressed=False) for place, name in enumerate(layout.groups)]
    return f'<div class="groups" role="group" aria-label="Whose events">{"".join(buttons)}</div>'


def confidence_filter(document: TimelineDocument) -> str:
    """A slider that leaves out what is less sure, where there are many events and they differ widely."""
    percents = [shown.percent for shown in document.events if shown.percent is not None]
    if len(percents) <= SEEN_AT_ONCE or max(percents) - min(percents) < WIDELY:
        return ""
    name = "Event confidence" if has_two_confidences(_predicted(document)) else "Confidence"
    return (
        f'<div class="sureness" hidden><label for="sureness">{name}</label>'
        f'<input type="range" id="sureness" min="0" max="{max(percents)}" value="0" aria-valuetext="any">'
        '<output for="sureness">any</output></div>'
    )


def sentences_note(document: TimelineDocument) -> str:
    """One line on whose the sentences are; nothing for models that have no confidence for sentences."""
    note = whose_sentences(_predicted(document), document.model)
    return f'<p class="note muted">{escaped(note)}</p>' if note else ""


def _predicted(document: TimelineDocument) -> list[Event]:
    return [shown.event for shown in document.events if not shown.reference]


def _group_button(place: str, name: str, *, pressed: bool) -> str:
    state = "true" if pressed else "false"
    return f'<button type="button" data-group="{place}" aria-pressed="{state}"><bdi>{escaped(name)}</bdi></button>'


def _item(document: TimelineDocument, layout: Layout, index: int) -> str:
    """One entry of the list, and in its data- attributes all that the scripts know of the event."""
    shown, digits = document.events[index], document.clock_digits
    event = shown.event
    group = layout.group[index]
    data = {
        "start": f"{event.start:.3f}",
        "end": f"{event.end:.3f}",
        "group": group,
        "group-name": layout.groups[group],
        "lane": layout.lane[index],
        "hue": layout.hue[index],
        "reference": "yes" if shown.reference else "",
        "confidence": "" if shown.percent is None else f"{shown.confidence:.3f}",
        "percent": "" if shown.percent is None else shown.percent,
        **_sentence_data(shown),
        **_mask_data(shown.mask),
    }
    attributes = " ".join(f'data-{name}="{escaped(str(value))}"' for name, value in data.items() if value != "")
    span = f"{clock_text(event.start, digits)}–{clock_text(event.end, digits)}"
    return (
        f'<li {attributes}><button type="button">{_thumbnail(shown)}<span class="words">'
        f'<span class="when"><span class="dot"></span>{span}{_badge(shown)}</span>'
        f'<span class="sentence" dir="auto">{escaped(document.sentences[index])}</span>{_sentence_badge(shown)}'
        f"</span></button>{_guess(shown, span)}</li>"
    )


def _sentence_data(shown: ShownEvent) -> dict[str, str]:
    """What is known of the sentence besides its words, for the file that the page saves."""
    event = shown.event
    if shown.reference:
        return {}
    return {
        "sure": confidences_text(event, shown.percent),
        "empty": "" if event.sentence else "yes",
        "sentence-score": "" if event.sentence_score is None else f"{event.sentence_score:.3f}",
        "full-sentence": event.full_sentence or "",
        "shortened": "yes" if event.shortened else "",
        "sentence-model": event.sentence_model or "",
    }


def _sentence_badge(shown: ShownEvent) -> str:
    """How sure the sentence is, where the model knows."""
    words = "" if shown.reference else confidences_text(shown.event, None)
    return f'<span class="sure">{escaped(words)}</span>' if words else ""


def _guess(shown: ShownEvent, span: str) -> str:
    """The full sentence, to be unfolded where a shorter one or none is shown."""
    full = "" if shown.reference else guess(shown.event)
    if not full:
        return ""
    return (
        f'<details class="guess"><summary>guess<span class="hidden-text"> for {span}</span></summary>'
        f'<p dir="auto">{escaped(full)}</p></details>'
    )


def _mask_data(mask: TimedMask | None) -> dict[str, str]:
    if mask is None:
        return {}
    values = base64.b64encode(mask_bytes(mask.values)).decode()
    return {"mask": values, "mask-start": f"{mask.start:.3f}", "mask-end": f"{mask.end:.3f}"}


def _badge(shown: ShownEvent) -> str:
    if shown.reference:
        return '<span class="badge">reference</span>'
    if shown.percent is None:
        return ""
    event = "event " if confidences_text(shown.event, None) else ""
    return (
        f'<span class="score"><meter min="0" max="100" value="{shown.percent}" aria-hidden="true"></meter>'
        f'<span class="hidden-text">confidence </span>{event}{shown.percent}%</span>'
    )


def _thumbnail(shown: ShownEvent) -> str:
    if shown.thumbnail is None:
        return ""
    return f'<img class="thumbnail" alt="" loading="lazy" src="{data_address("image/jpeg", shown.thumbnail)}">'


def mask_bytes(mask: tuple[float, ...]) -> bytes:
    """A mask as one byte a point, at most MASK_POINTS of them; longer ones are averaged."""
    values = np.clip(np.nan_to_num(np.asarray(mask, dtype=np.float64)), 0, 1)
    if len(values) > MASK_POINTS:
        edges = np.linspace(0, len(values), MASK_POINTS + 1).astype(int)
        values = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
    return np.round(255 * values).astype(np.uint8).tobytes()
