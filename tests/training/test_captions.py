"""`densevid train ... --captions`: words from pictures and clips beside timelines, with and without tags."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from densevid.checkpoint import in_style, load_model
from densevid.cli import main
from densevid.config import Config
from densevid.data.store.reader import FeatureStore
from densevid.data.vocabulary import INIT
from densevid.errors import InputError
from densevid.timelines.captions import CaptionFolder
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataloader import TimelineLoader
from densevid.timelines.dataset import TimelineDataset
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack
from densevid.training import data as prepare
from densevid.training.data import ClipFiles
from densevid.training.objective import total_loss
from densevid.training.run import _prepare_tags
from densevid.video.labels import action_names
from helpers.clip_collections import ACTIONS, write_collection
from helpers.tagged_models import Classifier, made_classifier, made_classifiers

STREAMS = (("appearance", 8), ("actions", 6))
SEEN = ("playing guitar", "playing piano", "riding or walking with horse", "riding a bike")  # classes of our actions
CONFIG = {
    "model": {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 240, "kernels": [5, 20], "tags": 2},
    "features": {"streams": ["appearance", "actions"], "widths": [8, 6], "min_word_count": 1},
    "training": {"timelines": 8, "batch_size": 4, "clips_per_batch": 6, "segments_per_video": 2, "epochs": 2}
    | {"taught_tags": 0.8, "stream_dropout": 0.3, "video_dropout": 0.2, "task": "captions", "optimizer": "adamw"},
}


def classifier(stream: str) -> Classifier:
    """Of actions, the channels of the features are the scores of the classes that are there."""
    if stream != "actions":
        weight, bias = made_classifier("appearance")
        return np.concatenate([weight, weight[:2]]), bias
    weight, bias = np.zeros((6, 400), np.float32), np.zeros(400, np.float32)
    for channel, name in enumerate(SEEN):
        weight[2 + channel, action_names().index(name)] = 3
    return weight, bias


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(prepare, "VALIDATION_TIMELINES", 6)
    with made_classifiers(made=classifier):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips with features of two streams in a store, pictures with those of the first, and more clips with both."""
    folder = tmp_path_factory.mktemp("captions")
    content = json.loads((write_collection(folder / "clips", clips=150) / "clips.json").read_text())
    (folder / "clips" / "features.npy").unlink()
    rng, recipe = np.random.default_rng(0), FeatureRecipe({"name": "made"})
    store = FeatureStore.create(folder / "store", STREAMS, recipe=recipe)
    with store.writer(commit_every=99) as writer:
        for name, entry in content.items():
            action = next(place for place, text in enumerate(ACTIONS) if text in entry["captions"][0])
            values = rng.normal(size=(entry["rows"], 14)).astype(np.float32)
            values[:, 8 + action] += 3
            values[:, action] += 2
            writer.add(name, FeatureTrack(values, Clock.uniform(0.5), STREAMS))
    held_out = next(entry["source"] for entry in content.values() if entry["split"] == "test")
    for name, width, rows in (("pictures", 8, 1), ("movies", 14, 5)):
        entries = {
            f"{number}": {"split": "train", "first_row": number * rows, "rows": rows, "source": f"{name}{number}"}
            | {"captions": [f"a zebra {ACTIONS[number % 6]}", f"{name} word{number}"]}
            for number in range(20)
        }
        entries["19"]["source"] = held_out
        (folder / name).mkdir()
        (folder / name / "clips.json").write_text(json.dumps(entries))
        np.save(folder / name / "features.npy", rng.normal(size=(20 * rows, width)).astype(np.float16))
    return folder


