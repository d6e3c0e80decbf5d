"""Reading and writing model folders: `load_model` and `save_model`.

A model folder holds weights.safetensors, config.toml, vocabulary.txt and features.toml (where its features come from).
Some files are optional: reduction.safetensors, for a model that reads reduced features, so that it can be used on any
video file; and what is fitted after training, calibration.toml (scores to confidence), sentence_confidence.toml
(`inference/sentence_confidence.py`), word_prior.safetensors and actionness.safetensors (`model/priors.py`).

A folder made today loads tomorrow: `FORMAT` rises when the meaning of a file changes, and readers of old formats stay.
Names of files that 0.1 wrote are in `legacy.py`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from densevid.config import Config
from densevid.data.vocabulary import INIT, UNKNOWN, Vocabulary
from densevid.errors import InputError
from densevid.io import require_writable, tensor_path, toml_text
from densevid.legacy import RENAMED_FILES, current_calibration, present_file
from densevid.model.caption_decoder import MOST_TAG_WORDS
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.priors import Actionness, WordPrior
from densevid.model.tags import Classes
from densevid.tracks import FeatureRecipe

if TYPE_CHECKING:
    from densevid.video.reduction import Reduction

FORMAT = 1
WEIGHTS, CONFIG, VOCABULARY, FEATURES = "weights.safetensors", "config.toml", "vocabulary.txt", "features.toml"
CALIBRATION, REDUCTION = "calibration.toml", "reduction.safetensors"
WORD_PRIOR, ACTIONNESS = "word_prior.safetensors", "actionness.safetensors"
SENTENCE_CONFIDENCE = "sentence_confidence.toml"
FILES = (WEIGHTS, CONFIG, VOCABULARY, FEATURES, CALIBRATION, SENTENCE_CONFIDENCE, REDUCTION, WORD_PRIOR, ACTIONNESS)


@dataclass(frozen=True)
class LoadedModel:
    """A network with everything needed to use it: the content of a model folder."""

    model: MaskedTransformer
    config: Config
    vocabulary: Vocabulary
    recipe: FeatureRecipe | None
    calibration: Mapping[str, Any] | None = None
    reduction: Reduction | None = None
    word_prior: WordPrior | None = None
    actionness: Actionness | None = None
    sentence_confidence: Mapping[str, Any] | None = None

    def word_prior_on(self, device: torch.device) -> WordPrior | None:
        """The word prior on a device, if the model has one."""
        return None if self.word_prior is None else self.word_prior.to(device)


def require_replaceable(folder: Path | str) -> None:
    """Raise `InputError` unless a model may be written to `folder`: nothing is there, or only an older model."""
    folder = Path(folder)
    if not folder.exists():
        require_writable(folder)
        return
    if not folder.is_dir():
        raise InputError(f"cannot write the model folder {folder}: it is a file; choose another name")
    foreign = sorted(
        item.name for item in folder.iterdir() if item.name not in (*FILES, *RENAMED_FILES.values()) or item.is_dir()
    )
    if foreign:
        raise InputError(f"{folder} holds more than a model ({foreign[0]}) and is not replaced; choose another name")


def model_files(folder: Path | str) -> list[Path]:
    """The files of a model folder that exist: what a provenance block hashes."""
    return [path for name in FILES if (path := present_file(Path(folder), name)).is_file()]


def save_model(
    folder: Path | str, loaded: LoadedModel, provenance: Mapping[str, Any], *, half_precision: bool = False
) -> None:
    """Write a model folder whole or not at all; an older model of that name is replaced at the last moment.

    Args:
        folder: Where to write it.
        loaded: The model.
        provenance: Goes into config.toml and the weights' metadata.
        half_precision: Halve the weights' file; they are read back as single precision, rounded.

    Raises:
        InputError: The folder holds something else, cannot be written to, or a number does not fit half precision.
    """
    require_replaceable(folder)
    folder = Path(folder).resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        workspace = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from error
    try:
        fresh = workspace / "new"
        fresh.mkdir()
        _write_files(fresh, loaded, provenance, torch.float16 if half_precision else None)
        if folder.exists():
            folder.rename(workspace / "old")
        fresh.rename(folder)
    finally:
        if (workspace / "old").exists() and not folder.exists():
            (workspace / "old").rename(folder)
        shutil.rmtree(workspace, ignore_errors=True)


def _write_files(
    folder: Path, loaded: LoadedModel, provenance: Mapping[str, Any], precision: torch.dtype | None
) -> None:
    weights = {name: _stored(name, tensor, precision) for name, tensor in loaded.model.state_dict().items()}
    about = {"format": FORMAT, "provenance": provenance}  # under one key: safetensors keeps no order, so no same bytes
    with tensor_path(folder / WEIGHTS) as temporary:  # safetensors makes a file that nobody else may read
        save_file(weights, temporary, metadata={"densevid": json.dumps(about)})
    settings = {"format": {"version": FORMAT}, **loaded.config.as_dict(), "provenance": provenance}
    (folder / CONFIG).write_text(toml_text(settings), encoding="utf-8")
    loaded.vocabulary.save(folder / VOCABULARY)
    if loaded.recipe is not None:
        (folder / FEATURES).write_text(toml_text(loaded.recipe.table), encoding="utf-8")
    if loaded.calibration is not None:
        (folder / CALIBRATION).write_text(toml_text(loaded.calibration), encoding="utf-8")
    if loaded.sentence_confidence is not None:
        (folder / SENTENCE_CONFIDENCE).write_text(toml_text(loaded.sentence_confidence), encoding="utf-8")
    if loaded.reduction is not None:
        loaded.reduction.save(folder / REDUCTION)
    if loaded.word_prior is not None:
        loaded.word_prior.save(folder / WORD_PRIOR, half_precision=precision == torch.float16)
    if loaded.actionness is not None:
        loaded.actionness.save(folder / ACTIONNESS)


def _stored(name: str, tensor: Tensor, precision: torch.dtype | None) -> Tensor:
    """A weight as it is written; one that is too large for the precision is an error, not infinity."""
    tensor = tensor.detach().cpu().contiguous()
    if precision is None or not tensor.is_floating_point():
        return tensor
    if not torch.isfinite(narrow := tensor.to(precision)).all():
        raise InputError(f"{name} holds {tensor.abs().max():.3g}, more than {precision} can; keep single precision")
    return narrow


def load_model(folder: Path | str, *, device: str | torch.device = "cpu", fitted: bool = True) -> LoadedModel:
    """Read a model folder.

    Args:
        folder: The model folder.
        device: Where to put the network.
        fitted: Whether to read the priors; not needed by what fits them anew.

    Returns:
        The model.

    Raises:
        InputError: A file is missing, damaged or does not fit the others; the message is one line.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder")
    for name in (WEIGHTS, CONFIG, VOCABULARY):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: not a model folder, {name} is missing")
    config = _read_config(folder / CONFIG)
    recipe = _read_recipe(folder / FEATURES) if (folder / FEATURES).exists() else None
    calibration = _read_calibration(folder / CALIBRATION)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    model = MaskedTransformer(config, len(vocabulary))
    try:
        weights = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{folder / WEIGHTS}: not a readable safetensors file ({error})") from error
    load_weights(model, weights, where=str(folder / WEIGHTS))
    set_classes(model, config, vocabulary)
    reduction = _read_reduction(folder / REDUCTION, recipe)
    word_prior = _read_word_prior(present_file(folder, WORD_PRIOR), config, vocabulary) if fitted else None
    actionness = _read_actionness(present_file(folder, ACTIONNESS), config) if fitted else None
    sentences = _read_toml(folder / SENTENCE_CONFIDENCE) if (folder / SENTENCE_CONFIDENCE).exists() and fitted else None
    network = model.to(torch.device(device))
    return LoadedModel(network, config, vocabulary, recipe, calibration, reduction, word_prior, actionness, sentences)


