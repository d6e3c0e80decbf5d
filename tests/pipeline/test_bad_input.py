"""Bad input of every kind: one line with the reason, a clear exit code, never a traceback."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import av
import pytest
import torch

import densevid
from densevid.cli import main
from densevid.errors import InputError
from helpers.made_videos import constant, make_sound, make_video
from helpers.ordinary_user import run_as_ordinary_user
from helpers.waiting import LIMIT_SECONDS


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main(["caption", *map(str, words), "--format", "json"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1 and complaint.startswith("densevid: ") and "Traceback" not in complaint
    return complaint


def noisy(path: Path) -> bytes:
    import numpy as np

    return make_video(
        path, constant(4.0), picture=lambda n: np.random.default_rng(n).integers(0, 255, (128, 192, 3)).astype("uint8")
    ).read_bytes()


def missing(folder: Path) -> Path:
    return folder / "nothing.mp4"


def empty(folder: Path) -> Path:
    (folder / "empty.mp4").touch()
    return folder / "empty.mp4"


def text(folder: Path) -> Path:
    (folder / "notes.mp4").write_text("This is not a video.\n" * 50)
    return folder / "notes.mp4"


def cut_mp4(folder: Path) -> Path:
    whole = noisy(folder / "whole.mp4")
    (folder / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    return folder / "cut.mp4"


def sound(folder: Path) -> Path:
    return make_sound(folder / "sound.mp4")


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.mp4")
    return folder / "pipe.mp4"


def empty_folder(folder: Path) -> Path:
    (folder / "void").mkdir()
    return folder / "void"


def playlist(folder: Path) -> Path:
    (folder / "list.mp4").write_text("#EXTM3U\n#EXTINF:2.0,\nclip.ts\n#EXT-X-ENDLIST\n")
    return folder / "list.mp4"


def protocol(folder: Path) -> Path:
    return Path("concat:a.mp4|b.mp4")


BAD = {
    missing: "no such file",
    empty: "the file is empty",
    text: "not a video (no format is recognised)",
    cut_mp4: "cut short",
    sound: "only sound",
    pipe: "not a regular file",
    empty_folder: "no video in this folder",
    playlist: "not a video",
    protocol: "no such file",
}


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__)
def test_one_line(make, tmp_path, capsys) -> None:
    assert BAD[make] in refused(capsys, make(tmp_path))


@pytest.mark.parametrize("address", ["http://example.com/video.mp4", "HTTPS://example.com/v?a=b", "file:///tmp/a.mp4"])
def test_an_address_is_not_fetched(address, capsys) -> None:
    assert f"{address}: a URL, and nothing is downloaded; download the video first" in refused(capsys, address)
    with pytest.raises(InputError, match="download the video first"):
        densevid.caption(address)


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_this_folder(name, capsys) -> None:
    assert "an empty name; give a video or a folder" in refused(capsys, name)


@pytest.mark.parametrize(
    ("arguments", "flags", "complaint"),
    [
        ({"top": 0}, ["--top", "0"], "{}top must be at least 1, got 0"),
        ({"top": 3, "dense": True}, ["--top", "3", "--dense"], "{0}top and {0}dense exclude each other"),
    ],
)
def test_python_names_arguments_and_the_command_line_flags(arguments, flags, complaint, clip, capsys) -> None:
    with pytest.raises(InputError, match=f"^{complaint.format('')}"):
        densevid.caption(clip, **arguments)
    assert refused(capsys, clip, *flags).startswith(f"densevid: {complaint.format('--')}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused_even_where_all_is_known(clip, tmp_path, capsys) -> None:
    video = shutil.copy(clip, tmp_path / "clip.mp4")
    assert main(["caption", str(video), "--format", "json"]) == 0
    capsys.readouterr()
    assert "densevid: --device cuda: this machine has no usable CUDA device; use cpu" in refused(
        capsys, video, "--device", "cuda"
    )


def test_neither_a_broken_file_nor_what_is_known_waits_for_the_model(clip, tmp_path, fresh_cache) -> None:
    (tmp_path / "videos").mkdir()
    shutil.copy(clip, tmp_path / "videos" / "good.mp4")
    text(tmp_path / "videos")
    words = ["caption", str(tmp_path / "videos"), "--format", "json"]
    assert main(words) == 1
    code = f"import sys; from densevid.cli import main; print(main({words!r}), 'torch' in sys.modules)"
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert again.stdout.splitlines()[-1] == "1 False" and "notes.mp4: not a video" in again.stderr


def test_may_not_be_read(tmp_path, clip) -> None:
    secret = Path(shutil.copy(clip, tmp_path / "secret.mp4"))
    secret.chmod(0)
    done = run_as_ordinary_user(["caption", secret])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"densevid: {secret}: cannot be read (Permission denied)\n"


def test_each_unreadable_file_is_one_failure(tmp_path, clip) -> None:
    """A folder that is closed, one that can be listed and not entered, files in them, and a store."""
    for folder in ("closed", "listed", "open/closed", "store"):
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(clip, tmp_path / folder / "a.mp4")
    shutil.copy(clip, tmp_path / "open" / "good.mp4")
    (tmp_path / "open" / "link.mp4").symlink_to(tmp_path / "nothing")
    (tmp_path / "store" / "features.toml").touch(mode=0)
    for folder, mode in {"closed": 0, "listed": 0o444, "open/closed": 0}.items():
        (tmp_path / folder).chmod(mode)
    names = ["open", "closed", "listed", "closed/a.mp4", "store", "n" * 5000]
    done = run_as_ordinary_user(["caption", *(tmp_path / name for name in names), "--out", tmp_path / "out"])
    complaint = done.stderr.replace(f"densevid: {tmp_path}/", "").splitlines()
    assert done.returncode == 1 and (tmp_path / "out" / "good.densevid.html").is_file()
    assert sorted(line[:70] for line in complaint) == [
        "closed/a.mp4: cannot be read (Permission denied)",
        "closed: the folder cannot be read (Permission denied)",
        "listed/a.mp4: cannot be read (Permission denied)",
        "n" * 70,
        "open/closed: the folder cannot be read (Permission denied)",
        "open/link.mp4: a link to what is not there",
        "store/features.toml: not a readable TOML file ([Errno 13] Permission denied: "[:70],
    ]


def test_all_of_them_in_one_folder_and_the_good_one_is_captioned(tmp_path, clip, capsys) -> None:
    for make in (empty, text, cut_mp4, sound, playlist):
        make(tmp_path)
    (tmp_path / "whole.mp4").unlink()
    shutil.copy(clip, tmp_path / "good.mp4")
    assert main(["caption", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 5 and "1 of 6 videos captioned" in printed.out
    assert (tmp_path / "out" / "good.densevid.html").is_file()


def test_the_readable_part_of_a_cut_mkv_is_captioned_with_a_warning(tmp_path, capsys) -> None:
    whole = noisy(tmp_path / "whole.mkv")
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) * 6 // 10])
    assert main(["caption", str(tmp_path / "cut.mkv")]) == 1
    complaint = capsys.readouterr().err
    assert "could not be read" in complaint and complaint.count("\n") == 1
    assert "could not be read" in (tmp_path / "cut.densevid.json").read_text()
    page = (tmp_path / "cut.densevid.html").read_text()
    assert re.search(r"class=\"notice\".{0,600}could not be read", page, re.DOTALL)


def field(content: bytes, box: bytes, offset: int, value: bytes) -> bytes:
    """An mp4 whose first box of that type holds another value."""
    at = content.index(box) + 4 + offset
    return content[:at] + value + content[at + len(value) :]


def test_an_absurd_declared_duration_is_not_believed(tmp_path, capsys) -> None:
    """Two hundred years in the headers of the file and of the track; the pictures last four seconds."""
    content = noisy(tmp_path / "whole.mp4")
    for box, offset in ((b"mvhd", 16), (b"mdhd", 16), (b"tkhd", 20)):
        content = field(content, box, offset, b"\x7f\xff\xff\xff")
    (tmp_path / "long.mp4").write_bytes(content)
    began = time.process_time()
    assert main(["caption", str(tmp_path / "long.mp4"), "--format", "html,vtt,json,chapters"]) == 0
    assert time.process_time() - began < 60
    details = json.loads((tmp_path / "long.densevid.json").read_text())["details"]["long"]
    assert details["duration"] == pytest.approx(4.0, abs=0.2)


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00"])
def test_an_absurd_declared_size_takes_no_memory(size, tmp_path, capsys) -> None:
    """65535 x 65535 (or no) pixels in the sample description: the pictures have their real size."""
    (tmp_path / "size.mp4").write_bytes(field(noisy(tmp_path / "whole.mp4"), b"avc1", 24, size))
    assert main(["caption", str(tmp_path / "size.mp4"), "--format", "json"]) == 0
    assert capsys.readouterr().err == ""
    details = json.loads((tmp_path / "size.densevid.json").read_text())["details"]["size"]
    assert details["duration"] == pytest.approx(4.0, abs=0.2)


@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi"])
def test_corrupt_bytes_in_the_middle_cost_only_themselves(ending, tmp_path, capsys) -> None:
    codec = {"avi": "mpeg4"}.get(ending, "libx264")
    options = {"fps": 10} if ending == "avi" else {}
    made = make_video(tmp_path / f"whole.{ending}", constant(12.0, fps=10), codec=codec, **options)
    content = bytearray(made.read_bytes())
    middle = len(content) * 2 // 5  # of the pictures, not of an index at the end
    content[middle : middle + 400] = random.Random(7).randbytes(400)
    (tmp_path / f"hurt.{ending}").write_bytes(content)
    words = ["caption", str(tmp_path / f"hurt.{ending}"), "--format", "html,vtt,json,mp4"]
    code = main(words)
    complaint = capsys.readouterr().err
    assert code == int("could not be read" in complaint) and "Traceback" not in complaint and complaint.count("\n") <= 1
    details = json.loads((tmp_path / "hurt.densevid.json").read_text())["details"]["hurt"]
    assert details["duration"] > 3.0


def test_metadata_that_is_not_unicode(tmp_path, capsys) -> None:
    path = make_video(tmp_path / "plain.mp4", constant(3.0))
    with av.open(str(path)) as source, av.open(str(tmp_path / "odd.mkv"), "w") as target:
        target.metadata["title"] = "Q" * 24
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    content = (tmp_path / "odd.mkv").read_bytes()
    assert b"Q" * 24 in content
    (tmp_path / "odd.mkv").write_bytes(content.replace(b"Q" * 24, b"\xff\xfe\x00\x80" * 6))
    assert main(["caption", str(tmp_path / "odd.mkv"), "--format", "html,vtt,srt,json,csv,chapters,mp4"]) == 0
    assert capsys.readouterr().err == ""


def test_a_video_that_begins_in_the_middle_becomes_an_mp4(tmp_path, capsys) -> None:
    """Without its first pictures the times of a Matroska file repeat each other."""
    path = make_video(tmp_path / "whole.mkv", constant(3.0))
    with av.open(str(path)) as source, av.open(str(tmp_path / "late.mkv"), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:  # the first of such a file have none
                packet.stream = stream
                target.mux(packet)
    assert main(["caption", str(tmp_path / "late.mkv"), "--format", "json,mp4"]) == 1
    complaint = capsys.readouterr().err
    assert (
        "late.mkv: about 1.1 seconds of the 2.9 it declares could not be read" in complaint
        and complaint.count("\n") == 1
    )
    with av.open(str(tmp_path / "late.densevid.mp4")) as made, av.open(str(tmp_path / "late.mkv")) as late:
        assert len(list(made.decode(video=0))) == len(list(late.decode(video=0))) > 40


@pytest.mark.parametrize("frames", [[0.0], constant(0.2)])
def test_the_shortest_videos(frames, tmp_path) -> None:
    path = make_video(tmp_path / "short.mp4", frames)
    assert main(["caption", str(path), "--format", "html,vtt,srt,json,csv,chapters,mp4"]) == 0


@pytest.mark.parametrize(
    "name", ["with space.mp4", 'it\'s "quoted" <b>.mp4', "видео 视频 🎬.mp4", "50%#?.mp4", "-x.mp4"]
)
def test_odd_names(name, tmp_path, clip, monkeypatch) -> None:
    shutil.copy(clip, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert main(["caption", f"./{name}", "--format", "html,vtt,srt,json,csv,chapters,mp4"]) == 0
    assert (tmp_path / f"{Path(name).stem}.densevid.html").is_file()


def test_a_name_that_is_not_unicode(tmp_path, clip) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.mp4")
    shutil.copy(clip, odd)
    shutil.copy(clip, tmp_path / "plain.mp4")
    assert main(["caption", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*.densevid.html"))) == 3, "two pages and the index"


def test_a_store_id_never_becomes_a_path(tmp_path, clip) -> None:
    from densevid.data.store.reader import FeatureStore
    from densevid.video.extract import Extractor, find_backbone

    extractor = Extractor(find_backbone("appearance"))
    track, _ = extractor.extract(clip)
    store = FeatureStore.create(tmp_path / "store", extractor.backbone.streams, recipe=extractor.recipe)
    for video in ("../../escaped", "/etc/passwd", "..", "a/b", "a_b", "<script>"):
        store.add(video, track)
    assert main(["caption", str(tmp_path / "store"), "--out", str(tmp_path / "out" / "here")]) == 0
    pages = list((tmp_path / "out" / "here").glob("*.densevid.html"))
    assert len(pages) == 7 and sorted(file.name for file in (tmp_path / "out").iterdir()) == ["here"]
    assert "<script>" not in (tmp_path / "out" / "here" / "index.densevid.html").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--format", "pdf"], "no such format; there are mp4, html"),
        (["--format", ","], "name at least one"),
        (["--top", "0"], "at least 1"),
        (["--top", "3", "--dense"], "exclude each other"),
        (["--top", "3", "--segments", "none.txt"], "leave out --top and --dense"),
        (["--dense", "--segments", "none.txt"], "leave out --top and --dense"),
        (["--model", "nobody"], "installed are tiny"),
        (["--segments", "none.txt"], "not a readable list"),
        (["--out", "FILE"], "it is a file"),
    ],
)
def test_flags(flags, message, tmp_path, clip, capsys) -> None:
    (tmp_path / "file").write_text("mine")
    words = [str(tmp_path / "file") if word == "FILE" else word for word in flags]
    assert main(["caption", str(clip), *words]) == 2
    complaint = capsys.readouterr().err
    assert message in complaint and complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [("5 2\n", "line 1: expected a start and a later end"), ("1 2\nx y\n", "line 2"), ("\n", "no segments")],
)
def test_segments_that_are_none(lines, message, tmp_path, clip, capsys) -> None:
    (tmp_path / "spans.txt").write_text(lines)
    assert message in refused(capsys, clip, "--segments", tmp_path / "spans.txt", "--out", tmp_path)


def test_features_of_another_recipe(tmp_path, clip, capsys) -> None:
    from densevid.data.extraction import extract_many

    extract_many([clip], tmp_path / "store", backbone="appearance", seconds_per_step=0.25, workers=1)
    assert "not the same: sampling" in refused(capsys, tmp_path / "store")


def test_a_model_that_cannot_read_videos(tmp_path, clip, models, capsys) -> None:
    shutil.copytree(models / "tiny", tmp_path / "model")
    (tmp_path / "model" / "features.toml").write_text('name = "resnet200"\n')
    two = [shutil.copy(clip, tmp_path / name) for name in ("a.mp4", "b.mp4")]
    complaint = refused(capsys, *two, "--model", tmp_path / "model")
    assert "give it a feature store" in complaint


def test_without_matplotlib_explain_is_refused_before_the_work(clip, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("densevid.pipeline.captioner.VideoCaptioner.caption_file", None)
    assert "install it with `pip install 'densevid[plot]'`" in refused(capsys, clip, "--explain", "--out", tmp_path)


def test_no_model_at_all(clip, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("densevid.pipeline.model_registry.model_places", lambda: [tmp_path])
    assert "no model is installed" in refused(capsys, clip)


def test_a_place_that_cannot_be_written(clip, tmp_path, capsys) -> None:
    (tmp_path / "clip.densevid.json").mkdir()
    complaint = refused(capsys, shutil.copy(clip, tmp_path / "clip.mp4"))
    assert "it is a folder; give another place with --out DIR" in complaint


def test_every_failure_names_its_video(clip, tmp_path, capsys) -> None:
    """Names that are words of the message are names all the same."""
    (tmp_path / "spans.json").write_text('{"other": {"timestamps": [[0, 1]]}}')
    videos = [str(shutil.copy(clip, tmp_path / f"{name}.mp4")) for name in ("a", "it", "s")]
    assert main(["caption", *videos, "--segments", str(tmp_path / "spans.json")]) == 2
    complaint = capsys.readouterr().err.splitlines()
    assert complaint == [f"densevid: {video}: the segments file does not name it" for video in videos]


def test_names_cannot_act_upon_the_terminal(clip, tmp_path, capsys) -> None:
    odd = tmp_path / "a\x1b[31m\nb.mp4"
    shutil.copy(clip, odd)
    (tmp_path / "c\x07\n.mp4").write_text("no video")
    assert main(["caption", str(tmp_path)]) == 1
    assert main(["caption", str(odd)]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err and "\x07" not in printed.out + printed.err
    assert printed.err == f"densevid: {tmp_path}/c? .mp4: not a video (no format is recognised)\n"
    assert f"  {tmp_path}/a?[31m?b.densevid.html\n" in printed.out
