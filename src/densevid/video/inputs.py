"""What the user names becomes a list of jobs: files, folders of videos, and lists of paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from densevid.errors import InputError
from densevid.video.workers import Job

LIST_SUFFIXES = {".txt", ".list"}
VIDEO_SUFFIXES = {
    *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".gif", ".mpg", ".mpeg", ".ts", ".m2ts", ".mts"),
    *(".flv", ".wmv", ".asf", ".ogv", ".3gp", ".3g2", ".mxf", ".vob", ".y4m"),
}


def find_jobs(arguments: Iterable[str]) -> list[Job]:
    """One job per video, its id the file's name without suffix; two videos with one id are refused."""
    paths = [path for argument in arguments for path in _videos_of(argument)]
    by_id: dict[str, dict[Path, None]] = defaultdict(dict)
    for path in paths:
        by_id[path.stem][path] = None
    clashes = {video: list(same) for video, same in by_id.items() if len(same) > 1}
    if clashes:
        video, same = next(iter(clashes.items()))
        more = f" (and {len(clashes) - 1} more such ids)" if len(clashes) > 1 else ""
        raise InputError(f"{same[0]} and {same[1]} would both be called {video!r}{more}; rename one of them")
    return [Job(video, next(iter(same))) for video, same in by_id.items()]


def _videos_of(argument: str) -> Iterator[Path]:
    path = Path(argument)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in VIDEO_SUFFIXES and file.is_file())
        if not found:
            raise InputError(f"{path}: no video in this folder (looked for {', '.join(sorted(VIDEO_SUFFIXES))})")
        yield from found
    elif path.suffix.lower() in LIST_SUFFIXES and path.is_file():
        yield from _listed(path)
    else:
        yield path


def _listed(path: Path) -> list[Path]:
    """The paths in a list, one a line, seen from the list's own folder; empty lines and # lines do not count."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable list of paths ({error})") from error
    listed = [path.parent / line for line in lines if line and not line.startswith("#")]
    if not listed:
        raise InputError(f"{path}: an empty list; write one path of a video a line")
    return listed
