"""A real browser for tests of pages: Chromium as the system has it, driven by Playwright, or a visible skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "google-chrome")


def chromium() -> Iterator[Any]:
    """One running browser; skips, saying so, where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install 'densevid[dev]'")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no chromium on this machine: `make browser` installs it where it may")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        yield browser
        browser.close()
