"""The index over several videos: a card each with a picture, a small timeline and sentences that link into its page;
then the failures. The page requests nothing, and all of it can be searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import fsencode
from pathlib import Path
from string import Template
from urllib.parse import quote

import densevid
from densevid.events import Event
from densevid.export.document import ShownEvent
from densevid.export.page_entries import HUES, lanes
from densevid.export.page_parts import (
    LOGO,
    SEARCH_ICON,
    clock_text,
    count_text,
    data_address,
    escaped,
    notice,
    page_head,
    page_part,
    policy,
)
from densevid.export.shown_sentences import printable, shown_sentences, whose_sentences
from densevid.export.terminal_timeline import NOTHING

MOST_SHOWN = 4  # sentences of a video that are seen without unfolding
MOST_BARS = 200
LOWEST_STRIP, HEIGHT_OF_A_ROW, HIGHEST_STRIP = 10, 5, 50  # pixels
BAR_SHARE = 0.8  # of its row, where there are several


@dataclass(frozen=True)
class IndexRow:
    """One video: the path of its page from the index, and its events; or the error.

    `poster` is a JPEG, `warning` what to know before trusting the events. `references` are drawn above the events.
    """

    name: str
    page: Path | None = None
    duration: float | None = None
    events: tuple[Event, ...] = ()
    poster: bytes | None = None
    error: str | None = None
    warning: str | None = None
    references: tuple[Event, ...] = ()


def index_page(title: str, rows: Sequence[IndexRow], *, model: str, about: str = "") -> str:
    """The whole page as text; whatever comes from a file is escaped. `about` is what to know before reading on."""
    done = [row for row in rows if row.error is None]
    note = whose_sentences([event for row in done for event in row.events], model)
    css, script = page_part("frame.css") + page_part("index.css"), page_part("index.js")
    parts = {
        "head": page_head(escaped(title), "timelines", css, policy(css, script, img="data:")),
        "logo": LOGO,
        "search_icon": SEARCH_ICON,
        "script": script,
        "title": escaped(title),
        "facts": escaped(_facts(rows, done)),
        "about": f'<p class="about">{escaped(about)}</p>' if about else "",
        "videos": "\n".join(map(_video, done)),
        "failures": _failures([row for row in rows if row.error is not None]),
        "note": f"<p>{escaped(note)}</p>" if note else "",
        "provenance": escaped(f"densevid {densevid.__version__}, model {model}"),
    }
    return Template(page_part("index.html")).substitute(parts)


def _facts(rows: Sequence[IndexRow], done: Sequence[IndexRow]) -> str:
    count = count_text(len(rows), "video") if len(done) == len(rows) else f"{len(done)} of {len(rows)} videos captioned"
    length = clock_text(sum(row.duration or 0.0 for row in done))
    return f"{count} · {length} · {count_text(sum(len(row.events) for row in done), 'event')}"


def _video(row: IndexRow) -> str:
    name = f"<bdi>{escaped(printable(row.name))}</bdi>"
    about = f"{clock_text(row.duration or 0.0)} · {count_text(len(row.events), 'event')}"
    head = f'<div class="head"><h2>{_link(row, "", "", name)}</h2><p>{about}</p></div>'
    content = f"{head}{notice(row.warning)}{_strips(row)}{_sentences(row)}"
    return f'<article class="video">{_picture(row)}<div>{content}</div></article>'


def _picture(row: IndexRow) -> str:
    """A frame of the video; features alone have none, and then no place is kept for it."""
    if not row.poster:
        return ""
    image = f'<img alt="" loading="lazy" src="{data_address("image/jpeg", row.poster)}">'
    return _link(row, "", "poster", image, hidden=True)


def _link(row: IndexRow, moment: str, kind: str, content: str, *, hidden: bool = False) -> str:
    """A link into a video's page, or what it would hold without a page; `hidden` from those who tab or listen."""
    if row.page is None:
        return f'<span class="{kind}">{content}</span>'
    address = "./" + quote(fsencode(row.page.as_posix())) + moment
    skipped = ' tabindex="-1" aria-hidden="true"' if hidden else ""
    return f'<a class="{kind}" href="{escaped(address)}"{skipped}>{content}</a>'


def _strips(row: IndexRow) -> str:
    """The timeline in small, below that of the references if there are any."""
    end = max([row.duration or 0.0, *(event.end for event in (*row.events, *row.references))]) or 1.0
    if not row.references:
        return _strip(row.events, end)
    both = (("Reference", row.references), ("Predicted", row.events))
    return "".join(f'<p class="strip-name">{name}</p>{_strip(events, end)}' for name, events in both)


def _strip(events: Sequence[Event], end: float) -> str:
    """Events that overlap lie below each other. Shapes have attributes, which a page without inline styles may use."""
    shown = sorted(events[:MOST_BARS], key=lambda event: event.place)
    rows = lanes([ShownEvent(event) for event in shown])
    count = max(rows, default=0) + 1
    bars = "".join(
        f'<rect x="{1000 * event.start / end:.1f}" width="{max(3.0, 1000 * event.seconds / end):.1f}" '
        f'y="{row}" height="{1 if count == 1 else BAR_SHARE}" data-hue="{place % HUES}"/>'
        for place, (event, row) in enumerate(zip(shown, rows, strict=True))
    )
    height = min(HIGHEST_STRIP, max(LOWEST_STRIP, HEIGHT_OF_A_ROW * count))
    size = f'height="{height}" viewBox="0 0 1000 {count}" preserveAspectRatio="none"'
    return f'<svg class="strip" {size} aria-hidden="true">{bars}</svg>'


def _sentences(row: IndexRow) -> str:
    if not row.events:
        return f'<p class="muted">{escaped(NOTHING)}</p>'
    items = [_sentence(row, *one) for one in zip(row.events, shown_sentences(row.events), strict=True)]
    first, more = "".join(items[:MOST_SHOWN]), "".join(items[MOST_SHOWN:])
    rest = len(items) - MOST_SHOWN
    folded = f'<details><summary>{rest} more</summary><ol class="sentences">{more}</ol></details>' if rest > 0 else ""
    return f'<ol class="sentences">{first}</ol>{folded}'


def _sentence(row: IndexRow, event: Event, sentence: str) -> str:
    when = f'<span class="when">{clock_text(event.start)}</span>'
    words = f'<span class="sentence" dir="auto">{escaped(printable(sentence))}</span>'
    return f"<li>{_link(row, f'#t={event.start:.2f}', '', when + words)}</li>"


def _failures(rows: Sequence[IndexRow]) -> str:
    if not rows:
        return ""
    lines = "".join(f'<li class="failed">{escaped(row.error or "")}</li>' for row in rows)
    return f'<section class="failures"><h2>Not captioned</h2><ul>{lines}</ul></section>'
