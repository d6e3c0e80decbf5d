"""The layout of full-scale start-up, small by default; all of ActivityNet with `-m slow`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.startup import Scale, make_split, print_startup
from densevid.data.layouts import open_features


def test_files_are_whole_but_take_no_space(tmp_path: Path) -> None:
    files = make_split(tmp_path, "training", Scale({}, share=0.0003))
    source = open_features(files.features)
    assert source.streams == (("resnet", 2048), ("bn", 1024)) and len(source) == 3
    track = source.track(source.videos()[0])
    assert np.isfinite(track.values).all() and track.values[0, :16].all() and not track.values[1:].any()
    arrays = [path.stat() for path in files.features.glob("*.npy")]
    assert sum(file.st_blocks * 512 for file in arrays) < 0.1 * sum(file.st_size for file in arrays)


@pytest.mark.slow
def test_all_of_activitynet_starts_in_a_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_startup(Scale({}), tmp_path / "layout", workers=2)
    line = capsys.readouterr().out.splitlines()[1]
    found = re.search(r"([\d.]+) s of them of processor time, (\d+) MB at its peak", line)
    assert found is not None and float(found[1]) < 60 and int(found[2]) < 2000, line
