"""A command run by somebody to whom not everything is allowed, for tests that root runs too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.waiting import LIMIT_SECONDS

POWERS = "-dac_override,-dac_read_search"  # what lets root open everything


def run_as_ordinary_user(words: Sequence[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    """`densevid` with words, in a process that file permissions hold for."""
    command = [sys.executable, "-m", "densevid", *map(str, words)]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root may do everything, and there is no setpriv to give that up")
        command = [setpriv, f"--bounding-set={POWERS}", *command]
    variables = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=variables)
