"""ClipCollection: a folder of trimmed, captioned clips, the raw material of composed timelines.

The folder holds `clips.json`, `{clip: {"split", "seconds", "captions", "source"}}`, and with it either `features.npy`
(rows x width; the rows of a clip are `first_row .. first_row + rows`) or `clips/<clip>.mp4`. Splits are made by
source: the video that clips were cut from. `<split>-dev` is a tenth of a split's sources and `<split>-fit` the rest;
`<split>-fold0` to `-fold4` are fifths, and `<split>-but0` to `-but4` what each of them leaves.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.data.layouts import open_features
from densevid.data.sources import FeatureSource, reduction_of
from densevid.errors import InputError
from densevid.io import read_json
from densevid.tracks import FeatureRecipe, FloatArray, Streams
from densevid.video.reduction import Reduction

DEV_SHARE = 0.1
FOLDS = 5
SOURCE_KEYS = ("source", "youtube")
STREAM = "clip"


@dataclass(frozen=True, slots=True)
class Clip:
    """One trimmed clip: where it comes from, how long it is, what people say about it."""

    name: str
    split: str
    source: str
    seconds: float
    captions: tuple[str, ...]
    first_row: int = 0
    rows: int = 0


@dataclass(frozen=True, eq=False)
class ClipCollection:
    """All clips of a folder and their features, where there are any."""

    folder: Path
    clips: tuple[Clip, ...]
    features: FloatArray | None = None
    extracted: FeatureSource | None = None  # where the features come from if not from features.npy

    @classmethod
    def read(cls, folder: Path | str, *, pixels: bool = False, features: Path | None = None) -> ClipCollection:
        """Read a collection; `pixels` asks for the clips' files even where there are features.

        `features` is a folder of features that were extracted from the clips; it replaces features.npy.
        """
        folder = Path(folder)
        content = read_json(folder / "clips.json")
        if not isinstance(content, dict) or not content:
            raise InputError(f"{folder / 'clips.json'}: expected {{clip: {{...}}}} with at least one clip")
        clips = tuple(_clip(f"{folder / 'clips.json'}: {name}", name, entry) for name, entry in content.items())
        if features is not None:
            return _with_extracted(folder, clips, open_features(features), features)
        if (folder / "features.npy").exists() and not pixels:
            values_RF = _open_features(folder / "features.npy")
            _check_rows(folder / "clips.json", clips, len(values_RF))
            _require_numbers(folder / "features.npy", clips, values_RF)
            return cls(folder, clips, values_RF)
        if not (folder / "clips").is_dir():
            if pixels:
                raise InputError(f"{folder}: has no folder clips/ of .mp4 files, which --pixels needs")
            raise InputError(f"{folder}: a clip collection needs features.npy or a folder clips/ of .mp4 files")
        collection = cls(folder, clips)
        absent = [clip.name for clip in clips if not collection.file(clip).is_file()]
        if absent:
            raise InputError(f"{folder}: clips/{absent[0]}.mp4 is missing ({len(absent)} of {len(clips)} are)")
        return collection

    def file(self, clip: Clip) -> Path:
        """The video file of a clip."""
        return self.folder / "clips" / f"{clip.name}.mp4"

    def splits(self) -> list[str]:
        """The names that `split` knows: those of clips.json, and those of their parts."""
        named = sorted({clip.split for clip in self.clips})
        return named + [f"{name}-{part}" for name in named for part in PARTS if f"{name}-{part}" not in named]

    def split(self, name: str) -> list[Clip]:
        """The clips of a split or of a part of it; a part has its sources to itself.

        `-dev` is a tenth and `-fit` the rest; `-fold0` to `-fold4` are fifths, and `-but0` to `-but4` what each leaves.
        """
        if name not in self.splits():
            named = sorted({clip.split for clip in self.clips})
            known = f"{', '.join(named)}, each also as -fit and -dev, -but0 and -fold0 to -but4 and -fold4"
            raise InputError(f"{self.folder}: there is no split {name!r}; there are {known}")
        exact = [clip for clip in self.clips if clip.split == name]
        if exact:
            return exact
        whole, _, part = name.rpartition("-")
        clips = [clip for clip in self.clips if clip.split == whole and PARTS[part](clip)]
        if not clips:
            raise InputError(f"{self.folder}: split {whole!r} is too small to have a part {name!r}")
        return clips

    @cached_property
    def seconds_per_row(self) -> float:
        """How much time one row of the features stands for."""
        seconds, rows = (np.array([getattr(clip, key) for clip in self.clips]) for key in ("seconds", "rows"))
        return round(float(np.median(seconds / rows)), 4)

    @property
    def streams(self) -> Streams:
        """The features as one stream, or as they were extracted."""
        if self.extracted is not None:
            return self.extracted.streams
        assert self.features is not None
        return ((STREAM, self.features.shape[1]),)

    @property
    def recipe(self) -> FeatureRecipe:
        """What is known of how the features were made: their width and rate, the same for all collections like it.

        The numbers themselves do not enter: a model trained on one collection reads another that was made alike.
        """
        if self.extracted is not None and self.extracted.recipe is not None:
            return self.extracted.recipe
        width, rate = self.streams[0][1], self.seconds_per_row
        return FeatureRecipe({"name": "clip-features", "width": width, "seconds_per_step": rate})

    @property
    def fingerprint(self) -> str:
        """A hash of the features and of whose they are, wherever they come from."""
        digest = hashlib.sha256("".join(f"{clip.name}\0{clip.rows}\n" for clip in self.clips).encode())
        if self.features is not None:
            digest.update(f"{self.features.shape}\0{self.features.dtype}".encode())
            digest.update(np.ascontiguousarray(self.features).data)
        return f"sha256:{digest.hexdigest()}"

    @property
    def reduction(self) -> Reduction | None:
        """What the extracted features were reduced by."""
        return reduction_of(self.extracted)


def _with_extracted(folder: Path, clips: Sequence[Clip], source: FeatureSource, where: Path) -> ClipCollection:
    """The clips that features were extracted from; its rows are theirs, one clip after the other."""
    clips = [clip for clip in clips if clip.name in source]
    if not clips:
        raise InputError(f"{folder}: none of its clips has features there; they are named by clip, as in clips.json")
    tracks = [source.track(clip.name).values for clip in clips]
    first_N = np.cumsum([0, *map(len, tracks)]).tolist()
    placed = [
        replace(clip, first_row=first, rows=len(values))
        for clip, first, values in zip(clips, first_N, tracks, strict=False)
    ]
    values_RF = np.concatenate(tracks)
    _require_numbers(where, placed, values_RF)
    return ClipCollection(folder, tuple(placed), values_RF, source)


def share_of(text: str, purpose: str) -> float:
    """A number in [0, 1) that depends on the text and the purpose alone: the same on every machine, for ever."""
    return int.from_bytes(hashlib.sha256(f"{purpose}\0{text}".encode()).digest()[:8], "big") / 2**64


def _is_dev(clip: Clip) -> bool:
    return share_of(clip.source, "development") < DEV_SHARE


def _is_in_fold(number: int, clip: Clip) -> bool:
    return int.from_bytes(hashlib.sha256(clip.source.encode()).digest(), "big") % FOLDS == number


def _is_left_by_fold(number: int, clip: Clip) -> bool:
    return not _is_in_fold(number, clip)


PARTS: dict[str, Callable[[Clip], bool]] = {
    "fit": lambda clip: not _is_dev(clip),
    "dev": _is_dev,
    **{f"fold{number}": partial(_is_in_fold, number) for number in range(FOLDS)},
    **{f"but{number}": partial(_is_left_by_fold, number) for number in range(FOLDS)},
}


def _clip(where: str, name: str, entry: Any) -> Clip:
    """Check one entry of clips.json; a clip's name becomes a file name, so it must be a plain one."""
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise InputError(f"{where}: not a usable clip name, it may hold letters, digits, '-', '_' and '.'")
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected an object, got {type(entry).__name__}")
    seconds, captions, split = entry.get("seconds"), entry.get("captions"), entry.get("split")
    if not isinstance(split, str):
        raise InputError(f"{where}: needs the name of its split as text")
    if not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise InputError(f"{where}: seconds must be a positive number, got {seconds!r}")
    if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
        raise InputError(f"{where}: captions must be a list of sentences")
    source = next((str(entry[key]) for key in SOURCE_KEYS if key in entry), name)
    first_row, rows = entry.get("first_row", 0), entry.get("rows", 0)
    if type(first_row) is not int or type(rows) is not int:
        raise InputError(f"{where}: first_row and rows must be whole numbers, got {first_row!r} and {rows!r}")
    return Clip(name, split, source, float(seconds), _sentences(captions), first_row, rows)


