"""A generated clip collection in the real layout, so that timelines are tested where the real clips are absent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

SUBJECTS = ("man", "woman", "boy", "girl")
ACTIONS = (
    "slicing an onion",
    "slicing a carrot",
    "playing a guitar",
    "playing a piano",
    "riding a horse",
    "riding a bike",
)
PLACES = ("in a kitchen", "on a stage", "in the park", "near a house", "")
WIDTH = 16


def write_collection(
    folder: Path, *, clips: int = 150, seed: int = 0, splits: tuple[str, ...] = ("train", "test"), negatives: int = 0
) -> Path:
    """Clips of 6 to 24 seconds at two rows a second; each has one action in several sentences; two clips per source.

    After them `negatives` clips without captions in every split: their rows are all alike.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    topics = rng.normal(size=(len(ACTIONS), WIDTH)) * 2
    content, rows = {}, []
    for number in range(clips):
        action, length = int(rng.integers(len(ACTIONS))), int(rng.integers(12, 48))
        content[f"clip{number}"] = {
            "split": splits[number // 2 % len(splits)],
            "source": f"source{number // 2}",
            "seconds": length / 2,
            "first_row": sum(map(len, rows)),
            "rows": length,
            "captions": sentences(rng, ACTIONS[action]),
        }
        walk = np.cumsum(rng.normal(size=(length, WIDTH)) * 0.2, axis=0)
        rows.append(topics[action] + rng.normal(size=WIDTH) + walk)
    for number in range(negatives * len(splits)):
        entry = {"split": splits[number % len(splits)], "source": f"negative{number}", "seconds": 10.0, "captions": []}
        content[f"negative{number}"] = {**entry, "first_row": sum(map(len, rows)), "rows": 20}
        rows.append(np.repeat(rng.normal(size=(1, WIDTH)), 20, axis=0))
    (folder / "clips.json").write_text(json.dumps(content))
    np.save(folder / "features.npy", np.concatenate(rows).astype(np.float16))
    return folder


def sentences(rng: np.random.Generator, action: str) -> list[str]:
    """Captions of one clip, general and specific ones."""
    subject, place = SUBJECTS[int(rng.integers(4))], PLACES[int(rng.integers(5))]
    return [
        f"A person is {action}.",
        f"Someone is {action}.",
        f"The {subject} is {action}.",
        f"A {subject} {action} {place}".strip(),
        f"A {subject} in a {'red' if rng.random() < 0.5 else 'blue'} shirt is {action} {place}.".replace(" .", "."),
    ]
