"""Annotation files: read the events of each video and report what was wrong with them.

Two forms are recognised by their content; video ids are kept as they are (`v_` is never added or removed):

{"v_ID": {"duration", "timestamps": [[start, end], ...], "sentences": [...]}}               ActivityNet Captions
{"database": {"ID": {"subset", "duration"?, "annotations": [{"segment", "sentence"}]}}}      YouCook2, the release

`read_annotations` gives valid events; `read_annotation_file` gives the entries of one file with times as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from densevid.errors import InputError
from densevid.events import Event
from densevid.io import read_json

_ALIASES = {"train": "training", "val": "validation", "valid": "validation", "test": "testing"}


def split_name(name: str) -> str:
    """Normalise the name of a split: `train` and `training` are the same."""
    name = name.strip().lower()
    return _ALIASES.get(name, name)


@dataclass(frozen=True, slots=True)
class AnnotatedVideo:
    """The entry of one video as it is in the file: times are numbers, but not checked any further."""

    video: str
    subset: str | None
    duration: float | None
    segments: list[tuple[float, float]]
    sentences: list[str]


def read_annotation_file(path: Path, *, sentences: bool = True) -> Iterator[AnnotatedVideo]:
    """Read the videos of one annotation file, in its order.

    Args:
        path: The file.
        sentences: False accepts entries with times alone.

    Yields:
        The entry of each video.

    Raises:
        InputError: The file has another form; the message names the video and the event.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected an object of videos, got a {type(content).__name__}")
    if "results" in content:
        raise InputError(f"{path}: holds predictions, not annotations")
    if "database" not in content:
        for video, entry in content.items():
            yield _from_captions(f"{path}: {video}", video, entry, sentences)
    elif isinstance(content["database"], dict):
        for video, entry in content["database"].items():
            yield _from_database(f"{path}: {video}", video, entry)
    else:
        raise InputError(f'{path}: "database" must be an object of videos')


def _from_captions(where: str, video: str, entry: Any, with_sentences: bool) -> AnnotatedVideo:
    segments = _list(where, entry, "timestamps")
    sentences = _list(where, entry, "sentences") if with_sentences else [""] * len(segments)
    if len(segments) != len(sentences):
        raise InputError(f"{where}: {len(segments)} timestamps but {len(sentences)} sentences")
    return _checked(where, video, entry, segments, sentences)


def _from_database(where: str, video: str, entry: Any) -> AnnotatedVideo:
    rows = _list(where, {"annotations": [], **entry} if isinstance(entry, dict) else entry, "annotations")
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or "segment" not in row:
            raise InputError(f'{where}: event {index} needs a "segment", got {row!r:.60}')
    segments = [row["segment"] for row in rows]
    return _checked(where, video, entry, segments, [row.get("sentence", "") for row in rows])


def _checked(
    where: str, video: str, entry: dict[str, Any], segments: list[Any], sentences: list[Any]
) -> AnnotatedVideo:
    """Check the types of an entry."""
    subset, duration = entry.get("subset"), entry.get("duration")
    if duration is not None:
        duration = _number(f"{where}: duration", duration)
    pairs = []
    for index, (segment, sentence) in enumerate(zip(segments, sentences, strict=True)):
        if not isinstance(segment, list) or len(segment) != 2:
            raise InputError(f"{where}: event {index} needs a start and an end, got {segment!r:.60}")
        if not isinstance(sentence, str):
            raise InputError(f"{where}: event {index} needs a sentence, got {sentence!r:.60}")
        pairs.append((_number(f"{where}: event {index}", segment[0]), _number(f"{where}: event {index}", segment[1])))
    return AnnotatedVideo(video, subset if isinstance(subset, str) else None, duration, pairs, sentences)


def _list(where: str, entry: Any, key: str) -> list[Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get(key), list):
        raise InputError(f'{where}: expected an object with a list "{key}", got {entry!r:.60}')
    return list(entry[key])


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: expected seconds, got {value!r:.60}")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{where}: a number of {len(str(value))} digits is no time") from None


