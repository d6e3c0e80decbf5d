"""Import the authors' released weights, a bare state_dict, as a densevid model: `densevid import-released`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel, load_weights
from densevid.config import Config, load_config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary, read_word_list
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import FeatureRecipe

RELEASED_INFERENCE = {
    "score_threshold": 0.7,
    "min_before_suppression": 200,
    "suppression_iou": 0.9,
    "min_proposals": 50,  # has no effect there
    "max_proposals": 500,
    "max_words": 20,
    "beam": 1,
    "length_penalty": 0.0,
    "no_repeat": 0,
}

HEAD_PARTS = {
    "input_norm": 0,
    "depthwise": 1,
    "depthwise_norm": 2,
    "pointwise": 3,
    "pointwise_norm": 4,
    "output_norm": 6,
    "output": 7,
}

# Applied in order to each of our names, this gives the release's.
RENAMED: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"^input_embedding\.streams\.0\.", "rgb_emb."),
    (r"^input_embedding\.streams\.1\.", "flow_emb."),
    (r"^proposal_decoder\.heads\.(\d+)\.(\w+)\.(?=\w+$)", lambda found: f"prop_out.{found[1]}.{HEAD_PARTS[found[2]]}."),
    (r"^masking\.perceptron\.", "mask_model."),
    (r"^encoder\.(layers\.\d+)\.attention", r"vis_emb.encoder.\1.selfattn"),
    (r"^encoder\.", "vis_emb.encoder."),
    (r"^caption_decoder\.words\.", "cap_model.decoder.out."),
    (r"^caption_decoder\.", "cap_model.decoder."),
    (r"\.self_attention", ".selfattn"),
    (r"\.cross_attention", ".attention"),
    (r"\.feed_forward", ".feedforward"),
    (r"_norm\.norm\.weight$", ".layernorm.gamma"),
    (r"_norm\.norm\.bias$", ".layernorm.beta"),
    (r"\.(q)uery\.|\.(k)ey\.|\.(v)alue\.|\.(o)utput\.", lambda found: f".layer.w{found[found.lastindex or 0]}."),
    (r"\.expand\.", ".layer.linear1."),
    (r"\.contract\.", ".layer.linear2."),
]


def import_released(
    weights: Path | str,
    words: Path | str,
    preset: str,
    settings: Iterable[str] = (),
    report: Callable[[str], None] = lambda line: None,
) -> LoadedModel:
    """Read the authors' released weights and word list.

    Args:
        weights: A `.t7` or `.pth` file.
        words: The word list that belongs to them.
        preset: The settings to begin with; those of the release come on top.
        settings: More settings, `key=value`.
        report: Receives a line where something is left out.

    Returns:
        The model; `save_model` writes it as a folder.

    Raises:
        InputError: A file is unreadable, or weights, words and settings do not fit together.
    """
    where = str(weights)
    state = one_encoder(read_state_dict(weights), where)
    vocabulary = read_word_list(words)
    if vocabulary.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
        raise InputError(f"{words}: the release's word lists begin with {' '.join(SPECIAL_TOKENS)}, in this order")
    config = load_config(preset).with_values({"model": {"compat": "released"}, "inference": RELEASED_INFERENCE})
    config = config.with_settings(settings)
    widths = [size for name in ("rgb_emb.weight", "flow_emb.weight") if (size := _size(state, name, 2, 1))]
    if len(widths) == 2:
        config = config.with_values({"features": {"streams": ["resnet", "bn"], "widths": widths}})
    _check_sizes(state, config, vocabulary, where)
    unused = {name for name in state if name.startswith("mask_model.") and config.model.mask == "discrete"}
    used = {name: tensor for name, tensor in state.items() if name not in unused}
    model = MaskedTransformer(config, len(vocabulary))
    load_weights(model, renamed(used, model), where=where, called=released_name)
    if unused:
        report(f"{where}: its mask network is left out, as model.mask is discrete")
    return LoadedModel(model, config, vocabulary, released_recipe(config))


def read_state_dict(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a `.t7` or `.pth` file, without running anything that is in it."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # a damaged file makes the reader fail in any way there is
        raise InputError(f"{path}: not a state_dict that can be read safely ({type(error).__name__})") from error
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not content or not all(map(_is_plain, content.values())):
        raise InputError(f"{path}: expected a state_dict, a mapping from names to tensors")
    return {re.sub(r"^module\.", "", str(name)): tensor for name, tensor in content.items()}


def one_encoder(state: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """The state without the second copy of the encoder, which the release shares between encoding and captioning."""
    if broken := [name for name, tensor in state.items() if not torch.isfinite(tensor).all()]:
        raise InputError(f"{where}: the weights hold NaN or infinity: {', '.join(broken)}")
    result = {name: tensor for name, tensor in state.items() if not name.startswith("cap_model.encoder.")}
    for copy in state.keys() - result.keys():
        name = copy.replace("cap_model.encoder.", "vis_emb.encoder.")
        if not torch.equal(result.setdefault(name, state[copy]), state[copy]):
            raise InputError(f"{where}: {copy} differs from {name}; the release shares one encoder between the two")
    return result


def released_name(ours: str) -> str:
    """The name that the release gives to one of our weights."""
    for pattern, replacement in RENAMED:
        ours = re.sub(pattern, replacement, ours)
    return ours


def renamed(state: Mapping[str, Tensor], model: MaskedTransformer) -> dict[str, Tensor]:
    """The release's tensors under our names; those that the model does not know keep theirs.

    Weights older than batch norm's count of batches have none; it plays no part in anything.
    """
    ours = {released_name(name): name for name in model.state_dict()}
    result = {name: torch.tensor(0) for name in model.state_dict() if name.endswith(".num_batches_tracked")}
    return result | {ours.get(name, name): tensor for name, tensor in state.items()}


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


def _check_sizes(state: Mapping[str, Tensor], config: Config, vocabulary: Vocabulary, where: str) -> None:
    """Raise with the settings to change, where the weights' shapes give them."""
    wrong = {key: value for key, value in _sizes(state).items() if value and getattr(config.model, key) != value}
    if config.model.mask == "discrete":
        wrong.pop("window", None)
    elif not any(name.startswith("mask_model.") for name in state):
        wrong["mask"] = '"discrete"'
    if wrong:
        flags = " ".join(f"--set 'model.{key}={_flag(value)}'" for key, value in wrong.items())
        raise InputError(f"{where}: the weights are of another size than the settings; use {flags}")
    rows = _size(state, "cap_model.decoder.out.weight", 2, 0)
    if rows and rows != len(vocabulary):
        raise InputError(f"{where}: the weights know {rows} words, the word list has {len(vocabulary)}")


