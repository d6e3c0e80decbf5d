"""`kernels/` can be deleted: a copy of the package without it trains, predicts and captions, to the same events."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import densevid
from densevid.fast_forms import FastForm
from helpers.work_of_a_user import VARIANTS, work

TESTS, PACKAGE = Path(__file__).parent, Path(densevid.__file__).parent


@pytest.fixture(scope="module")
def with_kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return work(tmp_path_factory.mktemp("with"))


@pytest.fixture(scope="module")
def without_kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("without")
    heavy = shutil.ignore_patterns("kernels", "pretrained", "__pycache__")
    shutil.copytree(PACKAGE, folder / "src" / "densevid", ignore=heavy)
    paths = [folder / "src", TESTS.parent, TESTS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "helpers.work_of_a_user", str(folder)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads((folder / "work.json").read_text()))


@pytest.mark.parametrize("part", ["trained", *VARIANTS])
def test_without_kernels_the_events_are_the_same(
    part: str, with_kernels: dict[str, Any], without_kernels: dict[str, Any]
) -> None:
    assert any(video["sentences"] for video in with_kernels[part])
    for theirs, ours in zip(with_kernels[part], without_kernels[part], strict=True):
        assert ours["sentences"] == theirs["sentences"]
        np.testing.assert_allclose(np.array(ours["numbers"]), np.array(theirs["numbers"]), atol=1e-5)


def test_a_form_is_found_only_where_one_is_registered() -> None:
    form: FastForm[str] = FastForm()
    assert form.find() is None
    form.register("fast")
    assert form.find() == "fast"
