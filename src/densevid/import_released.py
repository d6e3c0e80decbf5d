"""The authors' released weights (a bare state_dict) become a densevid model folder."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel, load_weights
from densevid.config import Config, load_config
from densevid.data.vocabulary import Vocabulary, read_word_list
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import FeatureRecipe

RELEASED_INFERENCE = {
    "score_threshold": 0.7,
    "min_before_suppression": 200,
    "suppression_iou": 0.9,
    "min_proposals": 50,
    "max_proposals": 500,
    "max_words": 20,
}

PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "output"}
HEAD_PARTS = {
    "0": "input_norm",
    "1": "depthwise",
    "2": "depthwise_norm",
    "3": "pointwise",
    "4": "pointwise_norm",
    "6": "output_norm",
    "7": "output",
}

# Applied in order to every key of the release.
RENAMED: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"^rgb_emb\.", "input_embedding.streams.0."),
    (r"^flow_emb\.", "input_embedding.streams.1."),
    (r"^vis_emb\.encoder\.", "encoder."),
    (r"^prop_out\.(\d+)\.([0-46-7])\.", lambda found: f"proposal_decoder.heads.{found[1]}.{HEAD_PARTS[found[2]]}."),
    (r"^mask_model\.", "masking.perceptron."),
    (r"^cap_model\.decoder\.out\.", "caption_decoder.words."),
    (r"^cap_model\.decoder\.", "caption_decoder."),
    (r"^(caption_decoder\.layers\.\d+)\.selfattn\.", r"\1.self_attention."),
    (r"^(caption_decoder\.layers\.\d+)\.attention\.", r"\1.cross_attention."),
    (r"^(encoder\.layers\.\d+)\.selfattn\.", r"\1.attention."),
    (r"\.feedforward\.", ".feed_forward."),
    (r"\.layernorm\.gamma$", "_norm.norm.weight"),
    (r"\.layernorm\.beta$", "_norm.norm.bias"),
    (r"\.layer\.w([qkvo])\.weight$", lambda found: f".{PROJECTIONS[found[1]]}.weight"),
    (r"\.layer\.linear1\.", ".expand."),
    (r"\.layer\.linear2\.", ".contract."),
]


def import_released(weights: Path | str, words: Path | str, preset: str, settings: Iterable[str] = ()) -> LoadedModel:
    """Read the release's weights and word list; the settings are the preset's, then the release's, then `settings`."""
    state = read_state_dict(weights)
    vocabulary = read_word_list(words)
    config = load_config(preset).with_values({"model": {"compat": "released"}, "inference": RELEASED_INFERENCE})
    config = config.with_settings(settings)
    widths = [state[name].shape[1] for name in ("rgb_emb.weight", "flow_emb.weight") if name in state]
    if len(widths) == 2:
        config = config.with_values({"features": {"streams": ["resnet", "bn"], "widths": widths}})
    _check_sizes(state, config, vocabulary, where=str(weights))
    model = MaskedTransformer(config, len(vocabulary))
    load_weights(model, renamed(state, config), where=str(weights))
    return LoadedModel(model, config, vocabulary, released_recipe(config))


def read_state_dict(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a `.t7` or `.pth` file, without running anything that is in it."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise InputError(f"{path}: not a state_dict that can be read safely ({type(error).__name__})") from error
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not content or not all(isinstance(v, Tensor) for v in content.values()):
        raise InputError(f"{path}: expected a state_dict, a mapping from names to tensors")
    return {re.sub(r"^module\.", "", str(name)): tensor for name, tensor in content.items()}


def renamed(state: Mapping[str, Tensor], config: Config) -> dict[str, Tensor]:
    """The release's tensors under our names; the encoder stands there twice, and an unused mask network may, too."""
    result = {}
    for name, tensor in state.items():
        twin = name.replace("cap_model.encoder.", "vis_emb.encoder.")
        if twin != name:
            if twin in state and not torch.equal(state[twin], tensor):
                raise InputError(f"{name} differs from {twin}; the release shares one encoder between the two")
            name = twin
        if config.model.mask == "discrete" and name.startswith("mask_model."):
            continue
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        result[name] = tensor
    return result


def released_recipe(config: Config) -> FeatureRecipe:
    """Where the release's features come from, as far as is known; they carry no fingerprint to compare."""
    return FeatureRecipe(
        {
            "name": "released-two-stream",
            "streams": list(config.features.streams),
            "widths": list(config.features.widths),
            "seconds_per_step": config.features.seconds_per_step,
            "appearance": "ResNet-200, Flatten-673",
            "motion": "BN-Inception on optical flow of 5 frames, global-pool",
        }
    )


def _check_sizes(state: Mapping[str, Tensor], config: Config, vocabulary: Vocabulary, *, where: str) -> None:
    """Say which setting to change where the weights tell their own size."""
    found: dict[str, object] = {}
    if "rgb_emb.weight" in state and "flow_emb.weight" in state:
        found["width"] = state["rgb_emb.weight"].shape[0] + state["flow_emb.weight"].shape[0]
    if "vis_emb.encoder.layers.0.feedforward.layer.linear1.weight" in state:
        found["hidden"] = state["vis_emb.encoder.layers.0.feedforward.layer.linear1.weight"].shape[0]
    layers = {match[1] for name in state if (match := re.match(r"vis_emb\.encoder\.layers\.(\d+)\.", name))}
    if layers:
        found["layers"] = len(layers)
    kernels = {int(m[1]): t.shape[2] for n, t in state.items() if (m := re.match(r"prop_out\.(\d+)\.1\.weight$", n))}
    if kernels:
        found["kernels"] = tuple(kernels[index] for index in sorted(kernels))
    if "mask_model.3.weight" in state and config.model.mask != "discrete":
        found["window"] = state["mask_model.3.weight"].shape[0]
    wrong = [key for key, value in found.items() if getattr(config.model, key) != value]
    if wrong:
        flags = " ".join(f"--set 'model.{key}={_flag(found[key])}'" for key in wrong)
        raise InputError(f"{where}: the weights are of another size than the settings; use {flags}")
    rows = state.get("cap_model.decoder.out.weight")
    if rows is not None and len(rows) != len(vocabulary):
        raise InputError(f"{where}: the weights know {len(rows)} words, the word list has {len(vocabulary)}")


def _flag(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
