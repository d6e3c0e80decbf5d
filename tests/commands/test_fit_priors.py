"""`densevid fit-priors` on a tiny trained model, from annotated videos and from clips, and what follows from it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from densevid.checkpoint import ACTIONNESS, WORD_PRIOR, load_model, model_files
from densevid.cli import main
from densevid.data.annotations import read_annotations
from densevid.data.layouts import open_features
from densevid.data.store.reader import FeatureStore
from densevid.inference.fitting.word_prior import fit_word_prior
from examples.learn_generated_videos import RECIPE, WIDTHS
from helpers.tiny_run import train_here, write_tiny_data


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = write_tiny_data(tmp_path_factory.mktemp("tiny"))
    assert train_here(data, data / "run", validate=False) == 0
    return data


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "run" / "model", tmp_path / "model"))


def test_a_model_learns_which_words_to_expect(trained: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--annotations", str(trained / "train.json"), "--features", str(trained / "train")]
    assert main(["fit-priors", "--model", str(model), *files]) == 0
    assert "fitted on 8 videos, 19 events" in capsys.readouterr().out
    loaded = load_model(model)
    fitted = fit_word_prior(
        open_features(trained / "train"), read_annotations(trained / "train.json"), loaded.vocabulary
    )
    assert loaded.word_prior is not None and model / WORD_PRIOR in model_files(model)
    for name, part in fitted.parts.items():
        torch.testing.assert_close(loaded.word_prior.parts[name], part)
    about = loaded.word_prior.about
    assert about["fitted"]["videos"] == 8 and "train.json" in about["provenance"]["inputs"]
    (model / "calibration.toml").write_text("")
    assert main(["fit-priors", "--model", str(model), *files]) == 0
    assert "run `densevid calibrate` again" in capsys.readouterr().err
    (model / "calibration.toml").unlink()

    results = {}
    for weight in ("0", "50"):
        settings = ["--set", "inference.beam=6", "--set", f"inference.word_prior_weight={weight}"]
        out = model.parent / f"{weight}.json"
        words = ["--model", str(model), "--features", str(trained / "train"), *settings, "--out", str(out)]
        assert main(["predict", *words]) == 0
        results[weight] = json.loads(out.read_text())["results"]
    assert results["0"] != results["50"]


def test_a_file_that_is_no_good_is_replaced(trained: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the videos without features are reported."""
    (model / WORD_PRIOR).write_bytes(b"garbage")
    content = json.loads((trained / "train.json").read_text())
    more = {**content, "nobody": {"duration": 9, "timestamps": [[0, 5]], "sentences": ["x"]}}
    (model.parent / "more.json").write_text(json.dumps(more))
    files = ["--annotations", str(model.parent / "more.json"), "--features", str(trained / "train")]
    assert main(["fit-priors", "--model", str(model), *files]) == 0
    shown = capsys.readouterr()
    assert "fitted on 8 videos" in shown.out and "1 of 9 videos have no features and are left out" in shown.err
    assert load_model(model).word_prior is not None


def test_features_of_any_size_can_be_fitted(trained: Path, model: Path, tmp_path: Path) -> None:
    """What half precision could not hold."""
    source = open_features(trained / "train")
    store = FeatureStore.create(tmp_path / "large", WIDTHS, recipe=RECIPE, dtype="float32")
    with store.writer(commit_every=64) as writer:
        for video in source.videos():
            track = source.track(video)
            writer.add(video, replace(track, values=np.asarray(track.values, dtype=np.float32) * 1e5))
    files = ["--annotations", str(trained / "train.json"), "--features", str(tmp_path / "large")]
    assert main(["fit-priors", "--model", str(model), *files]) == 0
    assert load_model(model).word_prior is not None


def test_priors_are_fitted_to_clips(
    trained: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = read_annotations(trained / "train.json").events
    clips = {
        video: {"split": "train", "seconds": 24.0, "captions": [event.sentence for event in events], "source": video}
        for video, events in truth.items()
    }
    (tmp_path / "clips.json").write_text(json.dumps(clips))
    words = ["fit-priors", "--model", str(model), "--timelines", str(tmp_path), "--features", str(trained / "train")]
    assert main([*words, "--seconds-per-step", "0.5"]) == 2
    assert "clips know their own times" in capsys.readouterr().err
    assert main(words) == 0
    expected = load_model(model).word_prior
    means = [open_features(trained / "train").track(video).values.astype(np.float64).mean(axis=0) for video in truth]
    assert expected is not None
    np.testing.assert_allclose(expected.mean_F, np.mean(means, axis=0), rtol=2e-3, atol=2e-3)
    assert main([*words, "--split", "nowhere"]) == 2
    assert not (model / ACTIONNESS).exists(), "every clip has captions"
    clips[min(clips)]["captions"] = []
    (tmp_path / "clips.json").write_text(json.dumps(clips))
    capsys.readouterr()
    assert main(words) == 0
    assert "actionness.safetensors: fitted on 8 videos, 1 negatives" in capsys.readouterr().out
    actionness = load_model(model).actionness
    assert actionness is not None and actionness.about["provenance"]["command"] == "fit-priors"


def test_actionness_is_fitted_to_videos_without_events(trained: Path, model: Path, tmp_path: Path) -> None:
    content = json.loads((trained / "train.json").read_text())
    content[min(content)].update(timestamps=[], sentences=[])
    (tmp_path / "some.json").write_text(json.dumps(content))
    files = ["--annotations", str(tmp_path / "some.json"), "--features", str(trained / "train")]
    assert main(["fit-priors", "--model", str(model), *files]) == 0
    loaded = load_model(model)
    assert loaded.actionness is not None and loaded.actionness.about["fitted"]["negatives"] == 1
    assert loaded.word_prior is not None and loaded.word_prior.about["fitted"]["videos"] == 7


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--annotations", "train.json"], "--annotations needs --features"),
        (["--annotations", "other.json", "--features", "train"], "no video has both features and events"),
        (["--annotations", "gone.json", "--features", "train"], "gone.json"),
        (["--annotations", "train.json", "--features", "narrow", "--seconds-per-step", "0.5"], "the model reads"),
        ([], "one of the arguments"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(
    trained: Path, model: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    (trained / "other.json").write_text(
        json.dumps({"nobody": {"duration": 9, "timestamps": [[0, 5]], "sentences": ["x"]}})
    )
    (trained / "narrow").mkdir(exist_ok=True)
    np.save(trained / "narrow" / "v_0.npy", np.zeros((4, 3), dtype=np.float32))
    words = [str(trained / flag) if not flag.startswith("-") and flag != "0.5" else flag for flag in flags]
    try:
        code = main(["fit-priors", "--model", str(model), *words])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert code == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (model / WORD_PRIOR).exists()
