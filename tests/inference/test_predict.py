"""`densevid predict` with what users bring: bad videos among good ones, odd flags, interrupts, segments of any form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel, save_model
from densevid.cli import main
from densevid.config import Config
from densevid.data.store.reader import FeatureStore
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.inference.captioner import Captioner
from densevid.inference.long_video import LongVideoCaptioner
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack

STREAMS = {"resnet": 6, "bn": 4}


def make_model(**model: Any) -> LoadedModel:
    torch.manual_seed(0)
    values = {"width": 16, "hidden": 16, "heads": 2, "window": 12, "kernels": [2, 5], "mask": "discrete", **model}
    features = {"streams": list(STREAMS), "widths": list(STREAMS.values()), "seconds_per_step": 0.25}
    config = Config().with_values({"model": values, "features": features, "inference": {"min_proposals": 2}})
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "a", "dog", "runs"))
    return LoadedModel(MaskedTransformer(config, len(vocabulary)), config, vocabulary, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model and three videos, the last longer than the window."""
    save_model(tmp_path / "model", make_model(), {"made": "here"})
    for video, steps in (("a", 9), ("b", 12), ("c", 20)):
        save_video(tmp_path, video, np.random.default_rng(steps).normal(size=(steps, 10)))
    return tmp_path


def save_video(folder: Path, video: str, values: np.ndarray) -> None:
    (folder / "features").mkdir(exist_ok=True)
    np.save(folder / "features" / f"{video}_resnet.npy", values[:, :6])
    np.save(folder / "features" / f"{video}_bn.npy", values[:, 6:])


def command(folder: Path, *flags: str) -> list[str]:
    files = ["--model", str(folder / "model"), "--features", str(folder / "features")]
    return ["predict", *files, "--out", str(folder / "out.json"), *flags]


def results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    content: dict[str, list[dict[str, Any]]] = json.loads((folder / "out.json").read_text())["results"]
    return content


def test_a_step_length_for_a_store_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    streams = tuple(STREAMS.items())
    with FeatureStore.create(folder / "store", streams).writer() as writer:
        writer.add("a", FeatureTrack(np.ones((9, 10), dtype=np.float32), Clock.uniform(0.5), streams))
    flags = ["--features", str(folder / "store"), "--seconds-per-step", "0.25"]
    assert main(command(folder, *flags)) == 2
    assert "a store has its own clock; leave --seconds-per-step out" in capsys.readouterr().err


@pytest.mark.parametrize("compat", ["paper", "released"])
@pytest.mark.parametrize("encoder", ["self-attention", "bi-lstm"])
@pytest.mark.parametrize("decoder", ["self-attention", "lstm"])
@pytest.mark.parametrize("proposal_head", ["three-layer", "procnets"])
@pytest.mark.parametrize("mask", ["gated", "learned", "discrete"])
def test_a_video_shorter_than_every_kernel_is_one_event(
    compat: str, encoder: str, decoder: str, proposal_head: str, mask: str
) -> None:
    boxes = {"encoder": encoder, "decoder": decoder, "proposal_head": proposal_head, "mask": mask}
    loaded = make_model(compat=compat, **boxes)
    track = FeatureTrack(np.ones((1, 10), dtype=np.float32), Clock.uniform(0.5), tuple(STREAMS.items()))
    (event,) = Captioner(loaded).caption(track)
    steps = 1 if compat == "paper" or mask == "discrete" else 2  # the release ends a video 2 x .5 steps later
    assert (event.start, event.end, event.score) == (0, steps * 0.5, 0.7)


def test_the_models_own_seconds_per_step_are_the_default(folder: Path) -> None:
    assert main(command(folder)) == 0
    theirs = results(folder)
    assert main(command(folder, "--seconds-per-step", "0.25")) == 0
    assert results(folder) == theirs
    assert main(command(folder, "--seconds-per-step", "0.5")) == 0
    assert results(folder) != theirs


def test_good_videos_are_written_and_bad_ones_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "features" / "b_bn.npy").write_bytes(b"damaged")
    save_video(folder, "d", np.full((5, 10), 1e300))
    save_video(folder, "e", np.ones((5, 9)))
    assert main(command(folder)) == 1
    message = capsys.readouterr().err
    assert list(results(folder)) == ["a", "c"]
    assert "3 of 5 videos" in message and "b_bn.npy is not a whole" in message
    assert "d: its features hold" in message and "e: it has resnet 6 + bn 3" in message


def test_when_all_are_bad_nothing_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (folder / "features").iterdir():
        file.write_bytes(b"")
    assert main(command(folder)) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (folder / "out.json").exists()


