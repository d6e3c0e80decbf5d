"""Inputs: files, folders of videos and lists of paths become a list of jobs with unique ids."""

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
    """A video with its possible ids, the shortest first."""

    path: Path
    ids: tuple[str, ...]

    @classmethod
    def below(cls, root: Path, path: Path) -> _Found:
        inside = path.relative_to(root)
        return cls(path, (stem_of(path), (inside.parent / stem_of(path)).as_posix(), inside.as_posix()))


def find_jobs(arguments: Iterable[str | Path], *, numbered: bool = False) -> tuple[list[Job], list[str]]:
    """Find the videos that arguments name.

    A video's id is its file name without suffix. If several videos of a folder share it, their ids are their paths
    inside the folder, with the suffix if necessary.

    Args:
        arguments: Video files, folders (searched recursively), and .txt or .list files with one path per line.
        numbered: Number videos that still share an id, instead of refusing them.

    Returns:
        One job per video, and one line for each argument or file that was refused.
    """
    found: dict[Path, _Found] = {}  # by resolved path: a file that is named twice is one video
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
    """The path of an argument.

    Raises:
        InputError: It is a URL (which Path would silently change) or empty.
    """
    if isinstance(argument, str) and re.match(r"[a-z][a-z0-9+.-]*://", argument, re.IGNORECASE):
        raise InputError(f"{argument}: a URL, and nothing is downloaded; download the video first and give its file")
    if not str(argument).strip():
        raise InputError("an empty name; give a video or a folder (. is the current one)")
    return Path(argument)


def _ids(found: list[_Found]) -> list[str]:
    """For each video its shortest unique id, or its longest one if all are shared."""
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
    """Make names unique: the second of a name becomes `name-2`, or the next number that is free."""
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
    """A file name without its suffix; the whole name if only dots would be left, as in `...mp4`."""
    return path.stem if path.stem.strip(".") else path.name


def _videos_of(path: Path, problems: list[str]) -> Iterator[_Found]:
    """The videos of one argument; folders that cannot be read are added to `problems`."""
    if _holds(path.is_dir):
        yield from (_Found.below(path, file) for file in _videos_below(path, problems))
    elif path.suffix.lower() in LIST_SUFFIXES and _holds(path.is_file):
        yield from (_Found(file, (stem_of(file),)) for file in _listed(path))
    else:
        yield _Found(path, (stem_of(path),))


def _videos_below(root: Path, problems: list[str]) -> list[Path]:
    known_problems = len(problems)

    def note(error: OSError) -> None:
        problems.append(f"{error.filename}: the folder cannot be read ({error.strerror})")

    inside = (Path(folder) / name for folder, _, names in os.walk(root, onerror=note) for name in names)
    files = sorted(file for file in inside if file.suffix.lower() in VIDEO_SUFFIXES and _may_be_video(file))
    if not files and len(problems) == known_problems:
        raise InputError(f"{root}: no video in this folder (looked for .mp4, .mkv, .avi and the like)")
    return files


def _may_be_video(path: Path) -> bool:
    """Whether to open it as a video: a file, or a broken link, which fails with its own message."""
    try:
        return path.is_file() or (path.is_symlink() and not path.exists())
    except OSError:
        return True


def _holds(check: Callable[[], bool]) -> bool:
    """The result of a check of a path, False if it fails; opening the path then gives the error."""
    try:
        return check()
    except (OSError, ValueError):  # no permission, a name that is too long, or one with a zero byte
        return False


def _listed(path: Path) -> list[Path]:
    """The paths in a list, one per line, relative to the list's folder; empty lines and # lines are skipped."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable list of paths ({error})") from error
    listed = [path.parent / line for line in lines if line and not line.startswith("#")]
    if not listed:
        raise InputError(f"{path}: an empty list; write one path of a video per line")
    if not any(_holds(file.exists) for file in listed):
        raise InputError(f"{path}: not a list of videos: none of its {len(listed)} lines names an existing file")
    return listed


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # opening it gives the error
        return path
