"""Shared by all tests: the real data, a browser, one torch thread, the marker `timing`, repeated tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from helpers.browsers import chromium
from helpers.repetitions import add_options, leave_out_done_runs, repeat_test
from helpers.timing_tests import is_timing_test

os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so it is for what a shell starts with `&`; children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("densevid", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("densevid")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that `tests/repeat.py` uses."""
    add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat what is selected; tests that are not are not even collected many times, which would take minutes."""
    if "timing" not in metafunc.config.option.markexpr or is_timing_test(metafunc.definition):
        repeat_test(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what depends on a browser, a server, a process or a clock, before `-m` selects."""
    for item in items:
        if isinstance(item, pytest.Function) and is_timing_test(item):
            item.add_marker("timing")
    leave_out_done_runs(config, items)


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
