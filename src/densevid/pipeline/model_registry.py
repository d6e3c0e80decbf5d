"""Models by name: those inside the package, and those in the folders that DENSEVID_MODELS names.

A model folder (see `checkpoint`) may also hold `scores.json`, {"what was scored": {"metric": number}}, and a model
card, `README.md`, with a line `Licence: ...`. Reading these needs neither torch nor numpy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from densevid.errors import InputError
from densevid.io import read_json

VARIABLE = "DENSEVID_MODELS"
MARK = "config.toml"  # what makes a folder a model
SCORES, CARD, DEFAULT = "scores.json", "README.md", "DEFAULT"
RUN_FOLDERS = ("model", "model-last")  # what `densevid train` calls the models of a run
HOW_TO_GET_ONE = "give one with --model DIR (densevid train makes one)"


@dataclass(frozen=True)
class InstalledModel:
    """A model that can be called by its name."""

    name: str
    folder: Path

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Its measured scores; empty where there is no `scores.json`."""
        if not (self.folder / SCORES).is_file():
            return {}
        content = read_json(self.folder / SCORES)
        rows = content.items() if isinstance(content, dict) else ()
        return {title: numbers for title, row in rows if isinstance(row, dict) and (numbers := _numbers(row))}

    @property
    def licence(self) -> str | None:
        """The licence in its model card."""
        try:
            lines = (self.folder / CARD).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return None
        pairs = (line.strip("*_- ").partition(":") for line in lines)
        return next((text.strip("* ") for word, colon, text in pairs if colon and _means_licence(word)), None)


def installed_models() -> list[InstalledModel]:
    """All models, the one that is used by default first; of two with one name the first found counts."""
    found: dict[str, InstalledModel] = {}
    for place in model_places():
        for model in _models_in(place):
            found.setdefault(model.name, model)
    preferred = {name: rank for rank, name in enumerate(_defaults())}
    return sorted(found.values(), key=lambda model: (preferred.get(model.name, len(preferred)), model.name))


def find_model(name: str | Path | None = None) -> InstalledModel:
    """The default model, one by its name, or one by its folder; a folder that is no model hides no installed one."""
    models = installed_models()
    if name is None:
        if not models:
            raise InputError(f"no model is installed with this densevid; {HOW_TO_GET_ONE}")
        return models[0]
    by_name = next((model for model in models if model.name == str(name)), None)
    if by_name is not None and not _is_model(Path(name)):
        return by_name
    if Path(name).is_dir():
        return InstalledModel(_name_of(Path(name).resolve()), Path(name))
    known = f"installed are {', '.join(model.name for model in models)}" if models else "none is installed"
    raise InputError(f"{name}: neither a model folder nor an installed model; {known}; see `densevid models`")


def model_places() -> list[Path]:
    """Where models are looked for: the user's own folders, then the package."""
    own = [Path(place).expanduser() for place in os.environ.get(VARIABLE, "").split(os.pathsep) if place]
    return [*own, Path(str(files("densevid"))) / "pretrained"]


def missing_places() -> list[Path]:
    """Folders that the user names and that hold no model."""
    return [place for place in model_places()[:-1] if not _models_in(place)]


def _models_in(place: Path) -> list[InstalledModel]:
    """The models in a folder; a folder that is a model itself is the only one."""
    if _is_model(place):
        return [InstalledModel(_name_of(place.resolve()), place)]
    try:
        return [InstalledModel(folder.name, folder) for folder in sorted(place.iterdir()) if _is_model(folder)]
    except OSError:
        return []


def _is_model(folder: Path) -> bool:
    try:
        return (folder / MARK).is_file()
    except OSError:
        return False


def _name_of(folder: Path) -> str:
    """What a model folder is called: the models of a run all have one name, so the run's own comes first."""
    if folder.name not in RUN_FOLDERS or not folder.parent.name:
        return folder.name
    return folder.parent.name if folder.name == RUN_FOLDERS[0] else f"{folder.parent.name}/{folder.name}"


def _defaults() -> Iterator[str]:
    """The names of the default models, one per folder of models."""
    for place in model_places():
        try:
            yield (place / DEFAULT).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue


def _numbers(row: dict[Any, Any]) -> dict[str, float]:
    return {str(key): float(v) for key, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def _means_licence(word: str) -> bool:
    return word.strip("*_ ").lower() in {"licence", "license"}
