"""The folder of a training run: settings, environment, vocabulary, metrics, curves, checkpoints and model folders."""

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
from densevid.legacy import current_environment

MAY_CHANGE = {"epochs", "evaluate_every", "checkpoint_every", "features_on_device"}


@dataclass(frozen=True)
class RunFolder:
    """Paths of the files of a run, and the rules for beginning and resuming it."""

    path: Path

    @property
    def config(self) -> Path:
        """All settings."""
        return self.path / "config.toml"

    @property
    def environment(self) -> Path:
        """The command, machine and versions of each start of the run."""
        return self.path / "environment.json"

    @property
    def vocabulary(self) -> Path:
        """The vocabulary."""
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
        """Whether there is a run to go on with.

        Raises:
            InputError: The folder holds something else, or a run without `resume`.
        """
        if not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir())):
            return False
        if not self.config.exists() and resume and self._killed_at_start():
            return False
        if not self.config.exists():
            raise InputError(f"{self.path}: exists and is not the folder of a run; choose another --out")
        if not resume:
            raise InputError(f"{self.path}: holds a run already; go on with --resume or choose another --out")
        return True

    def _killed_at_start(self) -> bool:
        """Whether there is only what is written before the settings, or a part of it."""
        first = (self.vocabulary.name, self.environment.name, self.config.name)
        partial = tuple(f".{name}." for name in first)  # the temporary names of `io.atomic_path`
        return self.path.is_dir() and all(
            file.name in first or file.name.startswith(partial) for file in self.path.iterdir()
        )

    def begin(self, config: Config, vocabulary: Vocabulary, inputs: list[Path], **facts: Any) -> None:
        """Write what is known before the first step; the settings last, for they mark a run as begun."""
        vocabulary.save(self.vocabulary)
        self._add_start([], config, inputs, **facts)
        config.save(self.config)

    def go_on(self, config: Config, inputs: list[Path], **facts: Any) -> None:
        """Write the settings that may change, and how the run was started this time."""
        self._add_start(self.starts(), config, inputs, **facts)
        config.save(self.config)

    def starts(self) -> list[dict[str, Any]]:
        """The environment of every start of the run so far."""
        known = read_json(self.environment) if self.environment.exists() else {}
        if not isinstance(known, dict):
            raise InputError(f"{self.environment}: expected an object; move it away to go on")
        return list(current_environment(known).get("starts", []))

    def _add_start(self, before: list[dict[str, Any]], config: Config, inputs: list[Path], **facts: Any) -> None:
        block = provenance(config_hash=config.hash, inputs=inputs)
        write_json(self.environment, {"starts": [*before, {**environment(), **facts, "provenance": block}]})

    def require_same(self, config: Config) -> None:
        """Raise InputError if settings differ from those the run began with, but for a few that do not matter."""
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
    """Whether a resumed run may have another value; more epochs would stretch a cosine, so there they may not."""
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
