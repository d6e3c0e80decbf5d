"""README and docs are true to the tree: links, commands, settings, paths and words."""

from __future__ import annotations

import ast
import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import densevid
from densevid.cli import VERBS, build_parser
from densevid.config import Config
from scripts.house_report import OLD_WORDS
from test_import_order import ROWS

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*GUIDES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "research").glob("*.md"))]
SETTINGS = {f"{section}.{key}" for section, values in Config().as_dict().items() for key in values}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def without_comparisons(page: Path) -> str:
    """A page without what stands between `<!-- ...: begin -->` and `end`: those parts name 0.1, too."""
    return re.sub(
        r"<!-- [\w ]+: begin -->.*?<!-- [\w ]+: end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in targets if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_commands_are_understood(page: Path) -> None:
    blocks = re.findall(r"```(?:bash)?\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    for line in lines:
        words = shlex.split(line, comments=True) if line.startswith("densevid ") else []
        if words and not re.search(r"[|\[]|\.\.\.", line) and "VERB" not in words:
            assert words[1] in VERBS, line
            build_parser(words[1]).parse_args(words[1:])


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_settings_exist(page: Path) -> None:
    named = set(re.findall(r"\b(?:model|features|training|inference)\.[a-z_]+", page.read_text(encoding="utf-8")))
    files = {name for name in named if name.endswith((".py", ".md", ".toml", ".safetensors", ".npy"))}
    modules = {name for name in named if (ROOT / "src" / "densevid" / f"{name.replace('.', '/')}.py").exists()}
    assert named - files - modules - SETTINGS == set()


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_paths_of_the_source_exist(page: Path) -> None:
    text = without_comparisons(page)
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|toml))`", text)
    roots = (ROOT / "src" / "densevid", ROOT)
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_words_are_those_of_the_field(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", without_comparisons(page))  # names of files keep their form on disk
    lines = enumerate(text.splitlines(), 1)
    assert [f"{number}: {found[0]}" for number, line in lines for found in OLD_WORDS.finditer(line)] == []


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_python_blocks_import_names_that_exist(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("densevid"):
            module = import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "densevid":
            assert hasattr(densevid, node.attr)


def test_the_example_of_the_evaluation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    times = {"timestamps": [[0.0, 4.0]], "sentences": ["A dog runs."]}
    event = {"sentence": "a dog is running", "timestamp": [0.0, 4.0], "proposal_score": 0.9}
    predictions = {"version": "VERSION 1.0", "results": {"v_1": [event]}, "external_data": {}}
    for name, content in {"predictions": predictions, "val_1": {"v_1": times}, "val_2": {"v_1": times}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    exec(page.partition("```python\n")[2].partition("```")[0], {})


def test_pages_that_the_source_names_exist() -> None:
    folders = ("src", "research", "benchmarks", "examples", "scripts")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".toml", ".md")
    ]
    named = {link for path in files for link in re.findall(r"\bdocs/[\w/-]+\.\w+", path.read_text(encoding="utf-8"))}
    assert [link for link in sorted(named) if not (ROOT / link).exists()] == []


def test_the_layers_of_the_architecture_are_those_of_the_import_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Layers")[2].partition("\n## ")[0]
    rows = [re.findall(r"`(\w+)/?`", line.split("|")[1]) for line in section.splitlines() if line.startswith("| `")]
    assert [set(row) for row in rows] == [row for row in merged(ROWS) if row != {"__init__"}]


def merged(rows: list[set[str]]) -> list[set[str]]:
    """The command line and its entry point stand in one row of the page."""
    return [*rows[:-2], rows[-2] | rows[-1]]


def test_every_verb_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"densevid {verb}" not in readme] == []


def test_the_readme_fits_two_screens() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
