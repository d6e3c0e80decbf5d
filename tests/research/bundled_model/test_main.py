"""The bundled model from clips to package files, at tiny scale: generated clips, a backbone that takes no time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from densevid.checkpoint import WEIGHTS, LoadedModel, load_model, save_model
from densevid.cli import main as densevid
from densevid.cli import run_program
from densevid.config import load_config
from densevid.data.store.reader import FeatureStore
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.pipeline.model_registry import InstalledModel
from densevid.timelines.clips import ClipCollection, is_in_split
from helpers import colour_network
from helpers.clip_collections import ACTIONS, sentences
from helpers.made_videos import constant, make_video
from helpers.waiting import LIMIT_SECONDS
from research.bundled_model import __main__ as bundled_model
from research.bundled_model import no_event_videos
from research.bundled_model import scores as bundled_scores
from research.bundled_model import sentences as bundled_sentences
from research.bundled_model import training as bundled_training
from research.bundled_model.__main__ import MOST_BYTES, add_arguments, run
from research.bundled_model.card import card_text
from research.bundled_model.sentence_scores import PLAIN, SHOWN
from research.bundled_model.training import Copies, Stage, StageInputs, train_bundled
from research.paper_tables.train_models import Machine

MODEL = {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 200, "kernels": [4, 8, 16, 32]}
TRAINING = {
    "optimizer": "adamw",
    "proposal_loss": "overlap",
    "batch_size": 4,
    "timelines": 16,
    "epochs": 1,
    "clips_per_batch": 2,
    "segments_per_video": 2,
}
SHORT = ("batch_size=4", "timelines=16", "epochs=1")
LEARNED = {"words": ("timelines=160", "clips_per_batch=24", "learning_rate=1e-2", "warmup_steps=5")}
CLIPS = dict.fromkeys(("clips", "reward"), ("clips_per_batch=8",))
LAST = bundled_training.STAGES[-1].name
INFERENCE = {"summary_confidence": 0.0, "min_proposals": 10, "max_proposals": 20, "max_words": 8, "beam": 3}
PICTURES = 5  # of eight


def sources(fold: int, how_many: int) -> list[str]:
    """Names of sources that are in a fold of `train`."""
    named = (f"source{number}" for number in count())
    return list(islice((n for n in named if is_in_split(n, {"split": "train"}, f"train-fold{fold}")), how_many))


def write_clips(folder: Path) -> Path:
    """Clips of four to nine seconds, each action in its own colours."""
    rng, content = np.random.default_rng(3), {}
    (folder / "clips").mkdir(parents=True)
    colours = rng.integers(0, 256, size=(len(ACTIONS), 2, 2, 3))
    groups = [("train", sources(0, 12)), ("train", sources(1, 6) + sources(2, 9)), ("val", sources(3, 12))]
    for split, names in groups:
        for source in names:
            action, seconds = int(rng.integers(len(ACTIONS))), float(rng.integers(4, 10))
            clip = f"clip{len(content)}"
            content[clip] = {
                "split": split,
                "source": source,
                "seconds": seconds,
                "captions": sentences(rng, ACTIONS[action]),
            }
            still = np.repeat(np.repeat(colours[action], 24, axis=0), 32, axis=1).astype(np.uint8)
            noise = rng.integers(0, 30, size=(10, 48, 64, 3), dtype=np.uint8)
            pictures = [np.minimum(still, 220) + each for each in noise]
            shown = lambda number, pictures=pictures: pictures[number % 10]  # noqa: E731
            make_video(folder / "clips" / f"{clip}.mp4", constant(seconds, 10.0), size=(64, 48), picture=shown)
    (folder / "clips.json").write_text(json.dumps(content))
    return folder


def write_pictures(folder: Path, clips: Path, store: FeatureStore) -> Path:
    """Captioned pictures: a step of each training clip with its sentences; eight of them are held out."""
    content = json.loads((clips / "clips.json").read_text())
    named = [clip for clip, entry in content.items() if entry["split"] == "train"]
    folder.mkdir(parents=True)
    np.save(folder / "features.npy", np.concatenate([store.track(clip).values[:1] for clip in named], dtype=np.float16))
    entries = {
        f"picture{row}": {"split": "val" if row < 8 else "train", "first_row": row, "rows": 1}
        | {"captions": content[clip]["captions"]}
        for row, clip in enumerate(named)
    }
    (folder / "clips.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything up to the packed model and its scores, by the very commands."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(no_event_videos, "SECONDS", 1.5)
        patch.setattr(bundled_model, "CALIBRATED_ON", 6)
        patch.setattr(bundled_model, "NEGATIVES_CALIBRATED_ON", 2)
        patch.setattr(bundled_model, "PICTURES", PICTURES)
        patch.setattr(bundled_sentences, "TIMELINES", 3)
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
    step("pixels", clips=clips, features=store, split="val", count=3, out=folder / "val")
    data, fold0 = folder / "data", folder / "fold0"
    composed = ["--features", f"{data}/features", "--split", "train-fold0", "--videos", "3", "--out", str(fold0)]
    assert densevid(["timelines", str(data), *composed]) == 0
    coco = write_pictures(folder / "captioned" / "coco", clips, FeatureStore.open(store))
    with pytest.MonkeyPatch.context() as shorter:
        shorter.setattr(bundled_training, "STAGES", tuple(map(shortened, bundled_training.STAGES)))
        common = {"data": data, "preset": folder / "tiny.toml", "device": "cpu", "captions": [coco]}
        step("train", **common, split="train-but01", until="words", out=folder / "first")
        common |= {"from": folder / "first" / "words" / "model"}
        step("train", **common, split="train-but0", out=folder / "runs")
        step("train", **common, split="train-but1", until="clips", out=folder / "runs1")
        del common["from"]
        without = ("model.tags=0", "training.stream_dropout=0.99", "training.timelines=16")
        step("train", **common, until="words", set=without, out=folder / "plain")
    step("pack", run=folder / "runs" / LAST, data=data, timelines=fold0, out=folder / "model")
    folds = {"found": f"0={folder}/model", "given": f"1={folder}/runs1/clips/model"}
    (folder / "model" / "README.md").write_text("the card of the model without this confidence")
    step("sentences", **folds, data=data, model=folder / "model")
    assert not (folder / "model" / "README.md").exists()
    common = {"clips": clips, "features": store, "out": scores, "each": 1}
    step("score", **common, model=folder / "model", on="fold0", timelines=fold0)
    films = folder / "films"
    films.mkdir()
    make_video(films / "film.mp4", constant(6.0, 10.0), size=(64, 48))
    (films / "broken.mp4").write_bytes(b"no video")
    truth = {"film": {"duration": 6.0, "timestamps": [[0.0, 3.0]], "sentences": ["A man rides a horse."]}}
    (folder / "truth.json").write_text(json.dumps(truth))
    common |= {"model": folder / "model", "plain": folder / "plain" / "words" / "model", "pictures": coco}
    step("score", **common, on="val", timelines=folder / "val", videos=films, annotations=folder / "truth.json")
    step("card", model=folder / "model", scores=scores)
    return folder


def shortened(stage: Stage) -> Stage:
    more = (*SHORT, *CLIPS.get(stage.name, ()), *LEARNED.get(stage.name, ()))
    return replace(stage, settings=(*stage.settings, *more))


def arguments(name: str, given: Mapping[str, object]) -> list[str]:
    """The words of a command: a list is the values of one flag, a tuple a flag for each value."""
    words = [name]
    for key, value in given.items():
        for group in value if isinstance(value, tuple) else (value,):
            words += [f"--{key}", *map(str, group if isinstance(group, list) else [group])]
    return words


def step(name: str, **given: object) -> None:
    assert run_program("bundled_model", None, add_arguments, run, arguments(name, given)) == 0


def refused(capsys: pytest.CaptureFixture[str], name: str, **given: object) -> str:
    """The line on stderr of a step that cannot be done."""
    capsys.readouterr()
    assert run_program("bundled_model", None, add_arguments, run, arguments(name, given)) == 2
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
    """In half precision, with as many words as all collections have that occur often enough, and tags."""
    model = MaskedTransformer(load_config("bundled"), 4200)
    assert model.tagger is not None
    weights = model.state_dict().values()
    halved = sum(each.numel() * (2 if each.is_floating_point() else each.element_size()) for each in weights)
    assert 12e6 < halved < 0.99 * MOST_BYTES


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
    assert len(collection.clips) == 27 + len(no_event) == 27 + len(no_event_videos.KINDS) + 2
    captioned = {clip.source for clip in collection.clips if clip.captions}
    assert {clip.name.split("-")[1] for clip in no_event if clip.source in captioned} == {"still"}


def test_a_packed_model_is_half_precise_calibrated_and_has_a_card(made: Path) -> None:
    loaded = load_model(made / "model")
    trained = load_model(made / "runs" / LAST / "model").word_prior
    assert loaded.word_prior is not None and trained is not None, "fitted when training ends, and packed"
    assert torch.equal(loaded.word_prior.words_RV, trained.words_RV.half().float())
    assert loaded.calibration is not None and loaded.calibration["fitted"]["videos"] >= 3 + 6
    assert (made / "model" / WEIGHTS).stat().st_size < 0.65 * (
        made / "runs" / LAST / "model-last" / WEIGHTS
    ).stat().st_size
    installed = InstalledModel("model", made / "model")
    assert installed.licence and "research" in installed.licence
    assert set(installed.scores) == {"MSR-VTT val, single clips", "MSR-VTT val, composed timelines"}


def test_stages_learn_from_captions_and_a_reward_and_stop_where_they_should(made: Path) -> None:
    stages = [stage.name for stage in bundled_training.STAGES]
    assert [path.name for path in (made / "first").iterdir()] == ["words"], "until"
    assert {path.name for path in (made / "runs").iterdir()} == set(stages) - {"words"}, "from"
    assert {path.name for path in (made / "runs1").iterdir()} == {"clips"}, "from and until"
    folders = {name: made / ("first" if name == "words" else "runs") for name in stages}
    models = {name: load_model(folder / name / "model") for name, folder in folders.items()}
    assert [name for name in stages if models[name].config.training.reward == "cider"] == ["reward"]
    assert all(set(model.vocabulary.styles) == {"coco"} for model in models.values())
    assert [path.name for path in (made / "plain").iterdir()] == ["words"], "until"
    plain = load_model(made / "plain" / "words" / "model")
    assert (plain.config.model.tags, plain.config.training.stream_dropout) == (0, 0.99)
    assert plain.word_prior is not None, "fitted to whichever stage is the last"
    assert models["reward"].word_prior is None
    for name, folder in folders.items():
        stored = load_file(folder / name / "model" / WEIGHTS)
        assert {each.dtype for each in stored.values() if each.is_floating_point()} == {torch.float16}, name


def test_the_confidence_of_sentences_is_fitted_on_folds(made: Path) -> None:
    loaded = load_model(made / "model")
    assert loaded.sentence_confidence is not None
    fitted = loaded.sentence_confidence["fitted"]
    collection = ClipCollection.read(made / "data", features=made / "data" / "features")
    held_out = [clip for fold in (0, 1) for clip in collection.split(f"train-fold{fold}") if clip.captions]
    assert fitted["sources"] == len({clip.source for clip in held_out}) and 0 < fitted["coverage"] <= 1
    assert loaded.calibration is not None, "what was packed before stays"


def test_sentences_that_cannot_be_fitted_are_one_line(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"data": made / "data", "model": made / "model"}
    before = (made / "model" / WEIGHTS).stat().st_mtime_ns
    for found, message in (
        ("model", "expected FOLD=MODEL"),
        (f"0={made}/nothing", "no such model folder"),
        (f"7={made}/model", "there is no split 'train-fold7'"),
        (f"0={made}/first/words/model", "pack it first"),
    ):
        assert message in refused(capsys, "sentences", **given, found=found)
    assert "10 are needed" in refused(capsys, "sentences", **given)
    assert (made / "model" / WEIGHTS).stat().st_mtime_ns == before


def test_the_card_has_the_measured_figures(made: Path) -> None:
    card = (made / "model" / "README.md").read_text()
    val = json.loads((made / "scores" / "val.json").read_text())
    clips = val["clips"]
    for table in (clips["scores"], clips["support"], val["timelines"]):
        assert "model" in table and "model, shuffled features" in table
        assert all(row in card for row in table)
    assert {PLAIN, "most frequent sentence"} < set(clips["scores"]) and SHOWN in clips["support"]
    assert f"{clips['scores']['model']['METEOR']:.2f}" in card and f"{val['timelines']['model']['AR@10']:.3f}" in card
    assert any("METEOR" in name for name in clips["beside the plain captioner"])
    assert val["pictures"]["coco"]["pictures"] == PICTURES and f"{PICTURES} held-out pictures of coco" in card
    assert set(val["no-event videos"]) == set(no_event_videos.KINDS)
    whole = val["whole videos"]
    assert whole["videos"]["film"]["events"] and "failed" in whole["videos"]["broken"] and "film" in whole["scores"]
    assert all(0 <= event["sentence_confidence"] <= 1 for event in whole["videos"]["film"]["events"])
    assert "- failed: " in card and "missed" in card and "research.bundled_model --help" in " ".join(card.split())
    best = {**clips["scores"], "model": dict.fromkeys(clips["scores"]["model"], 77.77)}
    altered = {**val, "clips": {**clips, "scores": best}}
    assert "77.77: reached" in card_text(load_model(made / "model"), made / "model", val, altered)


def test_a_fold_is_scored_by_a_model_that_never_saw_it(made: Path) -> None:
    """The clips that it was trained on and those that are scored are all of `train`."""
    fold, val = (json.loads((made / "scores" / f"{name}.json").read_text()) for name in ("fold0", "val"))
    assert fold["split"] == "train-fold0" and fold["training clips"] + fold["clip count"] == 27
    assert val["training clips"] == fold["training clips"], "val is scored by the same model"
    assert PLAIN not in fold["clips"]["scores"] and "beside the plain captioner" not in fold["clips"]
    assert fold["timeline set"]["videos"] == 3 and not {"pictures", "whole videos"} & set(fold)


def test_val_is_scored_once_and_a_card_needs_the_scores_of_its_own_weights(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"model": made / "model", "clips": made / "clips", "features": made / "store", "out": made / "scores"}
    assert "val is scored once" in refused(capsys, "score", **given, on="val", timelines=made / "val")
    for name in ("fold0", "val"):
        content = json.loads((made / "scores" / f"{name}.json").read_text())
        inputs = {**content["provenance"]["inputs"], "word_prior.safetensors": "sha256:another"}
        (tmp_path / f"{name}.json").write_text(json.dumps({**content, "provenance": {"inputs": inputs}}))
    err = refused(capsys, "card", model=made / "model", scores=tmp_path)
    assert "measured with another word_prior.safetensors" in err


def test_a_stage_that_is_left_out_cannot_be_the_last(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"data": made / "data", "from": made / "first" / "words" / "model", "out": made / "none"}
    assert "nothing is left to train" in refused(capsys, "train", **given, until="words")
    assert not (made / "none").exists()


def test_copies_become_their_mean(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stage has copies at present; the one here goes on from the first stage."""
    settings = (*bundled_training.WORDS, "clips_per_batch=4", *SHORT)
    monkeypatch.setattr(bundled_training, "STAGES", (Stage("first", settings), Stage("again", settings, copies=2)))
    inputs = StageInputs(made / "data", "train", tmp_path, str(made / "tiny.toml"), machine=Machine("cpu"))
    assert train_bundled(inputs) == tmp_path / "again"
    copies = [load_file(tmp_path / f"again-{seed}" / "model" / WEIGHTS) for seed in (1, 2)]
    mean = load_file(tmp_path / "again" / "model" / WEIGHTS)
    assert any(not torch.equal(copies[0][name], copies[1][name]) for name in mean)
    for name, tensor in mean.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, (copies[0][name] + copies[1][name]) / 2)


def test_a_copy_that_fails_in_its_process_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = StageInputs(tmp_path / "missing", "train", tmp_path / "runs", machine=Machine("cpu", parallel=2))
    with pytest.raises(InputError, match=r"again-\d: .*missing") as error:
        Copies(missing, Stage("again", (), copies=2), start=None).train()
    assert "\n" not in str(error.value)
    assert "at least 1" in refused(capsys, "train", data=tmp_path, out=tmp_path / "runs", parallel=0)
