"""The bundled model from clips to package files, at tiny scale: generated clips, a backbone that takes no time."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from densevid.checkpoint import WEIGHTS, LoadedModel, load_model, save_model
from densevid.cli import main as densevid
from densevid.cli import run_program
from densevid.config import load_config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.pipeline.model_registry import InstalledModel
from densevid.timelines.clips import DEV_SHARE, ClipCollection, share_of
from helpers import colour_network
from helpers.clip_collections import ACTIONS, sentences
from helpers.made_videos import constant, make_video
from helpers.waiting import LIMIT_SECONDS
from research.bundled_model import __main__ as bundled_model
from research.bundled_model import no_event_videos
from research.bundled_model import scores as bundled_scores
from research.bundled_model import training as bundled_training
from research.bundled_model.__main__ import MOST_BYTES, add_arguments, run
from research.bundled_model.card import card_text
from research.bundled_model.training import Copies, Stage, StageInputs
from research.paper_tables.train_models import Machine

MODEL = {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 200, "kernels": [4, 8, 16, 32]}
TRAINING = {
    "proposal_loss": "overlap",
    "batch_size": 4,
    "timelines": 16,
    "epochs": 1,
    "clips_per_batch": 2,
    "segments_per_video": 2,
}
SHORT = ("batch_size=4", "timelines=16", "epochs=1")
LAST = bundled_training.STAGES[-1].name
INFERENCE = {"summary_confidence": 0.0, "min_proposals": 10, "max_proposals": 20, "max_words": 6}


def sources(dev: bool) -> list[str]:
    """Names of sources that fall to the development tenth, or to the rest."""
    named = (f"source{number}" for number in count())
    return [next(n for n in named if (share_of(n, "development") < DEV_SHARE) == dev) for _ in range(12)]


def write_clips(folder: Path) -> Path:
    """Clips of four to nine seconds, each action in its own colours."""
    rng, content = np.random.default_rng(3), {}
    (folder / "clips").mkdir(parents=True)
    colours = rng.integers(0, 256, size=(len(ACTIONS), 2, 2, 3))
    for split, names in (("train", sources(dev=False)), ("train", sources(dev=True)), ("val", sources(dev=False))):
        for source in names:
            action, seconds = int(rng.integers(len(ACTIONS))), float(rng.integers(4, 10))
            clip = f"clip{len(content)}"
            content[clip] = {"split": split, "source": f"{split}-{source}" if split == "val" else source}
            content[clip] |= {"seconds": seconds, "captions": sentences(rng, ACTIONS[action])}
            still = np.repeat(np.repeat(colours[action], 24, axis=0), 32, axis=1).astype(np.uint8)
            noise = rng.integers(0, 30, size=(10, 48, 64, 3), dtype=np.uint8)
            pictures = [np.minimum(still, 220) + each for each in noise]
            shown = lambda number, pictures=pictures: pictures[number % 10]  # noqa: E731
            make_video(folder / "clips" / f"{clip}.mp4", constant(seconds, 10.0), size=(64, 48), picture=shown)
    (folder / "clips.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything up to the packed model and its scores, by the very commands."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(no_event_videos, "SECONDS", 1.5)
        patch.setattr(bundled_model, "CALIBRATED_ON", 6)
        patch.setattr(bundled_model, "NEGATIVES_CALIBRATED_ON", 2)
        patch.setattr(bundled_scores, "GRID_FROM", 12)
        patch.setenv("DENSEVID_CACHE", str(tmp_path_factory.mktemp("cache")))
        return run_all(tmp_path_factory.mktemp("bundled"))


def run_all(folder: Path) -> Path:
    clips, store, scores = write_clips(folder / "clips"), folder / "store", folder / "scores"
    network = f"{colour_network.__name__}:colours"
    assert densevid(["extract", f"{clips}/clips", "--out", str(store), "--backbone", network, "--workers", "1"]) == 0
    values = {"model": MODEL, "training": TRAINING, "inference": INFERENCE}
    streams = {"streams": [network], "widths": [colour_network.WIDTH], "min_word_count": 1}
    load_config().with_values({**values, "features": streams}).save(folder / "tiny.toml")
    step("data", clips=clips, features=store, out=folder / "data", each=1, stills=2)
    for name, split in (("dev", "train-dev"), ("val", "val")):
        step("pixels", clips=clips, features=store, split=split, count=3, out=folder / name)
    data = folder / "data"
    with pytest.MonkeyPatch.context() as shorter:
        shorter.setattr(bundled_training, "STAGES", tuple(map(shortened, bundled_training.STAGES)))
        common = {"data": data, "preset": folder / "tiny.toml", "device": "cpu"}
        step("train", **common, split="train-fit", out=folder / "twin-runs")
        step("train", **common, out=folder / "runs", parallel=2)
    step("pack", run=folder / "twin-runs" / LAST, data=data, timelines=folder / "dev", out=folder / "twin")
    step("pack", run=folder / "runs" / LAST, twin=folder / "twin", out=folder / "model")
    common = {"clips": clips, "features": store, "out": scores, "each": 1}
    step("score", **common, model=folder / "twin", on="dev", timelines=folder / "dev")
    common |= {"model": folder / "model"}
    films = folder / "films"
    films.mkdir()
    make_video(films / "film.mp4", constant(6.0, 10.0), size=(64, 48))
    (films / "broken.mp4").write_bytes(b"no video")
    truth = {"film": {"duration": 6.0, "timestamps": [[0.0, 3.0]], "sentences": ["A man rides a horse."]}}
    (folder / "truth.json").write_text(json.dumps(truth))
    step("score", **common, on="val", timelines=folder / "val", videos=films, annotations=folder / "truth.json")
    step("card", model=folder / "model", twin=folder / "twin", scores=scores)
    return folder


def shortened(stage: Stage) -> Stage:
    return replace(stage, settings=(*stage.settings, *SHORT), copies=min(stage.copies, 2))


def arguments(name: str, **given: object) -> list[str]:
    return [name, *(word for key, value in given.items() for word in (f"--{key}", str(value)))]


def step(name: str, **given: object) -> None:
    assert run_program("bundled_model", None, add_arguments, run, arguments(name, **given)) == 0


def refused(capsys: pytest.CaptureFixture[str], name: str, **given: object) -> str:
    """The line on stderr of a step that cannot be done."""
    capsys.readouterr()
    assert run_program("bundled_model", None, add_arguments, run, arguments(name, **given)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


def test_training_needs_no_library_of_video() -> None:
    """`train` runs on a machine with a GPU, torch, numpy and safetensors."""
    code = (
        "import sys; sys.modules.update(av=None, rich=None); "
        "from research.bundled_model.__main__ import add_arguments, run; from densevid.cli import run_program; "
        "run_program('bundled_model', None, add_arguments, run)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "--help"], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    assert done.returncode == 0 and "--workers" in done.stdout, done.stderr


def test_the_preset_fits_into_the_package() -> None:
    """With as many words as the training sentences of MSR-VTT's sample have, and some to spare."""
    config = load_config("bundled")
    weights = MaskedTransformer(config, 2700).state_dict()
    assert 6e6 < sum(weight.numel() for weight in weights.values()) < MOST_BYTES / 2


