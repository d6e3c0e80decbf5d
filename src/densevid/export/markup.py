"""Text from outside becomes safe HTML; the few forms that every part of the page shares."""

from __future__ import annotations

import base64
import html
import math
import re

NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")

WARNING_SIGN = (
    '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M8 2 1.500 13.500h13L8 2Z"/>'
    '<path d="M8 6.500v3.200M8 11.600v.1"/></svg>'
)


def escaped(text: str) -> str:
    """Text for HTML, in or out of quotes; what is no text (control characters, halves of pairs) becomes U+FFFD."""
    return html.escape(NOT_TEXT.sub("\ufffd", text), quote=True)


def clock_text(seconds: float, digits: int = 0) -> str:
    """1:02:03, 2:03 or, with a digit, 0:07.4; rounded down, as players show it."""
    scale = 10**digits
    minutes, rest = divmod(math.floor(seconds * scale + 1e-6), 60 * scale)
    hours, minutes = divmod(minutes, 60)
    tail = f"{rest // scale:02}" + (f".{rest % scale:0{digits}}" if digits else "")
    return f"{hours}:{minutes:02}:{tail}" if hours else f"{minutes}:{tail}"


def data_address(media_type: str, content: bytes) -> str:
    """Content as an address that needs no request."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def notice(warning: str | None) -> str:
    """A warning where it is seen first; nothing where there is none."""
    if not warning:
        return ""
    text = escaped(warning[0].upper() + warning[1:])
    return f'<p class="notice">{WARNING_SIGN}<span><span class="hidden-text">Warning: </span>{text}</span></p>'


def count_text(number: int, thing: str) -> str:
    """1 event, 2 events."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
