"""Training on timelines composed without end: the command, its resuming, and what clips beside a batch teach."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from densevid.cli import main
from densevid.config import Config
from densevid.data.batches import Batch
from densevid.data.vocabulary import Vocabulary
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataloader import TimelineLoader
from densevid.timelines.dataset import TimelineDataset
from densevid.training import data as prepare
from densevid.training.objective import clip_caption_loss, segment_caption_loss, total_loss
from densevid.training.rewards import reward_for
from helpers.clip_collections import write_collection

TINY = {
    "model": {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 240, "kernels": [5, 20]},
    "features": {"streams": ["clip"], "widths": [16], "min_word_count": 1},
    "training": {"timelines": 8, "batch_size": 4, "clips_per_batch": 3, "segments_per_video": 2, "epochs": 3}
    | {"sentences_per_clip": 2},
}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("timelines") / "clips")


@pytest.fixture(autouse=True)
def few_are_validated_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Composing the default number after every epoch would take most of the time of these tests."""
    monkeypatch.setattr(prepare, "VALIDATION_TIMELINES", 6)


@pytest.fixture(scope="module")
def settings() -> list[str]:
    flat = {f"{section}.{key}": value for section, values in TINY.items() for key, value in values.items()}
    words = [f"{key}={str(value).replace(chr(39), chr(34))}" for key, value in flat.items()]
    return [part for word in words for part in ("--set", word)]


@pytest.fixture(scope="module")
def samples(clips: Path) -> TimelineDataset:
    generator = TimelineGenerator(ClipCollection.read(clips), "train")
    return TimelineDataset(generator, Vocabulary.build(generator.sentences(), 1), Config().with_values(TINY))


@pytest.fixture(scope="module")
def batch(samples: TimelineDataset) -> Batch:
    return next(TimelineLoader(samples, 4).batches(0))


def model_for(config: Config, words: int = 400) -> MaskedTransformer:
    torch.manual_seed(0)
    return MaskedTransformer(config, words).eval()


@pytest.mark.parametrize("encoder", ["self-attention", "bi-lstm"])
def test_a_whole_clip_is_captioned_as_a_given_segment_is(batch: Batch, encoder: str) -> None:
    config = Config().with_values({**TINY, "model": {**TINY["model"], "encoder": encoder}})
    model = model_for(config)
    assert batch.clips is not None and batch.clips.video_P is not None
    expected = segment_caption_loss(model, batch.clips, config, 0)
    torch.testing.assert_close(clip_caption_loss(model, batch.clips, config, 0), expected)


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_clips_share_the_caption_loss_and_nothing_else(batch: Batch, share: float) -> None:
    config = Config().with_values({**TINY, "training": TINY["training"] | {"clip_share": share}})
    model = model_for(config)
    assert batch.clips is not None
    with_clips, without = (total_loss(model, b, config)[1] for b in (batch, replace(batch, clips=None)))
    words = (1 - share) * without.words + share * clip_caption_loss(model, batch.clips, config, 0)
    torch.testing.assert_close(with_clips.words, words)
    torch.testing.assert_close(with_clips.offsets, without.offsets)
    torch.testing.assert_close(with_clips.score, without.score)


def test_composed_videos_are_not_read_where_only_captions_of_clips_count(batch: Batch) -> None:
    words = {"task": "captions", "clip_share": 1.0}
    config = Config().with_values({**TINY, "training": TINY["training"] | words})
    model = model_for(config)
    assert batch.clips is not None
    unreadable = replace(batch, features_BTF=torch.full_like(batch.features_BTF, torch.nan))
    total, losses = total_loss(model, unreadable, config)
    torch.testing.assert_close(losses.words, clip_caption_loss(model, batch.clips, config, 0))
    torch.testing.assert_close(total, config.training.word_weight * losses.words)


