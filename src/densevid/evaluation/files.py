"""The order in which the official evaluators walk through videos: that of a Python set of their names, hash seed 0.

They write the captions of all videos into one file for the tokenizer, which looks ahead, so the words of a video's
last caption may depend on which video comes next (see `tokens`). Such captions are rare, and only they make the order
matter; hash seed 0 is what one sets to make those evaluators repeatable.

Event files as raw rows: what every protocol reads, before any of them judges it.

Protocols score reversed, negative and zero-length times as they stand, so nothing here becomes an `Event`. A column
(times, sentences, scores) is checked when a protocol first asks for it: a file without times can still be scored as
paragraphs, and a bad row is named by video and index.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densevid.errors import InputError
from densevid.io import fingerprint, read_json

_SCRIPT = """
import json, sys
files, predicted = json.load(sys.stdin)
videos = set()
for names in files:
    videos |= set(names)
if predicted is not None:
    videos = videos & set(predicted)
json.dump(list(videos), sys.stdout)
"""


def official_order(files: Sequence[Sequence[str]], predicted: Sequence[str] | None = None) -> list[str]:
    """The videos of any file (and predicted, if given) in the order of a set; in file order if Python cannot be run."""
    names = dict.fromkeys(name for file in files for name in file)
    known = names if predicted is None else set(predicted)
    videos = [name for name in names if name in known]
    question = json.dumps([list(map(list, files)), predicted])
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-S", "-c", _SCRIPT]
    try:
        run = subprocess.run(command, input=question, env=environment, capture_output=True, text=True, timeout=60)
        ordered = json.loads(run.stdout) if run.returncode == 0 else videos
    except (OSError, ValueError, subprocess.SubprocessError):
        return videos
    return ordered if set(ordered) == set(videos) else videos


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
NAMED = 3  # repeated names that are told one by one


@dataclass(frozen=True)
class EventTable:
    """The events of one file, flat: event `e` belongs to `videos[video_E[e]]` and is its `index_E[e]`-th entry."""

    name: str
    digest: str
    videos: list[str]
    video_E: Integers
    index_E: Integers
    raw: list[Any] = field(repr=False)
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.raw)

    @cached_property
    def intervals_E2(self) -> Floats:
        """Start and end in seconds, exactly as written."""
        if not self.raw:
            return np.zeros((0, 2))
        return np.array(self._column("timestamp", _interval), dtype=np.float64)

    @cached_property
    def sentences(self) -> list[str]:
        """One sentence an event, exactly as written."""
        return self._column("sentence", _sentence)

    @cached_property
    def scores_E(self) -> Floats:
        """`proposal_score` of each event."""
        return np.array(self._column("proposal_score", _number), dtype=np.float64)

    @cached_property
    def counts_V(self) -> Integers:
        """How many events each video has."""
        return np.bincount(self.video_E, minlength=len(self.videos))

    def keep(self, kept_E: Booleans) -> EventTable:
        """The same file with some events left out; its videos all stay."""
        chosen = [row for row, kept in zip(self.raw, kept_E.tolist(), strict=True) if kept]
        counts_V = np.bincount(self.video_E[kept_E], minlength=len(self.videos))
        return EventTable(
            self.name, self.digest, self.videos, self.video_E[kept_E], _ranks(counts_V), chosen, self.warnings
        )

    def without_empty_videos(self) -> EventTable:
        """The same file without the videos that have no event."""
        new_V = np.cumsum(self.counts_V > 0) - 1
        videos = [video for video, count in zip(self.videos, self.counts_V.tolist(), strict=True) if count]
        return EventTable(self.name, self.digest, videos, new_V[self.video_E], self.index_E, self.raw, self.warnings)

    def _column(self, key: str, read: Callable[[Any], Any]) -> list[Any]:
        values = []
        for event, row in enumerate(self.raw):
            try:
                values.append(read(row[key]))
            except KeyError:
                raise InputError(f'{self._where(event)}: "{key}" is missing') from None
            except ValueError as error:
                raise InputError(f'{self._where(event)}: "{key}" {error}, got {row[key]!r:.60}') from None
        return values

    def _where(self, event: int) -> str:
        return f"{self.name}: video {self.videos[self.video_E[event]]}: event {self.index_E[event]}"


@dataclass(frozen=True)
class EventFiles:
    """The two sides of an evaluation."""

    predictions: EventTable
    references: Sequence[EventTable]


def read_predictions(source: Path | str | Mapping[str, Any]) -> EventTable:
    """Read predictions in ActivityNet's submission form, a path or the loaded content."""
    name, digest, content, warnings = load(source, "predictions")
    results = content.get("results") if isinstance(content, Mapping) else None
    if not isinstance(results, Mapping):
        raise InputError(f'{name}: predictions need "results": {{video: [event, ...]}}')
    for video, rows in results.items():
        if not isinstance(rows, list):
            raise InputError(f"{name}: video {video}: expected a list of events, got {type(rows).__name__}")
        for index, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise InputError(f"{name}: video {video}: event {index}: expected an object, got {type(row).__name__}")
    absent = [key for key in ("version", "external_data") if key not in content]
    warnings += [f'{name}: "{key}" is missing; the challenge server would refuse this file' for key in absent]
    rows = _flatten(name, digest, results, warnings)
    if any(isinstance(row.get("timestamp"), list) and len(row["timestamp"]) > 2 for row in rows.raw):
        warnings.append(f"{name}: some timestamps have more than two values; the first two are used")
    return rows


