"""What our pages share: the files they are made of, their small pictures, and the policy that browsers hold them to."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from string import Template

import densevid

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
    """All up to the body; `title` is escaped already, `kind` says in the browser's tab what the page is."""
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