def _sentences(captions: Iterable[str]) -> tuple[str, ...]:
    """Each sentence once, with its white space tidied."""
    return tuple(dict.fromkeys(text for caption in captions if (text := " ".join(caption.split()))))


def _open_features(path: Path) -> FloatArray:
    """Map the array into memory; a file that is not such an array is an InputError."""
    try:
        features: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy array ({error})") from error
    if features.ndim != 2 or 0 in features.shape or not np.issubdtype(features.dtype, np.floating):
        raise InputError(
            f"{path}: must be rows x width of floating-point numbers, is {features.shape} {features.dtype}"
        )
    return np.asarray(features)  # the same mapped memory without the slower indexing of np.memmap


def _check_rows(path: Path, clips: Sequence[Clip], rows: int) -> None:
    for clip in clips:
        if clip.first_row < 0 or clip.rows < 1 or clip.first_row + clip.rows > rows:
            last = clip.first_row + clip.rows
            raise InputError(
                f"{path}: {clip.name}: rows {clip.first_row} to {last} are not in features.npy ({rows} rows)"
            )


def _require_numbers(path: Path, clips: Sequence[Clip], values_RF: FloatArray) -> None:
    """Look at the rows of every clip once: in a composed video nobody would find the clip again."""
    for clip in clips:
        finite_TF = np.isfinite(values_RF[clip.first_row : clip.first_row + clip.rows])
        if not finite_TF.all():
            step = int(np.argmin(finite_TF.all(axis=1)))
            row = f"row {step} of {clip.name}"
            row = f"row {clip.first_row + step} ({row})" if path.suffix == ".npy" else row
            raise InputError(f"{path}: {row} holds NaN or infinity; correct it or leave the clip out of clips.json")
