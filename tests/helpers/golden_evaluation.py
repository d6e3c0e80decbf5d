"""The golden numbers of the official evaluators, and where their inputs lie."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from densevid.evaluation.files import EventFile, read_predictions, read_references

SHARED = Path(__file__).parents[2] / ".." / "shared"
FOLDER = SHARED / "golden" / "evaluation"
GOLDEN, PREDICTIONS, REFERENCES = FOLDER / "golden", FOLDER / "predictions", FOLDER / "refs"
CLOSE = 1e-9
needs_golden = pytest.mark.skipif(not FOLDER.is_dir(), reason="the golden numbers (shared folder) are not here")


@cache
def load(name: str) -> Any:
    path = GOLDEN / name
    return json.loads(gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes())


@cache
def references(name: str) -> tuple[EventFile, ...]:
    return tuple(read_references(path) for path in reference_paths(name))


def reference_paths(name: str) -> list[Path]:
    if name == "full":
        return [SHARED / "data" / "activitynet" / f"val_{number}.json" for number in (1, 2)]
    return sorted(REFERENCES.glob(f"{name}_val*.json"))


@cache
def predictions(name: str) -> EventFile:
    return read_predictions(prediction_path(name))


def prediction_path(name: str) -> Path:
    plain = PREDICTIONS / f"{name}.json"
    return plain if plain.exists() else PREDICTIONS / "single" / f"{name}.json"


def golden_files(kind: str) -> list[str]:
    """Names of golden files of a kind, such as `small_clean.e2018.refs-small.json`."""
    return sorted(path.name for path in GOLDEN.glob(f"*.{kind}*.refs-*.json")) or ["absent"]


def parts_of(name: str) -> tuple[str, str, str]:
    """(predictions, kind, references) of a golden file."""
    predicted, kind, annotated, _ = name.split(".")
    return predicted, kind, annotated.removeprefix("refs-")


def assert_close(ours: dict[str, Any], golden: dict[str, Any]) -> None:
    assert golden and set(golden) <= set(ours)
    for name, value in golden.items():
        assert ours[name] == pytest.approx(value, abs=CLOSE, rel=0), name