def test_clips_are_rewarded_and_segments_have_cross_entropy(batch: Batch, samples: TimelineDataset) -> None:
    still = {"dropout": 0.0, "input_dropout": 0.0}
    config = Config().with_values(
        {**TINY, "model": TINY["model"] | still, "training": TINY["training"] | {"task": "captions", "reward": "cider"}}
    )
    reward, model = reward_for(config, samples, samples.vocabulary), model_for(config, len(samples.vocabulary)).train()
    assert batch.clips is not None and reward is not None
    torch.manual_seed(1)
    found = total_loss(model, batch, config, reward=reward)[1].words
    torch.manual_seed(1)
    rewarded = clip_caption_loss(model, batch.clips, config, 0, reward)
    segments = segment_caption_loss(model, batch, config, 0)
    assert rewarded != 0
    torch.testing.assert_close(found, (segments + rewarded) / 2)
    clips = clip_caption_loss(model, batch.clips, config, 0)
    torch.testing.assert_close(total_loss(model, batch, config)[1].words, (segments + clips) / 2)


def train(clips: Path, out: Path, settings: list[str], *more: str) -> int:
    data = ["--timelines", str(clips), "--split", "train", "--validation-split", "test", "--device", "cpu"]
    return main(["train", "modern", *data, *settings, "--out", str(out), *more])


