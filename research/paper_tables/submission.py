"""Turn predictions into a submission file for the challenge server of ActivityNet Captions, and check it.

The server's evaluator wants an object with `version`, `results` and `external_data`; a video's id begins with `v_`; it
reads at most 1000 events of a video, in file order; a sentence is text, a timestamp two numbers. What it would accept
silently and score as nothing is refused here too: spans that end before they begin, unknown videos, missing videos.
That the networks of the features were trained on other data is declared, as `densevid caption` does.

  densevid predict --model RUN/model --features features/testing --out predictions.json
  python -m research.paper_tables.submission predictions.json --videos test_ids.json --out submission.json
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from densevid.cli import run_program
from densevid.errors import InputError
from densevid.events import read_events
from densevid.export.subtitles import EXTERNAL_DATA
from densevid.io import read_json, require_writable, write_json

FIELDS = ("version", "results", "external_data")
MOST_EVENTS = 1000
PREFIX = "v_"


def write_submission(predictions: Path, videos: Iterable[str], out: Path, *, prefix: bool = True) -> None:
    """Write a submission: the server's fields, events with the highest scores first.

    Args:
        predictions: What `densevid predict` wrote.
        videos: The ids that the server knows.
        out: The file to write.
        prefix: Whether ids must begin with `v_`.

    Raises:
        InputError: The server would refuse it, or score something as nothing.
    """
    results = {
        video: [
            {"sentence": event.sentence, "timestamp": [round(event.start, 3), round(event.end, 3)]}
            for event in sorted(events, key=lambda event: -event.score)[:MOST_EVENTS]
        ]
        for video, events in read_events(predictions).items()
    }
    content = {"version": "VERSION 1.0", "results": results, "external_data": dict(EXTERNAL_DATA)}
    if problems := problems_of(content, videos, prefix=prefix):
        raise InputError(f"{predictions}: {problems[0]} ({len(problems)} problems in all)")
    write_json(out, content)


def problems_of(content: Any, videos: Iterable[str], *, prefix: bool = True) -> list[str]:
    """Everything the server would refuse or score as nothing; empty where it would accept the file."""
    if not isinstance(content, Mapping):
        return ["a submission is an object"]
    if absent := [name for name in FIELDS if name not in content]:
        return [f'"{name}" is missing' for name in absent]
    results, known = content["results"], set(videos)
    if not isinstance(results, Mapping):
        return ['"results" must be an object of lists by video']
    found = [] if isinstance(content["version"], str) else ['"version" must be text']
    found += _problems_of_declaration(content["external_data"])
    found += [f"{video}: missing, it would score 0" for video in sorted(known - results.keys())]
    found += [f"{video}: the server does not know it" for video in sorted(results.keys() - known)]
    if prefix:
        found += [f"{video}: ids begin with {PREFIX}" for video in results if not video.startswith(PREFIX)]
    for video, rows in results.items():
        found += _problems_of_video(video, rows)
    return found


def _problems_of_declaration(external: Any) -> list[str]:
    if not isinstance(external, Mapping):
        return ['"external_data" must be an object']
    return [] if isinstance(external.get("used"), bool) else ['"external_data" needs "used": true or false']


def _problems_of_video(video: str, rows: Any) -> list[str]:
    if not isinstance(rows, list) or not rows:
        return [f"{video}: needs a list of events"]
    found = [f"{video}: {len(rows)} events, of which {MOST_EVENTS} are read"] if len(rows) > MOST_EVENTS else []
    for index, row in enumerate(rows):
        if problem := _problem_of_event(row):
            found.append(f"{video}: event {index}: {problem}")
    return found


def _problem_of_event(row: Any) -> str | None:
    if not isinstance(row, Mapping) or not isinstance(row.get("sentence"), str):
        return '"sentence" must be text'
    times = row.get("timestamp")
    if not isinstance(times, list) or len(times) != 2 or not all(isinstance(time, int | float) for time in times):
        return '"timestamp" must be two numbers'
    start, end = times
    return None if 0 <= start < end < math.inf else f"it ends before it begins, or begins before the video: {times}"


def known_videos(file: Path) -> list[str]:
    """Ids from a JSON list of them, or from an object that has them as keys, as annotation files do."""
    content = read_json(file)
    if not isinstance(content, list | Mapping) or not all(isinstance(video, str) for video in content):
        raise InputError(f"{file}: needs a list of video ids, or an object by video")
    return list(content)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("predictions", type=Path, metavar="PREDICTIONS", help="what `densevid predict` wrote")
    parser.add_argument("--videos", type=Path, required=True, metavar="JSON", help="the ids that the server knows")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to submit")


def run(args: argparse.Namespace) -> int:
    """Check and write."""
    require_writable(args.out)
    write_submission(args.predictions, known_videos(args.videos), args.out)
    print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.paper_tables.submission", __doc__, add_arguments, run))
