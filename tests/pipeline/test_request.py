"""Files of spans: read as they are meant, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from densevid.cli import main
from densevid.errors import InputError
from densevid.events import read_events
from densevid.pipeline.request import EventRequest, read_spans

WRITTEN = [(1.0, 2.5), (3.0, 65.25)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("spans.txt", "1 2.5\n\n3,1:05.25\n"),
        ("spans.txt", "# start end\n1;2.5\n  # more\n0:03 - 0:01:05.25 two dogs and 3 cats\n"),
        ("spans.txt", "0:01–0:02.5 │ ██ │ 87%  a dog\n3 1:05.25\ta cat\n"),
        ("spans.txt", "00:00:01,000 --> 00:00:02,500\n00:03.0 --> 01:05.250 align:start\n"),
        ("spans.srt", "1\n00:00:01,000 --> 00:00:02,500\n7 8 dogs\n\n2\n00:00:03,000 --> 00:01:05,250\na\n"),
        ("spans.vtt", "WEBVTT\n\nNOTE by us\n\n1\n00:01.000 --> 00:02.500 line:0\na\n\n00:03.000 --> 01:05.250\nb\n"),
        ("spans.csv", 'start,end,confidence,sentence\r\n1.000,2.500,0.9,"a, b\nc"\r\n3,65.25,,\r\n'),
        ("spans.csv", "sentence;start;end\na dog;1,0;2,5\nb;3;65,25\n"),
        ("spans.csv", '"Start", "End", "what"\n1, 2.5, a dog\n3, 65.25, "b, c"\n'),
        ("spans.csv", "1,2.5\n3,65.25\n"),
        ("spans.json", '{"v": {"timestamps": [[1, 2.5], [3, 65.25]]}, "other": {"timestamps": [[5, 2]]}}'),
        ("spans.json", '{"results": {"title": [{"sentence": "a", "timestamp": [1, 2.5]}, '
         '{"sentence": "b", "timestamp": [3, 65.25]}]}}'),
    ],
)  # fmt: skip
def test_what_is_read(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert read_spans(tmp_path / name, ["v"])["v"] == WRITTEN


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("spans.txt", "0,5 3,5\n", "line 1: expected a start and a later end, got '0,5 3,5'"),
        ("spans.txt", "1 2\n0 5 6 7 8\n", "line 2: expected"),
        ("spans.txt", "-1 3\n", "line 1: expected"),
        ("spans.txt", "1\n00:00:01,000 --> 00:00:02,000\n", "line 1: expected"),
        ("spans.txt", "1 --> \n", "line 1: expected"),
        ("spans.txt", f"1 {'9' * 400}\n", "line 1: expected"),
        ("spans.txt", "# nothing\n", "holds no segments"),
        ("spans.srt", "1\n00:00:02,000 --> 00:00:01,000\na\n", "line 2: expected"),
        ("spans.vtt", "WEBVTT\n", "holds no segments"),
        ("spans.csv", "start,end\n1,x\n", "line 2: expected a start and a later end, got '1, x'"),
        ("spans.csv", "start,end\n1\n", "line 2: expected"),
        ("spans.csv", "", "holds no segments"),
        ("spans.json", '{"v": {"timestamps": [[1, 2], [5, 2]]}}', "v: event 1: expected a start and a later end, got"),
        ("spans.json", '{"v": {"timestamps": [[-1, 2]]}}', "v: event 0: expected"),
        ("spans.json", '{"v": {"timestamps": [[0, 2, 3]]}}', "needs a start and an end"),
        ("spans.json", "[]", "expected an object"),
        ("spans.json", "{", "not valid JSON"),
    ],
)
def test_what_is_refused(name: str, text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        read_spans(tmp_path / name, ["v"])
    assert complaint in str(refused.value) and str(tmp_path / name) in str(refused.value)


@pytest.mark.parametrize("ending", ["json", "vtt", "srt", "csv"])
def test_what_a_run_wrote_can_be_captioned_again(ending: str, video: Path, tmp_path: Path) -> None:
    assert main(["caption", str(video), "--format", f"json,{ending}"]) == 0
    before = read_events(tmp_path / "clip.densevid.json")["clip"]
    words = ["--segments", str(tmp_path / f"clip.densevid.{ending}"), "--format", "json", "--out", str(tmp_path / "b")]
    assert main(["caption", str(video), *words]) == 0
    after = read_events(tmp_path / "b" / "clip.densevid.json")["clip"]
    assert [(e.start, e.end) for e in after] == [pytest.approx((e.start, e.end), abs=1e-3) for e in before]


def test_a_video_without_segments_in_the_file_is_refused(video: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "spans.json").write_text('{"clip": {"timestamps": []}}')
    assert main(["caption", str(video), "--segments", str(tmp_path / "spans.json")]) == 2
    assert capsys.readouterr().err == f"densevid: {video}: the segments file has no segment of it\n"


def test_all_words_are_part_of_what_a_result_is_kept_under() -> None:
    full = EventRequest.of(3, False, None, all_words=True)
    assert full != EventRequest.of(3, False, None) and "all_words=True" in repr(full)
    assert full.text == "top 3, all words" and EventRequest(top=3).text == "top 3"
    assert EventRequest(all_words=True).is_summary and not full.is_summary
    assert not EventRequest(segments=((0.0, 1.0),)).is_summary and not EventRequest(dense=True).is_summary
