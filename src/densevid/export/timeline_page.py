"""A TimelineDocument becomes one HTML file that works from disk.

The page is `page/timeline.html` with its styles and scripts inside. Everything from outside is escaped into the list
of events, where the scripts read it from; the content security policy allows only its own script and styles, by hash,
and forbids every request but the one for the video.
"""

from __future__ import annotations

import base64
import json
from string import Template

from densevid.export.document import Figure, ShownVideo, TimelineDocument
from densevid.export.page_entries import confidence_filter, event_list, group_filter, lay_out, sentences_note
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
from densevid.export.subtitles import EXTERNAL_DATA, youtube_chapters

CHOOSE = (
    "<p>The timeline works without it. To watch, choose the file:</p>"
    '<label class="button">Choose the video<input type="file" id="chosen-file" accept="video/*"></label>'
)
SCRIPTS = tuple(
    f"{name}.js"
    for name in ("events", "player", "lanes", "overview", "list", "downloads", "figures", "keyboard", "main")
)


def timeline_page(document: TimelineDocument) -> str:
    """The whole page as text."""
    css = page_part("frame.css") + page_part("timeline.css")
    script = "\n".join(map(page_part, SCRIPTS))
    layout = lay_out(document.events)
    allowed = policy(css, script, img="data:", media="'self' file: blob:")  # from disk a page is no 'self' everywhere
    parts = {
        "head": page_head(escaped(document.title), "timeline", css, allowed),
        "logo": LOGO,
        "search_icon": SEARCH_ICON,
        "script": script,
        "title": escaped(document.title),
        "video_id": escaped(document.video_id or document.title),
        "external": escaped(json.dumps(EXTERNAL_DATA)),
        "seconds": f"{document.seconds:.3f}",
        "digits": str(document.clock_digits),
        "duration": clock_text(document.duration),
        "facts": _facts(document),
        "notice": notice(document.warning),
        "legend": _legend(document),
        "groups": group_filter(layout),
        "sureness": confidence_filter(document),
        "events": event_list(document, layout),
        "note": sentences_note(document),
        "figures": _figures(document.figures),
        "downloads": _downloads(document),
        "provenance": escaped(document.provenance),
        "stage": "" if document.watchable else " hidden",
        **_video_parts(document.video),
    }
    return Template(page_part("timeline.html")).substitute(parts)


def _facts(document: TimelineDocument) -> str:
    predicted = sum(not shown.reference for shown in document.events)
    references = len(document.events) - predicted
    facts = [clock_text(document.duration), count_text(predicted, "event")]
    facts += [count_text(references, "reference")] if references else []
    facts += [document.model] if document.model else []
    return " <span aria-hidden='true'>·</span> ".join(f"<span>{escaped(fact)}</span>" for fact in facts)


def _legend(document: TimelineDocument) -> str:
    compared = {shown.reference for shown in document.events} == {True, False}
    return "Colour: the reference it overlaps by 0.3 or more; grey: none" if compared else ""


def _figures(figures: tuple[Figure, ...]) -> str:
    if not figures:
        return ""
    shown = "\n".join(map(_figure, figures))
    return f'<section class="figures" aria-labelledby="inside"><h2 id="inside">Inside the model</h2>{shown}</section>'


def _figure(figure: Figure) -> str:
    title, source = escaped(figure.title), data_address("image/png", figure.png)
    return (
        f'<figure><button type="button" class="picture" title="Enlarge" aria-label="Enlarge: {title}">'
        f'<img loading="lazy" alt="{title}" width="{figure.width}" src="{source}"></button>'
        f"<figcaption><strong>{title}</strong> {escaped(figure.description)}</figcaption></figure>"
    )


def _downloads(document: TimelineDocument) -> str:
    predicted = [shown.event for shown in document.events if not shown.reference]
    if not predicted:
        return ""
    kinds = {"vtt": "WebVTT", "srt": "SRT", "json": "JSON"}
    buttons = [f'<button type="button" id="save-{kind}">{name}</button>' for kind, name in kinds.items()]
    return f"Save as {' '.join(buttons)}{_chapters(youtube_chapters(predicted, document.duration))}"


def _chapters(lines: str) -> str:
    """A button that copies them, for the description of a video; nothing where no chapter is left."""
    if not lines:
        return ""
    return f' <button type="button" id="copy-chapters" data-chapters="{escaped(lines)}">Copy chapters</button>'


def _video_parts(video: ShownVideo | None) -> dict[str, str]:
    if video is None:
        return {
            "video": "<video controls playsinline></video>",  # for the file that a reader may choose
            "embedded": "",
            "missing": _reason("This timeline came without a video.") + CHOOSE,
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
        "missing": _missing(video, name),
    }


def _missing(video: ShownVideo, name: str) -> str:
    """The notice in place of a video; choosing a file would not help a browser that cannot play it."""
    if video.plays:
        reason = f"{name} cannot be played: it is not where this page looks for it, or in a form that this browser "
        return _reason(reason + "does not know.") + CHOOSE
    return (
        _reason(f"Not every browser plays {name}, and this one does not.")
        + "<p>The timeline works without it. To get a page that plays in every browser:</p>"
        "<p><code>densevid caption VIDEO --web</code></p>"
    )


def _reason(markup: str) -> str:
    return f'<p class="missing-reason">{markup}</p>'
