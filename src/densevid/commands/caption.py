"""Caption videos: find their events, say what happens in each, and write a timeline page, subtitles and more.

VIDEO is a file, FOLDER is searched for videos (its folders too), LIST is a .txt file with a path a line, STORE is a
feature store. The timeline is printed, and NAME.densevid.html, .vtt and .json are written next to the video or in DIR.

Examples:
  densevid caption video.mp4
  densevid caption video.mp4 --open                              (and look at the page)
  densevid caption videos/ --out captions                        (one line each, and an index page)
  densevid caption video.mp4 --format srt,chapters,csv
  densevid caption video.mp4 --top 3                             (a story of at most 3 events, sure or not)
  densevid caption video.mp4 --burn                              (an mp4 with the sentences in the pictures)
  densevid caption old.avi --web                                 (a page that plays in every browser)
  densevid caption video.mp4 --explain                           (what the model saw: masks, where words looked)
  densevid caption video.mp4 --segments spans.txt                (lines of start and end; or .json, .srt, .vtt, .csv)
  densevid caption v_1.mp4 --references val_1.json --explain     (beside what people said, with the recall curve)
  densevid caption features/ --model runs/mine/model --dense --out captions

Which events: by default few that follow each other, those the model is confident about. --top N: a story of at most N
events that hardly overlap, however unsure (fewer where no more fit). --dense: all, overlapping ones too. --segments:
given spans, of which no confidence is said. One of the three at a time.

Formats: html (the page; --embed puts the video inside), vtt, srt, json (ActivityNet's form and our details), csv,
chapters (ffmpeg's metadata and lines for a YouTube description), mp4 (with a subtitle track, or --burn; --web).
Features and events are kept in a cache (DENSEVID_CACHE, or densevid in the user's cache folder, at most
DENSEVID_CACHE_BYTES), so a second run is fast and a run that was stopped goes on where it was.
`--progress jsonl` writes {"stage": "decode|features|events|sentences|files", "done": 0..1}, one a line, to stderr.

Exit code: 0 every video is captioned; 2 some video or given span cannot be (a line on stderr, the others are); 130
interrupted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import InputError, one_line, printable

if TYPE_CHECKING:
    from densevid.commands.stage_progress import NoStages
    from densevid.export.terminal_timeline import Look
    from densevid.pipeline.batch_job import CaptionRun, Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("inputs", nargs="+", metavar="VIDEO|FOLDER|LIST|STORE", help="what to caption")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where files go (default: next to each video)")
    parser.add_argument("--format", default="html,vtt,json", metavar="A,B", help="html,vtt,srt,json,chapters,csv,mp4")
    parser.add_argument("--top", type=int, metavar="N", help="a story of at most N events that hardly overlap")
    parser.add_argument("--dense", action="store_true", help="every event that is proposed, overlapping ones too")
    parser.add_argument("--segments", type=Path, metavar="FILE", help="caption these spans, propose nothing")
    parser.add_argument("--model", metavar="NAME|DIR", help="an installed model or a model folder (default: ours)")
    parser.add_argument(
        "--references", action="append", default=[], metavar="FILE", help="what people said, to compare"
    )
    parser.add_argument("--embed", action="store_true", help="put the video into the page, one file to send")
    parser.add_argument("--burn", action="store_true", help="mp4: write the sentences into the pictures")
    parser.add_argument(
        "--web", action="store_true", help="mp4: encode anew what browsers do not play; the page shows it"
    )
    parser.add_argument("--title", metavar="TEXT", help="what a single video is called (default: as its file)")
    parser.add_argument("--explain", action="store_true", help="figures of what the model saw, as .png and in the page")
    parser.add_argument("--open", action="store_true", help="show the page in the browser when it is done")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run (auto)")
    parser.add_argument("--no-cache", action="store_true", help="neither use nor keep features and events")
    parser.add_argument("--progress", choices=("bar", "jsonl", "none"), default="bar", help="how it is told (bar)")


def run(args: argparse.Namespace) -> int:
    """Caption everything that is named; what went wrong is told in the end, whatever the end is."""
    job, failures = _prepared(args)
    for line in job.check():
        _complain(line)
    single = len(job.inputs) == 1 and not failures
    try:
        _caption_all(job, args.progress, single)
        page = _write_index(job, failures) or next((f for f in job.outcomes[-1].files if f.suffix == ".html"), None)
        _tell_files(job, page, single)
        if args.open and page:
            _show(page)
    finally:
        failures += [outcome.failure for outcome in job.outcomes if outcome.failure]
        for failure in failures:
            _complain(failure)
    return 2 if failures else 0


def _caption_all(job: CaptionRun, progress: str, single: bool) -> None:
    from densevid.export.terminal_timeline import Look

    look = Look.of_stdout()
    with _watch(progress, len(job.inputs)) as on_progress:
        for outcome in job.run(on_progress):
            if text := _timeline(outcome, look) if single else _line(outcome):
                on_progress.line(text)
            for line in outcome.warnings:
                _complain(line)


def _write_index(job: CaptionRun, failures: list[str]) -> Path | None:
    """The index; that it cannot be written takes nothing from the videos, which are done."""
    try:
        return job.write_index()
    except InputError as error:
        failures.append(one_line(error))
    except OSError as error:
        failures.append(f"cannot write the index of all videos: {error.strerror or one_line(error)}")
    return None


def _show(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        _complain(f"no browser could be started; the page is {page}")


def _prepared(args: argparse.Namespace) -> tuple[CaptionRun, list[str]]:
    """Everything that can be refused before any work, and the inputs."""
    from densevid.data.annotations import read_annotations
    from densevid.pipeline.batch_job import CaptionOptions, CaptionRun
    from densevid.pipeline.cache import Cache
    from densevid.pipeline.captioner import VideoCaptioner
    from densevid.pipeline.given_spans import read_spans
    from densevid.pipeline.inputs import find_inputs
    from densevid.pipeline.model_registry import find_model
    from densevid.pipeline.outputs import RenderOptions, chosen_formats
    from densevid.pipeline.selection import EventRequest

    formats = chosen_formats(_formats_asked_for(args))
    choice = EventRequest.of(args.top, args.dense, None if args.segments is None else ())
    model = find_model(args.model)
    if args.explain:
        import matplotlib  # noqa: F401  # missing: told before the work
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise InputError(f"--out {args.out}: it is a file; name a folder")
    inputs, refused = find_inputs(args.inputs)
    if not inputs:
        raise InputError("; ".join(refused) or "no video was named")
    spans = None if args.segments is None else read_spans(args.segments, [given.known_as for given in inputs])
    if args.title is not None and len(inputs) + len(refused) > 1:
        raise InputError(f"--title is for one video, here are {len(inputs) + len(refused)}; leave it out")
    manner = RenderOptions(args.embed, args.burn, args.web)
    references = read_annotations(args.references).events if args.references else None
    wishes = CaptionOptions(choice, formats, args.out, manner, args.explain, spans, references, args.title)
    captioner = VideoCaptioner(model, device=args.device, cache=Cache(None) if args.no_cache else None)
    return CaptionRun(captioner, inputs, wishes), refused


def _formats_asked_for(args: argparse.Namespace) -> str:
    """Those that are named, and those that other flags are about."""
    named = [args.format]
    named += ["mp4"] if args.burn or args.web else []
    named += ["html"] if args.embed or args.open else []
    return ",".join(named)


def _watch(kind: str, videos: int) -> NoStages:
    from densevid.commands.stage_progress import NoStages, StageBar, StageLines

    kinds: dict[str, type[NoStages]] = {"bar": StageBar, "jsonl": StageLines, "none": NoStages}
    return kinds[kind](videos)


def _timeline(outcome: Outcome, look: Look) -> str:
    """The whole timeline of a single video; of an empty summary also how to see more."""
    from densevid.export.subtitles import clock
    from densevid.export.terminal_timeline import terminal_timeline
    from densevid.pipeline.selection import EventRequest

    captioned = outcome.captioned
    if captioned is None:
        return ""
    title = f"{printable(captioned.title)}, {clock(captioned.duration)}"
    lines = terminal_timeline(captioned.events, captioned.duration, look, confidence=captioned.judged)
    hint = (
        "" if captioned.events or captioned.chosen != EventRequest().text else "; --top 3 shows the best all the same"
    )
    return f"{title}\n{lines}{hint}"


def _line(outcome: Outcome) -> str:
    """A video of several, on one line."""
    from densevid.export.terminal_timeline import NOTHING

    name = printable(outcome.given.name)
    if outcome.captioned is None:
        return f"{name}: failed"
    events = outcome.captioned.events
    count = f"{len(events)} event{'' if len(events) == 1 else 's'}"
    first = max(events, key=lambda event: event.score, default=None)
    return _fitted(f"{name}: {count}, {printable(first.sentence)}" if first else f"{name}: {NOTHING}")


def _fitted(line: str) -> str:
    """A line that stays one on a screen."""
    from rich.cells import cell_len, chop_cells

    width = max(20, shutil.get_terminal_size().columns)
    return f"{chop_cells(line, width - 4)[0]} ..." if sys.stdout.isatty() and cell_len(line) > width else line


def _tell_files(job: CaptionRun, page: Path | None, single: bool) -> None:
    files = sorted((file for outcome in job.outcomes for file in outcome.files), key=lambda file: file != page)
    if single and files:
        print("\n" + "\n".join(f"  {printable(str(file))}" for file in files))
    elif page:
        done = sum(outcome.captioned is not None for outcome in job.outcomes)
        print(f"\n{done} of {len(job.outcomes)} videos captioned: {printable(str(page))}")
    _tell_unplayed(job.not_played(), single)


def _tell_unplayed(titles: list[str], single: bool) -> None:
    """A page that stays black would be a puzzle."""
    names = printable(", ".join(titles[:3]) + (", ..." if len(titles) > 3 else ""))
    which = names if single else f"{len(titles)} of them ({names})"
    if titles:
        print(f"\nNot every browser plays {which}: add --web for a page that works in all")


def _complain(line: str) -> None:
    print(f"densevid: {printable(line)}", file=sys.stderr)
