"""A timeline page in a browser: its state, as scripts tell it, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Opened = Callable[..., Any]
TIME = "document.querySelector('video').currentTime"
PAUSED = "document.querySelector('video').paused"
PLACE = "[...document.querySelectorAll('.list > li')].findIndex((item) => item.ariaCurrent)"


def wait_until(page: Any, condition: str) -> None:
    """Ask until it is so; the page's own policy forbids Playwright to wait inside it."""
    deadline = time.monotonic() + 10
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"never: {condition}; now {page.evaluate(f'[{TIME}, {PAUSED}, {PLACE}]')}"
        page.wait_for_timeout(40)
