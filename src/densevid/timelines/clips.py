"""ClipCollection: a folder of trimmed, captioned clips, from which timelines are composed.

The folder holds `clips.json`, `{clip: {"split", "seconds", "captions", "source"}}`, and either `features.npy` (rows x
width; the rows of a clip are `first_row .. first_row + rows`) or `clips/<clip>.mp4`. `source` is the video that a clip
was cut from; parts of a split never share a source: `<split>-dev` is a tenth of the sources and `<split>-fit` the rest,
`<split>-fold0` to `-fold4` are fifths, `<split>-but0` to `-but4` everything except that fifth, and `<split>-but01`
everything except these two.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, combinations
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
PEAKS = "peak.npy"  # beside features.npy or above it, where that holds bytes: x = peak * (byte / 255)^2
ROWS_AT_ONCE = 4096
STILL_SECONDS = 0.5  # of a picture, a clip of one step


@dataclass(frozen=True, slots=True)
class Clip:
    """One trimmed clip with its captions; its features are rows `first_row .. first_row + rows` of the collection's."""

    name: str
    split: str
    source: str
    seconds: float
    captions: tuple[str, ...]
    first_row: int = 0
    rows: int = 0


@dataclass(frozen=True, eq=False)
class ClipCollection:
    """The clips of a folder.

    Attributes:
        folder: The folder.
        clips: All clips, in the order of clips.json.
        features: Their features, rows x width; None if the collection holds videos alone.
        extracted: The source of the features if they are not those of features.npy.
    """

    folder: Path
    clips: tuple[Clip, ...]
    features: FloatArray | None = None
    extracted: FeatureSource | None = None

    @classmethod
    def read(
        cls, folder: Path | str, *, pixels: bool = False, features: Path | None = None, stills: bool = False
    ) -> ClipCollection:
        """Read a collection.

        Args:
            folder: The folder with clips.json.
            pixels: Use the clips' videos even if there are features.
            features: Features extracted from the clips (a store or another layout), to use instead of features.npy.
            stills: Whether clips may be pictures, which have no `seconds`.

        Returns:
            The collection.

        Raises:
            InputError: A file is missing or invalid, or the features hold NaN.
        """
        folder = Path(folder)
        content = read_json(folder / "clips.json")
        if not isinstance(content, dict) or not content:
            raise InputError(f"{folder / 'clips.json'}: expected {{clip: {{...}}}} with at least one clip")
        clips = tuple(
            _clip(f"{folder / 'clips.json'}: {name}", name, entry, stills=stills) for name, entry in content.items()
        )
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
        """All names that `split` accepts: the splits of clips.json, and their parts."""
        named = sorted({clip.split for clip in self.clips})
        return named + [f"{name}-{part}" for name in named for part in PARTS if f"{name}-{part}" not in named]

    def split(self, name: str) -> list[Clip]:
        """The clips of a split, or of a part of it (see the module).

        Raises:
            InputError: There is no such split, or it is too small to be divided.
        """
        if name not in self.splits():
            named = sorted({clip.split for clip in self.clips})
            known = f"{', '.join(named)}, each also as -fit and -dev, -fold0 to -fold4, -but0 to -but4 and -but01"
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
        """Seconds per feature row, the median over the clips."""
        seconds, rows = (np.array([getattr(clip, key) for clip in self.clips]) for key in ("seconds", "rows"))
        return round(float(np.median(seconds / rows)), 4)

    @property
    def streams(self) -> Streams:
        """Name and width of each feature stream."""
        if self.extracted is not None:
            return self.extracted.streams
        assert self.features is not None
        return ((STREAM, self.features.shape[1]),)

    @property
    def recipe(self) -> FeatureRecipe:
        """How the features were made: the recipe of the extraction, or their width and rate for features.npy.

        The values do not enter: a model trained on one collection reads another that was made in the same way.
        """
        if self.extracted is not None and self.extracted.recipe is not None:
            return self.extracted.recipe
        width, rate = self.streams[0][1], self.seconds_per_row
        return FeatureRecipe({"name": "clip-features", "width": width, "seconds_per_step": rate})

    @property
    def fingerprint(self) -> str:
        """A hash of the clips' names and features."""
        digest = hashlib.sha256("".join(f"{clip.name}\0{clip.rows}\n" for clip in self.clips).encode())
        if self.features is not None:
            digest.update(f"{self.features.shape}\0{self.features.dtype}".encode())
            digest.update(np.ascontiguousarray(self.features).data)
        return f"sha256:{digest.hexdigest()}"

    @property
    def reduction(self) -> Reduction | None:
        """The PCA that reduced the extracted features, if any."""
        return reduction_of(self.extracted)


def _with_extracted(folder: Path, clips: Sequence[Clip], source: FeatureSource, where: Path) -> ClipCollection:
    """A collection with extracted features: the clips that have any, their rows one clip after the other."""
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


def is_in_split(name: str, entry: Mapping[str, Any], split: str) -> bool:
    """Whether an entry of clips.json is in a split or in a part of one, such as `train-dev`."""
    own, (whole, _, part) = entry.get("split"), split.rpartition("-")
    if own == split or part not in PARTS or own != whole:
        return own == split
    return PARTS[part](Clip(name, whole, source_of(name, entry), 1.0, ()))


