"""All that was named is captioned, one video after the other: a failure is noted and the others go on.

What was worked out before comes from the cache, so the same command given again goes on where it stopped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import InputError, is_out_of_memory, named, one_line, printable
from densevid.events import Event
from densevid.export.document import Figure
from densevid.export.index_page import IndexRow, index_page
from densevid.export.subtitles import submission
from densevid.io import provenance, write_json, write_text
from densevid.pipeline.captioner import ModelError, VideoCaptioner
from densevid.pipeline.inputs import Input, output_base
from densevid.pipeline.output_names import INDEX, MARK
from densevid.pipeline.outputs import NO_PICTURES, RenderOptions, Target, details, require_room, write_outputs
from densevid.pipeline.page import comparison_figures, plays_in_every_browser, shown_file
from densevid.pipeline.result import VideoCaptions, shown_name
from densevid.pipeline.selection import EventRequest, Span, beyond_text
from densevid.progress import ProgressCallback, no_progress

if TYPE_CHECKING:
    from densevid.tracks import FeatureTrack

POSTER_SIDE = 432  # pixels; twice what the index shows


class DiskError(InputError):
    """Nothing can be written any more."""


@dataclass(frozen=True)
class CaptionOptions:
    """What to choose of each video, what to write and where; see `densevid caption --help`."""

    choice: EventRequest
    formats: tuple[str, ...]
    out: Path | None = None
    manner: RenderOptions = field(default_factory=RenderOptions)
    explain: bool = False
    spans: dict[str, list[Span]] | None = None
    references: Mapping[str, Sequence[Event]] | None = None
    title: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one video: its events and files, or why there are none; `remark` is about its figures."""

    given: Input
    captioned: VideoCaptions | None = None
    files: tuple[Path, ...] = ()
    error: str | None = None
    remark: str | None = None

    @property
    def warnings(self) -> list[str]:
        """Lines on what is not as one would expect."""
        lines = (self.captioned and self.captioned.warning, self.remark)
        return [printable(f"{_known(self.given)}: {line}") for line in lines if line]

    @property
    def failure(self) -> str | None:
        """Why there is nothing, or what of that which was asked for there is not."""
        if self.captioned is None or not self.captioned.left_out:
            return self.error
        beyond = beyond_text(self.captioned.left_out, self.captioned.duration)
        return printable(f"{_known(self.given)}: {beyond}; left out")


