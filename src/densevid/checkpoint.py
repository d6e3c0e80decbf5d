"""A model is a folder: weights.safetensors, config.toml, vocabulary.txt, features.toml, with a format version.

A folder made today loads tomorrow: `FORMAT` rises when the meaning of a file changes, and readers of old formats stay.
"""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from densevid.artifacts import toml_text
from densevid.config import Config
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import FeatureRecipe

FORMAT = 1
WEIGHTS, CONFIG, VOCABULARY, FEATURES = "weights.safetensors", "config.toml", "vocabulary.txt", "features.toml"


@dataclass(frozen=True)
class LoadedModel:
    """A network with everything needed to use it."""

    model: MaskedTransformer
    config: Config
    vocabulary: Vocabulary
    recipe: FeatureRecipe | None


def save_model(folder: Path | str, loaded: LoadedModel, provenance: Mapping[str, Any]) -> None:
    """Write a model folder whole or not at all; an older model of that name is replaced at the last moment."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / WEIGHTS).exists():
        raise InputError(f"{folder} exists and is not a model folder; choose another --out")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    try:
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in loaded.model.state_dict().items()}
        save_file(weights, temporary / WEIGHTS, metadata={"format": str(FORMAT)})
        settings = {"format": {"version": FORMAT}, **loaded.config.as_dict(), "provenance": provenance}
        (temporary / CONFIG).write_text(toml_text(settings), encoding="utf-8")
        loaded.vocabulary.save(temporary / VOCABULARY)
        if loaded.recipe is not None:
            (temporary / FEATURES).write_text(toml_text(loaded.recipe.table), encoding="utf-8")
        temporary.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_model(folder: Path | str) -> LoadedModel:
    """Read a model folder; what is missing or does not fit together is said in one line."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder")
    for name in (WEIGHTS, CONFIG, VOCABULARY):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: not a model folder, {name} is missing")
    config = _read_config(folder / CONFIG)
    recipe = FeatureRecipe(_read_toml(folder / FEATURES)) if (folder / FEATURES).exists() else None
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    model = MaskedTransformer(config, len(vocabulary))
    try:
        weights = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{folder / WEIGHTS}: not a readable safetensors file ({error})") from error
    load_weights(model, weights, where=str(folder / WEIGHTS))
    return LoadedModel(model, config, vocabulary, recipe)


def load_weights(model: MaskedTransformer, weights: Mapping[str, Any], *, where: str) -> None:
    """Copy weights into the network, or list every key that is missing, unknown or of another shape."""
    wanted = model.state_dict()
    problems = [f"missing {name}" for name in sorted(wanted.keys() - weights.keys())]
    problems += [f"unknown {name}" for name in sorted(weights.keys() - wanted.keys())]
    problems += [
        f"{name} is {tuple(weights[name].shape)}, the settings want {tuple(wanted[name].shape)}"
        for name in sorted(wanted.keys() & weights.keys())
        if weights[name].shape != wanted[name].shape
    ]
    if problems:
        more = f" and {len(problems) - 12} more" if len(problems) > 12 else ""
        raise InputError(f"{where}: the weights do not fit the settings: {'; '.join(problems[:12])}{more}")
    model.load_state_dict(weights)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not a readable TOML file ({error})") from error


def _read_config(path: Path) -> Config:
    content = _read_toml(path)
    version = content.pop("format", {}).get("version")
    content.pop("provenance", None)
    if version != FORMAT:
        raise InputError(
            f"{path}: model format {version}; this densevid reads format {FORMAT}, a newer one may read it"
        )
    return Config().with_values(content, where=f"{path}: ")
