"""Shared by all tests: the real data, a browser, one torch thread, the marker `timing`, and `--repeat`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from helpers.browsers import chromium
from helpers.timing_tests import timing_names

os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so it is for what a shell starts with `&`; children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("densevid", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("densevid")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--repeat`, which `tests/repeat.py` counts the results of."""
    parser.addoption("--repeat", type=int, default=1, metavar="N", help="run every test N times")


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that is repeated has its number as its last parameter, so that its runs follow each other."""
    if (count := metafunc.config.getoption("repeat")) > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(count), ids=lambda number: f"repetition{number}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what depends on a browser, a server, a process or a clock, before `-m` selects."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if "browser" in item.fixturenames or item.originalname in timing_names(item.path):
            item.add_marker("timing")


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
