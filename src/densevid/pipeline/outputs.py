"""A captioned video becomes the files that were asked for, all called NAME.densevid.SOMETHING."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import densevid
from densevid.errors import InputError
from densevid.events import Event
from densevid.export.document import Figure
from densevid.export.subtitles import ffmpeg_metadata, srt, submission, table, webvtt, youtube_chapters
from densevid.io import atomic_path, hash_of, provenance, require_writable, write_json, write_text
from densevid.pipeline.cache import code_key
from densevid.pipeline.output_names import MARK
from densevid.pipeline.result import VideoCaptions, shown_name

USUAL = ("html", "vtt", "json")
NO_PICTURES = "features alone have no pictures to make an mp4 of"


@dataclass(frozen=True)
class RenderOptions:
    """How pages and .mp4s are made: the video inside the page, sentences in the pictures, what every browser plays."""

    embed: bool = False
    burn: bool = False
    web: bool = False


@dataclass(frozen=True)
class Target:
    """Where the files of one video go, and how.

    `base` is their path without an ending; `references`, what people said, and `figures` go into the page.
    """

    base: Path
    manner: RenderOptions = field(default_factory=RenderOptions)
    references: tuple[Event, ...] = ()
    figures: tuple[Figure, ...] = ()

    def path(self, ending: str) -> Path:
        """The file of one ending."""
        return self.base.with_name(f"{self.base.name}{MARK}.{ending}")


Writer = Callable[[VideoCaptions, Target], None]


def chosen_formats(text: str) -> tuple[str, ...]:
    """`html,vtt` as names that are known, each once, in the order in which they must be written."""
    names = {name.strip().lower() for name in text.split(",") if name.strip()}
    if unknown := sorted(names - set(WRITERS)):
        raise InputError(f"--format {unknown[0]}: no such format; there are {', '.join(WRITERS)}")
    if not names:
        raise InputError(f"--format: name at least one of {', '.join(WRITERS)}")
    return tuple(name for name in WRITERS if name in names)


def require_room(target: Target) -> None:
    """Raise before the work if the files could not be written after it."""
    try:
        require_writable(target.path("json"))
    except InputError as error:
        raise InputError(f"{error}; give another place with --out DIR") from None


def write_outputs(captioned: VideoCaptions, target: Target, formats: tuple[str, ...]) -> list[Path]:
    """Write every format; the paths, in the order of the formats."""
    paths: list[Path] = []
    for figure in target.figures:
        paths.append(target.path(f"{figure.name}.png"))
        with atomic_path(paths[-1]) as temporary:
            temporary.write_bytes(figure.png)
    for name in formats:
        endings, write = WRITERS[name]
        write(captioned, target)
        paths += [target.path(ending) for ending in endings]
    return paths


def details(captioned: VideoCaptions) -> dict[str, Any]:
    """What our files say about a video beside its events."""
    return {
        "title": captioned.title,
        "file": shown_name(captioned.file.name) if captioned.file else None,
        "duration": captioned.duration,
        "chosen": captioned.chosen,
        "model": captioned.model,
        "warning": captioned.warning,
    }


def _write_json(captioned: VideoCaptions, target: Target) -> None:
    video = shown_name(captioned.name)
    inputs = {"video": captioned.content, "model": captioned.model_key}
    block = {**provenance(), "inputs": inputs}
    content = submission({video: captioned.events}, details={video: details(captioned)}, provenance=block)
    write_json(target.path("json"), content)


def _write_vtt(captioned: VideoCaptions, target: Target) -> None:
    note = f"made by densevid {densevid.__version__}, model {captioned.model}"
    write_text(target.path("vtt"), webvtt(captioned.events, note=note))


def _write_srt(captioned: VideoCaptions, target: Target) -> None:
    write_text(target.path("srt"), srt(captioned.events))


def _write_csv(captioned: VideoCaptions, target: Target) -> None:
    write_text(target.path("csv"), table(captioned.events, judged=captioned.judged))


def _write_chapters(captioned: VideoCaptions, target: Target) -> None:
    write_text(target.path("ffmetadata"), ffmpeg_metadata(captioned.events, title=captioned.name))
    write_text(target.path("chapters.txt"), youtube_chapters(captioned.events, captioned.duration))


def _write_mp4(captioned: VideoCaptions, target: Target) -> None:
    from densevid.export.subtitled_video import Mp4Options, write_subtitled

    if captioned.file is None:
        raise InputError(NO_PICTURES)
    manner = Mp4Options(target.manner.burn, target.manner.web, _mp4_key(captioned, target.manner))
    write_subtitled(captioned.file, target.path("mp4"), captioned.events, manner)


def _mp4_key(captioned: VideoCaptions, manner: RenderOptions) -> str:
    """What decides about an .mp4, so that a run that goes on does not encode what is there."""
    rows = [(event.start, event.end, event.sentence) for event in captioned.events]
    how = {"burn": manner.burn, "web": manner.web, "code": code_key([Path(densevid.__file__).parent / "export"])}
    return hash_of({"video": captioned.content, "events": rows, **how})


def _write_html(captioned: VideoCaptions, target: Target) -> None:
    from densevid.export.timeline_page import timeline_page
    from densevid.pipeline.page import timeline_document

    write_text(target.path("html"), timeline_page(timeline_document(captioned, target)))


WRITERS: dict[str, tuple[tuple[str, ...], Writer]] = {  # the mp4 first: a page may show it
    "mp4": (("mp4",), _write_mp4),
    "html": (("html",), _write_html),
    "vtt": (("vtt",), _write_vtt),
    "srt": (("srt",), _write_srt),
    "json": (("json",), _write_json),
    "chapters": (("ffmetadata", "chapters.txt"), _write_chapters),
    "csv": (("csv",), _write_csv),
}
