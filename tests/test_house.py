"""The layout of src/densevid holds what docs/architecture.md promises, measured by scripts/house_report.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.house_report import BEGIN, END, Report, main

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def house() -> Report:
    return Report.of(ROOT)


def test_no_folder_holds_more_than_20_modules(house: Report) -> None:
    assert {folder: count for folder, count in house.folders.items() if count > 20} == {}


def test_no_module_is_longer_than_400_lines(house: Report) -> None:
    assert [name for name, module in house.modules.items() if module.lines > 400] == []


def test_no_function_is_longer_than_50_lines(house: Report) -> None:
    assert house.long_functions == []


def test_public_names_have_types_and_docstrings(house: Report) -> None:
    assert house.undocumented == []


def test_no_modules_import_each_other_not_even_inside_functions(house: Report) -> None:
    assert house.cycles == []


def test_no_word_of_the_old_language_is_left(house: Report) -> None:
    assert house.old_words == []


def test_folders_of_tests_mirror_those_of_the_code() -> None:
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path()}
    homes = (ROOT / "src" / "densevid", ROOT)
    assert {str(folder) for folder in folders if not any((home / folder).is_dir() for home in homes)} == set()


@pytest.mark.report
def test_the_table_in_the_docs_is_that_of_this_tree() -> None:
    assert main(["--check", str(PAGE)]) == 0


SMALL_TREE = {
    "__init__.py": '"""A package."""\n',
    "a.py": '"""A."""\n\ndef told():\n    from densevid import b\n    return b\n',
    "b.py": '"""B."""\nfrom densevid.deep import c\nfrom densevid.a import told\n',
    "deep/__init__.py": '"""Deep."""\n',
    "deep/c.py": '"""C says."""\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from densevid import b\n',
    "legacy.py": '"""What was told."""\n',
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in SMALL_TREE.items():
        path = tmp_path / "src" / "densevid" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_report_finds_what_it_counts(small: Path) -> None:
    report = Report.of(small)
    assert report.cycles == [["densevid.a", "densevid.b"]]
    assert report.longest_chain == ["densevid.a", "densevid.deep.c"]
    assert report.undocumented == ["densevid.a.told"]
    assert report.single_importers["densevid.deep.c"] == "densevid.b"
    assert report.old_words == ["a.py:3: told", "b.py:3: told", "deep/c.py:1: says"]
    assert report.rows()["largest folder, modules"] == "4 (`densevid/`)"


def test_a_page_is_written_checked_and_found_out_of_date(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = small / "page.md"
    page.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    tree = ["--tree", str(small)]
    assert main([*tree, "--before", str(ROOT), "--write", str(page)]) == 0
    written = page.read_text()
    assert written.startswith("before\n") and written.endswith("\nafter\n") and "| modules |" in written
    assert main([*tree, "--write", str(page)]) == 0 and page.read_text() == written, "the old column is kept"
    assert main([*tree, "--check", str(page)]) == 0
    (small / "src" / "densevid" / "more.py").write_text('"""More."""\n')
    assert main([*tree, "--check", str(page)]) == 1
    assert "make report" in capsys.readouterr().err
