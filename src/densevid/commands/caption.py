"""Caption videos: find their events, describe each in a sentence, and write a timeline page, subtitles and more.

VIDEO is a file, FOLDER is searched for videos (its folders too), LIST is a .txt file with a path a line, STORE is a
feature store. The timeline is printed, and NAME.densevid.html, .vtt and .json are written next to the video or in DIR.

Examples:
  densevid caption video.mp4
  densevid caption video.mp4 --open                              (and open the page)
  densevid caption videos/ --out captions                        (one line each, and an index page)
  densevid caption video.mp4 --format srt,chapters,csv
  densevid caption video.mp4 --top 3                             (at most 3 events, whatever their confidence)
  densevid caption video.mp4 --burn                              (an mp4 with the sentences in the pictures)
  densevid caption old.avi --web                                 (a page that plays in every browser)
  densevid caption video.mp4 --all-words                         (what it guesses where it is not sure of a sentence)
  densevid caption video.mp4 --fast                              (without actions: faster, with poorer sentences)
  densevid caption video.mp4 --explain                           (event masks, and the attention of each word)
  densevid caption video.mp4 --segments spans.txt                (lines of start and end; or .json, .srt, .vtt, .csv)
  densevid caption v_1.mp4 --references val_1.json --explain     (beside annotations, with the recall curve)
  densevid caption features/ --model runs/mine/model --dense --out captions

Which events: by default a summary, few events that follow each other and that the model is confident about. --top N: at
most N events that hardly overlap, whatever their confidence (fewer where no more fit). --dense: all events, overlapping
ones too. --segments: given spans, which have no confidence. One of the three at a time.

Two confidences: that there is an event, and that its sentence is right. Of a sentence that is not sure enough a shorter
one is shown, or none: the event is called "scene 2" then. --all-words shows the full guesses. --fast leaves out the
actions where the model reads them; other models, feature stores and models without actions do not change.

Formats: html (the page; --embed puts the video inside), vtt, srt, json (ActivityNet's form and our details), csv,
chapters (ffmpeg's metadata and lines for a YouTube description), mp4 (with a subtitle track, or --burn; --web).
Features and results are kept in a cache (DENSEVID_CACHE, or densevid in the user's cache folder, at most
DENSEVID_CACHE_BYTES), so a second run is fast, and a run that was stopped goes on where it was.
`--progress jsonl` writes {"stage": "decode|features|events|sentences|files", "done": 0..1}, one a line, to stderr.

Exit code: 0 every video is captioned; 1 some video or given span cannot be, or a part of a video cannot be read (a line
on stderr each), the others are captioned; 2 none is captioned; 130 interrupted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.device import share_memory
from densevid.errors import ExitCode, InputError, one_line, printable, report

if TYPE_CHECKING:
    from densevid.commands.stage_progress import NoStages
    from densevid.export.terminal_timeline import Look
    from densevid.pipeline.batch_job import CaptionJob, Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("inputs", nargs="+", metavar="VIDEO|FOLDER|LIST|STORE", help="what to caption")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where files go (default: next to each video)")
    parser.add_argument("--format", default="html,vtt,json", metavar="A,B", help="html,vtt,srt,json,chapters,csv,mp4")
    parser.add_argument("--top", type=int, metavar="N", help="at most N events that hardly overlap")
    parser.add_argument("--dense", action="store_true", help="every event, overlapping ones too")
    parser.add_argument("--all-words", action="store_true", help="full guesses, however unsure the sentences are")
    parser.add_argument("--fast", action="store_true", help="leave out the actions: faster, poorer sentences")
    parser.add_argument("--segments", type=Path, metavar="FILE", help="caption these spans, propose nothing")
    parser.add_argument(
        "--model", metavar="NAME|DIR", help="an installed model or a model folder (default: the bundled one)"
    )
    parser.add_argument("--references", action="append", default=[], metavar="FILE", help="annotations to compare with")
    parser.add_argument("--embed", action="store_true", help="put the video into the page, one file to send")
    parser.add_argument("--burn", action="store_true", help="mp4: write the sentences into the pictures")
    parser.add_argument("--web", action="store_true", help="mp4: encode what browsers do not play; the page plays it")
    parser.add_argument("--title", metavar="TEXT", help="of a single video (default: the name of its file)")
    parser.add_argument(
        "--explain", action="store_true", help="figures of masks and attention, as .png and in the page"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser when it is done")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run (auto)")
    parser.add_argument("--no-cache", action="store_true", help="neither use nor keep features and results")
    parser.add_argument(
        "--progress", choices=("bar", "jsonl", "none"), default="bar", help="how progress is shown (bar)"
    )


def run(args: argparse.Namespace) -> ExitCode:
    """Caption all inputs; failures are reported at the end, however the run ends."""
    share_memory()
    job, failures = _prepared(args)
    for line in job.check():
        report(line)
    single = len(job.inputs) == 1 and not failures
    try:
        _caption_all(job, args.progress, single)
        page = _write_index(job, failures) or next((f for f in job.outcomes[-1].files if f.suffix == ".html"), None)
        _print_note(job)
        _print_files(job, page, single)
        if args.open and page:
            _open(page)
    finally:
        failures += [outcome.failure for outcome in job.outcomes if outcome.failure]
        for failure in failures:
            report(failure)
    if not any(outcome.result is not None for outcome in job.outcomes):
        return ExitCode.INVALID
    return ExitCode.PARTIAL if failures or not all(o.is_whole for o in job.outcomes) else ExitCode.DONE


def _caption_all(job: CaptionJob, progress: str, single: bool) -> None:
    from densevid.export.terminal_timeline import Look

    look = Look.of_stdout()
    with _progress(progress, len(job.inputs)) as on_progress:
        for outcome in job.run(on_progress):
            if text := _timeline(outcome, look) if single else _line(outcome):
                on_progress.line(text)
            for line in outcome.warnings:
                report(line)


def _write_index(job: CaptionJob, failures: list[str]) -> Path | None:
    """The index; where it cannot be written, that is one more failure."""
    try:
        return job.write_index()
    except InputError as error:
        failures.append(one_line(error))
    except OSError as error:
        failures.append(f"cannot write the index of all videos: {error.strerror or one_line(error)}")
    return None


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        report(f"no browser could be started; the page is {page}")


def _prepared(args: argparse.Namespace) -> tuple[CaptionJob, list[str]]:
    """The job, and a line for each argument that cannot be used; raises on what makes the whole command wrong."""
    from densevid.data.annotations import read_annotations
    from densevid.pipeline.batch_job import CaptionJob, CaptionOptions
    from densevid.pipeline.cache import Cache
    from densevid.pipeline.captioner import VideoCaptioner
    from densevid.pipeline.inputs import find_inputs
    from densevid.pipeline.model_registry import find_model
    from densevid.pipeline.outputs import RenderOptions, chosen_formats
    from densevid.pipeline.request import EventRequest, read_spans

    formats = chosen_formats(_formats(args))
    request = EventRequest.of(args.top, args.dense, None if args.segments is None else (), args.all_words)
    model = find_model(args.model)
    if args.explain:
        import matplotlib  # noqa: F401  # an error before the work
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise InputError(f"--out {args.out}: it is a file; name a folder")
    inputs, refused = find_inputs(args.inputs)
    if not inputs:
        raise InputError("; ".join(refused) or "no video was named")
    if args.title is not None and len(inputs) + len(refused) > 1:
        raise InputError(f"--title is for one video, here are {len(inputs) + len(refused)}; leave it out")
    options = CaptionOptions(
        request=request,
        formats=formats,
        out=args.out,
        render=RenderOptions(args.embed, args.burn, args.web),
        explain=args.explain,
        spans=None if args.segments is None else read_spans(args.segments, [given.known_as for given in inputs]),
        references=read_annotations(args.references).events if args.references else None,
        title=args.title,
    )
    cache = Cache(None) if args.no_cache else None
    captioner = VideoCaptioner(model, device=args.device, cache=cache, fast=args.fast)
    return CaptionJob(captioner, inputs, options), refused


def _formats(args: argparse.Namespace) -> str:
    """The formats that are named, and those that other flags are about."""
    named = [args.format]
    named += ["mp4"] if args.burn or args.web else []
    named += ["html"] if args.embed or args.open else []
    return ",".join(named)


def _progress(kind: str, videos: int) -> NoStages:
    from densevid.commands.stage_progress import NoStages, StageBar, StageLines

    kinds: dict[str, type[NoStages]] = {"bar": StageBar, "jsonl": StageLines, "none": NoStages}
    return kinds[kind](videos)


def _timeline(outcome: Outcome, look: Look) -> str:
    """The whole timeline of a single video; of an empty summary also how to see more."""
    from densevid.export.subtitles import clock
    from densevid.export.terminal_timeline import terminal_timeline

    result = outcome.result
    if result is None:
        return ""
    title = f"{printable(result.title)}, {clock(result.duration)}"
    lines = terminal_timeline(result, result.duration, look, confidence=result.request.has_confidence)
    hint = "" if result or not result.request.is_summary else "; --top 3 shows the best all the same"
    return f"{title}\n{lines}{hint}"


def _print_note(job: CaptionJob) -> None:
    """Whose the sentences are, once, below all timelines."""
    from densevid.export.terminal_timeline import sentences_note

    events = [event for outcome in job.outcomes for event in outcome.result or ()]
    if note := sentences_note(events, job.captioner.model.name):
        print(f"\n{note}")


def _line(outcome: Outcome) -> str:
    """A video of several, on one line."""
    from densevid.export.shown_sentences import shown_sentences
    from densevid.export.terminal_timeline import NOTHING

    name = printable(outcome.given.name)
    if outcome.result is None:
        return f"{name}: failed"
    if not outcome.result:
        return _fitted(f"{name}: {NOTHING}")
    count = f"{len(outcome.result)} event{'' if len(outcome.result) == 1 else 's'}"
    pairs = zip(outcome.result, shown_sentences(outcome.result), strict=True)
    _, sentence = max(pairs, key=lambda pair: (bool(pair[0].sentence), pair[0].score))
    return _fitted(f"{name}: {count}, {printable(sentence)}")


def _fitted(line: str) -> str:
    """A line cut to the width of the terminal."""
    from rich.cells import cell_len, chop_cells

    width = max(20, shutil.get_terminal_size().columns)
    return f"{chop_cells(line, width - 4)[0]} ..." if sys.stdout.isatty() and cell_len(line) > width else line


def _print_files(job: CaptionJob, page: Path | None, single: bool) -> None:
    files = sorted((file for outcome in job.outcomes for file in outcome.files), key=lambda file: file != page)
    if single and files:
        print("\n" + "\n".join(f"  {printable(str(file))}" for file in files))
    elif page:
        done = sum(outcome.result is not None for outcome in job.outcomes)
        print(f"\n{done} of {len(job.outcomes)} videos captioned: {printable(str(page))}")
    _print_not_played(job.not_played(), single)


def _print_not_played(titles: list[str], single: bool) -> None:
    """What to do about videos that some browsers show as a black picture."""
    names = printable(", ".join(titles[:3]) + (", ..." if len(titles) > 3 else ""))
    which = names if single else f"{len(titles)} of them ({names})"
    if titles:
        print(f"\nNot every browser plays {which}: add --web for a page that works in all")
