"""A model that a table needs: a row's settings with a seed, where its run lies, and whether it is trained.

It is known by the hash of those of its settings that are not the default ones (inference aside), its data and what it
started from: rows and tables that need the same model share it, a changed setting is another model, and a version that
brings more settings finds it again.
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
GRADIENT_FORMAT = 2  # 2: words count as they do in training, with clips beside the batch


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
        """For people."""
        return f"{self.row.name}, seed {self.seed}"

    @property
    def model(self) -> Path:
        """The model folder to predict with."""
        return RunFolder(self.folder).model

    @property
    def trained(self) -> dict[str, Any] | None:
        """What is known of the finished training, if it is finished and noted in full."""
        return known_facts(self.folder / TRAINED, seconds=NUMBER, steps=int, device=str, parallel=int)

    @property
    def gradient(self) -> Path:
        """Where the size of the caption's gradient is noted."""
        return self.folder / "gradient.json"

    @property
    def measured_gradient(self) -> dict[str, Any] | None:
        """What is noted of it, if it was measured as it is now."""
        known = known_facts(self.gradient, caption_share=NUMBER, format=int)
        return known if known is not None and known["format"] == GRADIENT_FORMAT else None

    @property
    def speed(self) -> Path:
        """Where the time of a training step by itself is noted."""
        return self.folder / "speed.json"

    @property
    def measured_speed(self) -> dict[str, Any] | None:
        """What is noted of it, if it was measured."""
        return known_facts(self.speed, videos_per_second=NUMBER, seconds_per_step=NUMBER)


@dataclass(frozen=True)
class Runs:
    """Where runs lie and what they are made of."""

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
        """Every model once, those that others start from first, seed after seed: a sitting cut short has all rows."""
        found: dict[Path, ModelRun] = {}
        for name, seed in wanted:
            run = self.of(name, seed)
            for each in (run.start_from, run):
                if each is not None and self.data.unavailable(each.row) is None:
                    found.setdefault(each.folder, each)
        return sorted(found.values(), key=lambda run: (run.start_from is not None, run.seed))
