"""Footage that two splits of a collection share although their sources have different names.

Each clip is one vector: the mean of its features, or thumbnails of its first seconds. The mean of all clips is
taken off, and two clips of different splits whose vectors then point the same way are reported. Clips without captions
are left out: black is black.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from densevid.data.clip_collection import Clip, ClipCollection
from densevid.tracks import FloatArray

ALIKE = 0.9
BLOCK = 512


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """A clip of a split, a clip of another split that looks the same, and the cosine between them."""

    clip: str
    other: str
    similarity: float


def near_duplicates(collection: ClipCollection, split: str, *, threshold: float = ALIKE) -> list[NearDuplicate]:
    """For every clip of a split its best look-alike outside it, if there is one; the most alike first."""
    inside = {clip.name for clip in collection.split(split)}
    vectors_ND = clip_vectors(collection)
    told = [clip for clip in collection.clips if clip.captions]
    here = np.array([clip.name in inside for clip in told])
    names = np.array([clip.name for clip in told])
    found = []
    for block in np.array_split(np.flatnonzero(here), max(1, here.sum() // BLOCK)) if not here.all() else ():
        cosine = vectors_ND[block] @ vectors_ND[~here].T
        best = cosine.argmax(axis=1)
        pairs = zip(names[block], names[~here][best], cosine.max(axis=1), strict=True)
        found += [NearDuplicate(str(a), str(b), round(float(c), 4)) for a, b, c in pairs if c >= threshold]
    return sorted(found, key=lambda pair: -pair.similarity)


def clip_vectors(collection: ClipCollection) -> FloatArray:
    """One direction per clip that has captions, relative to the mean of all."""
    told = [clip for clip in collection.clips if clip.captions]
    vectors_ND = np.array([_vector(collection, clip) for clip in told], dtype=np.float32)
    vectors_ND -= vectors_ND.mean(axis=0)
    length_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return np.asarray(vectors_ND / np.maximum(length_N1, np.finfo(np.float32).tiny))


def _vector(collection: ClipCollection, clip: Clip) -> FloatArray:
    if collection.features is not None:
        rows = collection.features[clip.first_row : clip.first_row + clip.rows]
        return np.asarray(rows.mean(axis=0, dtype=np.float32))
    from densevid.video.composition import thumbnails

    return thumbnails(collection.file(clip))