Policy = Literal["clip", "strict"]
Action = Literal["clipped", "dropped", "ignored"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something invalid in a file, and what was done; `index` is the event's, None for the video as a whole."""

    video: str
    index: int | None
    kind: str
    action: Action

    def __str__(self) -> str:
        event = "" if self.index is None else f" event {self.index}:"
        return f"{self.video}:{event} {self.kind}"


@dataclass(frozen=True)
class Annotations:
    """Events by video.

    Attributes:
        events: The events of each video in file order; a video whose events were all dropped stays, without events.
        durations: Seconds of each video, None if not given.
        problems: What was invalid.
        with_subsets: Whether the files name subsets, whichever of them was read.
    """

    events: dict[str, list[Event]]
    durations: dict[str, float | None]
    problems: list[Problem]
    with_subsets: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.events)

    def sentences(self) -> list[str]:
        """All sentences in order, to build a vocabulary from."""
        return [event.sentence for events in self.events.values() for event in events]

    def count(self, action: Action) -> int:
        """Number of problems with this action."""
        return sum(problem.action == action for problem in self.problems)

    def summary(self) -> str:
        """How many videos and events were read, and how many were changed and why, on one line."""
        text = f"{len(self.events):,} videos, {sum(map(len, self.events.values())):,} events"
        counts = Counter((problem.action, problem.kind.partition(",")[0]) for problem in self.problems)
        return "; ".join([text, *(f"{count:,} {action} ({kind})" for (action, kind), count in sorted(counts.items()))])


def read_annotations(
    paths: Path | str | Iterable[Path | str], *, split: str | None = None, policy: Policy = "clip"
) -> Annotations:
    """Read annotation files.

    Args:
        paths: One or more files. If a video is in several (two annotators), its events are joined.
        split: Only videos of this "subset" (`train` and `training` are the same); videos without one are always read.
        policy: `clip` clips events that exceed the video and drops invalid ones; `strict` raises instead.

    Returns:
        The events by video, and what was wrong with them.

    Raises:
        InputError: A file has another form, has no video of the split, or, with `strict`, an invalid event.
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    annotations, subsets = Annotations({}, {}, []), set()
    for file in files:
        for entry in read_annotation_file(file):
            subsets.add(entry.subset or "")
            if split is None or entry.subset is None or split_name(entry.subset) == split_name(split):
                _add(annotations, entry, f"{file}: " if policy == "strict" else None)
    if not annotations.events:
        only = f" of the split {split!r}, only of {', '.join(sorted(subsets))}" if subsets else ""
        raise InputError(f"{', '.join(map(str, files))}: no videos{only}")
    return replace(annotations, with_subsets=any(subsets))


def _add(annotations: Annotations, entry: AnnotatedVideo, strict_where: str | None) -> None:
    """Add the valid events of a video and note the problems, or raise if `strict_where` is given."""
    duration, problems = entry.duration, []
    if duration is not None and not 0 < duration < math.inf:
        problems.append(Problem(entry.video, None, f"bad duration, {duration}", "ignored"))
        duration = None
    events = annotations.events.setdefault(entry.video, [])
    for index, (segment, sentence) in enumerate(zip(entry.segments, entry.sentences, strict=True)):
        fitted, kind = _fit(segment, math.inf if duration is None else duration)
        sentence = " ".join(sentence.split())
        if not sentence:
            fitted, kind = None, "no sentence"
        if kind:
            action: Action = "clipped" if fitted else "dropped"
            problems.append(Problem(entry.video, index, f"{kind}, {segment[0]} to {segment[1]} of {duration}", action))
        if fitted:
            events.append(Event(*fitted, sentence))
    if problems and strict_where is not None:
        raise InputError(f"{strict_where}{problems[0]}")
    annotations.problems.extend(problems)
    annotations.durations[entry.video] = annotations.durations.get(entry.video) or duration


def _fit(segment: tuple[float, float], duration: float) -> tuple[tuple[float, float] | None, str | None]:
    """The part of a segment that lies in the video, None if there is none; and what was wrong, None if nothing."""
    start, end = segment
    if not (math.isfinite(start) and math.isfinite(end)):
        return None, "not a number"
    if start >= end:
        return None, "empty" if start == end else "reversed"
    if start >= 0 and end <= duration:
        return segment, None
    inside = max(start, 0.0), min(end, duration)
    return (inside if inside[0] < inside[1] else None), "out of range"
