"""`open_features`: whatever layout features are in, look at what is there and give a FeatureSource.

Files are found by listing folders, never by making a path from a video id, and arrays are read with pickling off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from densevid.data.feature_source import FeatureSource
from densevid.data.feature_store import FeatureStore
from densevid.data.hdf5_features import HDF5Features, is_hdf5
from densevid.data.npy_features import open_npy_folder
from densevid.data.step_clocks import RELEASED_SAMPLING, Formula, StepClocks, read_duration_file
from densevid.data.store_format import MANIFEST
from densevid.errors import InputError
from densevid.tracks import Clock

Durations = Path | str | Mapping[str, float | None]


def open_features(
    path: Path | str,
    *,
    durations: Durations | None = None,
    seconds_per_step: float | None = None,
    duration_formula: Formula = "activitynet",
    split: str | None = None,
    usual_seconds_per_step: float = RELEASED_SAMPLING,
) -> FeatureSource:
    """Open features: our store, the release's pairs of .npy files, one .npy a video, or an HDF5 file.

    `durations` is a `*_duration_frame.csv` (without one it is looked for beside the features), or seconds by video, as
    annotations know them. `seconds_per_step` overrules it. A store has its own clocks: a number or a file for one is an
    error. A video without a duration has the usual seconds per step in the release's layout.
    """
    if seconds_per_step is not None:
        Clock.uniform(seconds_per_step)  # an error if there is no such clock
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if (path / MANIFEST).exists():
        _require_no_clock(path, durations, seconds_per_step)
        return FeatureStore.open(path)
    clocks = _clocks(path, durations, seconds_per_step, duration_formula)
    clocks = replace(clocks, otherwise=usual_seconds_per_step)
    if path.is_dir():
        return open_npy_folder(path, clocks, split)
    if is_hdf5(path):
        return HDF5Features(path, clocks)
    raise InputError(f"{path}: neither a folder of features nor an HDF5 file")


def _require_no_clock(store: Path, durations: Durations | None, seconds_per_step: float | None) -> None:
    """What annotations say of durations is known and not asked for, so it may be given with a store."""
    asked = {"--seconds-per-step": seconds_per_step is not None, "--durations": isinstance(durations, (str, Path))}
    if any(asked.values()):
        needless = " and ".join(flag for flag, given in asked.items() if given)
        raise InputError(f"{store}: a store has its own clock; leave {needless} out")


def _clocks(path: Path, durations: Durations | None, seconds_per_step: float | None, formula: Formula) -> StepClocks:
    if isinstance(durations, Mapping):
        known = {video: seconds for video, seconds in durations.items() if seconds is not None}
        return StepClocks(seconds_per_step, formula, known)
    file = durations or (None if seconds_per_step else _duration_file_of(path))
    return StepClocks(seconds_per_step, formula, *(read_duration_file(Path(file)) if file else ()))


def _duration_file_of(path: Path) -> Path | None:
    """The one `*_duration_frame.csv` in the folder of features or beside it."""
    for folder in (path, path.parent):
        files = sorted(folder.glob("*_duration_frame.csv"))
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise InputError(f"{folder}: has several duration files ({names}); say which one")
        if files:
            return files[0]
    return None
