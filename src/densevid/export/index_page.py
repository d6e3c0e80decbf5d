"""One page over many: a line per video with a link to its own page, searchable by the browser, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import fsencode
from pathlib import Path
from urllib.parse import quote

import densevid
from densevid.export.chapters import clock
from densevid.export.subtitles import printable
from densevid.export.terminal_timeline import NOTHING

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; margin-bottom: 0 }
.about { opacity: .7; margin-top: .2rem }
article { padding: .8rem 0; border-top: 1px solid #8884 }
h2 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere }
h2 small { font-weight: normal; opacity: .7; margin-left: .5rem; white-space: nowrap }
p { margin: .2rem 0 0 }
.failed p { color: #c33 }
"""


@dataclass(frozen=True)
class IndexRow:
    """One video: where its page lies, seen from the index, and what happens in it; or why there is none."""

    name: str
    page: Path | None
    duration: float | None
    sentences: tuple[str, ...]
    error: str | None = None


def index_page(title: str, rows: Sequence[IndexRow], *, model: str) -> str:
    """The whole page as text; whatever comes from a file is escaped."""
    failed = sum(row.error is not None for row in rows)
    about = f"{len(rows) - failed} of {len(rows)} videos captioned by densevid {densevid.__version__}, model {model}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>{escape(title)}</h1><p class="about">{escape(about)}</p><main>'
        + "\n".join(map(_article, rows))
        + "</main></body></html>\n"
    )


def _article(row: IndexRow) -> str:
    name = f"<bdi>{escape(printable(row.name))}</bdi>"
    if row.page is not None:
        address = "./" + quote(fsencode(row.page.as_posix()))
        name = f'<a href="{escape(address)}">{name}</a>'
    length = f"<small>{clock(row.duration)}</small>" if row.duration is not None else ""
    text = row.error or "; ".join(map(printable, row.sentences)) or NOTHING
    kind = ' class="failed"' if row.error else ""
    return f"<article{kind}><h2>{name}{length}</h2><p>{escape(text)}</p></article>"
