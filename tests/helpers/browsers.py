"""A real browser for tests of pages: Chromium as the system has it, driven by Playwright, or a visible skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.waiting import LIMIT_SECONDS

NAMES = ("chromium", "google-chrome")
LIMIT = 1000 * LIMIT_SECONDS  # milliseconds


def chromium() -> Iterator[Any]:
    """One running browser; skips with the reason where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install 'densevid[dev]'")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no chromium on this machine: `make browser` installs it where it may")
    api.expect.set_options(timeout=LIMIT)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"],
            timeout=LIMIT,
        )
        yield browser
        browser.close()


def new_context(browser: Any, **options: Any) -> Any:
    """A fresh profile of the browser, whose pages wait for what they need and not for a time."""
    context = browser.new_context(**options)
    context.set_default_timeout(LIMIT)
    return context


def wait_until(page: Any, condition: str) -> None:
    """Look at every frame that the page draws until a condition of JavaScript holds, however short a while it does.

    Playwright's own `wait_for_function` evaluates text inside the page, which the pages' policy forbids.
    """
    look = f"""() => new Promise((go) => {{
      const net = setTimeout(() => go(false), {LIMIT});
      const look = () => {{
        if (!({condition})) return requestAnimationFrame(look);
        clearTimeout(net);
        go(true);
      }};
      look();
    }})"""
    assert page.evaluate(look), f"never: {condition}"


def frames(page: Any, count: int = 2) -> None:
    """Let the page draw: what it does at the next frames (scrolling, resizing, moving) is done."""
    step = "new Promise((go) => requestAnimationFrame(go))"
    page.evaluate(f"async () => {{ for (let n = 0; n < {count}; n += 1) await {step}; }}")


def settle(page: Any) -> None:
    """Wait for the end of transitions and animations, which change colours on the way."""
    page.evaluate("() => Promise.allSettled(document.getAnimations().map((one) => one.finished)).then(() => {})")