def _sizes(state: Mapping[str, Tensor]) -> dict[str, object]:
    """The model settings that follow from the weights' shapes; 0 or nothing where they do not."""
    halves = [_size(state, name, 2, 0) for name in ("rgb_emb.weight", "flow_emb.weight")]
    layers = {found[1] for name in state if (found := re.match(r"vis_emb\.encoder\.layers\.(\d+)\.", name))}
    heads = sorted(int(found[1]) for name in state if (found := re.match(r"prop_out\.(\d+)\.1\.weight$", name)))
    kernels = tuple(_size(state, f"prop_out.{head}.1.weight", 3, 2) for head in heads)
    return {
        "width": sum(halves) if all(halves) else 0,
        "hidden": _size(state, "vis_emb.encoder.layers.0.feedforward.layer.linear1.weight", 2, 0),
        "layers": len(layers),
        "kernels": kernels if all(kernels) else (),
        "window": _size(state, "mask_model.3.weight", 2, 0),
    }


def _size(state: Mapping[str, Tensor], name: str, rank: int, axis: int) -> int:
    """The size of an axis of a weight, 0 if there is no such weight or it has another rank."""
    return state[name].shape[axis] if name in state and state[name].ndim == rank else 0


def _is_plain(value: object) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_quantized


def _flag(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
