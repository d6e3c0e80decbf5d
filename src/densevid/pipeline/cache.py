"""Cache: features by the content of a video and their recipe; results by the content, the model and the request.

A second run on the same file decodes nothing. The folder is `densevid` in the user's cache folder, or DENSEVID_CACHE;
its features stay under DENSEVID_CACHE_BYTES, those unused for longest going first. Nothing in it is ever needed: an
entry that cannot be read is made again, and where nothing can be written nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from densevid.errors import InputError
from densevid.io import atomic_path, cache_folder, hash_of, tensor_path
from densevid.tracks import Clock, FeatureTrack

FORMAT = 1
LIMIT_VARIABLE, DEFAULT_LIMIT = "DENSEVID_CACHE_BYTES", 4 << 30


@dataclass(frozen=True)
class CachedTrack:
    """A track, and a warning if a part of its video could not be read."""

    track: FeatureTrack
    warning: str | None = None


@dataclass(frozen=True)
class Cache:
    """Entries by key; without a folder it keeps nothing. `limit` is what its features may take, in bytes."""

    folder: Path | None
    limit: int = DEFAULT_LIMIT

    def events(self, key: str) -> dict[str, Any] | None:
        """The plain value of a key."""
        path = self._path("events", key, "json")
        try:
            content = json.loads(path.read_text(encoding="utf-8")) if path else None
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def keep_events(self, key: str, content: Mapping[str, Any]) -> None:
        """Keep a plain value."""
        if path := self._path("events", key, "json"):
            with suppress(OSError, InputError), atomic_path(path) as temporary:
                temporary.write_text(json.dumps(content), encoding="utf-8")

    def track(self, key: str, recipe: str, absent: tuple[str, ...] = ()) -> CachedTrack | None:
        """The features of a file, by its `content_key`, the id of the recipe and the streams that are absent."""
        path = self._track_path(key, recipe, absent)
        if path is None:
            return None
        with suppress(OSError):
            os.utime(path)  # used now, so dropped last
        return read_track(path, recipe)

    def keep_track(self, key: str, recipe: str, cached: CachedTrack) -> None:
        """Keep the features of a file, and drop what has not been used for longest."""
        path = self._track_path(key, recipe, cached.track.absent)
        if path is None:
            return
        with suppress(OSError, InputError):
            write_track(path, cached)
            _drop_oldest(path.parent, self.limit)

    def _track_path(self, key: str, recipe: str, absent: tuple[str, ...]) -> Path | None:
        about = {"content": key, "recipe": recipe, "format": FORMAT, **({"absent": list(absent)} if absent else {})}
        return self._path("features", hash_of(about), "safetensors")

    def _path(self, kind: str, key: str, suffix: str) -> Path | None:
        return self.folder / kind / f"{key}.{suffix}" if self.folder else None


def write_track(path: Path, cached: CachedTrack) -> None:
    """Write a track that has a clock of its own; whole or not at all."""
    track = cached.track
    edges = track.clock.seconds(np.arange(len(track) + 1))
    about = {
        "streams": track.streams,
        "recipe": track.recipe,
        "duration": track.duration,
        "absent": track.absent,
        "warning": cached.warning,
    }
    arrays = {"values": np.ascontiguousarray(track.values), "edges": edges}
    with tensor_path(path) as temporary:
        save_file(arrays, temporary, metadata={"densevid": json.dumps(about)})


def read_track(path: Path, recipe: str) -> CachedTrack | None:
    """Read it back; None for a file that is not such a track, or one of another recipe."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["densevid"])
            values, edges = file.get_tensor("values"), file.get_tensor("edges")
        streams = tuple((str(name), int(width)) for name, width in about["streams"])
        absent = tuple(str(name) for name in about.get("absent", ()))
        track = FeatureTrack(values, Clock.from_edges(edges), streams, about["recipe"], about["duration"], absent)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, InputError):
        return None
    return CachedTrack(track, about.get("warning")) if track.recipe == recipe else None


def default_cache() -> Cache:
    """The user's own."""
    return Cache(cache_folder(), _limit())


def content_key(path: Path) -> str | None:
    """The sha256 of a file's bytes; None where there is no file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def track_key(track: FeatureTrack) -> str:
    """The sha256 of a track's values and clock."""
    steps = range(len(track) + 1)
    about = {"streams": track.streams, "duration": track.duration, "edges": track.seconds(steps).tolist()}
    if track.absent:
        about["absent"] = track.absent
    digest = hashlib.sha256(json.dumps(about).encode())
    digest.update(track.values.dtype.str.encode() + track.values.tobytes())
    return f"sha256:{digest.hexdigest()}"


def code_key(folders: Iterable[Path]) -> str:
    """A hash of the state of source files: a changed program does not use what an older one kept."""
    statuses = {str(file): file.stat() for folder in folders for file in sorted(folder.glob("*.py"))}
    return hash_of({name: [status.st_size, status.st_mtime_ns] for name, status in statuses.items()})


def _limit() -> int:
    """The limit that the user sets, checked before any work."""
    given = os.environ.get(LIMIT_VARIABLE, "").strip()
    if given and not re.fullmatch(r"[0-9]{1,18}", given):
        raise InputError(f"{LIMIT_VARIABLE} must be a whole number of bytes, as in {DEFAULT_LIMIT}; got {given!r:.40}")
    return int(given) if given else DEFAULT_LIMIT


def _drop_oldest(folder: Path, limit: int) -> None:
    """Delete entries until all together are under the limit; half-written ones of others are left alone."""
    entries = sorted((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in folder.glob("*.safetensors"))
    excess = sum(size for _, size, _ in entries) - limit
    for _, size, entry in entries:
        if excess <= 0:
            break
        entry.unlink(missing_ok=True)
        excess -= size
