"""A recipe becomes the extractor that follows it: how a model's own kind of features is made from a new video."""

from __future__ import annotations

from typing import Any

from densevid.errors import InputError
from densevid.tracks import FeatureRecipe
from densevid.video.backbones import Backbone, find_backbone
from densevid.video.engines import Device
from densevid.video.extract import Extractor
from densevid.video.reduction import FILE, Reduction, reduced


def extractor_of(
    recipe: FeatureRecipe, reduction: Reduction | None = None, *, device: Device = "auto", threads: int | None = None
) -> Extractor:
    """The extractor whose tracks have exactly this recipe, or one line that says what is in the way."""
    sampling: Any = recipe.table.get("sampling")
    if not isinstance(sampling, dict) or not isinstance(sampling.get("seconds_per_step"), float | int):
        raise InputError(
            f"the model reads features ({recipe.name}) that are not made from a video here; give it a feature store"
        )
    backbone = _with_reduction(find_backbone(recipe.name), recipe, reduction)
    extractor = Extractor(backbone, float(sampling["seconds_per_step"]), device=device, threads=threads)
    if extractor.recipe.id != recipe.id:
        keys = ", ".join(recipe.differences(extractor.recipe))
        raise InputError(
            f"the model was trained on features {recipe.id}, this densevid makes {extractor.recipe.id} (not the same:"
            f" {keys}); install the densevid or the weights that the model was trained with"
        )
    return extractor


def _with_reduction(backbone: Backbone, recipe: FeatureRecipe, reduction: Reduction | None) -> Backbone:
    if "reduction" not in recipe.table:
        return backbone
    if reduction is None:
        raise InputError(
            f"the model reads reduced features and has no {FILE}; copy it from the store it was trained on"
            " into the model folder"
        )
    return reduced(backbone, reduction)
