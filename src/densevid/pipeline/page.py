"""A captioned video becomes the document of its timeline page: the video, its events, a thumbnail for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import densevid
from densevid.errors import InputError
from densevid.events import Event
from densevid.export.document import Figure, ShownEvent, ShownVideo, TimelineDocument, media_type_of, references
from densevid.pipeline.outputs import Target
from densevid.pipeline.result import VideoCaptions, shown_name

MOST_THUMBNAILS = 100  # a dense list has hundreds of events, and their pictures would make a page of many megabytes


def timeline_document(captioned: VideoCaptions, target: Target) -> TimelineDocument:
    """What the page at `target` shows."""
    masks = captioned.masks or (None,) * len(captioned.events)  # of given spans there are none
    predicted = (replace(each, mask=mask) for each, mask in zip(_shown(captioned), masks, strict=True))
    events = _with_thumbnails(captioned, (*references(target.references), *predicted))
    return TimelineDocument(
        title=captioned.title,
        video_id=shown_name(captioned.name),
        duration=captioned.duration,
        events=events,
        video=_video(captioned, target),
        model=captioned.model,
        figures=target.figures,
        provenance=f"densevid {densevid.__version__}, model {captioned.model}, {captioned.chosen}",
        warning=captioned.warning or "",
    )


def comparison_figures(
    captioned: VideoCaptions, everything: Sequence[Event], said: tuple[Event, ...]
) -> tuple[Figure, ...]:
    """The timeline against what people said, and the share of it that all proposals find."""
    from densevid.export.plots import recall_figure, timeline_figure

    shown = references(said) + _shown(captioned)
    timeline = timeline_figure(TimelineDocument(captioned.title, captioned.duration, shown))
    description = "Above what people said, below what the model says, in the colour of the reference it overlaps most."
    return replace(timeline, description=description), recall_figure(everything, said)


def _shown(captioned: VideoCaptions) -> tuple[ShownEvent, ...]:
    shares = (min(1.0, max(0.0, event.score)) if captioned.judged else None for event in captioned.events)
    return tuple(map(ShownEvent, captioned.events, shares))


def shown_file(video: Path, target: Target) -> Path:
    """What the page at `target` plays: the video itself; where browsers do not, the .mp4 of it, if there is one."""
    wants_copy = target.manner.web or not media_type_of(video)
    return target.path("mp4") if wants_copy and target.path("mp4").is_file() else video


def _video(captioned: VideoCaptions, target: Target) -> ShownVideo | None:
    if captioned.file is None:
        return None
    file = shown_file(captioned.file, target)
    shown = ShownVideo.embedded(file) if target.manner.embed else ShownVideo.linked(file, target.path("html"))
    return replace(shown, name=captioned.title, plays=plays_in_every_browser(file))


def plays_in_every_browser(file: Path) -> bool:
    """Whether all browsers show a video, by what is in it; of one that is gone by now nobody can say otherwise."""
    from densevid.video.container import media_kind, open_video

    try:
        with open_video(file) as (container, stream):
            return media_kind(container, stream) is not None
    except InputError:
        return True


def _with_thumbnails(captioned: VideoCaptions, events: tuple[ShownEvent, ...]) -> tuple[ShownEvent, ...]:
    """The same with a picture each, of the middle of the event; of very many the references and surest have one."""
    if captioned.file is None:
        return events
    from densevid.export.thumbnails import thumbnails

    order = sorted(range(len(events)), key=lambda place: (not events[place].reference, -events[place].event.score))
    pictured = order[:MOST_THUMBNAILS]
    middles = [(events[place].event.start + events[place].event.end) / 2 for place in pictured]
    pictures = dict(zip(pictured, thumbnails(captioned.file, middles), strict=True))
    return tuple(replace(shown, thumbnail=pictures.get(place)) for place, shown in enumerate(events))
