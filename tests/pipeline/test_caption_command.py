"""`densevid caption` from the command line: files, formats, folders, stores, and what a person sees."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import av
import numpy as np
import pytest

import densevid
from densevid.cli import main
from densevid.data.extraction import extract_many
from densevid.events import read_events
from densevid.inference.segments import unseen
from densevid.pipeline.request import EventRequest
from densevid.tracks import Clock, FeatureTrack
from helpers.made_videos import constant, make_video
from helpers.waiting import LIMIT_SECONDS


def spans(path: Path) -> list[list[float]]:
    (rows,) = json.loads(path.read_text())["results"].values()
    return [row["timestamp"] for row in rows]


def test_the_default_is_a_timeline_a_page_subtitles_and_json_next_to_the_video(video, capsys) -> None:
    assert main(["caption", str(video)]) == 0
    shown = capsys.readouterr().out
    made = sorted(file.name for file in video.parent.iterdir())
    assert made == ["clip.densevid.html", "clip.densevid.json", "clip.densevid.vtt", "clip.mp4"]
    events = read_events(video.parent / "clip.densevid.json")["clip"]
    assert events and all(0 <= event.start < event.end <= 6.01 for event in events)
    assert events == sorted(events, key=lambda event: event.start)
    lines = [line for line in shown.splitlines() if "│" in line]
    assert len(lines) == len(events) and "%" in lines[0] and "clip.mp4, 0:06" in shown
    content = json.loads((video.parent / "clip.densevid.json").read_text())
    assert content["details"]["clip"]["duration"] == pytest.approx(6.0, abs=0.1)
    assert content["provenance"]["inputs"]["video"].startswith("sha256:")


def test_sentences_are_text_in_the_page_and_never_markup(video) -> None:
    """The vocabulary holds `<b>`, `&` and `-->`."""
    assert main(["caption", str(video), "--dense"]) == 0
    page = (video.parent / "clip.densevid.html").read_text()
    sentences = " ".join(event.sentence for event in read_events(video.parent / "clip.densevid.json")["clip"])
    assert "<b>" in sentences
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(page)
    assert "b" not in tags and "video" in tags


def test_every_format_is_written(video, tmp_path) -> None:
    everything = "html,vtt,srt,json,chapters,csv,mp4"
    assert main(["caption", str(video), "--out", str(tmp_path / "out"), "--format", everything]) == 0
    endings = {file.name.removeprefix("clip.densevid.") for file in (tmp_path / "out").iterdir()}
    assert endings == {"html", "vtt", "srt", "json", "ffmetadata", "chapters.txt", "csv", "mp4"}
    events = read_events(tmp_path / "out" / "clip.densevid.json")["clip"]
    with (tmp_path / "out" / "clip.densevid.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["start"]) for row in rows] == pytest.approx([event.start for event in events], abs=1e-3)
    assert [row["sentence"] for row in rows] == [event.sentence for event in events]
    with av.open(str(tmp_path / "out" / "clip.densevid.mp4")) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio", "subtitle"]


def test_top_and_dense_choose_how_many_events_are_written(video, tmp_path) -> None:
    counts = {}
    for name, flags in {"default": [], "top": ["--top", "1"], "dense": ["--dense"]}.items():
        assert main(["caption", str(video), "--out", str(tmp_path / name), "--format", "json", *flags]) == 0
        counts[name] = len(spans(tmp_path / name / "clip.densevid.json"))
    assert counts["top"] == 1 <= counts["default"] <= counts["dense"] and counts["dense"] > 1


def test_of_events_that_start_together_the_longer_comes_first(video, tmp_path) -> None:
    assert main(["caption", str(video), "--out", str(tmp_path), "--format", "json,csv", "--dense"]) == 0
    found = spans(tmp_path / "clip.densevid.json")
    assert len({start for start, _ in found}) < len(found), "some start together"
    assert found == sorted(found, key=lambda span: (span[0], -span[1]))
    with (tmp_path / "clip.densevid.csv").open(encoding="utf-8", newline="") as file:
        rows = [(float(row["start"]), float(row["end"])) for row in csv.DictReader(file)]
    assert rows == sorted(rows, key=lambda span: (span[0], -span[1]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("spans.txt", "0:01 2.5\n\n3,5.25\n"),
        ("spans.json", '{"clip": {"duration": 6, "timestamps": [[1, 2.5], [3, 5.25]]}}'),
    ],
)
def test_given_segments(name, text, video, tmp_path) -> None:
    (tmp_path / name).write_text(text)
    assert main(["caption", str(video), "--segments", str(tmp_path / name), "--format", "json"]) == 0
    assert spans(tmp_path / "clip.densevid.json") == [[1.0, 2.5], [3.0, 5.25]]


def test_a_folder_goes_on_past_failures_and_has_an_index(tmp_path, clip, capsys) -> None:
    folder = tmp_path / "some videos"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(clip, folder / "a <i>name.mp4")
    shutil.copy(clip, folder / "deep" / "b.mp4")
    (folder / "broken.mp4").write_text("this is no video\n" * 100)
    assert main(["caption", str(folder), "--out", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and "broken.mp4: not a video (no format is recognised)" in printed.err
    assert "broken: failed" in printed.out and "2 of 3 videos captioned" in printed.out
    index = (tmp_path / "out" / "index.densevid.html").read_text()
    assert "<i>" not in index and "a &lt;i&gt;name" in index and "./a%20%3Ci%3Ename.densevid.html" in index
    assert (tmp_path / "out" / "b.densevid.html").is_file()
    together = read_events(tmp_path / "out" / "index.densevid.json")
    assert sorted(together) == ["a <i>name", "b"]


def test_without_pages_there_is_no_page_over_all(tmp_path, clip, capsys) -> None:
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(clip, tmp_path / name)
    assert main(["caption", str(tmp_path), "--format", "json"]) == 0
    assert [file.name for file in tmp_path.glob("index*")] == ["index.densevid.json"]
    assert f"2 of 2 videos captioned: {tmp_path / 'index.densevid.json'}" in capsys.readouterr().out


def test_a_folder_is_not_captioned_twice(tmp_path, clip, capsys) -> None:
    """The .mp4 that a run writes next to a video is no video of the folder's own."""
    shutil.copy(clip, tmp_path / "a.mp4")
    for _ in range(2):
        assert main(["caption", str(tmp_path), "--format", "mp4,json"]) == 0
    assert len(list(tmp_path.glob("*.mp4"))) == 2


