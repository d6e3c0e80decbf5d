"""The state of a timeline page in a browser, in JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.browsers import frames

Opened = Callable[..., Any]
TIME = "document.querySelector('video').currentTime"
PAUSED = "document.querySelector('video').paused"
PLACE = "[...document.querySelectorAll('.list > li')].findIndex((item) => item.ariaCurrent)"


def point_at(page: Any, selector: str) -> Any:
    """Move the pointer there and return the card that then shows; scrolling comes first, as it hides the card."""
    page.locator(selector).scroll_into_view_if_needed()
    frames(page)
    page.hover(selector)
    card = page.locator(".card")
    card.wait_for(state="visible")
    return card
