"""Weights that people bring: older, damaged, of another shape, not finite; each is used or explained in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.import_released import import_released, released_name
from helpers.released_weights import released_weights
from reference.released_reference import Settings

SETTINGS = Settings(layers=1)
FLAGS = [flag for flag in SETTINGS.flags() if flag != "--set"]
DISCRETE = [flag for flag in Settings(layers=1, mask="discrete").flags() if flag != "--set"]
Change = Callable[[dict[str, Tensor]], object]


def bring(
    folder: Path, change: Change = lambda state: None, flags: list[str] = FLAGS, words: list[str] = SETTINGS.words
) -> list[str]:
    """Import changed weights; the lines that were reported."""
    state, lines = released_weights(SETTINGS, 0), list[str]()
    change(state)
    torch.save(state, folder / "weights.pth")
    (folder / "words.txt").write_text("\n".join(words))
    import_released(folder / "weights.pth", folder / "words.txt", "activitynet", flags, lines.append)
    return lines


def without(part: str) -> Change:
    def change(state: dict[str, Tensor]) -> None:
        for name in [name for name in state if part in name]:
            del state[name]

    return change


def test_every_weight_has_the_releases_name(tmp_path: Path) -> None:
    assert bring(tmp_path) == []
    loaded = import_released(tmp_path / "weights.pth", tmp_path / "words.txt", "activitynet", FLAGS)
    theirs = {name for name in released_weights(SETTINGS, 0) if not name.startswith("cap_model.encoder.")}
    assert {released_name(name) for name in loaded.model.state_dict()} == theirs


def test_weights_older_than_the_count_of_batches_are_taken(tmp_path: Path) -> None:
    assert bring(tmp_path, without("num_batches_tracked")) == []
    assert bring(tmp_path, without("vis_emb.")) == []  # the encoder's other copy is enough


def test_a_mask_network_is_missed_or_left_out_aloud(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"""--set 'model.mask="discrete"'"""):
        bring(tmp_path, without("mask_model."))
    (line,) = bring(tmp_path, flags=DISCRETE)
    assert "mask network is left out" in line


def set_nan(state: dict[str, Tensor]) -> None:
    state["vis_emb.encoder.layers.0.selfattn.layer.wq.weight"][0, 0] = torch.nan


def flat(name: str) -> Change:
    return lambda state: state.update({name: torch.zeros(7)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_nan, r"NaN or infinity: vis_emb\.encoder\.layers\.0\.selfattn\.layer\.wq\.weight"),
        (without("prop_out.1.0."), r"missing prop_out\.1\.0\.bias; missing prop_out\.1\.0\.running_mean"),
        (without("decoder.layers.0"), r"cap_model\.decoder\.layers\.0\.selfattn\.layernorm\.gamma$"),
        (flat("rgb_emb.weight"), r"rgb_emb\.weight is \(7,\), the settings want"),
        (flat("prop_out.0.1.weight"), r"prop_out\.0\.1\.weight is \(7,\)"),
        (flat("cap_model.decoder.out.weight"), r"cap_model\.decoder\.out\.weight is \(7,\)"),
        (flat("mask_model.3.weight"), r"mask_model\.3\.weight is \(7,\)"),
        (lambda state: state.update({"rgb_emb.weight": torch.tensor(1.0)}), r"rgb_emb\.weight is \(\)"),
        (lambda state: state.update({"rgb_emb.weight": torch.eye(4).to_sparse()}), "expected a state_dict"),
    ],
)
def test_what_does_not_fit_has_the_releases_name(tmp_path: Path, change: Change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        bring(tmp_path, change)


def test_other_special_tokens_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"words.txt: .* begin with <unk> <pad> <init> <eos>"):
        bring(tmp_path, words=["<pad>", "<unk>", *SETTINGS.words[2:]])


@pytest.mark.parametrize("legacy", [False, True])
def test_a_damaged_file_is_one_line(tmp_path: Path, legacy: bool) -> None:
    bring(tmp_path)
    path = tmp_path / "weights.pth"
    torch.save(released_weights(SETTINGS, 0), path, _use_new_zipfile_serialization=not legacy)
    whole = path.read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 23)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"weights\.pth"):
            import_released(path, tmp_path / "words.txt", "activitynet", FLAGS)
    for place in range(3, 300, 11):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        try:
            import_released(path, tmp_path / "words.txt", "activitynet", FLAGS)
        except InputError as error:
            assert "\n" not in str(error)
