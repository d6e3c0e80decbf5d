"""Text from outside becomes safe HTML; the few forms that every part of the page shares."""

from __future__ import annotations

import base64
import html
import re

NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def escaped(text: str) -> str:
    """Text for HTML, in or out of quotes; what is no text (control characters, halves of pairs) becomes U+FFFD."""
    return html.escape(NOT_TEXT.sub("\ufffd", text), quote=True)


def clock_text(seconds: float) -> str:
    """1:02:03 or 2:03; rounded down, as players show it."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, whole = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


def data_address(media_type: str, content: bytes) -> str:
    """Content as an address that needs no request."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def count_text(number: int, thing: str) -> str:
    """1 event, 2 events."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
