"""What the documentation shows works."""

from __future__ import annotations

import argparse
import ast
import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from densevid.commands import caption
from densevid.export.document import Figure
from densevid.pipeline.outputs import WRITERS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("opened_in", ["docs", "."])
def test_the_notebook_runs(clip: Path, tmp_path: Path, monkeypatch, capsys, opened_in: str) -> None:
    """Where a notebook is opened it works in its own folder; an editor may choose the root of the repository."""
    for folder in ("demo", "docs"):
        (tmp_path / folder).mkdir()
    shutil.copy(clip, tmp_path / "demo" / "sample.mp4")
    monkeypatch.chdir(tmp_path / opened_in)
    cells = json.loads((DOCS / "caption.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    values = [value_of("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    shown = capsys.readouterr().out
    assert "WEBVTT" in shown and shown.count("%") >= len(names["events"])
    assert values[0] == names["events"], "one line is enough"
    assert repr(values[1]) == '<VideoCaptioner tiny, device auto: .caption("video.mp4") gives its events>'
    (data, sizes) = next(value for value in values if isinstance(value, Figure))._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG") and sizes["image/png"]["width"] > 500


def value_of(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line, which a notebook shows, or None."""
    *lines, last = ast.parse(cell).body
    exec(compile(ast.Module(lines, []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return exec(compile(ast.Module([last], []), "cell", "exec"), names)


def test_the_guide_names_every_format_and_no_other() -> None:
    """In the table of the documentation with the endings of its files, in the help, and after --format."""
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (`[^|]*`) \|", (DOCS / "caption.md").read_text(), re.MULTILINE)
    listed = {name: endings for names, endings in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed.keys() == WRITERS.keys()
    for name, (endings, _) in WRITERS.items():
        assert all(f"`.{ending}`" in listed[name] for ending in endings), name
    paragraph = re.search(r"^Formats: .*?(?=^\S+ and results are kept)", caption.__doc__ or "", re.M | re.S)
    assert paragraph and all(re.search(rf"\b{name}\b", paragraph[0]) for name in WRITERS)
    parser = argparse.ArgumentParser()
    caption.add_arguments(parser)
    (format_help,) = (action.help for action in parser._actions if action.dest == "format")
    assert set((format_help or "").split(",")) == set(WRITERS)
