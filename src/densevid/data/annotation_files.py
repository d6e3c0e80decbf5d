"""The forms of annotation files, told apart by their content; ids are kept as they are, `v_` is never added or removed.

{"v_ID": {"duration", "timestamps": [[start, end], ...], "sentences": [...]}}               ActivityNet Captions
{"database": {"ID": {"subset", "duration"?, "annotations": [{"segment", "sentence"}]}}}      YouCook2, the release
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from densevid.artifacts import read_json
from densevid.errors import InputError


@dataclass(frozen=True, slots=True)
class AnnotatedVideo:
    """What a file says about one video: times are numbers, but nobody has yet asked whether they make sense."""

    video: str
    subset: str | None
    duration: float | None
    segments: list[tuple[float, float]]
    sentences: list[str]


def read_annotation_file(path: Path, *, sentences: bool = True) -> Iterator[AnnotatedVideo]:
    """Every video of a file, in its order; what has the wrong form is an error that names the video and the event.

    With `sentences = False` the times are enough.
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
    """Numbers where numbers belong, text where text belongs."""
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