def test_a_store_is_captioned_without_its_videos(tmp_path, clip, capsys) -> None:
    extract_many([clip], tmp_path / "store", backbone="appearance", workers=1)
    assert main(["caption", str(tmp_path / "store")]) == 0
    made = sorted(file.name for file in (tmp_path / "store-captions").iterdir())
    assert made == ["clip.densevid.html", "clip.densevid.json", "clip.densevid.vtt"]
    assert main(["caption", str(clip), "--format", "json", "--out", str(tmp_path / "direct")]) == 0
    one, other = spans(tmp_path / "store-captions" / made[1]), spans(tmp_path / "direct" / "clip.densevid.json")
    assert one == other


@pytest.mark.parametrize("flags", [["--format", "json,mp4"], ["--burn"], ["--web"]])
def test_an_mp4_of_features_is_refused_before_the_work(flags, tmp_path, clip, monkeypatch, capsys) -> None:
    extract_many([clip], tmp_path / "store", backbone="appearance", workers=1)
    monkeypatch.setattr("densevid.pipeline.batch_job.CaptionJob.run", None)
    assert main(["caption", str(tmp_path / "store"), *flags]) == 2
    assert capsys.readouterr().err.startswith("densevid: features alone have no pictures to make an mp4 of: leave out")


def test_an_mp4_that_is_there_is_not_encoded_again(video, tmp_path) -> None:
    words = ["caption", str(video), "--format", "mp4", "--burn", "--out", str(tmp_path / "out")]
    made = tmp_path / "out" / "clip.densevid.mp4"
    times = []
    for flags in ([], [], ["--top", "1"], ["--top", "1"]):
        assert main([*words, *flags]) == 0
        times.append(made.stat().st_mtime_ns)
    assert times[0] == times[1] < times[2] == times[3], "only other sentences are"
    made.write_bytes(made.read_bytes()[:1000])
    assert main([*words, "--top", "1"]) == 0 and made.stat().st_size > 1000, "and what is damaged"


