"""Inputs: the video files, folders, lists and feature stores that a user names; and the names of their output files.

No two inputs have the same name or the same output files, and no output has a name that the disk does not take.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from densevid.data.store.format import MANIFEST
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.io import read_json
from densevid.pipeline.result import shown_name
from densevid.video.inputs import VIDEO_SUFFIXES, find_jobs, local_path, numbered_names, stem_of

if TYPE_CHECKING:
    from densevid.data.sources import FeatureSource

MARK = ".densevid"
INDEX = "index"  # of the files over all videos
LONGEST_NAME = 200  # bytes of a name without its ending; disks take 255 with it, and a number may come behind

VideosByStem = dict[str, set[str]]


@dataclass(frozen=True)
class Input:
    """One video: a file, or the entry `video` of a store. No two have the same `name`.

    Its outputs go to `beside`, a path without ending, or with --out into that folder under the name `stem`.
    """

    name: str
    stem: str
    beside: Path
    file: Path | None = None
    source: FeatureSource | None = None
    video: str = ""

    @property
    def known_as(self) -> str:
        """Its id in annotations."""
        return self.video or self.name


def find_inputs(arguments: Iterable[str | Path]) -> tuple[list[Input], list[str]]:
    """All inputs, and a line for each argument that cannot be used."""
    paths: list[Path] = []
    problems: list[str] = []
    for argument in arguments:
        try:
            paths.append(local_path(argument))
        except InputError as error:
            problems.append(str(error))
    stores = {path.resolve(): path for path in paths if _is_store(path)}  # each once
    files = [path for path in paths if not _is_store(path)]
    in_stores, closed = _in_stores(stores.values())
    of_files, refused = _of_files(files)
    return _with_own_names(in_stores + of_files), problems + closed + refused


def output_base(given: Input, out: Path | None) -> Path:
    """The path of its outputs without an ending: next to the video, or below `out` as it lies in its folder."""
    if out is None:
        return given.beside
    return untaken(out / given.stem, given.file) if given.file else out / given.stem


def _is_store(path: Path) -> bool:
    try:
        return (path / MANIFEST).is_file()
    except (OSError, ValueError):  # reported when it is opened
        return False


def _in_stores(paths: Iterable[Path]) -> tuple[list[Input], list[str]]:
    """Every video of the stores that can be opened, and why the others cannot."""
    found: list[Input] = []
    problems: list[str] = []
    for path in paths:
        try:
            store = FeatureStore.open(path)
            place = path.resolve().with_name(f"{path.resolve().name}-captions")
            stems = [(video, harmless(video)) for video in store.videos()]
            found += [Input(video, stem, place / stem, source=store, video=video) for video, stem in stems]
        except InputError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{path}: the feature store cannot be read ({error.strerror})")
    return found, problems


def _of_files(paths: list[Path]) -> tuple[list[Input], list[str]]:
    """Every video file, without those that an earlier run wrote into a folder."""
    jobs, problems = find_jobs(paths, numbered=True)
    own = [job for job in jobs if f"{MARK}." not in job.path.name or job.path in paths]
    if jobs and not own:
        problems.append(f"{jobs[0].path.parent}: holds no videos but those that densevid wrote")
    beside = [job.path.with_name(name) for job, name in zip(own, names_beside(job.path for job in own), strict=True)]
    found = [Input(j.video, fitting(j.video), path, file=j.path) for j, path in zip(own, beside, strict=True)]
    return found, problems


def _with_own_names(found: list[Input]) -> list[Input]:
    """The same with names and output names that no other input has."""
    names = numbered_names(shown_name(given.name) for given in found)
    stems = numbered_names(given.stem for given in found)
    beside = numbered_names(str(given.beside) for given in found)
    return [
        replace(given, name=name, stem=stem, beside=Path(path))
        for given, name, stem, path in zip(found, names, stems, beside, strict=True)
    ]


def harmless(video: str) -> str:
    """The id of a video, which may hold anything, as the name of a file."""
    return fitting(re.sub(r"[^\w.+-]+", "_", shown_name(video)).lstrip(".") or "video")


def fitting(name: str) -> str:
    """A name, or a path, that a disk takes and that is not the index's; a name that is cut gets a hash of the whole."""
    return f"{INDEX}-video" if name == INDEX else "/".join(map(_shortened, PurePath(name).parts))


def names_beside(files: Iterable[Path]) -> list[str]:
    """The names of the outputs beside each video: its stem, with the ending where two videos share a stem.

    The video that was captioned first keeps the short name; its JSON names it.
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
    """A path for the outputs of a video: with its ending where the JSON at `base` names another one."""
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
    """The videos of a folder, without those that an earlier run wrote."""
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
    """The video file that the JSON of this name is about."""
    try:
        (details,) = read_json(base.with_name(f"{base.name}{MARK}.json"))["details"].values()
        return str(details["file"])
    except (InputError, LookupError, TypeError, ValueError, AttributeError):
        return None