def share_of(text: str, purpose: str) -> float:
    """Hash a text to a number in [0, 1), the same on every machine; `purpose` is a salt."""
    return int.from_bytes(hashlib.sha256(f"{purpose}\0{text}".encode()).digest()[:8], "big") / 2**64


def _is_dev(clip: Clip) -> bool:
    return share_of(clip.source, "development") < DEV_SHARE


def _is_in_fold(number: int, clip: Clip) -> bool:
    return int.from_bytes(hashlib.sha256(clip.source.encode()).digest(), "big") % FOLDS == number


def _is_in_no_fold(numbers: tuple[int, ...], clip: Clip) -> bool:
    return not any(_is_in_fold(number, clip) for number in numbers)


PARTS: dict[str, Callable[[Clip], bool]] = {
    "fit": lambda clip: not _is_dev(clip),
    "dev": _is_dev,
    **{f"fold{number}": partial(_is_in_fold, number) for number in range(FOLDS)},
    **{
        f"but{''.join(map(str, left))}": partial(_is_in_no_fold, left)
        for left in chain.from_iterable(combinations(range(FOLDS), size) for size in range(1, FOLDS))
    },
}


def _clip(where: str, name: str, entry: Any, *, stills: bool = False) -> Clip:
    """Check one entry of clips.json; a clip's name becomes a file name, so it must be a plain one."""
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise InputError(f"{where}: not a usable clip name, it may hold letters, digits, '-', '_' and '.'")
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected an object, got {type(entry).__name__}")
    seconds, captions, split = entry.get("seconds"), entry.get("captions"), entry.get("split")
    seconds = STILL_SECONDS if seconds is None and stills else seconds
    if not isinstance(split, str):
        raise InputError(f"{where}: needs the name of its split as text")
    if not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise InputError(f"{where}: seconds must be a positive number, got {seconds!r}")
    if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
        raise InputError(f"{where}: captions must be a list of sentences")
    source = source_of(name, entry)
    first_row, rows = entry.get("first_row", 0), entry.get("rows", 0)
    if type(first_row) is not int or type(rows) is not int:
        raise InputError(f"{where}: first_row and rows must be whole numbers, got {first_row!r} and {rows!r}")
    return Clip(name, split, source, float(seconds), _sentences(captions), first_row, rows)


def source_of(name: str, entry: Mapping[str, Any]) -> str:
    """The video that a clip was cut from; the clip itself if clips.json does not name one."""
    return next((str(entry[key]) for key in SOURCE_KEYS if key in entry), name)


def _sentences(captions: Iterable[str]) -> tuple[str, ...]:
    """Each sentence once, with white space normalised."""
    return tuple(dict.fromkeys(text for caption in captions if (text := " ".join(caption.split()))))


def _open_features(path: Path) -> FloatArray:
    """Memory-map features.npy; bytes become half precision."""
    features = _read_array(path)
    if features.dtype == np.uint8 and features.ndim == 2:
        return _from_bytes(features, path)
    if features.ndim != 2 or 0 in features.shape or not np.issubdtype(features.dtype, np.floating):
        raise InputError(
            f"{path}: must be rows x width of floating-point numbers, is {features.shape} {features.dtype}"
        )
    return np.asarray(features)  # the same mapped memory without the slower indexing of np.memmap


def _read_array(path: Path) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy array ({error})") from error
    return array


def _from_bytes(bytes_RF: npt.NDArray[np.uint8], path: Path) -> npt.NDArray[np.float16]:
    """x = peak * (byte / 255)^2, with a peak for each feature."""
    peaks = next((place for folder in path.parents[:2] if (place := folder / PEAKS).exists()), None)
    if peaks is None:
        raise InputError(f"{path}: holds bytes, which need {PEAKS} beside it or in the folder above")
    peak_F = _read_array(peaks)
    if peak_F.shape != bytes_RF.shape[1:] or not np.issubdtype(peak_F.dtype, np.floating):
        raise InputError(f"{peaks}: must be {bytes_RF.shape[1]} floating-point numbers, is {peak_F.shape}")
    shares = np.square(np.arange(256, dtype=np.float32) / 255)
    values_RF = np.empty(bytes_RF.shape, np.float16)
    for first in range(0, len(bytes_RF), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        values_RF[part] = shares[bytes_RF[part]] * peak_F
    return values_RF


def _check_rows(path: Path, clips: Sequence[Clip], rows: int) -> None:
    for clip in clips:
        if clip.first_row < 0 or clip.rows < 1 or clip.first_row + clip.rows > rows:
            last = clip.first_row + clip.rows
            raise InputError(
                f"{path}: {clip.name}: rows {clip.first_row} to {last} are not in features.npy ({rows} rows)"
            )


def _require_numbers(path: Path, clips: Sequence[Clip], values_RF: FloatArray) -> None:
    """Refuse NaN and infinity, naming the clip: in a composed video it could not be found again."""
    for clip in clips:
        finite_TF = np.isfinite(values_RF[clip.first_row : clip.first_row + clip.rows])
        if not finite_TF.all():
            step = int(np.argmin(finite_TF.all(axis=1)))
            row = f"row {step} of {clip.name}"
            row = f"row {clip.first_row + step} ({row})" if path.suffix == ".npy" else row
            raise InputError(f"{path}: {row} holds NaN or infinity; correct it or leave the clip out of clips.json")