def test_half_precision_is_written_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    config = load_config(None, ["model.width=16", "model.hidden=16", "model.heads=2", "model.layers=1"])
    loaded = LoadedModel(MaskedTransformer(config, 6), config, Vocabulary((*SPECIAL_TOKENS, "a", "dog")), None)
    save_model(tmp_path / "half", loaded, {}, half_precision=True)
    stored = load_file(tmp_path / "half" / "weights.safetensors")
    assert {weight.dtype for weight in stored.values() if weight.is_floating_point()} == {torch.float16}
    again = load_model(tmp_path / "half").model.state_dict()
    for name, weight in loaded.model.state_dict().items():
        assert again[name].dtype == weight.dtype and torch.allclose(again[name], weight, rtol=1e-3, atol=1e-6)
    with torch.no_grad():
        next(iter(loaded.model.parameters())).fill_(1e6)
    with pytest.raises(InputError, match="keep single precision"):
        save_model(tmp_path / "large", loaded, {}, half_precision=True)
    assert not (tmp_path / "large").exists()


def test_the_data_holds_training_clips_and_no_event_clips_alone(made: Path) -> None:
    collection = ClipCollection.read(made / "data", features=made / "data" / "features")
    assert {clip.split for clip in collection.clips} == {"train"}
    no_event = [clip for clip in collection.clips if not clip.captions]
    assert len(collection.clips) == 24 + len(no_event) == 24 + len(no_event_videos.KINDS) + 2
    captioned = {clip.source for clip in collection.clips if clip.captions}
    assert {clip.name.split("-")[1] for clip in no_event if clip.source in captioned} == {"still"}