@dataclass
class CaptionRun:
    """One command's worth of videos."""

    captioner: VideoCaptioner
    inputs: list[Input]
    wishes: CaptionOptions
    outcomes: list[Outcome] = field(default_factory=list)

    def check(self) -> list[str]:
        """Raise on what would fail every video, before any is touched; lines of warning."""
        warnings = []
        sources = {id(given.source): given.source for given in self.inputs if given.source is not None}
        if sources and "mp4" in self.wishes.formats:
            raise InputError(f"{NO_PICTURES}: leave out mp4, --burn and --web, or name the videos instead of the store")
        for source in sources.values():
            warnings.append(self.captioner.check(source))
        if self.wishes.references is not None:
            unknown = sum(given.known_as not in self.wishes.references for given in self.inputs)
            warnings.append(f"{unknown} of {len(self.inputs)} videos are not in the references" if unknown else None)
        return [line for line in warnings if line]

    def run(self, on_progress: ProgressCallback = no_progress) -> Iterator[Outcome]:
        """Caption and write, one by one."""
        for number, given in enumerate(self.inputs):
            on_progress("files", number / len(self.inputs))
            outcome = self._attempt(given, on_progress)
            self.outcomes.append(outcome)
            yield outcome
        on_progress("files", 1.0)

    def write_index(self) -> Path | None:
        """An event file over all videos and, with pages, a page; which was last. None where there is one video."""
        done = [outcome for outcome in self.outcomes if outcome.captioned]
        if len(self.inputs) < 2 or not done:
            return None
        folder = self.wishes.out or _common_place(self.inputs)
        videos = {shown_name(o.given.name): o.captioned for o in done if o.captioned}
        content = submission(
            {name: video.events for name, video in videos.items()},
            details={name: details(video) for name, video in videos.items()},
            provenance={**provenance(), "inputs": {"model": self.captioner.model_key}},
        )
        written = folder / f"{INDEX}{MARK}.json"
        write_json(written, content)
        if "html" in self.wishes.formats:
            rows = [_index_row(outcome, folder) for outcome in self.outcomes]
            written = folder / f"{INDEX}{MARK}.html"
            write_text(written, index_page(shown_name(folder.resolve().name), rows, model=self.captioner.model.name))
        return written

    def not_played(self) -> list[str]:
        """The videos whose pages stay black in some browsers, which do not play what the page shows."""
        if "html" not in self.wishes.formats:
            return []
        told = [(o.captioned, self._target(o.given)) for o in self.outcomes if o.captioned]
        shown = [(video.title, shown_file(video.file, target)) for video, target in told if video.file]
        return [title for title, file in shown if not plays_in_every_browser(file)]

    def _target(self, given: Input) -> Target:
        return Target(output_base(given, self.wishes.out), self.wishes.manner)

    def _attempt(self, given: Input, on_progress: ProgressCallback) -> Outcome:
        """One video; only what is wrong with itself is its failure."""
        said = tuple((self.wishes.references or {}).get(given.known_as, ()))
        target = replace(self._target(given), references=said)
        try:
            require_room(target)
            captioned = self._caption(given, on_progress)
            if self.wishes.title is not None:
                captioned = captioned.called(self.wishes.title)
            target = replace(target, figures=self._figures(given, captioned, said))
            nothing = self.wishes.explain and not target.figures
            remark = "there is nothing to explain, the model proposes no event in it" if nothing else None
            return Outcome(given, captioned, tuple(self._write(captioned, target)), remark=remark)
        except (ModelError, DiskError):
            raise
        except (InputError, OSError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                raise
            return Outcome(given, error=named(_known(given), error))

    def _figures(self, given: Input, captioned: VideoCaptions, references: tuple[Event, ...]) -> tuple[Figure, ...]:
        """What the model saw in a video and, where people said something about it, how much of that it found."""
        if not self.wishes.explain:
            return ()
        figures = self.captioner.explained(captioned, self._track(given))
        if not references:
            return figures
        everything = self._told(given, EventRequest(dense=True))
        return figures + comparison_figures(captioned, everything.events, references)

    def _write(self, captioned: VideoCaptions, target: Target) -> list[Path]:
        """A disk that takes no more ends the run: the next video would fare no better."""
        try:
            return write_outputs(captioned, target, self.wishes.formats)
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise DiskError(
                f"cannot write {target.base}: {reason}; make room and give the same command again"
            ) from error

    def _caption(self, given: Input, on_progress: ProgressCallback) -> VideoCaptions:
        choice = self.wishes.choice
        if self.wishes.spans is not None:
            if given.known_as not in self.wishes.spans:
                raise InputError("the segments file says nothing about it")
            if not self.wishes.spans[given.known_as]:
                raise InputError("the segments file has no segment of it")
            choice = replace(choice, segments=tuple(self.wishes.spans[given.known_as]))
        return self._told(given, choice, on_progress)

    def _told(self, given: Input, choice: EventRequest, on_progress: ProgressCallback = no_progress) -> VideoCaptions:
        if given.source is not None:
            return self.captioner.caption_from(given.source, given.video, given.name, choice)
        assert given.file is not None
        return self.captioner.caption_file(given.file, given.name, choice, on_progress)

    def _track(self, given: Input) -> FeatureTrack:
        if given.source is not None:
            return self.captioner.track_from(given.source, given.video)
        assert given.file is not None
        return self.captioner.track(given.file).track


def _known(given: Input) -> str:
    return str(given.file or given.name)


def _index_row(outcome: Outcome, folder: Path) -> IndexRow:
    page = next((file for file in outcome.files if file.suffix == ".html"), None)
    captioned = outcome.captioned
    return IndexRow(
        name=shown_name(outcome.given.name),
        page=Path(os.path.relpath(page.resolve(), folder.resolve())) if page else None,
        duration=captioned.duration if captioned else None,
        events=captioned.events if captioned else (),
        poster=_poster(captioned) if captioned else None,
        error=outcome.error,
        warning=captioned.warning if captioned else None,
    )


def _poster(captioned: VideoCaptions) -> bytes | None:
    """A picture of the video: of its surest event, or from a third of the way."""
    if captioned.file is None:
        return None
    from densevid.export.thumbnails import thumbnails

    best = max(captioned.events, key=lambda event: event.score, default=None)
    moment = (best.start + best.end) / 2 if best else captioned.duration / 3
    try:
        return thumbnails(captioned.file, [moment], side=POSTER_SIDE)[0]
    except InputError:
        return None


def _common_place(inputs: list[Input]) -> Path:
    """The folder that all videos lie in or below; the first one's own where there is none."""
    others = [given.beside.parent.resolve() for given in inputs]
    first = others[0]
    shared = [folder for folder in (first, *first.parents) if all(folder in (o, *o.parents) for o in others)]
    return shared[0] if shared and shared[0] != Path(shared[0].anchor) else first
