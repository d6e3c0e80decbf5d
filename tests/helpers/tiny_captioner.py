"""A model folder with seeded random weights that reads a real backbone's features: its sentences mean nothing."""

from __future__ import annotations

from pathlib import Path

import torch

from densevid.checkpoint import LoadedModel, save_model
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.model.masked_transformer import MaskedTransformer
from densevid.video.backbones import find_backbone
from densevid.video.reduction import Reduction

WORDS = (
    "a",
    "<b>",
    "dog",
    "&",
    "runs",
    "-->",
    "guitar",
    "{red}",
    "park",
    "zwölf",
)  # what a page or a player could act on


def write_tiny_model(folder: Path, backbone: str = "appearance", reduction: Reduction | None = None) -> Path:
    """Every proposal is confident enough for it."""
    chosen = find_backbone(backbone)
    streams = reduction.streams if reduction else chosen.streams
    recipe = chosen.recipe(0.5)
    config = Config().with_values(
        {
            "model": {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 40, "kernels": [2, 4, 8]},
            "features": {"streams": [name for name, _ in streams], "widths": [width for _, width in streams]},
            "inference": {"score_threshold": 0.01, "suppression_iou": 0.5, "min_proposals": 0, "no_repeat": 1},
        }
    )
    torch.manual_seed(7)
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS))
    model = MaskedTransformer(config, len(vocabulary))
    with torch.no_grad():
        for parameter in model.caption_decoder.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    recipe = reduction.recipe(recipe) if reduction else recipe
    loaded = LoadedModel(model, config, vocabulary, recipe, reduction=reduction)
    save_model(folder, loaded, {"made": "for a test"})
    return folder
