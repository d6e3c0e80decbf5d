"""The models that tables need: a row's settings with a seed, the folder of its run, and what is known of it.

A model is identified by the hash of its settings that are not the defaults (inference aside), its data and what it
started from. So rows and tables that need the same model share it, a changed setting is another model, and a version
with more settings finds it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from densevid.config import Config
from densevid.io import hash_of
from densevid.training.run_folder import RunFolder
from research.paper_tables.definitions import Circumstances, Row, resolved, rows
from research.paper_tables.fact_files import NUMBER, known_facts
from research.paper_tables.prepared_data import PreparedData

TRAINED = "trained.json"
GRADIENT_FORMAT = 2  # 2: the caption loss as in training, with clips beside the batch


@dataclass(frozen=True)
class ModelRun:
    """One model to train."""

    row: Row
    seed: int
    config: Config
    hash: str
    folder: Path
    start_from: ModelRun | None = None

    @property
    def name(self) -> str:
        """Row and seed, for messages."""
        return f"{self.row.name}, seed {self.seed}"

    @property
    def model(self) -> Path:
        """The model folder to predict with."""
        return RunFolder(self.folder).model

    @property
    def trained(self) -> dict[str, Any] | None:
        """The record of the finished training; None where it is not finished."""
        return known_facts(self.folder / TRAINED, seconds=NUMBER, steps=int, device=str, parallel=int)

    @property
    def gradient(self) -> Path:
        """The file of the caption gradient."""
        return self.folder / "gradient.json"

    @property
    def measured_gradient(self) -> dict[str, Any] | None:
        """The measured caption gradient; None where it is missing or was measured in an older way."""
        known = known_facts(self.gradient, caption_share=NUMBER, format=int)
        return known if known is not None and known["format"] == GRADIENT_FORMAT else None

    @property
    def speed(self) -> Path:
        """The file of the speed of training steps."""
        return self.folder / "speed.json"

    @property
    def measured_speed(self) -> dict[str, Any] | None:
        """The measured speed; None where it is missing."""
        return known_facts(self.speed, videos_per_second=NUMBER, seconds_per_step=NUMBER)


@dataclass(frozen=True)
class Runs:
    """All models of a data set, and their folders."""

    data: PreparedData
    out: Path
    quick: bool = False
    flags: tuple[str, ...] = ()

    @cached_property
    def _configs(self) -> dict[str, Config]:
        given = Circumstances(self.data.dataset, self.data.streams, self.quick, self.flags)
        return {name: resolved(row, given) for name, row in rows().items()}

    def config(self, row: str) -> Config:
        """The settings of a row, inference included."""
        return self._configs[row]

    def of(self, name: str, seed: int) -> ModelRun:
        """The model of a row with a seed."""
        row = rows()[rows()[name].model_of or name]
        base = self.of(row.start_from, seed) if row.start_from else None
        config = self.config(row.name)
        identity = {key: value for key, value in config.chosen().items() if key != "inference"}
        facts = {"data": self.data.digest, "from": base.hash if base else None, "fixed": row.fixed_set}
        digest = hash_of({**identity, **facts})
        folder = self.out / "models" / f"{row.name}-{digest[:8]}" / f"seed-{seed}"
        seeded = replace(config, training=replace(config.training, seed=seed))
        return ModelRun(row, seed, seeded, digest, folder, base)

    def needed(self, wanted: Iterable[tuple[str, int]]) -> list[ModelRun]:
        """Every model once, those that others start from first, then by seed, so that a run cut short has all rows."""
        found: dict[Path, ModelRun] = {}
        for name, seed in wanted:
            run = self.of(name, seed)
            for each in (run.start_from, run):
                if each is not None and self.data.unavailable(each.row) is None:
                    found.setdefault(each.folder, each)
        return sorted(found.values(), key=lambda run: (run.start_from is not None, run.seed))