def test_an_interrupt_keeps_what_is_finished(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caption_many = LongVideoCaptioner.caption_many

    def interrupted(self: LongVideoCaptioner, tracks: Any) -> Any:
        (track,) = tracks
        if len(track.values_TF) == 12:
            raise KeyboardInterrupt
        return caption_many(self, [track])

    monkeypatch.setattr(Captioner, "videos_at_once", 1)
    monkeypatch.setattr(LongVideoCaptioner, "caption_many", interrupted)
    assert main(command(folder)) == 130
    assert list(results(folder)) == ["a"] and "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["features", "model/config.toml/out.json"])
def test_where_nothing_can_be_written_nothing_is_computed(
    folder: Path, out: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("densevid.checkpoint.load_model", lambda folder: pytest.fail("too late"))
    assert main([*command(folder), "--out", str(folder / out)]) == 2
    assert "cannot write" in (message := capsys.readouterr().err) and "Errno" not in message


@pytest.mark.parametrize("device", ["meta", "vulkan", "xpu", "cuda:99", "cpu:1", "toaster", "mps:5"])
def test_an_unknown_device_is_one_line(folder: Path, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder, "--device", device)) == 2
    assert capsys.readouterr().err.startswith(f"densevid: --device {device}: ")


def test_threads_are_bounded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_num_threads()
    try:
        assert main(command(folder, "--threads", "100000000")) == 0
        assert "threads are used" in capsys.readouterr().err
        assert main(command(folder, "--threads", "0")) == 2
    finally:
        torch.set_num_threads(before)


def test_fewer_proposals_than_the_minimum_can_be_asked_for(folder: Path) -> None:
    first_window = ["--set", "inference.read=first-window"]
    assert main(command(folder, "--set", "inference.max_proposals=1", *first_window)) == 0
    assert {len(rows) for rows in results(folder).values()} == {1}


SPANS = [[0.1, 1.7], [0.30000000000000004, 2.5]]
FORMS = {
    "captions": {"c": {"duration": 5, "timestamps": SPANS, "sentences": ["x", "y"]}},
    "times alone": {"c": {"timestamps": SPANS}},
    "database": {
        "database": {"c": {"subset": "validation", "annotations": [{"segment": s, "sentence": "x"} for s in SPANS]}}
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_segments_come_in_every_form(folder: Path, form: str) -> None:
    (folder / "segments.json").write_text(json.dumps(FORMS[form]))
    assert main(command(folder, "--segments", str(folder / "segments.json"))) == 0
    assert {video: [row["timestamp"] for row in rows] for video, rows in results(folder).items()} == {"c": SPANS}


def test_segments_nobody_sees_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spans = [[0, 1], [2.9, 9], [3, 4], [100, 101]]  # the window of 12 steps ends at 3 seconds
    (folder / "segments.json").write_text(json.dumps({"c": {"timestamps": spans}}))
    flags = ("--segments", str(folder / "segments.json"))
    assert main(command(folder, *flags, "--set", "inference.read=first-window")) == 0
    assert "2 of the given segments begin after all" in capsys.readouterr().err
    assert main(command(folder, *flags)) == 0  # each is read in a window around it, and the video ends at 5 seconds
    assert "1 of the given segments begin after all" in capsys.readouterr().err


def test_the_model_is_named_by_its_content(folder: Path) -> None:
    assert main(command(folder)) == 0
    first = json.loads((folder / "out.json").read_text())["provenance"]["inputs"]
    save_model(folder / "model", make_model(), {"made": "here"})
    assert main(command(folder)) == 0
    assert json.loads((folder / "out.json").read_text())["provenance"]["inputs"] == first
    assert first["weights.safetensors"].startswith("sha256:")


def test_a_long_video_is_captioned_whole_unless_only_its_first_window_is_wanted(folder: Path) -> None:
    assert main(command(folder)) == 0
    everything = results(folder)
    assert main(command(folder, "--set", "inference.read=first-window")) == 0
    first = results(folder)
    assert everything["a"] == first["a"] and everything["b"] == first["b"]
    assert max(row["timestamp"][1] for row in first["c"]) <= 3 < max(row["timestamp"][1] for row in everything["c"])


def test_a_summary_says_that_its_confidence_is_not_calibrated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder, "--summary", "--set", "inference.summary_confidence=1.0")) == 0
    assert "no calibration.toml" in capsys.readouterr().err
    assert set(map(len, results(folder).values())) == {0}, "nothing is surer than sure"
    assert main(command(folder, "--top", "1")) == 0
    assert set(map(len, results(folder).values())) == {1}


@pytest.mark.parametrize(
    ("flags", "message"), [(["--top", "0"], "--top"), (["--summary", "--segments", "S"], "--segments")]
)
def test_contradictory_summary_flags_are_one_line(
    folder: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "segments.json").write_text(json.dumps(FORMS["captions"]))
    flags = [str(folder / "segments.json") if flag == "S" else flag for flag in flags]
    assert main(command(folder, *flags)) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_long_video_that_goes_bad_late_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.random.default_rng(0).normal(size=(40, 10))
    values[33] = np.nan
    save_video(folder, "d", values)
    assert main(command(folder)) == 1
    assert "1 of 4 videos" in (message := capsys.readouterr().err) and "d: its features hold" in message
    assert list(results(folder)) == ["a", "b", "c"]
