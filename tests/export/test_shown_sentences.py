"""Two confidences and empty sentences: what people read, and what files for programs hold."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from densevid.events import Event, read_events
from densevid.export.document import ShownEvent, TimelineDocument, references
from densevid.export.index_page import IndexRow, index_page
from densevid.export.shown_sentences import confidences_text, guess, shown_sentences, whose_sentences
from densevid.export.subtitled_video import shown_in_turn
from densevid.export.subtitles import as_shown, ffmpeg_metadata, rows_of, srt, table, webvtt, youtube_chapters
from densevid.export.terminal_timeline import Look, sentences_note, terminal_timeline
from densevid.pipeline.outputs import MOST_THUMBNAILS, _thumbnail_rank
from densevid.pipeline.result import CaptionResult, Detection

FULL = Event(0, 12, "a man is cooking in a kitchen", 0.9, 0.64)
SHORTENED = Event(12, 24, "someone is cooking", 0.8, 0.7, "a woman <is> making a cake", shortened=True)
ABSTAINED = Event(24, 40, "", 0.6, 0.2, "a dog is running")
JUDGED = [FULL, SHORTENED, ABSTAINED]
OLD = [Event(0, 12, "a man is cooking", 0.9), Event(12, 24, "a dog", 0.5)]
FIELDS = {"sentence_score", "full_sentence", "shortened", "sentence_model"}


def test_an_event_without_a_sentence_is_called_by_its_number_in_order_of_time() -> None:
    late, early = replace(ABSTAINED, start=30), replace(ABSTAINED, start=2, end=3)
    assert shown_sentences([late, FULL, early]) == ["scene 3", FULL.sentence, "scene 2"]
    assert [event.sentence for event in as_shown([late, FULL, early])] == [FULL.sentence, "scene 2", "scene 3"]


def test_no_line_of_any_format_is_empty() -> None:
    assert "\nscene 3\n" in webvtt(JUDGED) and "\nscene 3\n" in srt(JUDGED)
    assert "title=scene 3\n" in ffmpeg_metadata(JUDGED)
    assert youtube_chapters(JUDGED, 60.0).splitlines()[-1] == "0:24 Scene 3"
    assert shown_in_turn(as_shown(JUDGED))[-1] == (24000, 40000, "scene 3")
    assert terminal_timeline(JUDGED, 40.0).endswith("scene 3")
    page = index_page("All", [IndexRow("clip", Path("clip.html"), 40.0, tuple(JUDGED))], model="m")
    assert '<span class="sentence" dir="auto">scene 3</span>' in page and "a dog is running" not in page


def test_programs_get_the_empty_sentence_and_what_there_is_besides(tmp_path: Path) -> None:
    rows = rows_of(JUDGED)
    assert all(set(row) == {"sentence", "timestamp", "proposal_score"} | FIELDS for row in rows)
    assert [row["sentence"] for row in rows] == [FULL.sentence, SHORTENED.sentence, ""]
    assert [row["full_sentence"] for row in rows] == [FULL.sentence, SHORTENED.full_sentence, ABSTAINED.full_sentence]
    assert [row["shortened"] for row in rows] == [False, True, False]
    result = CaptionResult("v", "v.mp4", None, 40.0, tuple(JUDGED), tuple(Detection(0, n) for n in range(3)))
    (tmp_path / "events.json").write_text(result.to_json())
    assert read_events(tmp_path / "events.json")["v"] == [replace(FULL, full_sentence=FULL.sentence), *JUDGED[1:]]


def test_the_table_has_its_new_columns_at_the_end() -> None:
    nasty = replace(SHORTENED, full_sentence="=1+1", sentence_model="@other")
    rows = list(csv.DictReader(io.StringIO(table([FULL, nasty, ABSTAINED]))))
    assert list(rows[0])[:4] == ["start", "end", "confidence", "sentence"] and set(list(rows[0])[4:]) == FIELDS
    assert [row["sentence_score"] for row in rows] == ["0.6400", "0.7000", "0.2000"]
    assert [row["shortened"] for row in rows] == ["no", "yes", "no"] and rows[2]["sentence"] == ""
    assert (rows[1]["full_sentence"], rows[1]["sentence_model"]) == ("'=1+1", "'@other"), "no formula"


def test_the_terminal_has_both_confidences_under_their_names() -> None:
    heading, first, second, third = terminal_timeline(JUDGED, 40.0, Look(width=100)).splitlines()
    for name, percents in {"event": ("90%", "80%"), "sentence": ("64%", "70%")}.items():
        end = heading.index(name) + len(name)
        assert (first[:end].split()[-1], second[:end].split()[-1]) == percents, "each ends where its heading does"
    assert third.split()[-3:] == ["60%", "scene", "3"], "no sentence, no confidence in it"
    assert max(map(len, terminal_timeline(JUDGED, 40.0, Look(width=40)).splitlines())) <= 40
    given = terminal_timeline(JUDGED, 40.0, Look(width=100), confidence=False).splitlines()
    assert "event" not in given[0] and "90%" not in given[1] and "64%" in given[1]


def test_one_line_says_whose_the_sentences_are() -> None:
    assert whose_sentences(JUDGED) == "The sentences are a small model's and can be wrong."
    assert sentences_note(JUDGED).endswith("wrong. --all-words shows every guess.")
    assert sentences_note([FULL]) == "The sentences are a small model's and can be wrong."
    other = replace(FULL, sentence_model="some/\x1b[2Jmodel")
    assert whose_sentences([other, other]) == "The sentences are by some/ [2Jmodel and can be wrong."
    assert whose_sentences([FULL, other]) == (
        "The sentences are a small model's or by some/ [2Jmodel and can be wrong."
    )


def test_events_of_older_models_look_as_before() -> None:
    assert whose_sentences(OLD) == "" == sentences_note(OLD) == confidences_text(OLD[0], 90)
    assert rows_of(OLD) == [event.as_row() for event in OLD] and not FIELDS & set(rows_of(OLD)[0])
    assert table(OLD).splitlines()[0] == "start,end,confidence,sentence"
    assert len(terminal_timeline(OLD, 40.0).splitlines()) == 2
    assert "small model" not in index_page("All", [IndexRow("clip", None, 40.0, tuple(OLD))], model="m")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (FULL, "event 90% · sentence 64%"),
        (SHORTENED, "event 80% · sentence 70%"),
        (ABSTAINED, "event 60% · no sentence is sure enough"),
        (replace(ABSTAINED, sentence_score=None), "event 60% · no sentence is sure enough"),
    ],
)
def test_two_confidences_in_words(event: Event, text: str) -> None:
    span = round(100 * event.score)
    assert confidences_text(event, span) == text and confidences_text(event, None) == text.partition(" · ")[2]


def test_a_guess_is_what_is_not_shown() -> None:
    assert [guess(event) for event in JUDGED] == ["", SHORTENED.full_sentence, ABSTAINED.full_sentence]
    assert guess(replace(FULL, full_sentence=FULL.sentence)) == ""


def test_scenes_are_numbered_in_each_group_of_a_page_and_references_not() -> None:
    empty = Event(1, 2, "")
    groups = [ShownEvent(replace(empty, start=start), group=name) for name in "ab" for start in (0.5, 1)]
    document = TimelineDocument("t", 10.0, (*references([empty]), *groups))
    assert document.sentences == ("(no sentence)", "scene 1", "scene 2", "scene 1", "scene 2")


def test_of_very_many_events_those_without_words_have_their_picture() -> None:
    many = [ShownEvent(Event(n, n + 1, "words", 0.5)) for n in range(MOST_THUMBNAILS)]
    scene = ShownEvent(replace(ABSTAINED, score=0.0), 0.0)
    assert scene in sorted([*many, scene], key=_thumbnail_rank)[:MOST_THUMBNAILS]


def test_the_table_of_a_notebook_has_both_confidences_and_no_empty_line() -> None:
    result = CaptionResult("v", "v.mp4", None, 40.0, tuple(JUDGED), tuple(Detection(0, n) for n in range(3)))
    view = result._repr_html_()
    assert "event 90% · sentence 64%" in view and ">scene 3<" in view and "a dog is running" not in view