def set_classes(model: MaskedTransformer, config: Config, vocabulary: Vocabulary) -> None:
    """Give a model with tags the classes of its streams, as far as their classifiers are there (`video/labels.py`)."""
    if model.tagger is None:
        return
    from densevid.video import labels

    classes: list[Classes | None] = []
    for name, width in zip(config.features.streams, config.features.widths, strict=True):
        try:
            weight_FC, bias_C = map(torch.from_numpy, labels.classifier(name))
        except InputError:  # another stream, or weights that are not installed: then it has no tags
            classes.append(None)
            continue
        known = weight_FC.shape[0] == width
        words_CW = class_words(labels.class_texts(name), vocabulary)
        classes.append(Classes(weight_FC, bias_C, words_CW) if known else None)
    model.tagger.set_classes(classes)


def in_style(loaded: LoadedModel, style: str) -> LoadedModel:
    """A copy of a model whose sentences are those of another collection that it learned words from.

    Raises:
        InputError: It has no such style.
    """
    if style not in loaded.vocabulary.styles:
        known = ", ".join(loaded.vocabulary.styles) or "none"
        raise InputError(f"the model has no style {style!r} (it has: {known})")
    model = deepcopy(loaded.model)
    with torch.no_grad():
        weight_VD = model.caption_decoder.words.weight
        weight_VD[INIT] = weight_VD[loaded.vocabulary.styles[style]]
    return replace(loaded, model=model)


