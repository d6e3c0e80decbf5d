"""Parts that all pages share: escaping of text from outside, icons, head, and the content security policy."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from pathlib import Path
from string import Template

import densevid

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


PAGE = Path(__file__).parent / "page"
LOGO = (
    '<svg class="logo" viewBox="0 0 24 24" aria-hidden="true">'
    '<rect x="1" y="4" width="13" height="4" rx="2" data-hue="0"/>'
    '<rect x="6" y="10" width="17" height="4" rx="2" data-hue="1"/>'
    '<rect x="3" y="16" width="11" height="4" rx="2" data-hue="2"/></svg>'
)
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect y='2' width='9' "
    "height='3' rx='1.5' fill='%234f7bd9'/%3E%3Crect x='4' y='6.5' width='12' height='3' rx='1.5' fill='%2333a06f'/%3E"
    "%3Crect x='1' y='11' width='8' height='3' rx='1.5' fill='%23d9824f'/%3E%3C/svg%3E"
)
SEARCH_ICON = "M11.2 11.2 14 14M12.5 7.25a5.25 5.25 0 1 1-10.5 0 5.25 5.25 0 0 1 10.5 0Z"


def page_part(name: str) -> str:
    """One of the files that pages are made of."""
    return (PAGE / name).read_text(encoding="utf-8")


def page_head(title: str, kind: str, css: str, policy: str) -> str:
    """All up to the body; `title` is escaped already, `kind` stands in the browser's tab."""
    parts = {"title": title, "kind": kind, "css": css, "policy": policy, "icon": ICON, "version": densevid.__version__}
    return Template(page_part("head.html")).substitute(parts).rstrip()


def policy(css: str, script: str, *, img: str, media: str = "'none'") -> str:
    """Only this very script and these very styles run, and nothing is fetched but what `img` and `media` name."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(css)}'",
            f"img-src {img}",
            f"media-src {media}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
