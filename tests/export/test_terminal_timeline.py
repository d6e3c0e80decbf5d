"""The timeline in a terminal and the index page: what stands where, and nothing that acts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from densevid.events import Event
from densevid.export.index_page import IndexRow, index_page
from densevid.export.terminal_timeline import BAR, COLOURS, NOTHING, PARTS_ASCII, Look, terminal_timeline


def test_bars_show_where_events_lie() -> None:
    events = [Event(0, 12, "first half", 0.9), Event(12, 24, "second half", 0.25), Event(0, 24, "all of it", 1.0)]
    bars = [line.split("│")[1] for line in terminal_timeline(events, 24.0).splitlines()]
    half = BAR // 2
    assert bars == ["█" * half + " " * half, " " * half + "█" * half, "█" * BAR]


def test_all_bars_have_one_scale_where_a_span_reaches_beyond_the_end() -> None:
    events = [Event(0, 12, "half of the longest"), Event(0, 24, "the longest")]
    bars = [line.split("│")[1] for line in terminal_timeline(events, 12.0).splitlines()]
    assert bars == ["█" * (BAR // 2) + " " * (BAR // 2), "█" * BAR]


def test_given_spans_have_no_percentage() -> None:
    lines = terminal_timeline([Event(0, 5, "word " * 40)], 10.0, Look(width=80), confidence=False).splitlines()
    assert "%" not in "".join(lines) and lines[0].index("word") == len(lines[1]) - len(lines[1].lstrip())


def test_a_terminal_that_knows_ascii_alone_gets_no_other_letters() -> None:
    shown = terminal_timeline([Event(0, 5, "zwölf")], 10.0, Look(parts=PARTS_ASCII, edges=("|", "|"), encoding="ascii"))
    assert "zw?lf" in shown and "zwölf" in terminal_timeline([Event(0, 5, "zwölf")], 10.0)


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


def test_an_empty_timeline_says_that_it_is_empty() -> None:
    assert terminal_timeline([], 10.0).strip() == NOTHING


def test_the_index_escapes_everything() -> None:
    nasty = "<script>alert(1)</script>\"'&"
    rows = [
        IndexRow(nasty, Path(f"{nasty}.html"), 61.0, (Event(7.0, 9.0, nasty),)),
        IndexRow("bad", error=nasty),
        IndexRow("calm", Path("a b.html"), 5.0),
    ]
    page = index_page(nasty, rows, model=nasty)
    assert page.count("<script") == 1 and "<script>" not in page, "its own and no other"
    assert 'href="./a%20b.html"' in page and NOTHING in page and "1:01" in page
    assert 'html#t=7.00">' in page
    assert page.count('class="failed"') == 1 and "2 of 3 videos" in page


def test_on_a_screen_bars_have_colours_and_nothing_else_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [Event(0.0, 30.0, "one " * 20), Event(30.0, 90.0, "two", 0.5)]
    plain = terminal_timeline(events, 90.0, Look(80))
    painted = terminal_timeline(events, 90.0, Look(80, colours=COLOURS))
    assert "\x1b[38;5;33m" in painted and "\x1b[38;5;35m" in painted
    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert Look.of_stdout().colours == COLOURS
    monkeypatch.setenv("NO_COLOR", "1")
    assert Look.of_stdout().colours == ()


def test_in_a_short_video_tenths_tell_events_apart() -> None:
    assert "0:01.2–0:01.9" in terminal_timeline([Event(1.2, 1.9, "a")], 6.0)
    assert "0:01–0:41 " in terminal_timeline([Event(1.2, 41.9, "a")], 60.0)
    assert "1:00:01–1:00:02 " in terminal_timeline([Event(3601.2, 3602.9, "a")], 4000.0)


@pytest.mark.parametrize("width", [40, 60, 70, 71, 100])
@pytest.mark.parametrize("sentence", ["a dog runs over the grass and jumps " * 3, "一只狗在草地上跑" * 12, "x" * 150])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(width: int, sentence: str) -> None:
    """A narrow terminal shows no bar."""
    shown = terminal_timeline([Event(3601, 3605, sentence)], 4000.0, Look(width=width))
    assert max(map(cell_len, shown.splitlines())) <= width
    assert ("│" in shown) == (width >= 71)
    assert "".join(shown.split()).endswith("".join(sentence.split()))
