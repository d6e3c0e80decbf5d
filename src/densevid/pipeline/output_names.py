"""What the files of a video are called: never two videos alike, and never a name that the disk does not take."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePath

from densevid.errors import InputError
from densevid.io import read_json
from densevid.pipeline.result import shown_name
from densevid.video.inputs import VIDEO_SUFFIXES, stem_of

MARK = ".densevid"
INDEX = "index"  # of the files over all videos
LONGEST_NAME = 200  # bytes of a name without its ending; disks take 255 with it, and a number may come behind

VideosByStem = dict[str, set[str]]


def harmless(video: str) -> str:
    """The id of a video, which comes from a file and may be anything, as the name of one."""
    return fitting(re.sub(r"[^\w.+-]+", "_", shown_name(video)).lstrip(".") or "video")


def fitting(name: str) -> str:
    """A name, or a path, that a disk takes and that is not the index's.

    What is cut off lives on in a hash, so that long names stay different.
    """
    return f"{INDEX}-video" if name == INDEX else "/".join(map(_shortened, PurePath(name).parts))


def names_beside(files: Iterable[Path]) -> list[str]:
    """What the files next to each video are called: as the video, with its ending where another one is called so, too.

    Who came first keeps the short name: its JSON says whose it is.
    """
    folders: dict[Path, VideosByStem] = {}
    names = []
    for file in files:
        if file.parent not in folders:
            folders[file.parent] = _videos_by_stem(file.parent)
        short = fitting(stem_of(file))
        is_alone = folders[file.parent].get(stem_of(file), set()) <= {file.name}
        is_first = is_alone or _written_for(file.parent / short) == shown_name(file.name)
        names.append(short if is_first else fitting(file.name))
    return names


def untaken(base: Path, file: Path) -> Path:
    """A path for the files of a video: with its ending where another one's lie, by what their JSON says."""
    if _written_for(base) in (None, shown_name(file.name)):
        return base
    return base.with_name(fitting(f"{base.name}{file.suffix}"))


def _shortened(part: str) -> str:
    content = os.fsencode(part)
    if len(content) <= LONGEST_NAME:
        return part
    mark = f"-{hashlib.sha256(content).hexdigest()[:8]}"
    return content[: LONGEST_NAME - len(mark)].decode("utf-8", "ignore") + mark


def _videos_by_stem(folder: Path) -> VideosByStem:
    """The videos of a folder, without those that a run wrote there."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        return {}
    found: VideosByStem = {}
    for path in paths:
        if path.suffix.lower() in VIDEO_SUFFIXES and not path.stem.endswith(MARK):
            found.setdefault(stem_of(path), set()).add(path.name)
    return found


def _written_for(base: Path) -> str | None:
    """The file that the outputs of this name are about, by their JSON."""
    try:
        (details,) = read_json(base.with_name(f"{base.name}{MARK}.json"))["details"].values()
        return str(details["file"])
    except (InputError, LookupError, TypeError, ValueError, AttributeError):
        return None
