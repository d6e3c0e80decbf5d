from __future__ import annotations

import pickle

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.video.backbones import backbone_names, find_backbone, plug_in, register


def brightness(pictures):
    return pictures.mean(axis=(1, 2, 3, 4), keepdims=False)[:, None]


def test_the_default_has_two_streams_and_five_frames() -> None:
    backbone = find_backbone("two-stream")
    assert backbone.streams == (("appearance", 1280), ("motion", 1280))
    assert backbone.frames_per_step == 5
    assert backbone_names()[:4] == ["two-stream", "appearance", "scenes-and-actions", "i3d"]


def test_the_appearance_stream_is_the_appearance_backbone() -> None:
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (3, 5, 224, 224, 3), dtype=np.uint8)
    seconds = np.tile(np.arange(5) / 25, (3, 1))
    both = find_backbone("two-stream").load("cpu")(pictures, seconds)
    appearance = find_backbone("appearance").load("cpu")(pictures[:, :1], seconds[:, :1])
    assert both.shape == (3, 2560)
    assert np.array_equal(both[:, :1280], appearance)
    assert np.abs(both[:, 1280:] - appearance).max() > 0.1


def test_a_recipe_says_all_that_changes_the_numbers() -> None:
    recipe = find_backbone("two-stream").recipe(0.5)
    assert recipe.table["weights"].startswith("sha256:579344248a93e230")
    assert recipe.table["sampling"]["frames_per_step"] == 5
    ids = {find_backbone("two-stream").recipe(seconds).id for seconds in (0.5, 0.5, 1.0)}
    assert len(ids) == 2
    assert recipe.id.startswith("two-stream-")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no backbone .resnet.; there are two-stream, .*, i3d, or module:func"):
        find_backbone("resnet")


def test_a_function_of_ones_own(tmp_path, monkeypatch) -> None:
    module = tmp_path / "my_networks.py"
    module.write_text(
        "from densevid.video.backbones import plug_in\n"
        "def colours(pictures):\n    return pictures.mean(axis=(1, 2, 3))\n"
        "small = plug_in(colours, name='my_networks:small', frames_per_step=3, size=16, version='2')\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    plain = find_backbone("my_networks:colours")
    assert (plain.streams, plain.frames_per_step, plain.size) == ((("colours", 3),), 1, 224)
    small = find_backbone("my_networks:small")
    assert (small.streams, small.frames_per_step, small.size) == ((("small", 3),), 3, 16)
    pictures = np.full((2, 3, 16, 16, 3), 7, np.uint8)
    assert small.load("cpu")(pictures, np.zeros((2, 3))).tolist() == [[7, 7, 7], [7, 7, 7]]
    assert pickle.loads(pickle.dumps(small)).recipe(0.5) == small.recipe(0.5), "workers get it by pickle"
    for wrong in ("my_networks:nothing", "no_such_module_here:f", "my_networks:number", ":f", "my_networks:"):
        with pytest.raises(InputError, match=r"^backbone "):
            find_backbone(wrong)


def test_the_recipe_of_a_function_changes_with_its_source_or_weights(tmp_path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"1")
    first = plug_in(brightness, weights=tmp_path / "weights.bin").recipe(0.5)
    (tmp_path / "weights.bin").write_bytes(b"2")
    second = plug_in(brightness, weights=tmp_path / "weights.bin").recipe(0.5)
    assert first.id != second.id
    assert plug_in(brightness).recipe(0.5).table["weights"].startswith("sha256:")


@pytest.mark.parametrize(
    "wrong", [lambda p: np.zeros((1, 4)), lambda p: np.zeros(len(p)), lambda p: [["a"]] * len(p), lambda p: None]
)
def test_a_function_that_returns_no_vectors_is_told_so(wrong) -> None:
    with pytest.raises(InputError, match="must return as many vectors"):
        plug_in(wrong, name="wrong")


def test_a_registered_backbone_is_found_by_name() -> None:
    register(plug_in(brightness, name="brightness", size=32))
    assert find_backbone("brightness").streams == (("brightness", 1),)


def test_weights_that_are_not_there_are_told(tmp_path) -> None:
    with pytest.raises(InputError, match=r"its weights file .*mistyped.bin is not there"):
        plug_in(brightness, weights=tmp_path / "mistyped.bin")


def test_what_goes_wrong_in_a_module_of_ones_own_is_one_line(tmp_path, monkeypatch) -> None:
    (tmp_path / "unfinished_network.py").write_text("def colours(pictures:\n")
    (tmp_path / "failing_network.py").write_text("1 / 0\n")
    (tmp_path / "sound_module.py").write_text("def picky(pictures):\n    raise KeyError('no such layer')\n")
    monkeypatch.chdir(tmp_path)
    for name, reason in (
        ("unfinished_network:colours", r"cannot be imported \(SyntaxError"),
        ("failing_network:colours", r"cannot be imported \(ZeroDivisionError"),
        ("sound_module:picky", r"fails on black pictures .*KeyError: 'no such layer'"),
    ):
        with pytest.raises(InputError, match=reason):
            find_backbone(name)