def read_references(source: Path | str | Mapping[str, Any]) -> EventTable:
    """Read one annotator's references: `{video: {"timestamps": [[start, end], ...], "sentences": [...]}}`."""
    name, digest, content, warnings = load(source, "references")
    if not isinstance(content, Mapping) or not content:
        raise InputError(f'{name}: references need {{video: {{"timestamps": [...], "sentences": [...]}}}}')
    results = {}
    for video, entry in content.items():
        times, sentences = (_list_in(name, video, entry, key) for key in ("timestamps", "sentences"))
        if len(times) != len(sentences):
            raise InputError(f"{name}: video {video}: {len(times)} timestamps but {len(sentences)} sentences")
        results[video] = [{"timestamp": t, "sentence": s} for t, s in zip(times, sentences, strict=True)]
    return _flatten(name, digest, results, warnings)


def union_of_videos(files: Sequence[EventTable]) -> list[str]:
    """Every video of any file, in order of first appearance."""
    return list(dict.fromkeys(video for rows in files for video in rows.videos))


def position_in(videos: Sequence[str], rows: EventTable) -> Integers:
    """For each event of `rows`, the place of its video in `videos`, or -1."""
    place = {video: index for index, video in enumerate(videos)}
    place_V = np.array([place.get(video, -1) for video in rows.videos], dtype=np.int64)
    return place_V[rows.video_E]


def load(source: Path | str | Mapping[str, Any], what: str) -> tuple[str, str, Any, list[str]]:
    """The name, hash and content of a file (or of content that is loaded already), and what is odd about it."""
    if isinstance(source, Mapping):
        return what, f"object:{hashlib.sha256(repr(source).encode()).hexdigest()}", source, []
    repeated: list[str] = []

    def object_from(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            repeated.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return content

    name, content = Path(source).name, read_json(source, object_from=object_from)
    odd = [f"{name}: {key!r} stands more than once in its object; the last one counts" for key in repeated[:NAMED]]
    odd += [f"{name}: {len(repeated) - NAMED} more names are repeated like that"] * (len(repeated) > NAMED)
    return name, fingerprint(source), content, odd


def _list_in(name: str, video: str, entry: Any, key: str) -> list[Any]:
    values = entry.get(key) if isinstance(entry, Mapping) else None
    if not isinstance(values, list):
        raise InputError(f'{name}: video {video}: "{key}" must be a list')
    return values


def _flatten(name: str, digest: str, results: Mapping[str, list[Any]], warnings: list[str]) -> EventTable:
    counts_V = np.array([len(rows) for rows in results.values()], dtype=np.int64)
    video_E = np.repeat(np.arange(len(results)), counts_V)
    raw = [row for rows in results.values() for row in rows]
    return EventTable(name, digest, list(results), video_E, _ranks(counts_V), raw, warnings)


def _ranks(counts_V: Integers) -> Integers:
    """0, 1, 2, ... within each video."""
    first_V = np.cumsum(counts_V) - counts_V
    return np.arange(int(counts_V.sum())) - np.repeat(first_V, counts_V)


def _interval(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) < 2:
        raise ValueError("must be [start, end]")
    return _number(value[0]), _number(value[1])


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number


def _sentence(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value
