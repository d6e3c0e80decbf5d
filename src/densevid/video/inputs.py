"""What the user names becomes a list of jobs: files, folders of videos, and lists of paths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path

from densevid.errors import InputError
from densevid.video.workers import Job

LIST_SUFFIXES = {".txt", ".list"}
VIDEO_SUFFIXES = {
    *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".gif", ".mpg", ".mpeg", ".ts", ".m2ts", ".mts"),
    *(".flv", ".wmv", ".asf", ".ogv", ".3gp", ".3g2", ".mxf", ".vob", ".y4m", ".nut", ".apng", ".ivf"),
}


@dataclass(frozen=True)
class _Found:
    """A video with the ids it could have, the shortest first."""

    path: Path
    ids: tuple[str, ...]

    @classmethod
    def below(cls, root: Path, path: Path) -> _Found:
        inside = path.relative_to(root)
        return cls(path, (path.stem, inside.with_suffix("").as_posix(), inside.as_posix()))


def find_jobs(arguments: Iterable[str | Path], *, numbered: bool = False) -> tuple[list[Job], list[str]]:
    """One job per video, and a line for each argument or file that cannot become one.

    A video's id is its file's name without suffix. Where several found in a folder share it, theirs is their path
    inside that folder, with the suffix if it takes that; those that still share one are refused, or `numbered`.
    """
    found: dict[Path, _Found] = {}  # by where a path really leads: one file named twice is one video
    problems: list[str] = []
    for argument in arguments:
        try:
            for video in _videos_of(local_path(argument)):
                found.setdefault(_real(video.path), video)
        except InputError as error:
            problems.append(str(error))
    chosen = _ids(list(found.values()))
    if numbered:
        chosen = _numbered(chosen)
    count = Counter(chosen)
    jobs = [Job(name, video.path) for name, video in zip(chosen, found.values(), strict=True) if count[name] == 1]
    clashes = [
        f"{video.path}: {count[name]} of the videos named would be called {name!r}; rename it, or name the folder above"
        for name, video in zip(chosen, found.values(), strict=True)
        if count[name] > 1
    ]
    return jobs, problems + clashes


def local_path(argument: str | Path) -> Path:
    """The path that was named; an address is none, and Path would make one of it that nobody wrote."""
    if isinstance(argument, str) and re.match(r"[a-z][a-z0-9+.-]*://", argument, re.IGNORECASE):
        raise InputError(f"{argument}: an address; nothing is fetched, so download the video first and name its file")
    return Path(argument)


def _ids(found: list[_Found]) -> list[str]:
    """Of each video the shortest of its ids that no other has, or the longest where all are shared."""
    tried = [0] * len(found)
    while True:
        chosen = [video.ids[level] for video, level in zip(found, tried, strict=True)]
        count = Counter(chosen)
        stuck = [n for n, video in enumerate(found) if count[chosen[n]] > 1 and tried[n] + 1 < len(video.ids)]
        if not stuck:
            return chosen
        for number in stuck:
            tried[number] += 1


def _numbered(names: list[str]) -> list[str]:
    """The same, but the second of a name is `name-2`, or the next number that is free."""
    taken = set(names)
    given: set[str] = set()
    for place, name in enumerate(names):
        if name in given:
            free = (f"{name}-{number}" for number in count_from(2))
            names[place] = name = next(other for other in free if other not in taken | given)
        given.add(name)
    return names


def _videos_of(path: Path) -> Iterator[_Found]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in VIDEO_SUFFIXES and file.is_file())
        if not files:
            raise InputError(f"{path}: no video in this folder (looked for {', '.join(sorted(VIDEO_SUFFIXES))})")
        yield from (_Found.below(path, file) for file in files)
    elif path.suffix.lower() in LIST_SUFFIXES and path.is_file():
        yield from (_Found(file, (file.stem,)) for file in _listed(path))
    else:
        yield _Found(path, (path.stem,))


def _listed(path: Path) -> list[Path]:
    """The paths in a list, one a line, seen from the list's own folder; empty lines and # lines do not count."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable list of paths ({error})") from error
    listed = [path.parent / line for line in lines if line and not line.startswith("#")]
    if not listed:
        raise InputError(f"{path}: an empty list; write one path of a video a line")
    if not any(_is_there(file) for file in listed):
        raise InputError(f"{path}: not a list of videos: none of its {len(listed)} lines names a file that is there")
    return listed


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a line too long to be a name, or with a zero byte
        return False


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a name that leads nowhere is told when it is opened
        return path