def test_progress_for_programs(video, fresh_cache) -> None:
    command = [sys.executable, "-m", "densevid", "caption", str(video), "--format", "json", "--progress", "jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS)
    rows = [json.loads(line) for line in done.stderr.splitlines()]
    assert {row["stage"] for row in rows} == {"decode", "features", "events", "sentences", "files"}
    for stage in ("decode", "features", "events", "sentences", "files"):
        course = [row["done"] for row in rows if row["stage"] == stage]
        assert course == sorted(course) and course[-1] == 1 and course[0] >= 0
    assert len([row for row in rows if row["stage"] == "decode"]) > 5


def test_progress_reports_selection_before_captions(video, fresh_cache) -> None:
    calls: list[tuple[str, float]] = []
    densevid.load().caption_file(
        video, "clip", EventRequest(dense=True), lambda stage, done: calls.append((stage, done))
    )
    sentences = [done for stage, done in calls if stage == "sentences"]
    assert 0 < sentences[0] < 1 and sentences == sorted(sentences) and sentences[-1] == 1
    assert calls.index(("events", 1.0)) < calls.index(("sentences", sentences[0]))


def test_a_title_is_what_the_files_call_the_video(video, tmp_path, capsys) -> None:
    words = ["caption", str(video), "--out", str(tmp_path / "out"), "--format", "html,json,chapters"]
    assert main([*words, "--title=--A <b>film</b>.mkv"]) == 0
    assert capsys.readouterr().out.startswith("--A <b>film</b>.mkv, 0:06\n")
    page = (tmp_path / "out" / "clip.densevid.html").read_text()
    assert "<title>--A &lt;b&gt;film&lt;/b&gt;.mkv" in page and "<b>" not in page
    content = json.loads((tmp_path / "out" / "clip.densevid.json").read_text())
    assert list(content["results"]) == list(content["details"]) == ["--A <b>film</b>"]
    assert "title=--A <b>film</b>\n" in (tmp_path / "out" / "clip.densevid.ffmetadata").read_text()
    other = shutil.copy(video, tmp_path / "other.mp4")
    assert main(["caption", str(video), str(other), "--title", "both"]) == 2
    assert "--title is for one video, here are 2" in capsys.readouterr().err


def test_files_of_one_name_get_names_of_their_own(tmp_path, clip, capsys) -> None:
    names = ["a/clip.mp4", "b/clip.mp4", "b/clip.mov", "b/clip-2.mp4"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(clip, tmp_path / name)
    paths = [str(tmp_path / name) for name in names]
    assert main(["caption", *paths, "--out", str(tmp_path / "out"), "--format", "json"]) == 0
    assert sorted(read_events(tmp_path / "out" / "index.densevid.json")) == ["clip", "clip-2", "clip-3", "clip-4"]
    assert main(["caption", *paths, "--format", "json"]) == 0
    made = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.glob("[ab]/*.json"))
    assert made == [f"{name}.densevid.json" for name in ("a/clip", "b/clip-2", "b/clip.mov", "b/clip.mp4")]


@pytest.mark.parametrize("coding", ["hevc", "mpeg4"])
def test_for_the_web_what_browsers_do_not_play_is_encoded_anew(coding, tmp_path) -> None:
    encoder = {"hevc": "libx265", "mpeg4": "mpeg4"}[coding]
    video = make_video(tmp_path / "clip.mp4", constant(2.0), codec=encoder, options={"log-level": "none"})
    for out, flags, expected in (("copied", [], coding), ("web", ["--web"], "h264")):
        words = ["caption", str(video), "--out", str(tmp_path / out), "--format", "html,mp4", *flags]
        assert main(words) == 0
        with av.open(str(tmp_path / out / "clip.densevid.mp4")) as container:
            assert container.streams.video[0].codec_context.name == expected
        page = (tmp_path / out / "clip.densevid.html").read_text()
        assert ('src="./clip.densevid.mp4"' in page) is bool(flags)


def test_open_shows_the_page(video, monkeypatch, capsys) -> None:
    shown: list[str] = []

    def opens(address: str) -> bool:
        shown.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", opens)
    assert main(["caption", str(video), "--open"]) == 0
    assert shown == [(video.parent / "clip.densevid.html").as_uri()] and capsys.readouterr().err == ""


def test_without_a_browser_the_page_is_named(video, monkeypatch, capsys) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert main(["caption", str(video), "--open"]) == 0
    page = video.parent / "clip.densevid.html"
    assert capsys.readouterr().err == f"densevid: no browser could be started; the page is {page}\n"


def test_embed_puts_the_video_into_the_page(video) -> None:
    assert main(["caption", str(video), "--embed", "--format", "html"]) == 0
    assert (video.parent / "clip.densevid.html").stat().st_size > video.stat().st_size


def test_a_video_that_not_every_browser_plays_gets_a_hint(clip, tmp_path, capsys) -> None:
    old = make_video(tmp_path / "old <b>.avi", constant(4.0), codec="mpeg4")
    copied = make_video(tmp_path / "h264.avi", constant(4.0))
    assert main(["caption", str(old)]) == 0
    assert "Not every browser plays old <b>.avi" in capsys.readouterr().out
    page = (tmp_path / "old <b>.densevid.html").read_text()
    assert "Not every browser plays <bdi>old &lt;b&gt;.avi</bdi>" in page and "caption VIDEO --web" in page
    assert main(["caption", str(old), str(clip), "--out", str(tmp_path / "both")]) == 0
    assert "Not every browser plays 1 of them (old <b>.avi)" in capsys.readouterr().out
    assert main(["caption", str(old), "--web"]) == 0
    assert "browser" not in capsys.readouterr().out
    words = ["caption", str(copied), "--format", "html,mp4", "--out", str(tmp_path / "copied")]
    assert main(words) == 0 and "browser" not in capsys.readouterr().out, "the page links the H.264 in an mp4"
    assert 'src="./h264.densevid.mp4"' in (tmp_path / "copied" / "h264.densevid.html").read_text()
    page = (tmp_path / "old <b>.densevid.html").read_text()
    assert "Not every browser" not in page
    assert main(["caption", str(clip), "--out", str(tmp_path)]) == 0 and "browser" not in capsys.readouterr().out


def test_flags_of_a_format_ask_for_it(video, monkeypatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    for flag, ending in {"--burn": "mp4", "--web": "mp4", "--embed": "html", "--open": "html"}.items():
        assert main(["caption", str(video), "--format", "vtt", flag]) == 0
        assert video.with_suffix(f".densevid.{ending}").is_file(), flag
        video.with_suffix(f".densevid.{ending}").unlink()


def test_a_failure_alone_prints_nothing_but_its_line(tmp_path, capsys) -> None:
    assert main(["caption", str(tmp_path / "nothing.mp4")]) == 2
    assert capsys.readouterr().out == ""


def test_where_nothing_is_confident_the_timeline_is_empty_and_says_so(video, models, tmp_path, capsys) -> None:
    shutil.copytree(models / "tiny", tmp_path / "model")
    config = tmp_path / "model" / "config.toml"
    settings = re.sub(r"summary_confidence = .*", "summary_confidence = 0.999", config.read_text())
    config.write_text(settings)
    formats = "html,vtt,srt,json,chapters,csv,mp4"
    assert main(["caption", str(video), "--model", str(tmp_path / "model"), "--format", formats]) == 0
    printed = capsys.readouterr().out
    assert "nothing in it that the model is confident about; --top 3 shows the best all the same" in printed
    assert "--top 3" in (video.parent / "clip.densevid.html").read_text()
    assert (video.parent / "clip.densevid.chapters.txt").read_text() == ""
    assert spans(video.parent / "clip.densevid.json") == []


def test_given_segments_of_a_long_video_are_read_where_they_are() -> None:
    """50 seconds are 100 steps, the model's window is 40: of a segment at its end the first window sees nothing."""
    model = densevid.load()
    streams = (("appearance", model.loaded.config.features.widths[0]),)
    values = np.random.default_rng(0).normal(size=(100, streams[0][1])).astype(np.float32)
    track = FeatureTrack(values, Clock.uniform(0.5), streams)
    spans = {(1.0, 4.0): (0, (1, 4)), (27.0, 33.0): (40, (7, 13)), (40.0, 44.0): (60, (10, 14))}
    spans[5.0, 45.0] = (30, (0, 20))  # longer than the window: its middle
    events = model.caption(track, segments=list(spans))
    assert [(event.start, event.end) for event in events] == list(spans)
    for event, (first, inside) in zip(events, spans.values(), strict=True):
        alone = FeatureTrack(values[first : first + 40], track.clock, streams)
        assert [event.sentence] == [same.sentence for same in model.captioner.caption_segments(alone, [inside])]
    first_window = model.captioner.caption_segments(track, list(spans))
    assert [event.sentence for event in events] != [event.sentence for event in first_window]
    assert unseen(model.captioner, track, list(spans)) == 0 and unseen(model.captioner, track, [(60.0, 61.0)]) == 1


def test_references_stand_beside_the_predictions(video, tmp_path, capsys) -> None:
    annotations = {"clip": {"duration": 6.0, "timestamps": [[0, 3], [2, 6]], "sentences": ["a <i>dog</i>", "a cat"]}}
    (tmp_path / "val.json").write_text(json.dumps(annotations))
    words = ["--references", str(tmp_path / "val.json"), "--explain", "--format", "html,json"]
    assert main(["caption", str(video), *words]) == 0
    page = (tmp_path / "clip.densevid.html").read_text()
    assert page.count('class="badge">reference') == 2 and "a &lt;i&gt;dog" in page and "Of 2 references" in page
    assert len(list(tmp_path.glob("clip.densevid.*.png"))) == 5
    sentences = [event.sentence for event in read_events(tmp_path / "clip.densevid.json")["clip"]]
    assert sentences and "a cat" not in sentences, "predictions alone are the model's"
    other = shutil.copy(video, tmp_path / "other.mp4")
    capsys.readouterr()
    assert main(["caption", str(other), *words]) == 0
    assert capsys.readouterr().err == "densevid: 1 of 1 videos are not in the references\n"
