"""Real captions from the shared data beside the checkout, as sentences and as pairs to score."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[2] / ".." / "shared"
DATA = SHARED / "data"
RawPair = tuple[str, tuple[str, ...]]


@cache
def read(relative: str) -> Any:
    if not DATA.exists():
        pytest.skip("the shared data is not beside this checkout")
    return json.loads((DATA / relative).read_text(encoding="utf-8"))


def references(number: int) -> dict[str, list[str]]:
    return {video: events["sentences"] for video, events in read(f"activitynet/val_{number}.json").items()}


def predictions(name: str) -> dict[str, list[str]]:
    results = read(f"predictions/{name}.json")["results"]
    return {video: [event["sentence"] for event in events] for video, events in results.items()}


def clips(name: str) -> list[list[str]]:
    return [clip["captions"] for clip in read(f"{name}/clips.json").values()]


def recipes() -> list[list[str]]:
    database = read("youcook2/youcookii_annotations_trainval.json")["database"]
    return [[event["sentence"] for event in recipe["annotations"]] for recipe in database.values()]


def all_sentences() -> set[str]:
    train = [events["sentences"] for events in read("activitynet/train.json").values()]
    groups = [train, references(1).values(), references(2).values(), clips("msvd"), clips("msrvtt"), recipes()]
    groups += [predictions(name).values() for name in ("bmt_val_1", "bmt_val_2", "mdvc_val_1")]
    return {sentence for group in groups for sentences in group for sentence in sentences}


def raw_pairs(count: int, seed: int) -> Iterator[RawPair]:
    """Predictions against references, annotators against each other, recipes, and clips with up to 40 references."""
    choose = random.Random(seed)
    first, second, systems = references(1), references(2), [predictions("bmt_val_1"), predictions("mdvc_val_1")]
    cooking, shown = recipes(), clips("msvd") + clips("msrvtt")
    predicted = [sorted(set(system) & set(first)) for system in systems]
    seen_twice = sorted(set(first) & set(second))
    for number in range(count):
        kind = number % 8
        if kind < 4:
            video = choose.choice(predicted[kind % 2])
            yield choose.choice(systems[kind % 2][video]), (choose.choice(first[video]),)
        elif kind < 6:
            video = choose.choice(seen_twice)
            yield choose.choice(first[video]), (choose.choice(second[video]),)
        elif kind == 6:
            recipe = choose.choice(cooking)
            yield choose.choice(recipe), (choose.choice(recipe),)
        else:
            hypothesis, *others = choose.sample(captions := choose.choice(shown), min(len(captions), 41))
            yield hypothesis, tuple(others[: choose.randint(1, 40)])