def test_a_run_that_stopped_goes_on_as_if_it_had_not(clips: Path, tmp_path: Path, settings: list[str]) -> None:
    assert train(clips, tmp_path / "whole", settings) == 0
    assert train(clips, tmp_path / "parts", settings, "--limit-steps", "3") == 0
    assert train(clips, tmp_path / "parts", settings, "--resume", "--workers", "1") == 0
    whole, parts = (load_file(tmp_path / run / "model-last" / "weights.safetensors") for run in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize("changed", ["captions", "features"])
def test_a_run_does_not_go_on_with_other_clips(
    clips: Path, tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    other = Path(shutil.copytree(clips, tmp_path / "other"))
    assert train(clips, tmp_path / "run", settings, "--limit-steps", "1") == 0
    assert train(other, tmp_path / "run", settings, "--limit-steps", "2", "--resume") == 0, "the same, elsewhere"
    if changed == "captions":
        content = json.loads((other / "clips.json").read_text())
        next(clip for clip in content.values() if clip["split"] == "train")["captions"][0] += " again"
        (other / "clips.json").write_text(json.dumps(content))
    else:
        np.save(other / "features.npy", np.load(other / "features.npy") * np.float16(2))
    assert train(other, tmp_path / "run", settings, "--resume") == 2
    assert "the run began with other training data" in capsys.readouterr().err


def test_validation_on_training_clips_is_a_warning(
    clips: Path, tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(clips, tmp_path / "run", settings, "--validation-split", "train", "--limit-steps", "1") == 0
    assert "warning: the validation data are the training data" in capsys.readouterr().err


@pytest.mark.parametrize("splits", [("train", "train-dev"), ("train-fit", "train-fold0"), ("train-fit", "train-dev")])
def test_validation_clips_of_training_sources_are_reported(
    tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str], splits: tuple[str, str]
) -> None:
    clips = write_collection(tmp_path / "clips", clips=600)
    training, validation = splits
    more = ["--split", training, "--validation-split", validation, "--limit-steps", "1"]
    assert train(clips, tmp_path / "run", settings, *more) == 0
    warned = "source videos of the validation clips are also in the training data" in capsys.readouterr().err
    assert warned == (splits != ("train-fit", "train-dev"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds-per-step", "3"], "--seconds-per-step is for annotated videos"),
        (["--durations", "none.csv"], "--durations is for annotated videos"),
        (["--validation-features", "none"], "--validation-features is for annotated videos"),
        (["--set", "training.batch_size=1"], "training.batch_size must be at least 2"),
        (["--set", "training.frozen_encoder=true"], "training.frozen_encoder keeps weights of another model"),
        (["--set", "training.frozen_captioner=true"], "give --from MODEL_DIR"),
    ],
    ids=str,
)
def test_settings_without_effect_or_in_conflict_are_one_line(
    clips: Path, tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert train(clips, tmp_path / "run", settings, *words) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_data_must_be_given_once(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "modern", "--out", str(tmp_path / "run")]) == 2
    assert "give either --annotations" in capsys.readouterr().err
    both = ["--timelines", str(clips), "--annotations", "x.json"]
    assert main(["train", "modern", *both, "--out", str(tmp_path / "run")]) == 2
    assert main(["train", "modern", "--annotations", "x.json", "--out", str(tmp_path / "run")]) == 2
    assert "--annotations needs --features STORE" in capsys.readouterr().err


@pytest.mark.parametrize(("task", "kind"), [("dense", "cider"), ("captions", "cider+matches")])
def test_clips_can_be_rewarded(
    clips: Path, tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str], task: str, kind: str
) -> None:
    reward = ["--set", f"training.task={task}", "--set", f'training.reward="{kind}"']
    assert train(clips, tmp_path / "run", [*settings, *reward]) == 0
    assert train(clips, tmp_path / "other", [*settings, *reward, "--set", "training.clips_per_batch=0"]) == 2
    assert "set training.clips_per_batch" in capsys.readouterr().err


def test_what_decides_about_the_best_model_must_be_there(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["train", "modern", "--timelines", str(clips), "--out", str(tmp_path / "run"), "--device", "cpu"]
    by_meteor = [word for best in ("evaluate_every=1", "best_by=meteor") for word in ("--set", f"training.{best}")]
    assert main([*run, *by_meteor]) == 2
    assert "needs --validation FILE" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "densevid.evaluation.evaluate", None)
    assert main([*run, *by_meteor, "--validation-split", "test"]) == 2
    assert "no METEOR here" in capsys.readouterr().err


def test_the_last_model_can_be_the_best(clips: Path, tmp_path: Path, settings: list[str]) -> None:
    run = tmp_path / "run"
    assert train(clips, run, [*settings, "--set", "training.best_by=last"]) == 0
    best, last = (load_file(run / name / "weights.safetensors") for name in ("model", "model-last"))
    assert all(torch.equal(best[name], last[name]) for name in last)


def test_with_a_frozen_encoder_only_the_caption_decoder_trains(
    clips: Path, tmp_path: Path, settings: list[str]
) -> None:
    assert train(clips, tmp_path / "first", settings) == 0
    start = tmp_path / "first" / "model-last"
    frozen = [word for key in ("task=captions", "frozen_encoder=true") for word in ("--set", f"training.{key}")]
    assert train(clips, tmp_path / "second", [*settings, *frozen, "--from", str(start)]) == 0
    assert moved_parts(start, tmp_path / "second" / "model-last") == {"caption_decoder"}


def moved_parts(before: Path, after: Path) -> set[str]:
    old, new = (load_file(path / "weights.safetensors") for path in (before, after))
    return {name.split(".")[0] for name in old if not torch.equal(old[name], new[name])}


def test_with_all_else_frozen_proposals_train_on_the_caption_loss_too(
    clips: Path, tmp_path: Path, settings: list[str]
) -> None:
    assert train(clips, tmp_path / "first", settings) == 0
    start, runs = tmp_path / "first" / "model-last", []
    for weight in (0.0, 1.0):
        runs.append(tmp_path / f"words-{weight}")
        keys = ("frozen_encoder=true", "frozen_captioner=true", "clips_per_batch=0", f"word_weight={weight}")
        frozen = [word for key in keys for word in ("--set", f"training.{key}")]
        assert train(clips, runs[-1], [*settings, *frozen, "--from", str(start)]) == 0
        assert moved_parts(start, runs[-1] / "model-last") == {"proposal_decoder", "masking"}
    assert "proposal_decoder" in moved_parts(*(run / "model-last" for run in runs))


def test_nothing_to_learn_and_videos_without_sentences_for_drawn_anchors_are_refused(
    clips: Path, tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for keys, reason in (
        (("task=captions", "frozen_encoder=true", "frozen_captioner=true"), "leaves nothing to learn"),
        (("proposal_loss=drawn", "channel_permuted=0.5"), "needs training.proposal_loss = 'overlap'"),
    ):
        chosen = [word for key in keys for word in ("--set", f"training.{key}")]
        assert train(clips, tmp_path / "run", [*settings, *chosen]) == 2
        assert reason in capsys.readouterr().err
