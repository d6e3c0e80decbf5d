"""A submission file for the challenge server of ActivityNet Captions, and whether it would be accepted.

The server's evaluator wants an object with `version`, `results` and `external_data` and refuses a file without one of
them; a video is known by its id with `v_` before it; it reads at most 1000 events of a video, in file order; a sentence
is text, a timestamp two numbers. What it would take without a word and score as nothing is refused here too: spans that
end before they begin, videos it does not know, videos that are missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from densevid.artifacts import read_json, write_json
from densevid.errors import InputError

FIELDS = ("version", "results", "external_data")
MOST_EVENTS = 1000
PREFIX = "v_"


def write_submission(predictions: Path, videos: Iterable[str], out: Path, *, prefix: bool = True) -> None:
    """The server's fields alone, events with the highest scores first; refused if the server would refuse it."""
    told = read_json(predictions)["results"]
    results = {
        video: [
            {"sentence": row["sentence"], "timestamp": [round(float(time), 3) for time in row["timestamp"]]}
            for row in sorted(rows, key=lambda row: -row["proposal_score"])[:MOST_EVENTS]
        ]
        for video, rows in told.items()
    }
    content = {"version": "VERSION 1.0", "results": results, "external_data": {"used": False, "details": ""}}
    if problems := problems_of(content, videos, prefix=prefix):
        raise InputError(f"{predictions}: {problems[0]} ({len(problems)} problems in all)")
    write_json(out, content)


def problems_of(content: Any, videos: Iterable[str], *, prefix: bool = True) -> list[str]:
    """Everything the server would refuse, or score as nothing; empty: it would accept the file."""
    if not isinstance(content, Mapping):
        return ["a submission is an object"]
    if absent := [name for name in FIELDS if name not in content]:
        return [f'"{name}" is missing' for name in absent]
    results, known = content["results"], set(videos)
    if not isinstance(results, Mapping):
        return ['"results" must be an object of lists by video']
    found = [] if isinstance(content["version"], str) else ['"version" must be text']
    found += [] if isinstance(content["external_data"], Mapping) else ['"external_data" must be an object']
    found += [f"{video}: missing, it would score 0" for video in sorted(known - results.keys())]
    found += [f"{video}: the server does not know it" for video in sorted(results.keys() - known)]
    if prefix:
        found += [f"{video}: ids begin with {PREFIX}" for video in results if not video.startswith(PREFIX)]
    for video, rows in results.items():
        found += _problems_of_video(video, rows)
    return found


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
