"""What `import densevid` offers: its names, their types, and the examples in their docstrings."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import densevid
from helpers.made_videos import constant, make_video
from helpers.tiny_captioner import write_tiny_model
from helpers.waiting import LIMIT_SECONDS

ROOT = Path(__file__).parents[1]
NAMES = sorted(set(densevid.__all__) - {"__version__"})


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, densevid; print([name for name in ('torch', 'av', 'numpy') if name in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
    )
    assert shown.stdout.strip() == "[]"


def test_type_checkers_and_python_find_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse(Path(densevid.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.name: node.module for node in imports for alias in node.names}
    assert typed == densevid._MODULES
    assert sorted(typed) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(densevid, name)
    assert inspect.getdoc(value)
    if inspect.isfunction(value):
        assert all(f"\n{part}:\n" in inspect.getdoc(value) for part in ("Args", "Returns", "Raises"))
        described = inspect.getdoc(value).partition("Args:")[2]
        assert all(
            f"    {parameter}: " in described.replace("*", "") for parameter in inspect.signature(value).parameters
        )


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'captoin'"):
        _ = densevid.captoin


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy knows of the package, where the test is repeated."""
    return tmp_path_factory.mktemp("mypy")


def test_mypy_knows_the_signature_of_caption(mypy_cache: Path) -> None:
    code = "import densevid; reveal_type(densevid.caption); reveal_type(densevid.load().caption)"
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", str(mypy_cache), "-c", code]
    shown = subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, timeout=3 * LIMIT_SECONDS)
    found = [line for line in shown.stdout.splitlines() if "Revealed type" in line]
    assert len(found) == 2, shown.stdout + shown.stderr
    first, second = found
    assert "device" in first and "top" in second, shown.stdout
    assert all(line.endswith('-> densevid.pipeline.result.CaptionResult"') for line in found), shown.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples take for granted: video.mp4, predictions.json and val_1.json."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("examples")
    make_video(folder / "video.mp4", constant(6.0))
    write_tiny_model(folder / "models" / "tiny")
    (folder / "models" / "DEFAULT").write_text("tiny")
    event = {"sentence": "a dog runs", "timestamp": [0.0, 4.0], "proposal_score": 0.9}
    write(folder / "predictions.json", {"version": "VERSION 1.0", "results": {"video": [event]}, "external_data": {}})
    write(folder / "val_1.json", {"video": {"duration": 6.0, "timestamps": [[0.0, 4.0]], "sentences": ["a dog runs"]}})
    return folder


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(recurse=False)
    for name in ("densevid", *NAMES):
        value = densevid if name == "densevid" else getattr(densevid, name)
        yield from (test for test in finder.find(value, name, globs={"densevid": densevid}) if test.examples)


@pytest.mark.timing
@pytest.mark.parametrize("example", list(examples()), ids=lambda example: example.name)
def test_the_examples_in_the_docstrings_work(
    example: doctest.DocTest, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(shutil.copytree(folder, tmp_path / "here"))
    monkeypatch.chdir(here)
    monkeypatch.setenv("DENSEVID_MODELS", str(here / "models"))
    monkeypatch.setenv("DENSEVID_CACHE", str(folder / "cache"))
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not failed, "".join(report)
