"""What the user names becomes what is captioned: video files, folders and lists of them, and feature stores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.data.store.format import MANIFEST
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.pipeline.output_names import MARK, fitting, harmless, names_beside, untaken
from densevid.pipeline.result import shown_name
from densevid.video.inputs import find_jobs, local_path, numbered_names

if TYPE_CHECKING:
    from densevid.data.sources import FeatureSource


@dataclass(frozen=True)
class Input:
    """One video: a file, or an entry of a store, where it is called `video`. No two have one `name`.

    Its outputs go to `beside`, a path that lacks their ending, or with --out to that folder, called `stem`.
    """

    name: str
    stem: str
    beside: Path
    file: Path | None = None
    source: FeatureSource | None = None
    video: str = ""

    @property
    def known_as(self) -> str:
        """What annotations call it."""
        return self.video or self.name


def find_inputs(arguments: Iterable[str | Path]) -> tuple[list[Input], list[str]]:
    """Everything that was named, and a line for each argument that is nothing."""
    paths: list[Path] = []
    problems: list[str] = []
    for argument in arguments:
        try:
            paths.append(local_path(argument))
        except InputError as error:
            problems.append(str(error))
    stores = {path.resolve(): path for path in paths if _is_store(path)}  # one that is named twice is one
    files = [path for path in paths if not _is_store(path)]
    in_stores, closed = _in_stores(stores.values())
    of_files, refused = _of_files(files)
    return _told_apart(in_stores + of_files), problems + closed + refused


def output_base(given: Input, out: Path | None) -> Path:
    """The path of its outputs without an ending: next to the video, or below `out` as it lies in its folder."""
    if out is None:
        return given.beside
    return untaken(out / given.stem, given.file) if given.file else out / given.stem


def _is_store(path: Path) -> bool:
    try:
        return (path / MANIFEST).is_file()
    except (OSError, ValueError):  # what cannot be looked at is told when it is opened
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
    """Every video file; those that a run wrote into a folder are none of its own."""
    jobs, problems = find_jobs(paths, numbered=True)
    own = [job for job in jobs if f"{MARK}." not in job.path.name or job.path in paths]
    if jobs and not own:
        problems.append(f"{jobs[0].path.parent}: holds no videos but those that densevid wrote")
    beside = [job.path.with_name(name) for job, name in zip(own, names_beside(job.path for job in own), strict=True)]
    found = [Input(j.video, fitting(j.video), path, file=j.path) for j, path in zip(own, beside, strict=True)]
    return found, problems


def _told_apart(found: list[Input]) -> list[Input]:
    """The same with names, and names of files, that each has alone."""
    names = numbered_names(shown_name(given.name) for given in found)
    stems = numbered_names(given.stem for given in found)
    beside = numbered_names(str(given.beside) for given in found)
    return [
        replace(given, name=name, stem=stem, beside=Path(path))
        for given, name, stem, path in zip(found, names, stems, beside, strict=True)
    ]
