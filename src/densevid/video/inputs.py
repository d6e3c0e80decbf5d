"""What the user names becomes a list of jobs: files, folders of videos, and lists of paths."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
        return cls(path, (stem_of(path), (inside.parent / stem_of(path)).as_posix(), inside.as_posix()))


def find_jobs(arguments: Iterable[str | Path], *, numbered: bool = False) -> tuple[list[Job], list[str]]:
    """One job per video, and a line for each argument or file that cannot become one.

    A video's id is its file's name without suffix. Where several found in a folder share it, theirs is their path
    inside that folder, with the suffix if it takes that; those that still share one are refused, or `numbered`.
    """
    found: dict[Path, _Found] = {}  # by where a path really leads: one file named twice is one video
    problems: list[str] = []
    for argument in arguments:
        try:
            for video in _videos_of(local_path(argument), problems):
                found.setdefault(_real(video.path), video)
        except InputError as error:
            problems.append(str(error))
    chosen = _ids(list(found.values()))
    if numbered:
        chosen = numbered_names(chosen)
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
    if not str(argument).strip():
        raise InputError("an empty name: name a video or a folder (. is this one)")
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


def numbered_names(names: Iterable[str]) -> list[str]:
    """The same, but the second of a name is `name-2`, or the next number that is free."""
    wanted = list(names)
    taken, given = set(wanted), set[str]()
    chosen = []
    for name in wanted:
        free = (f"{name}-{number}" for number in count_from(2))
        unique = name if name not in given else next(other for other in free if other not in taken | given)
        given.add(unique)
        chosen.append(unique)
    return chosen


def stem_of(path: Path) -> str:
    """A file's name without its ending; all of it where only dots would be left, which mean a folder."""
    return path.stem if path.stem.strip(".") else path.name


def _videos_of(path: Path, problems: list[str]) -> Iterator[_Found]:
    """What a path means; a part of it that cannot be looked at is one of the `problems`."""
    if _surely(path.is_dir):
        yield from (_Found.below(path, file) for file in _videos_below(path, problems))
    elif path.suffix.lower() in LIST_SUFFIXES and _surely(path.is_file):
        yield from (_Found(file, (stem_of(file),)) for file in _listed(path))
    else:
        yield _Found(path, (stem_of(path),))


def _videos_below(root: Path, problems: list[str]) -> list[Path]:
    told = len(problems)

    def note(error: OSError) -> None:
        problems.append(f"{error.filename}: the folder cannot be read ({error.strerror})")

    inside = (Path(folder) / name for folder, _, names in os.walk(root, onerror=note) for name in names)
    files = sorted(file for file in inside if file.suffix.lower() in VIDEO_SUFFIXES and _may_be_video(file))
    if not files and len(problems) == told:
        raise InputError(f"{root}: no video in this folder (looked for .mp4, .mkv, .avi and the like)")
    return files


def _may_be_video(path: Path) -> bool:
    """Whether to try it: a file, or what looks like one and is told to be none when it is opened."""
    try:
        return path.is_file() or (path.is_symlink() and not path.exists())
    except OSError:
        return True


def _surely(question: Callable[[], bool]) -> bool:
    """The answer to a question about a path; one that cannot be looked at is told when it is opened."""
    try:
        return question()
    except (OSError, ValueError):  # it may not be asked, is too long to be a name, or has a zero byte
        return False


def _listed(path: Path) -> list[Path]:
    """The paths in a list, one a line, seen from the list's own folder; empty lines and # lines do not count."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable list of paths ({error})") from error
    listed = [path.parent / line for line in lines if line and not line.startswith("#")]
    if not listed:
        raise InputError(f"{path}: an empty list; write one path of a video a line")
    if not any(_surely(file.exists) for file in listed):
        raise InputError(f"{path}: not a list of videos: none of its {len(listed)} lines names a file that is there")
    return listed


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a name that leads nowhere is told when it is opened
        return path
