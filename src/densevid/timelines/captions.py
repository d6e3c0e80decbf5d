"""Caption collections: pictures and clips from which words alone are learned, beside the clips of timelines.

`densevid train --captions FOLDER[=WEIGHT]...` reads each like a `ClipCollection`. A collection may lack streams of the
model: its features are as wide as one of them (EfficientNet's alone, for pictures), the others are zeros, as where a
stream is absent. A picture is a clip of one step. The sentences of a collection begin with its own style token, named
after the folder, in place of `<init>`, which belongs to the clips of the timelines: so a caption decoder that has
learned from all of them writes like the latter. Proposals, masks and actionness never see these clips.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from densevid.config import FeaturesConfig
from densevid.errors import InputError
from densevid.timelines.clips import Clip, ClipCollection
from densevid.tracks import FloatArray, streams_text

SPLIT = "train"  # of a collection, whose clips are learned from
FEATURES = "features"  # a feature store inside the folder, where there is no features.npy


@dataclass(frozen=True)
class CaptionFolder:
    """A folder of captioned clips or pictures, and how often it is drawn from relative to the others."""

    path: Path
    weight: float = 1.0

    @classmethod
    def parse(cls, text: str) -> CaptionFolder:
        """Read `FOLDER` or `FOLDER=WEIGHT`.

        Raises:
            InputError: The weight is no positive number.
        """
        path, separator, number = text.rpartition("=")
        if not separator:
            return cls(Path(text))
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not (path and 0 < weight < float("inf")):
            raise InputError(f"--captions {text}: expected FOLDER or FOLDER=WEIGHT with a positive number")
        return cls(Path(path), weight)

    @property
    def style(self) -> str:
        """The name of its style token."""
        return self.path.resolve().name


@dataclass(frozen=True, eq=False)
class CaptionCollection:
    """The captioned clips of one folder.

    Attributes:
        style: The name of its style token; None for the clips of the timelines, whose sentences begin with `<init>`.
        weight: How often a clip is drawn from it, relative to the others.
        clips: Its clips; their rows are those of `features_RF`.
        features_RF: Their features, with zeros where a stream of the model is absent.
        fingerprint: A hash of clips and features.
    """

    style: str | None
    weight: float
    clips: tuple[Clip, ...]
    features_RF: FloatArray
    fingerprint: str

    @classmethod
    def read(
        cls, folder: CaptionFolder, features: FeaturesConfig, held_out: Collection[str] = (), *, split: str = SPLIT
    ) -> CaptionCollection:
        """Read the clips of a folder.

        Args:
            folder: What was named on the command line.
            features: The streams of the model.
            held_out: Sources that nothing may be learned from; their clips are left out.
            split: Which of its clips; those to learn from by default.

        Raises:
            InputError: It cannot be read, its features fit no stream, or no clip is left.
        """
        stored = None if (folder.path / "features.npy").exists() else folder.path / FEATURES
        collection = ClipCollection.read(folder.path, features=stored, stills=True)
        clips = [clip for clip in collection.split(split) if clip.captions and clip.source not in held_out]
        if not clips:
            raise InputError(f"{folder.path}: no clip of its split {split!r} has captions and a source to learn from")
        rows = np.concatenate([np.arange(clip.first_row, clip.first_row + clip.rows) for clip in clips])
        assert collection.features is not None
        values_RF = _placed(collection.features[rows], collection, features, folder.path)
        return cls(folder.style, folder.weight, _repacked(clips), values_RF, collection.fingerprint)

    @property
    def sentences(self) -> list[str]:
        """All captions."""
        return [caption for clip in self.clips for caption in clip.captions]


class CaptionMixture:
    """What clips beside timelines are drawn from: collections with their weights, their features in one table.

    Args:
        own: The clips of the timelines.
        footage_RF: Their features, the first rows of the table.
        collections: Further collections.
        weight: Of the clips of the timelines.
    """

    def __init__(
        self,
        own: Sequence[Clip],
        footage_RF: FloatArray,
        collections: Sequence[CaptionCollection] = (),
        weight: float = 1,
    ) -> None:
        self.collections = collections
        self._clips: list[tuple[str | None, int, Sequence[Clip]]] = [(None, 0, own)]
        first = len(footage_RF)
        for collection in collections:
            self._clips.append((collection.style, first, collection.clips))
            first += len(collection.features_RF)
        weights = np.array([weight, *(collection.weight for collection in collections)])
        self._chances = np.cumsum(weights) / (weights.sum() or 1)
        self.footage: FloatArray = footage_RF
        if collections:
            self.footage = np.concatenate([footage_RF, *(each.features_RF for each in collections)], dtype=np.float16)

    def draw(self, rng: np.random.Generator) -> tuple[str | None, Clip, int]:
        """A random clip: its style, the clip, and its first row in the table."""
        number = int(np.searchsorted(self._chances, rng.random(), side="right")) if self.collections else 0
        style, first, clips = self._clips[number]
        clip = clips[int(rng.integers(len(clips)))]
        return style, clip, first + clip.first_row

    @property
    def parts(self) -> list[tuple[int, Sequence[Clip]]]:
        """The first row and the clips of every collection, the timelines' own first."""
        return [(first, clips) for _, first, clips in self._clips]

    @property
    def styles(self) -> list[str | None]:
        """The style of every collection, in the order of `parts`."""
        return [style for style, _, _ in self._clips]

    @property
    def fingerprint(self) -> str:
        """A hash of the further collections and their weights."""
        parts = [f"{each.style}\0{each.weight}\0{each.fingerprint}\0{len(each.clips)}\n" for each in self.collections]
        return f"sha256:{hashlib.sha256(''.join(parts).encode()).hexdigest()}"


def read_captions(
    folders: Sequence[CaptionFolder], features: FeaturesConfig, held_out: Collection[str] = ()
) -> list[CaptionCollection]:
    """Read the collections of `--captions`.

    Raises:
        InputError: One cannot be used, or two have one name.
    """
    names = [folder.style for folder in folders]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--captions: two folders are named {doubled[0]!r}, which names their style; rename one")
    return [CaptionCollection.read(folder, features, held_out) for folder in folders]


def _placed(values_Rf: FloatArray, collection: ClipCollection, features: FeaturesConfig, path: Path) -> FloatArray:
    """Features at the place of their streams, zeros in the others."""
    width, names, widths = values_Rf.shape[1], features.streams, features.widths
    if width == sum(widths):
        return values_Rf
    own = {name for name, _ in collection.streams} & set(names) or names
    fitting = [number for number, name in enumerate(names) if widths[number] == width and name in own]
    if len(fitting) != 1:
        wanted = streams_text(tuple(zip(names, widths, strict=True)))
        raise InputError(f"{path}: its features are {width} wide, which fits no one stream of {wanted}")
    values_RF = np.zeros((len(values_Rf), sum(widths)), np.float16)
    first = sum(widths[: fitting[0]])
    values_RF[:, first : first + width] = values_Rf
    return values_RF


def _repacked(clips: Sequence[Clip]) -> tuple[Clip, ...]:
    """Clips whose rows follow each other."""
    first_N = np.cumsum([0, *(clip.rows for clip in clips)]).tolist()
    return tuple(replace(clip, first_row=first) for clip, first in zip(clips, first_N, strict=False))
