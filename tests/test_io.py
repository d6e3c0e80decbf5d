"""Files are written whole or not at all, with their provenance."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import densevid
from densevid.errors import InputError
from densevid.io import (
    atomic_path,
    fingerprint,
    hash_of,
    provenance,
    read_json,
    toml_text,
    write_json,
    write_text,
)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="halfway"), atomic_path(path) as temporary:
        temporary.write_text("half of the new")
        assert path.read_text() == "old"
        raise RuntimeError("halfway")
    assert path.read_text() == "old" and names_in(tmp_path) == ["file.txt"]
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})
    assert path.read_text() == "old" and names_in(tmp_path) == ["file.txt"]


def test_success_replaces_the_file_and_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    write_json(path, {"a": [1, "ü"]})
    assert read_json(path) == {"a": [1, "ü"]} and "ü" in path.read_text(encoding="utf-8")
    write_json(path, [])
    assert read_json(path) == [] and names_in(path.parent) == ["file.json"]
    wanted = 0o666 & ~int(subprocess.run(["sh", "-c", "umask"], capture_output=True, text=True).stdout, 8)
    assert stat.S_IMODE(path.stat().st_mode) == wanted  # as any other file, not as private as a temporary one


@pytest.mark.parametrize("name", ["n" * 255, "名" * 85])
def test_a_name_as_long_as_the_disk_takes_is_written(name: str, tmp_path: Path) -> None:
    write_text(tmp_path / name, "whole")
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path / "file" / "below", "x")
    with pytest.raises(InputError, match="it is a folder"):
        write_text(tmp_path / "folder", "x")
    assert names_in(tmp_path) == ["file", "folder"] and names_in(tmp_path / "folder") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"[" * 200_000, "not valid JSON"),
        (b"1" * 5000, "not valid JSON"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_json(path)
    assert str(caught.value).startswith(str(path))
    with pytest.raises(InputError, match="no such file"):
        read_json(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path)


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_bytes(b"\xef\xbb\xbf[1]")
    assert read_json(tmp_path / "file.json") == [1]


def test_provenance_has_version_commit_command_and_a_hash_of_each_input(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.json").write_text(folder)
    (tmp_path / "own.json").write_text("own")
    inputs = [tmp_path / "own.json", tmp_path / "a" / "same.json", tmp_path / "b" / "same.json"]
    block = provenance(config_hash="abc", inputs=inputs, command="train")
    assert block["densevid"] == densevid.__version__ and block["config"] == "abc" and block["command"] == "train"
    hashes = [f"sha256:{hashlib.sha256(text).hexdigest()}" for text in (b"own", b"a", b"b")]
    assert list(block["inputs"].values()) == hashes  # none is lost when two have the same name
    assert next(iter(block["inputs"])) == "own.json"
    assert block["commit"] is None or len(block["commit"].removesuffix("+changes")) == 40
    json.dumps(block)


def test_the_fingerprint_of_a_folder_changes_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = fingerprint(tmp_path)
    assert first == fingerprint(tmp_path) and first.startswith("listing-sha256:")
    (tmp_path / "b").write_text("2")
    assert fingerprint(tmp_path) != first


def test_the_hash_of_settings_does_not_depend_on_their_order() -> None:
    assert hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1}) != hash_of({"a": 1, "b": 3})


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_toml_survives_writing_and_reading(table: dict) -> None:
    assert tomllib.loads(toml_text(table)) == table


def test_toml_leaves_out_values_it_cannot_represent() -> None:
    assert tomllib.loads(toml_text({"a": None, "b": {"c": None, "d": 1}})) == {"b": {"d": 1}}
    with pytest.raises(TypeError, match="no TOML form"):
        toml_text({"a": object()})