def test_a_packed_model_is_half_precise_calibrated_and_has_a_card(made: Path) -> None:
    loaded = load_model(made / "model")
    trained = load_model(made / "runs" / LAST / "model").word_prior
    assert loaded.word_prior is not None and trained is not None, "fitted when training ends, and packed"
    assert torch.equal(loaded.word_prior.words_RV, trained.words_RV.half().float())
    assert loaded.calibration is not None and loaded.calibration["fitted"]["videos"] >= 3 + 6
    sizes = [
        (folder / "weights.safetensors").stat().st_size for folder in (made / "model", made / "runs" / LAST / "model")
    ]
    assert sizes[0] < 0.65 * sizes[1]
    assert loaded.calibration == load_model(made / "twin").calibration, (
        "the model itself was trained on what the confidence is fitted on"
    )
    installed = InstalledModel("model", made / "model")
    assert installed.licence and "research" in installed.licence
    assert set(installed.scores) == {"MSR-VTT val, single clips", "MSR-VTT val, composed timelines"}


def test_the_card_has_the_measured_figures(made: Path) -> None:
    card = (made / "model" / "README.md").read_text()
    val = json.loads((made / "scores" / "val.json").read_text())
    for part in ("clips", "timelines"):
        assert "model" in val[part] and "model, shuffled features" in val[part]
        assert all(row in card for row in val[part])
    assert f"{val['clips']['model']['METEOR']:.2f}" in card and f"{val['timelines']['model']['AR@10']:.3f}" in card
    assert set(val["no-event videos"]) == set(no_event_videos.KINDS)
    whole = val["whole videos"]
    assert whole["videos"]["film"]["events"] and "failed" in whole["videos"]["broken"] and "film" in whole["scores"]
    assert "- failed: " in card and "missed" in card and "bundled_model train" in card
    altered = {**val, "clips": {**val["clips"], "model": dict.fromkeys(val["clips"]["model"], 77.77)}}
    assert "77.77: reached" in card_text(load_model(made / "model"), made / "model", val, altered)


def test_val_is_scored_once_and_a_card_needs_the_scores_of_its_own_weights(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"model": made / "model", "clips": made / "clips", "features": made / "store", "out": made / "scores"}
    assert "val is scored once" in refused(capsys, "score", **given, on="val", timelines=made / "val")
    for name in ("dev", "val"):
        content = json.loads((made / "scores" / f"{name}.json").read_text())
        inputs = {**content["provenance"]["inputs"], "word_prior.safetensors": "sha256:another"}
        (tmp_path / f"{name}.json").write_text(json.dumps({**content, "provenance": {"inputs": inputs}}))
    for scores, twin, file in ((tmp_path, "twin", "word_prior"), (made / "scores", "model", "weights")):
        err = refused(capsys, "card", model=made / "model", twin=made / twin, scores=scores)
        assert f"measured with another {file}.safetensors" in err


def test_confidence_is_taken_over_from_a_twin_alone(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made / "runs" / LAST
    assert "no twin" in refused(capsys, "pack", run=folder, twin=folder / "model", out=tmp_path / "model")
    for given in ({}, {"data": made / "data"}, {"data": made / "data", "twin": made / "twin"}):
        err = refused(capsys, "pack", run=folder, out=made / "model", **given)
        assert "fitted on --data and --timelines, or taken over" in err
    assert (made / "model" / "README.md").exists(), "what is refused destroys nothing"


def test_copies_become_their_mean(made: Path) -> None:
    again = [stage for stage in bundled_training.STAGES if stage.copies]
    assert [stage.name for stage in again] == ["words-again", "events-again"]
    for stage in again:
        copies = [load_file(made / "runs" / f"{stage.name}-{seed}" / "model" / WEIGHTS) for seed in (1, 2)]
        mean = load_file(made / "runs" / stage.name / "model" / WEIGHTS)
        assert any(not torch.equal(copies[0][name], copies[1][name]) for name in mean)
        for name, tensor in mean.items():
            if tensor.is_floating_point():
                torch.testing.assert_close(tensor, (copies[0][name] + copies[1][name]) / 2)


def test_a_copy_that_fails_in_its_process_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = StageInputs(tmp_path / "missing", "train", tmp_path / "runs", "bundled", Machine("cpu", parallel=2))
    with pytest.raises(InputError, match=r"again-\d: .*missing") as error:
        Copies(missing, Stage("again", (), copies=2), start=None).train()
    assert "\n" not in str(error.value)
    assert "at least 1" in refused(capsys, "train", data=tmp_path, out=tmp_path / "runs", parallel=0)