def class_words(texts: Sequence[str], vocabulary: Vocabulary) -> Tensor:
    """The words of class texts, C x W, filled up with -1; words outside the vocabulary are left out."""
    rows = [[word for word in vocabulary.encode(text, MOST_TAG_WORDS + 1)[1:-1] if word != UNKNOWN] for text in texts]
    longest = max(1, max(map(len, rows), default=1))
    return torch.tensor([row + [-1] * (longest - len(row)) for row in rows], dtype=torch.long).reshape(-1, longest)


def load_weights(
    model: MaskedTransformer, weights: Mapping[str, Tensor], *, where: str, called: Callable[[str], str] = str
) -> None:
    """Copy weights into the network.

    Args:
        model: The network.
        weights: Its tensors by name.
        where: Their file, for messages.
        called: Gives the name under which the user knows one of our weights.

    Raises:
        InputError: Names every weight that is missing, unknown, of another shape or not finite.
    """
    wanted = model.state_dict()
    problems = [f"missing {called(name)}" for name in sorted(wanted.keys() - weights.keys())]
    problems += [f"unknown {name}" for name in sorted(weights.keys() - wanted.keys())]
    problems += [
        f"{called(name)} is {tuple(weights[name].shape)}, the settings want {tuple(wanted[name].shape)}"
        for name in sorted(wanted.keys() & weights.keys())
        if weights[name].shape != wanted[name].shape
    ]
    if problems:
        raise InputError(f"{where}: the weights do not fit the settings: {'; '.join(problems)}")
    model.load_state_dict(weights)
    if broken := [called(name) for name, tensor in model.state_dict().items() if not _is_finite(tensor)]:
        raise InputError(f"{where}: the weights hold NaN or infinity: {', '.join(broken)}")


def _is_finite(tensor: Tensor) -> bool:
    """By numpy: torch would wake all its threads for each of hundreds of small tensors."""
    return bool(np.isfinite(tensor.cpu().numpy()).all())


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not TOML, or a number too long
        raise InputError(f"{path}: not a readable TOML file ({error})") from error


def _read_calibration(path: Path) -> dict[str, Any] | None:
    return current_calibration(_read_toml(path), str(path)) if path.exists() else None


def _read_recipe(path: Path) -> FeatureRecipe:
    try:
        return FeatureRecipe(_read_toml(path))
    except InputError as error:
        raise InputError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def _read_reduction(path: Path, recipe: FeatureRecipe | None) -> Reduction | None:
    """The reduction of a model that has one; it must be the very fit that the recipe names."""
    if recipe is None or "reduction" not in recipe.table or not path.exists():
        return None
    from densevid.video.reduction import Reduction

    reduction = Reduction.load(path)
    if reduction.table != recipe.table["reduction"]:
        raise InputError(f"{path}: another reduction than {FEATURES} of this model names; copy the right one there")
    return reduction


def _read_word_prior(path: Path, config: Config, vocabulary: Vocabulary) -> WordPrior | None:
    """That of a model that has one; it must be fitted to its features and its words."""
    if not path.exists():
        return None
    word_prior = WordPrior.load(path)
    word_prior.require_fit(sum(config.features.widths), len(vocabulary), where=path)
    return word_prior


def _read_actionness(path: Path, config: Config) -> Actionness | None:
    """That of a model that has one; it must be fitted to its features."""
    if not path.exists():
        return None
    actionness = Actionness.load(path)
    actionness.require_fit(sum(config.features.widths), where=path)
    return actionness


def _read_config(path: Path) -> Config:
    content = _read_toml(path)
    form = content.pop("format", None)
    version = form.get("version") if isinstance(form, dict) else form
    content.pop("provenance", None)
    if version is None:
        raise InputError(f"{path}: has no format version (version = {FORMAT} under [format]); is it a model's?")
    if version != FORMAT:
        raise InputError(
            f"{path}: model format {version}; this densevid reads format {FORMAT}, a newer one may read it"
        )
    return Config().with_values(content, where=f"{path}: ")
