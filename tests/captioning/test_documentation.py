"""What the documentation shows works."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from densevid.captioning.outputs import WRITERS
from densevid.commands import caption

DOCS = Path(__file__).parents[2] / "docs"


def test_the_notebook_runs(clip: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "demo").mkdir()
    shutil.copy(clip, tmp_path / "demo" / "sample.mp4")
    monkeypatch.chdir(tmp_path)
    cells = json.loads((DOCS / "caption.ipynb").read_text())["cells"]
    names: dict[str, object] = {}
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        exec("".join(cell["source"]), names)
    shown = capsys.readouterr().out
    assert "WEBVTT" in shown and shown.count("%") >= len(names["events"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_told(name: str) -> None:
    assert name in (caption.__doc__ or "") and f"`{name}`" in (DOCS / "caption.md").read_text()
