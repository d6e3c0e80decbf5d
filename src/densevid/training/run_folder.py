"""The folder of a run: settings, environment, vocabulary, metrics, curves, checkpoints and model folders."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from densevid.config import Config, load_config
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.io import provenance, read_json, write_json

MAY_CHANGE = {"epochs", "evaluate_every", "evaluate_videos", "checkpoint_every", "features_on_device"}


@dataclass(frozen=True)
class RunFolder:
    """Where everything of a run lies."""

    path: Path

    @property
    def config(self) -> Path:
        """The settings, all of them."""
        return self.path / "config.toml"

    @property
    def environment(self) -> Path:
        """How and on what it was started, each time."""
        return self.path / "environment.json"

    @property
    def vocabulary(self) -> Path:
        """The words."""
        return self.path / "vocabulary.txt"

    @property
    def metrics(self) -> Path:
        """The table of losses and scores."""
        return self.path / "metrics.csv"

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.path / "checkpoints" / "last.safetensors"

    @property
    def best(self) -> Path:
        """The best checkpoint."""
        return self.path / "checkpoints" / "best.safetensors"

    @property
    def model(self) -> Path:
        """The best model, as a model folder."""
        return self.path / "model"

    @property
    def last_model(self) -> Path:
        """The newest model, as a model folder."""
        return self.path / "model-last"

    def begun(self, *, resume: bool) -> bool:
        """Whether there is a run to go on with; an error if there is something and nobody said to resume it."""
        if not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir())):
            return False
        if not self.config.exists() and resume and self._hardly_begun():
            return False
        if not self.config.exists():
            raise InputError(f"{self.path}: exists and is not the folder of a run; choose another --out")
        if not resume:
            raise InputError(f"{self.path}: holds a run already; go on with --resume or choose another --out")
        return True

    def _hardly_begun(self) -> bool:
        """Whether there is only what is written before the settings, or a part of it: the run was killed right then."""
        first = (self.vocabulary.name, self.environment.name, self.config.name)
        begun = tuple(f".{name}." for name in first)  # as a file is called until it is whole
        return self.path.is_dir() and all(
            file.name in first or file.name.startswith(begun) for file in self.path.iterdir()
        )

    def begin(self, config: Config, vocabulary: Vocabulary, inputs: list[Path], **facts: Any) -> None:
        """Write what is known before the first step; the settings last, for they mark a run as begun."""
        vocabulary.save(self.vocabulary)
        self._add_sitting([], config, inputs, **facts)
        config.save(self.config)

    def go_on(self, config: Config, inputs: list[Path], **facts: Any) -> None:
        """Write what has changed since the run was begun: the settings that may, and how it was started this time."""
        self._add_sitting(self.sittings(), config, inputs, **facts)
        config.save(self.config)

    def sittings(self) -> list[dict[str, Any]]:
        """Every start of the run so far; an older file knows the first alone."""
        known = read_json(self.environment) if self.environment.exists() else {}
        if not isinstance(known, dict):
            raise InputError(f"{self.environment}: expected an object; move it away to go on")
        return list(known.get("sittings", [known] if known else []))

    def _add_sitting(self, before: list[dict[str, Any]], config: Config, inputs: list[Path], **facts: Any) -> None:
        block = provenance(config_hash=config.hash, inputs=inputs)
        write_json(self.environment, {"sittings": [*before, {**environment(), **facts, "provenance": block}]})

    def require_same(self, config: Config) -> None:
        """A run goes on with the settings it began with, but for a few that do not change what is learnt."""
        old, new = load_config(self.config).as_dict(), config.as_dict()
        changed = [
            f"{section}.{key} ({old[section][key]} -> {value})"
            for section, entries in new.items()
            for key, value in entries.items()
            if old[section][key] != value and not _may_change(section, key, new)
        ]
        if changed:
            raise InputError(f"{self.path}: the run began with other settings: {', '.join(changed)}")


def _may_change(section: str, key: str, settings: Mapping[str, Mapping[str, Any]]) -> bool:
    """More epochs would stretch a cosine, so there they may not."""
    stretches = key == "epochs" and settings["training"]["schedule"] == "cosine"
    return section == "inference" or (section == "training" and key in MAY_CHANGE and not stretches)


def environment() -> dict[str, Any]:
    """The machine and the versions a run was made with."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "gpus": gpus,
        "ranks": int(os.environ.get("WORLD_SIZE", "1")),
    }
