"""Shared by all tests: where the real data lies, no time limits on a noisy machine, one torch thread."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from helpers.browsers import chromium

os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so it is for what a shell starts with `&`; children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("densevid", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("densevid")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, closed with the module: its driver keeps a loop in this thread, and there can be only one."""
    yield from chromium()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and golden numbers beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder of real data and golden numbers, ../shared, beside the checkout")
    return SHARED
