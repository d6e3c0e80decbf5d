"""Names of 0.1 that are read on: keys of settings and verbs of the command line, mapped here and nowhere else."""

from __future__ import annotations

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
REMOVED_KEYS = {"training.consensus"}
# Keys inside hashes that training states of 0.1 hold: with other keys a resumed run would not recognise its data.
HASHED_EVENTS, HASHED_NEGATIVES = "told", "quiet"
# Files and sources of generated no-event videos: a hash of this name decides which part of the split each belongs to.
NO_EVENT_STEM = "quiet"
RENAMED_VERBS = {"expect": "fit-priors"}
RENAMED_FILES = {
    "word_prior.safetensors": "expected_words.safetensors",
    "actionness.safetensors": "happening.safetensors",
}
RENAMED_TENSORS = {"usual_F": "mean_F"}


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
            if name in REMOVED_KEYS:
                notes.append(f"{name} has no effect any more")
            elif name in RENAMED_KEYS and RENAMED_KEYS[name].partition(".")[2] not in entries:
                notes.append(f"{name} is called {RENAMED_KEYS[name]} now")
                kept[RENAMED_KEYS[name].partition(".")[2]] = value
            else:
                kept[key] = value
    if notes:
        print(f"densevid: {where}{'; '.join(notes)}", file=sys.stderr)
    return current


def present_file(folder: Path, name: str) -> Path:
    """The file of that name in a model folder, or the one that stood for it in 0.1, where there is only that."""
    old = folder / RENAMED_FILES.get(name, name)
    return old if old.is_file() and not (folder / name).exists() else folder / name


def current_tensor(name: str) -> str:
    """The present name of a tensor of a prior."""
    return RENAMED_TENSORS.get(name, name)
