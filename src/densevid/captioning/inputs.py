"""What the user names becomes what is captioned: video files, folders and lists of them, and feature stores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.artifacts import read_json
from densevid.captioning.chosen_events import Span
from densevid.captioning.outputs import MARK
from densevid.captioning.video_captions import shown_name
from densevid.data.feature_store import FeatureStore
from densevid.data.store_format import MANIFEST
from densevid.errors import InputError
from densevid.video.inputs import find_jobs, local_path

if TYPE_CHECKING:
    from densevid.data.feature_source import FeatureSource

LONGEST_NAME = 120  # letters of a file's name


@dataclass(frozen=True)
class Input:
    """One video: a file, or an entry of a store.

    `place` is where its outputs go without --out, called `beside` there; with --out they are called `stem`.
    """

    name: str
    place: Path
    stem: str
    beside: str
    file: Path | None = None
    source: FeatureSource | None = None


def find_inputs(arguments: Iterable[str | Path]) -> tuple[list[Input], list[str]]:
    """Everything that was named, and a line for each argument that is nothing."""
    paths: list[Path] = []
    found: list[Input] = []
    problems: list[str] = []
    for argument in arguments:
        try:
            paths.append(local_path(argument))
        except InputError as error:
            problems.append(str(error))
    stores = [path for path in paths if (path / MANIFEST).is_file()]
    for store in stores:
        try:
            found += _of_store(FeatureStore.open(store))
        except InputError as error:
            problems.append(str(error))
    files = [path for path in paths if path not in stores]
    jobs, refused = find_jobs(files, numbered=True)
    jobs = [job for job in jobs if f"{MARK}." not in job.path.name or job.path in files]  # not what a run wrote there
    alike = Counter((job.path.parent, job.path.stem) for job in jobs)
    for job in jobs:
        alone = alike[job.path.parent, job.path.stem] == 1
        beside = job.path.stem if alone else Path(job.video).name
        found.append(Input(job.video, job.path.parent, job.video, beside, file=job.path))
    return found, problems + refused


def output_base(given: Input, out: Path | None) -> Path:
    """The path of its outputs without an ending: next to the video, or below `out` as it lies in its folder."""
    return out / given.stem if out else given.place / given.beside


def read_spans(path: Path, videos: list[str]) -> dict[str, list[Span]]:
    """Spans by video: from an annotation file, or for a single video from lines of `start end` (seconds or m:ss)."""
    if path.suffix.lower() == ".json":
        from densevid.inference.predict import read_segments

        read_json(path)  # so that what is wrong with the file is said first
        return read_segments(path, lambda line: None)
    if len(videos) != 1:
        raise InputError(f"{path}: lines of start and end are for one video, here are {len(videos)}; use a .json file")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise InputError(f"{path}: not a readable list of segments ({reason})") from error
    spans = [_span(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not spans:
        raise InputError(f"{path}: holds no segments; write start and end, one pair a line")
    return {videos[0]: spans}


def _span(path: Path, number: int, line: str) -> Span:
    words = re.split(r"[\s,;]+|-+>?", line.strip())
    times = [_seconds(word) for word in words if word][:2]
    if len(times) < 2 or None in times or not times[0] < times[1] < float("inf"):  # type: ignore[operator]
        raise InputError(f"{path}: line {number}: expected a start and a later end, got {line.strip()!r:.60}")
    return times[0], times[1]  # type: ignore[return-value]


def _seconds(word: str) -> float | None:
    """`75`, `75.5`, `1:15` or `0:01:15` in seconds."""
    if not re.fullmatch(r"(\d+:){0,2}\d+(\.\d*)?", word):
        return None
    total = 0.0
    for part in word.split(":"):
        total = total * 60 + float(part)
    return total


def _of_store(store: FeatureStore) -> list[Input]:
    """Every video of a store. An id comes from a file, so it names an output only after it was made harmless."""
    place = store.path.resolve().with_name(f"{store.path.resolve().name}-captions")
    taken: set[str] = set()
    found = []
    for video in store.videos():
        stem = _harmless(video)
        while stem in taken:
            stem += "_"
        taken.add(stem)
        found.append(Input(video, place, stem, stem, source=store))
    return found


def _harmless(video: str) -> str:
    name = re.sub(r"[^\w.+-]+", "_", shown_name(video))[:LONGEST_NAME].lstrip(".")
    return name or "video"
