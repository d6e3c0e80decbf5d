"""A CaptionResult becomes the requested files, all called NAME.densevid.SOMETHING."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import densevid
from densevid.errors import InputError
from densevid.events import Event
from densevid.export.document import Figure, ShownEvent, ShownVideo, TimelineDocument, media_type_of, references
from densevid.export.subtitles import ffmpeg_metadata, srt, table, webvtt, youtube_chapters
from densevid.io import atomic_path, hash_of, require_writable, write_json, write_text
from densevid.pipeline.cache import code_key
from densevid.pipeline.inputs import MARK
from densevid.pipeline.result import CaptionResult, shown_name

NO_PICTURES = "features alone have no pictures to make an mp4 of"
MOST_THUMBNAILS = 100  # a dense list has hundreds of events, and their pictures would make a page of many megabytes


@dataclass(frozen=True)
class RenderOptions:
    """How pages and .mp4 files are made.

    Attributes:
        embed: The video inside the page.
        burn: The sentences in the pictures of the .mp4.
        web: An .mp4 that every browser plays, shown by the page.
    """

    embed: bool = False
    burn: bool = False
    web: bool = False


@dataclass(frozen=True)
class Target:
    """Where the files of one video go, and how.

    `base` is their path without an ending; `references`, the annotated events, and `figures` go into the page.
    """

    base: Path
    render: RenderOptions = field(default_factory=RenderOptions)
    references: tuple[Event, ...] = ()
    figures: tuple[Figure, ...] = ()

    def path(self, ending: str) -> Path:
        """The file of one ending."""
        return self.base.with_name(f"{self.base.name}{MARK}.{ending}")


Writer = Callable[[CaptionResult, Target], None]


def chosen_formats(text: str) -> tuple[str, ...]:
    """The formats of `html,vtt`, each once, in the order in which they must be written.

    Raises:
        InputError: One of them is unknown, or there is none.
    """
    names = {name.strip().lower() for name in text.split(",") if name.strip()}
    if unknown := sorted(names - set(WRITERS)):
        raise InputError(f"--format {unknown[0]}: no such format; there are {', '.join(WRITERS)}")
    if not names:
        raise InputError(f"--format: name at least one of {', '.join(WRITERS)}")
    return tuple(name for name in WRITERS if name in names)


def require_room(target: Target) -> None:
    """Raise before the work if the files could not be written."""
    try:
        require_writable(target.path("json"))
    except InputError as error:
        raise InputError(f"{error}; give another place with --out DIR") from None


def write_outputs(result: CaptionResult, target: Target, formats: tuple[str, ...]) -> list[Path]:
    """Write every format; the paths, in the order of the formats."""
    paths: list[Path] = []
    for figure in target.figures:
        paths.append(target.path(f"{figure.name}.png"))
        with atomic_path(paths[-1]) as temporary:
            temporary.write_bytes(figure.png)
    for name in formats:
        endings, write = WRITERS[name]
        write(result, target)
        paths += [target.path(ending) for ending in endings]
    return paths


def _write_json(result: CaptionResult, target: Target) -> None:
    write_json(target.path("json"), result.submission())


def _write_vtt(result: CaptionResult, target: Target) -> None:
    note = f"made by densevid {densevid.__version__}, model {result.model}"
    write_text(target.path("vtt"), webvtt(result, note=note))


def _write_srt(result: CaptionResult, target: Target) -> None:
    write_text(target.path("srt"), srt(result))


def _write_csv(result: CaptionResult, target: Target) -> None:
    write_text(target.path("csv"), table(result, with_confidence=result.request.has_confidence))


def _write_chapters(result: CaptionResult, target: Target) -> None:
    write_text(target.path("ffmetadata"), ffmpeg_metadata(result, title=result.video))
    write_text(target.path("chapters.txt"), youtube_chapters(result, result.duration))


def _write_mp4(result: CaptionResult, target: Target) -> None:
    from densevid.export.subtitled_video import Mp4Options, write_subtitled

    if result.path is None:
        raise InputError(NO_PICTURES)
    options = Mp4Options(target.render.burn, target.render.web, _mp4_key(result, target.render))
    write_subtitled(result.path, target.path("mp4"), result, options)


def _mp4_key(result: CaptionResult, render: RenderOptions) -> str:
    """A hash of what an .mp4 depends on: a run that goes on does not encode one that is there."""
    rows = [(event.start, event.end, event.sentence) for event in result]
    how = {"burn": render.burn, "web": render.web, "code": code_key([Path(densevid.__file__).parent / "export"])}
    return hash_of({"video": result.content, "events": rows, **how})


def _write_html(result: CaptionResult, target: Target) -> None:
    from densevid.export.timeline_page import timeline_page

    write_text(target.path("html"), timeline_page(timeline_document(result, target)))


WRITERS: dict[str, tuple[tuple[str, ...], Writer]] = {  # the mp4 first: a page may show it
    "mp4": (("mp4",), _write_mp4),
    "html": (("html",), _write_html),
    "vtt": (("vtt",), _write_vtt),
    "srt": (("srt",), _write_srt),
    "json": (("json",), _write_json),
    "chapters": (("ffmetadata", "chapters.txt"), _write_chapters),
    "csv": (("csv",), _write_csv),
}


def timeline_document(result: CaptionResult, target: Target) -> TimelineDocument:
    """What the page at `target` shows."""
    pairs = zip(_shown(result), result.detections, strict=True)
    predicted = (replace(each, mask=detection.mask) for each, detection in pairs)
    events = _with_thumbnails(result, (*references(target.references), *predicted))
    return TimelineDocument(
        title=result.title,
        video_id=shown_name(result.video),
        duration=result.duration,
        events=events,
        video=_video(result, target),
        model=result.model,
        figures=target.figures,
        provenance=f"densevid {densevid.__version__}, model {result.model}, {result.request.text}",
        warning=result.warning or "",
    )


def comparison_figures(
    result: CaptionResult, everything: Sequence[Event], annotated: tuple[Event, ...]
) -> tuple[Figure, ...]:
    """The timeline beside the annotated events, and the recall of all proposals on them."""
    from densevid.export.plots import recall_figure, timeline_figure

    shown = references(annotated) + _shown(result)
    timeline = timeline_figure(TimelineDocument(result.title, result.duration, shown))
    description = (
        "Above the annotated events, below the predicted ones in the colour of the reference each overlaps most."
    )
    return replace(timeline, description=description), recall_figure(everything, annotated)


def _shown(result: CaptionResult) -> tuple[ShownEvent, ...]:
    shares = (min(1.0, max(0.0, event.score)) if result.request.has_confidence else None for event in result)
    return tuple(map(ShownEvent, result, shares))


def shown_file(video: Path, target: Target) -> Path:
    """What the page at `target` plays: the video itself, or its .mp4 if there is one and browsers need it."""
    wants_copy = target.render.web or not media_type_of(video)
    return target.path("mp4") if wants_copy and target.path("mp4").is_file() else video


def _video(result: CaptionResult, target: Target) -> ShownVideo | None:
    if result.path is None:
        return None
    file = shown_file(result.path, target)
    shown = ShownVideo.embedded(file) if target.render.embed else ShownVideo.linked(file, target.path("html"))
    return replace(shown, name=result.title, plays=plays_in_every_browser(file))


def plays_in_every_browser(file: Path) -> bool:
    """Whether all browsers play a video, by its container and codec; True for a file that is gone."""
    from densevid.video.container import media_kind, open_video

    try:
        with open_video(file) as (container, stream):
            return media_kind(container, stream) is not None
    except InputError:
        return True


def _with_thumbnails(result: CaptionResult, events: tuple[ShownEvent, ...]) -> tuple[ShownEvent, ...]:
    """With a picture of the middle of each event; of very many, by `_thumbnail_rank`."""
    if result.path is None:
        return events
    from densevid.export.thumbnails import thumbnails

    order = sorted(range(len(events)), key=lambda place: _thumbnail_rank(events[place]))
    pictured = order[:MOST_THUMBNAILS]
    middles = [(events[place].event.start + events[place].event.end) / 2 for place in pictured]
    pictures = dict(zip(pictured, thumbnails(result.path, middles), strict=True))
    return tuple(replace(shown, thumbnail=pictures.get(place)) for place, shown in enumerate(events))


def _thumbnail_rank(shown: ShownEvent) -> tuple[bool, bool, float]:
    """References first, then events that have only their picture, then those of highest score."""
    return not shown.reference, bool(shown.event.sentence), -shown.event.score
