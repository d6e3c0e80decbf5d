"""CaptionJob: all inputs of one command, one after another. A video that fails is noted, and the others go on.

Features and results come from the cache, so a command that was stopped goes on where it was when it is given again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from densevid.errors import InputError, is_out_of_memory, named, one_line, printable
from densevid.events import Event
from densevid.export.document import Figure
from densevid.export.index_page import IndexRow, index_page
from densevid.export.subtitles import submission
from densevid.io import provenance, write_json, write_text
from densevid.pipeline.captioner import VideoCaptioner
from densevid.pipeline.inputs import INDEX, MARK, Input, output_base
from densevid.pipeline.lazy_model import ModelError
from densevid.pipeline.outputs import (
    NO_PICTURES,
    RenderOptions,
    Target,
    comparison_figures,
    plays_in_every_browser,
    require_room,
    shown_file,
    write_outputs,
)
from densevid.pipeline.request import EventRequest, Span, beyond_text
from densevid.pipeline.result import CaptionResult, shown_name
from densevid.progress import ProgressCallback, no_progress

POSTER_SIDE = 432  # pixels; twice what the index shows


class DiskError(InputError):
    """The disk takes no more, so the run ends."""


@dataclass(frozen=True)
class CaptionOptions:
    """What is wanted of each video; see `densevid caption --help`.

    Attributes:
        request: Which events.
        formats: The files to write.
        out: The folder they go to; beside each video without one.
        render: How pages and .mp4 files are made.
        explain: Whether to draw masks and attention.
        spans: Given spans by video, in place of the request's.
        references: Annotated events by video, for the page and its figures.
        title: Of a single video.
    """

    request: EventRequest
    formats: tuple[str, ...]
    out: Path | None = None
    render: RenderOptions = field(default_factory=RenderOptions)
    explain: bool = False
    spans: dict[str, list[Span]] | None = None
    references: Mapping[str, Sequence[Event]] | None = None
    title: str | None = None


@dataclass(frozen=True)
class Outcome:
    """One input of a job: its result and files, or the error; `remark` is about its figures."""

    given: Input
    result: CaptionResult | None = None
    files: tuple[Path, ...] = ()
    error: str | None = None
    remark: str | None = None

    @property
    def warnings(self) -> list[str]:
        """Lines of warning."""
        lines = (self.result and self.result.warning, self.remark)
        return [printable(f"{_known(self.given)}: {line}") for line in lines if line]

    @property
    def failure(self) -> str | None:
        """Why there is no result, or which given spans are missing from it."""
        if self.result is None or not self.result.left_out:
            return self.error
        beyond = beyond_text(self.result.left_out, self.result.duration)
        return printable(f"{_known(self.given)}: {beyond}; left out")

    @property
    def is_whole(self) -> bool:
        """Whether nothing that was requested is missing, of a video that could be read to its end."""
        return self.failure is None and self.result is not None and not self.result.incomplete


@dataclass
class CaptionJob:
    """The inputs of one command, what is wanted of them, and the outcomes so far."""

    captioner: VideoCaptioner
    inputs: list[Input]
    options: CaptionOptions
    outcomes: list[Outcome] = field(default_factory=list)

    def check(self) -> list[str]:
        """Lines of warning, before any video is touched.

        Raises:
            InputError: What would make every video fail.
        """
        warnings = []
        sources = {id(given.source): given.source for given in self.inputs if given.source is not None}
        if sources and "mp4" in self.options.formats:
            raise InputError(f"{NO_PICTURES}: leave out mp4, --burn and --web, or name the videos instead of the store")
        for source in sources.values():
            warnings.append(self.captioner.check(source))
        if self.options.references is not None:
            unknown = sum(given.known_as not in self.options.references for given in self.inputs)
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
        """Write an event file over all videos and, among pages, an index page; the last of them, if any was written."""
        done = [(outcome.given, outcome.result) for outcome in self.outcomes if outcome.result is not None]
        if len(self.inputs) < 2 or not done:
            return None
        folder = self.options.out or _common_folder(self.inputs)
        results = {shown_name(given.name): result for given, result in done}
        content = submission(
            results,
            details={name: result.details() for name, result in results.items()},
            provenance={**provenance(), "inputs": {"model": self.captioner.model_key}},
        )
        written = folder / f"{INDEX}{MARK}.json"
        write_json(written, content)
        if "html" in self.options.formats:
            rows = [_index_row(outcome, folder) for outcome in self.outcomes]
            written = folder / f"{INDEX}{MARK}.html"
            write_text(written, index_page(shown_name(folder.resolve().name), rows, model=self.captioner.model.name))
        return written

    def not_played(self) -> list[str]:
        """The titles of the videos that some browsers cannot play from their page."""
        if "html" not in self.options.formats:
            return []
        done = [(o.result, self._target(o.given)) for o in self.outcomes if o.result]
        shown = [(result.title, shown_file(result.path, target)) for result, target in done if result.path]
        return [title for title, file in shown if not plays_in_every_browser(file)]

    def _target(self, given: Input) -> Target:
        return Target(output_base(given, self.options.out), self.options.render)

    def _attempt(self, given: Input, on_progress: ProgressCallback) -> Outcome:
        """Caption and write one video; errors of the model and of the disk are not its own."""
        references = tuple((self.options.references or {}).get(given.known_as, ()))
        target = replace(self._target(given), references=references)
        try:
            require_room(target)
            result = self._captioned(given, self._request(given), on_progress, explain=self.options.explain)
            if self.options.title is not None:
                result = result.renamed(self.options.title)
            target = replace(target, figures=self._figures(given, result, references))
            nothing = self.options.explain and not target.figures
            remark = "there is nothing to explain, the model proposes no event in it" if nothing else None
            return Outcome(given, result, tuple(self._write(result, target)), remark=remark)
        except (ModelError, DiskError):
            raise
        except (InputError, OSError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                raise
            return Outcome(given, error=named(_known(given), error))

    def _request(self, given: Input) -> EventRequest:
        """The events wanted of one video."""
        if self.options.spans is None:
            return self.options.request
        spans = self.options.spans.get(given.known_as)
        if spans is None:
            raise InputError("the segments file does not name it")
        if not spans:
            raise InputError("the segments file has no segment of it")
        return replace(self.options.request, segments=tuple(spans))

    def _captioned(
        self,
        given: Input,
        request: EventRequest,
        on_progress: ProgressCallback = no_progress,
        *,
        explain: bool = False,
    ) -> CaptionResult:
        if given.source is not None:
            return self.captioner.caption_from(given.source, given.video, given.name, request, explain=explain)
        assert given.file is not None
        return self.captioner.caption_file(given.file, given.name, request, on_progress, explain=explain)

    def _figures(self, given: Input, result: CaptionResult, references: tuple[Event, ...]) -> tuple[Figure, ...]:
        """Masks and attention and, with references, the timeline beside them and the recall of all proposals."""
        if result.explanation is None:
            return ()
        from densevid.export.explanation_plots import explanation_figures

        figures = explanation_figures(result.explanation)
        if not references:
            return figures
        everything = self._captioned(given, EventRequest(dense=True))
        return figures + comparison_figures(result, everything, references)

    def _write(self, result: CaptionResult, target: Target) -> list[Path]:
        """Write the files; a full disk ends the run, as the next video would fare no better."""
        try:
            return write_outputs(result, target, self.options.formats)
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise DiskError(
                f"cannot write {target.base}: {reason}; free some space and give the same command again"
            ) from error


def _known(given: Input) -> str:
    return str(given.file or given.name)


def _index_row(outcome: Outcome, folder: Path) -> IndexRow:
    page = next((file for file in outcome.files if file.suffix == ".html"), None)
    result = outcome.result
    return IndexRow(
        name=shown_name(outcome.given.name),
        page=Path(os.path.relpath(page.resolve(), folder.resolve())) if page else None,
        duration=result.duration if result else None,
        events=result.events if result else (),
        poster=_poster(result) if result else None,
        error=outcome.error,
        warning=result.warning if result else None,
    )


def _poster(result: CaptionResult) -> bytes | None:
    """A picture of the video: of its best event, or from a third of the way."""
    if result.path is None:
        return None
    from densevid.export.thumbnails import thumbnails

    best = result.best
    moment = (best.start + best.end) / 2 if best else result.duration / 3
    try:
        return thumbnails(result.path, [moment], side=POSTER_SIDE)[0]
    except InputError:
        return None


def _common_folder(inputs: list[Input]) -> Path:
    """The folder that all outputs lie in or below; the first one's own where there is none."""
    others = [given.beside.parent.resolve() for given in inputs]
    first = others[0]
    shared = [folder for folder in (first, *first.parents) if all(folder in (o, *o.parents) for o in others)]
    return shared[0] if shared and shared[0] != Path(shared[0].anchor) else first
