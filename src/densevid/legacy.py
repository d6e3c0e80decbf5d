"""Names of densevid 0.1 that are still read: settings, verbs, and keys of checkpoints and run folders.

They are mapped here and nowhere else. What the user could write anew is reported on stderr, one line for each file or
command line it was read from.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RENAMED_KEYS = {
    "inference.agreement": "inference.mbr_weight",
    "inference.compare": "inference.similarity_space",
    "inference.expected_weight": "inference.word_prior_weight",
    "training.disguised": "training.channel_permuted",
    "training.quiet_every": "training.negatives_every",
}
REMOVED_KEYS = {"inference.summary_beside", "training.consensus", "training.evaluate_videos", "training.offset_beta"}
# Keys inside hashes that training states of 0.1 hold: with other keys a resumed run would not recognise its data.
HASHED_EVENTS, HASHED_NEGATIVES = "told", "quiet"
# Files and sources of generated no-event videos: a hash of this name decides which part of the split each belongs to.
NO_EVENT_STEM = "quiet"
RENAMED_VERBS = {"expect": "fit-priors"}
# They chose METEOR's jar, whose scores are those of our own METEOR: a keyword and a flag.
REMOVED_EVALUATION_SETTINGS = {"meteor", "--meteor"}
RENAMED_FILES = {
    "word_prior.safetensors": "expected_words.safetensors",
    "actionness.safetensors": "happening.safetensors",
}
RENAMED_TENSORS = {"usual_F": "mean_F"}
RENAMED_FEATURES = {"company": "neighbor_support", "happening": "actionness"}  # of a confidence, and its curves
REMOVED_FEATURES = {"stir"}
RENAMED_CHECKPOINT_KEYS = {"judged_by": "validation_content"}
RENAMED_ENVIRONMENT_KEYS = {"sittings": "starts"}

_reported: set[str] = set()


def current_settings(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Settings with the keys of this version; one line on stderr names the old ones that were read.

    Args:
        values: Nested settings, `{section: {key: value}}`, as a file or flags give them.
        where: What they were read from, with a colon and a space, for the line.

    Returns:
        The same settings under their present names; removed ones are left out.
    """
    current: dict[str, Any] = {}
    notes = []
    for section, entries in values.items():
        if not isinstance(entries, Mapping):
            current[section] = entries
            continue
        current[section] = kept = {}
        for key, value in entries.items():
            name = f"{section}.{key}"
            new_key = RENAMED_KEYS.get(name, name).partition(".")[2]
            if name in REMOVED_KEYS:
                notes.append(f"{name} has no effect any more")
            elif new_key != key and new_key not in entries:
                notes.append(f"{name} is now {RENAMED_KEYS[name]}")
                kept[new_key] = value
            else:
                kept[key] = value
    if notes:
        report(f"{where}{'; '.join(notes)}")
    return current


def present_file(folder: Path, name: str) -> Path:
    """The file of that name in a model folder, or the one that stood for it in 0.1, where there is only that."""
    old = folder / RENAMED_FILES.get(name, name)
    return old if old.is_file() and not (folder / name).exists() else folder / name


def current_tensor(name: str) -> str:
    """The present name of a tensor of a prior."""
    return RENAMED_TENSORS.get(name, name)


def current_calibration(table: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """A calibration with the present names of its features.

    Args:
        table: The content of a `calibration.toml`.
        where: The file, for the line on stderr.

    Returns:
        The same content, or None where it was fitted to a feature that is gone: scores serve as confidence then, and
        one line says what to do.
    """
    current: dict[str, Any] = {}
    for section, curve in table.items():
        names = curve.get("names") if isinstance(curve, Mapping) else None
        if isinstance(names, list) and REMOVED_FEATURES.intersection(map(str, names)):
            report(f"{where}: fitted to a feature that is gone; scores serve until densevid calibrate refits it")
            return None
        if isinstance(names, list):
            curve = {**curve, "names": [RENAMED_FEATURES.get(str(name), name) for name in names]}
        current[RENAMED_FEATURES.get(section, section)] = curve
    return current


def current_evaluation_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an evaluation without those that are gone; reports them on one line."""
    if gone := REMOVED_EVALUATION_SETTINGS.intersection(values):
        report(f"{', '.join(sorted(gone))} has no effect any more: METEOR runs without Java and gives the same scores")
    return {name: value for name, value in values.items() if name not in gone}


def current_verb(verb: str) -> str:
    """The present name of a renamed verb; reports it on one line."""
    report(f"`densevid {verb}` is now `densevid {RENAMED_VERBS[verb]}`")
    return RENAMED_VERBS[verb]


def current_checkpoint(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of a training checkpoint under their present names."""
    return {RENAMED_CHECKPOINT_KEYS.get(key, key): value for key, value in saved.items()}


def current_environment(known: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run's environment.json under its present names; at first it held the only start itself."""
    current = {RENAMED_ENVIRONMENT_KEYS.get(key, key): value for key, value in known.items()}
    return current if "starts" in current or not current else {"starts": [current]}


def report(line: str) -> None:
    """Print a line on stderr, once for each command, and of several ranks by the first alone."""
    if line not in _reported and os.environ.get("RANK", "0") == "0":
        print(f"densevid: {line}", file=sys.stderr)
    _reported.add(line)


def forget_reports() -> None:
    """Start anew, for another command in this process."""
    _reported.clear()
