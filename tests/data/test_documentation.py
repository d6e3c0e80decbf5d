"""docs/data.md keeps its word: its Python blocks run from top to bottom in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_every_block_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        line = block.string.count("\n", 0, block.start())
        exec(compile("\n" * (line + 1) + block.group(1), str(PAGE), "exec"), names)
