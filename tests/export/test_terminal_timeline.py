"""The timeline in a terminal and the index page: what stands where, and nothing that acts."""

from __future__ import annotations

from pathlib import Path

from densevid.events import Event
from densevid.export.index_page import IndexRow, index_page
from densevid.export.terminal_timeline import BAR, NOTHING, Look, terminal_timeline


def test_bars_show_where_events_lie() -> None:
    events = [Event(0, 12, "first half", 0.9), Event(12, 24, "second half", 0.25), Event(0, 24, "all of it", 1.0)]
    bars = [line.split("│")[1] for line in terminal_timeline(events, 24.0).splitlines()]
    half = BAR // 2
    assert bars == ["█" * half + " " * half, " " * half + "█" * half, "█" * BAR]


def test_lines_are_aligned_and_no_wider_than_the_terminal() -> None:
    events = [Event(0, 5, "word " * 40, 0.5), Event(3600, 3725, "short", 0.07)]
    lines = terminal_timeline(events, 4000.0, Look(width=80)).splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) > 3
    assert (
        lines[0].startswith("  0:00:00–0:00:05 │") and "1:00:00–1:02:05 │" in lines[-1] and "  7%  short" in lines[-1]
    )


def test_escape_codes_of_a_sentence_do_nothing() -> None:
    shown = terminal_timeline([Event(0, 1, "\x1b[2Jgone\r\nnew")], 1.0)
    assert "\x1b" not in shown and "\r" not in shown and "gone new" in shown


def test_nothing_is_said_so() -> None:
    assert terminal_timeline([], 10.0).strip() == NOTHING


def test_the_index_escapes_everything() -> None:
    nasty = "<script>alert(1)</script>\"'&"
    rows = [
        IndexRow(nasty, Path(f"{nasty}.html"), 61.0, (nasty,)),
        IndexRow("bad", None, None, (), error=nasty),
        IndexRow("calm", Path("a b.html"), 5.0, ()),
    ]
    page = index_page(nasty, rows, model=nasty)
    assert "<script" not in page and 'href="./a%20b.html"' in page and NOTHING in page and "1:01" in page
    assert page.count('class="failed"') == 1 and "2 of 3 videos" in page
