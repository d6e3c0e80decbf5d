"""A document becomes one HTML file that works from disk: the last stop of a video that a person looks at.

The page is `page/timeline.html` with the styles and scripts beside it written into it. All that comes from outside
is escaped into the list of events, which is also where the scripts read it from; the policy of the page lets only its
own script and styles run, by their hash, and forbids every request but the one for the video.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path
from string import Template

import numpy as np

import densevid
from densevid.export.document import Figure, ShownEvent, ShownVideo, TimelineDocument
from densevid.export.layout import Layout, lay_out

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("events.js", "player.js", "lanes.js", "list.js", "downloads.js", "keyboard.js", "main.js")
MASK_POINTS = 240  # more than a lane has pixels for, few enough for hundreds of events
NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def timeline_page(document: TimelineDocument) -> str:
    """The whole page as text."""
    css = (PAGE / "timeline.css").read_text(encoding="utf-8")
    script = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    layout = lay_out(document.events)
    parts = {
        "policy": _policy(css, script),
        "version": densevid.__version__,
        "css": css,
        "script": script,
        "title": escaped(document.title),
        "seconds": f"{document.seconds:.3f}",
        "mask_seconds": f"{document.mask_seconds or document.duration:.3f}",
        "duration": clock_text(document.duration),
        "facts": _facts(document),
        "legend": _legend(document),
        "groups": _group_filter(layout),
        "events": _event_list(document, layout),
        "figures": _figures(document.figures),
        "downloads": _downloads(document),
        "provenance": escaped(document.provenance),
        **_video_parts(document.video),
    }
    return Template((PAGE / "timeline.html").read_text(encoding="utf-8")).substitute(parts)


def escaped(text: str) -> str:
    """Text for HTML, in or out of quotes; what is no text (control characters, halves of pairs) becomes U+FFFD."""
    return html.escape(NOT_TEXT.sub("\ufffd", text), quote=True)


def clock_text(seconds: float) -> str:
    """1:02:03 or 2:03; rounded down, as players show it."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, whole = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


def mask_bytes(mask: tuple[float, ...]) -> bytes:
    """A mask as one byte a point, at most MASK_POINTS of them; longer ones are averaged."""
    values = np.clip(np.nan_to_num(np.asarray(mask, dtype=np.float64)), 0, 1)
    if len(values) > MASK_POINTS:
        edges = np.linspace(0, len(values), MASK_POINTS + 1).astype(int)
        values = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
    return np.round(255 * values).astype(np.uint8).tobytes()


def _policy(css: str, script: str) -> str:
    """Nothing may be fetched but the video; only this very script and these very styles run."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(css)}'",
            "img-src data:",
            "media-src 'self' file: blob:",  # a page opened from disk is no 'self' in every browser
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _facts(document: TimelineDocument) -> str:
    said = sum(not shown.reference for shown in document.events)
    references = len(document.events) - said
    facts = [clock_text(document.duration), _count(said, "event")]
    facts += [_count(references, "reference")] if references else []
    facts += [document.model] if document.model else []
    return " <span aria-hidden='true'>·</span> ".join(f"<span>{escaped(fact)}</span>" for fact in facts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _legend(document: TimelineDocument) -> str:
    compared = {shown.reference for shown in document.events} == {True, False}
    return "Colour: the reference it overlaps by 0.3 or more; grey: none" if compared else ""


def _group_filter(layout: Layout) -> str:
    if len(layout.groups) < 2:
        return ""
    choices = ["All", *layout.groups]
    buttons = "".join(
        f'<button type="button" data-group="{"" if place == 0 else place - 1}" aria-pressed="{str(place == 0).lower()}">'
        f"<bdi>{escaped(name)}</bdi></button>"
        for place, name in enumerate(choices)
    )
    return f'<div class="groups" role="group" aria-label="Whose events">{buttons}</div>'


def _event_list(document: TimelineDocument, layout: Layout) -> str:
    if not document.events:
        return '<p class="empty">No event was found in this video with enough confidence to be shown.</p>'
    items = "\n".join(_item(document.events[index], layout, index) for index in layout.order)
    return f'<ol class="list">\n{items}\n</ol>'


def _item(shown: ShownEvent, layout: Layout, index: int) -> str:
    """One entry of the list, and in its data- attributes all that the scripts know of the event."""
    event = shown.event
    group = layout.group[index]
    data = {
        "start": f"{event.start:.3f}",
        "end": f"{event.end:.3f}",
        "group": group,
        "group-name": layout.groups[group],
        "lane": layout.lane[index],
        "hue": layout.hue[index],
        "confidence": "" if shown.reference else f"{shown.confidence:.3f}",
        "mask": base64.b64encode(mask_bytes(shown.mask)).decode(),
    }
    attributes = " ".join(f'data-{name}="{escaped(str(value))}"' for name, value in data.items() if value != "")
    span = f"{clock_text(event.start)}–{clock_text(event.end)}"
    return (
        f'<li {attributes}><button type="button">{_thumbnail(shown)}<span class="words">'
        f'<span class="when"><span class="dot"></span>{span}{_badge(shown)}</span>'
        f'<span class="sentence" dir="auto">{escaped(event.sentence) or "(no sentence)"}</span></span></button></li>'
    )


def _badge(shown: ShownEvent) -> str:
    if shown.reference:
        return '<span class="badge">reference</span>'
    percent = round(100 * shown.confidence)
    return (
        f'<span class="score"><meter min="0" max="100" value="{percent}" aria-hidden="true"></meter>'
        f'<span class="hidden-text">confidence </span>{percent}%</span>'
    )


def _thumbnail(shown: ShownEvent) -> str:
    if shown.thumbnail is None:
        return ""
    return f'<img class="thumbnail" alt="" loading="lazy" src="{_data_address("image/jpeg", shown.thumbnail)}">'


def _figures(figures: tuple[Figure, ...]) -> str:
    if not figures:
        return ""
    shown = "\n".join(
        f'<figure><img loading="lazy" alt="{escaped(figure.description)}" src="{_data_address("image/png", figure.png)}">'
        f"<figcaption><strong>{escaped(figure.title)}</strong> {escaped(figure.description)}</figcaption></figure>"
        for figure in figures
    )
    return (
        f'<section class="figures" aria-labelledby="inside"><h2 id="inside">Inside the model</h2>\n{shown}\n</section>'
    )


def _downloads(document: TimelineDocument) -> str:
    if not document.events:
        return ""
    return (
        'Save as <button type="button" id="save-vtt">WebVTT</button> <button type="button" id="save-json">JSON</button>'
    )


def _video_parts(video: ShownVideo | None) -> dict[str, str]:
    if video is None:
        return {
            "video": "<video controls playsinline></video>",  # for the file that a reader may choose
            "embedded": "",
            "missing_reason": "This timeline came without a video.",
        }
    name = f"<bdi>{escaped(video.name)}</bdi>"
    source = f' src="{escaped(video.address)}"' if video.address else ""
    content = ""
    if video.content:
        encoded = base64.b64encode(video.content).decode()
        content = (
            f'<script type="text/plain" id="embedded-video" data-type="{escaped(video.media_type)}">{encoded}</script>'
        )
    return {
        "video": f'<video controls playsinline preload="metadata"{source}></video>',
        "embedded": content,
        "missing_reason": f"{name} cannot be played: it is not where this page looks for it, or in a form that "
        "this browser does not know.",
    }


def _data_address(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