def words(folder: Path, out: Path, *more: str, captions: tuple[str, ...] = ("pictures=2", "movies")) -> list[str]:
    flat = {f"{section}.{key}": value for section, values in CONFIG.items() for key, value in values.items()}
    settings = [part for key, value in flat.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    data = ["--timelines", str(folder / "clips"), "--features", str(folder / "store"), "--split", "train"]
    data += ["--captions", *(str(folder / name) for name in captions), "--device", "cpu"]
    return ["train", "modern", *data, *settings, "--out", str(out), *more]


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    torch.set_num_threads(1)
    with made_classifiers(made=classifier):
        assert main(words(folder, folder / "run")) == 0
    return folder / "run"


def dataset(folder: Path, **training: object) -> TimelineDataset:
    config = Config().with_values({**CONFIG, "training": {**CONFIG["training"], **training}})
    more = tuple(CaptionFolder.parse(str(folder / name)) for name in ("pictures=2", "movies"))
    found, _ = prepare._training_data(config, files(folder, more), None, print)
    assert isinstance(found, TimelineDataset)
    return found


def files(folder: Path, captions: tuple[CaptionFolder, ...]) -> ClipFiles:
    return ClipFiles(folder / "clips", "train", folder / "store", captions)


def test_the_vocabulary_has_a_style_of_each_collection_and_the_words_of_all(run: Path) -> None:
    vocabulary = load_model(run / "model").vocabulary
    assert vocabulary.tokens[-2:] == ("<pictures>", "<movies>") and list(vocabulary.styles) == ["pictures", "movies"]
    assert {"zebra", "onion", "word0", "word18"} <= set(vocabulary.tokens)
    assert "word19" not in vocabulary.tokens, "of a source that the timelines hold out"
    assert {"skydiving", "yodeling"} & set(vocabulary.tokens), "words of actions that no caption has"


def test_a_style_begins_the_sentences_and_is_never_generated(run: Path) -> None:
    loaded = load_model(run / "model")
    styles = list(loaded.vocabulary.styles.values())
    weight, bias = loaded.model.caption_decoder.words.weight, loaded.model.caption_decoder.words.bias
    assert bool((bias[styles] < -20).all())
    pictures = in_style(loaded, "pictures")
    assert torch.equal(pictures.model.caption_decoder.words.weight[INIT], weight[styles[0]])
    assert not torch.equal(weight[INIT], weight[styles[0]]), "the model itself is as it was"
    with pytest.raises(InputError, match=r"no style 'coco' \(it has: pictures, movies\)"):
        in_style(loaded, "coco")


def test_the_gate_was_fitted_and_tags_of_seen_actions_are_trusted(run: Path) -> None:
    tagger = load_model(run / "model").model.tagger
    assert tagger is not None and tagger.classes == [1000, 400]
    assert tagger.gate_SE[1].abs().max() > 0 and tagger.gate_SE[1].tolist() != [1, 0, 0, 0, 0]
    features = torch.zeros(2, 4, 14)
    features[0, :, 10] = 3  # "playing guitar"
    features[1, :, 8:] = torch.rand(4, 6) * 0.2
    labels = tagger(features, torch.ones(2, 4))
    assert labels.label_PN[0, 2] - 1000 == action_names().index("playing guitar")
    assert labels.value_PN[0, 2] > labels.value_PN[1, 2]


def test_a_run_that_stopped_goes_on_as_if_it_had_not(folder: Path, run: Path, tmp_path: Path) -> None:
    assert main(words(folder, tmp_path / "parts", "--limit-steps", "2")) == 0
    assert main(words(folder, tmp_path / "parts", "--resume", "--workers", "1")) == 0
    whole, parts = (load_file(each / "model-last" / "weights.safetensors") for each in (run, tmp_path / "parts"))
    assert whole.keys() == parts.keys() and all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize("captions", [("pictures=2",), ("pictures=3", "movies")], ids=str)
def test_a_run_does_not_go_on_with_other_collections(
    folder: Path, tmp_path: Path, captions: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(folder, tmp_path / "run", "--limit-steps", "1")) == 0
    assert main(words(folder, tmp_path / "run", "--resume", captions=captions)) == 2
    assert "the run began with other training data" in capsys.readouterr().err


def test_a_further_run_knows_the_styles_of_its_start_alone(
    folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["--from", str(run / "model"), "--limit-steps", "1"]
    assert main(words(folder, tmp_path / "same", *start, captions=("movies",))) == 0
    before, after = (load_model(path).model.tagger for path in (run / "model", tmp_path / "same" / "model-last"))
    assert before is not None and after is not None and torch.equal(before.gate_SE, after.gate_SE)
    shutil.copytree(folder / "movies", folder / "others", dirs_exist_ok=True)
    assert main(words(folder, tmp_path / "other", *start, captions=("others",))) == 2
    assert "has not learned the style 'others'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("captions", "more", "message"),
    [
        (("pictures", "../elsewhere/pictures"), [], "two folders are named 'pictures'"),
        (("pictures=0",), [], "with a positive number"),
        (("nowhere",), [], "nowhere"),
        (("movies",), ["--set", "training.clips_per_batch=0"], "--captions needs training.clips_per_batch"),
    ],
    ids=str,
)
def test_collections_that_cannot_be_used_are_one_line(
    folder: Path,
    tmp_path: Path,
    captions: tuple[str, ...],
    more: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(words(folder, tmp_path / "run", *more, captions=captions)) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_captions_need_timelines(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--annotations", "x.json", "--features", "x", "--captions", str(folder / "movies")]
    assert main(["train", "modern", *files, "--out", str(tmp_path / "run")]) == 2
    assert "--captions needs --timelines" in capsys.readouterr().err


def test_pictures_are_clips_of_one_step_with_their_style_and_perhaps_tags(folder: Path) -> None:
    samples = dataset(folder, taught_tags=0.0)
    styles = samples.vocabulary.styles
    own = len(samples.generator.footage)
    kinds = set()
    for index in range(80):
        clip, rows = samples.clip(index), samples.clip(index, with_features=False).rows
        assert rows is not None and clip.features_TF is not None and clip.label_N is None
        begins = set(clip.words_PL[:, 0].tolist())
        if begins == {styles["pictures"]}:
            assert clip.steps == 1 and not clip.features_TF[:, 8:].any() and clip.features_TF[:, :8].any()
        else:
            assert begins <= {INIT, styles["movies"]} and clip.features_TF[:, 8:].any()
        assert (rows.row_T < own).all() == (begins == {INIT}), "the rows of its own collection"
        kinds |= begins
    assert kinds == {INIT, *styles.values()}


def test_pictures_get_tags_of_actions_that_their_annotators_name(folder: Path) -> None:
    samples = dataset(folder)
    config = Config().with_values(CONFIG)
    model = prepare.initial_model(config, samples.vocabulary, None)
    _prepare_tags(model, samples, config, True, print)
    assert samples.taught is not None and model.tagger is not None
    told = 0
    for index in range(120):
        clip, style = samples.clip(index), int(samples.clip(index).words_PL[0, 0])
        assert clip.label_N is not None and clip.value_N is not None
        given = [action_names()[label - 1000] for label in clip.label_N.tolist() if label >= 0]
        if style == INIT:
            assert not given, "the timelines' own clips have actions"
        told += any(name in SEEN for name in given)
    assert told > 5
    batch = next(TimelineLoader(samples, 4).batches(0))
    assert batch.clips is not None and batch.clips.label_BN is not None
    assert batch.clips.label_BN.shape == (6, 2) and batch.label_BN is None


def test_events_never_learn_from_the_collections(folder: Path) -> None:
    """Composed videos show the timelines' clips alone, and clips beside them have no part in the other losses."""
    samples = dataset(folder, task="dense", taught_tags=0.0)
    alone = TimelineDataset(
        TimelineGenerator(ClipCollection.read(folder / "clips", features=folder / "store"), "train"),
        samples.vocabulary,
        Config().with_values(CONFIG),
    )
    for index in range(20):
        ours, theirs = samples.video(index), alone.video(index)
        np.testing.assert_array_equal(ours.features_TF, theirs.features_TF)
        assert torch.equal(ours.words_PL, theirs.words_PL) and torch.equal(ours.events_G2, theirs.events_G2)
    config = Config().with_values({**CONFIG, "training": {**CONFIG["training"], "task": "dense", "clip_share": 1.0}})
    model = prepare.initial_model(config, samples.vocabulary, None).eval()
    batch = next(TimelineLoader(samples, 4).batches(0))
    assert batch.clips is not None
    total_loss(model, batch, config)[1].words.backward()
    reached = {
        name.split(".")[0] for name, part in model.named_parameters() if part.grad is not None and part.grad.any()
    }
    assert reached == {"input_embedding", "encoder", "caption_decoder"}
