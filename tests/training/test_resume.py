"""A run that was stopped or killed at any moment, and resumed, has the weights of one that never stopped."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest

from densevid.config import load_config
from densevid.errors import InputError
from densevid.training import checkpointing
from densevid.training.logging import read_metrics
from helpers.tiny_run import assert_same_weights, finish, settings, start, train_here, words, write_tiny_data
from helpers.waiting import kill_with_children, pause_at_random, wait_until

HARD = settings(  # everything that has a state: dropout, average, scheduled sampling, momentum, plateau
    "model.dropout=0.2",
    "model.input_dropout=0.1",
    "training.ema=0.9",
    "training.plateau_patience=0",
    "training.checkpoint_every=3",
    "training.segments_per_video=2",
    "training.epochs=4",
    "training.batch_size=3",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unbroken") / "run"
    assert train_here(data, out, *HARD) == 0
    return out


def same_table(one: Path, other: Path) -> bool:
    """The same lines, but for the clock."""
    timed = ("samples_per_second", "seconds")

    def table(run: Path) -> list[dict[str, str]]:
        lines = read_metrics(run / "metrics.csv")
        return [{name: cell for name, cell in row.items() if name not in timed} for row in lines]

    return table(one) == table(other)


def test_a_stopped_run_resumes_to_the_same_weights(data: Path, unbroken: Path, tmp_path: Path) -> None:
    """In the first step, after a whole epoch, in the middle of one."""
    for stop in (1, 4, 11):
        assert train_here(data, tmp_path / "run", *HARD, "--resume", "--limit-steps", str(stop)) == 0
    assert train_here(data, tmp_path / "run", *HARD, "--resume") == 0
    assert_same_weights(unbroken, tmp_path / "run")
    assert_same_weights(unbroken, tmp_path / "run", "model")
    assert same_table(unbroken, tmp_path / "run")


@pytest.mark.parametrize(
    "variant",
    [
        [
            'training.optimizer="sgd"',
            'training.task="captions"',
            "training.sampling_start=1",
            "training.sampling_end=1",
        ],
        ['training.reward="cider"', 'training.schedule="cosine"', "training.warmup_steps=2", 'model.decoder="lstm"'],
    ],
)
def test_every_kind_of_optimizer_and_schedule_resumes(data: Path, tmp_path: Path, variant: list[str]) -> None:
    more = [*settings("model.dropout=0.2", "training.checkpoint_every=2", *variant)]
    assert train_here(data, tmp_path / "one", *more, validate=False) == 0
    assert train_here(data, tmp_path / "two", *more, "--limit-steps", "5", validate=False) == 0
    assert train_here(data, tmp_path / "two", *more, "--resume", "--workers", "1", validate=False) == 0
    assert_same_weights(tmp_path / "one", tmp_path / "two")
    assert same_table(tmp_path / "one", tmp_path / "two")


def killed_while_training(command: list[str], run: Path, ranks: int) -> bool:
    """Start a run, wait for its next checkpoint and a while longer, kill all of it; whether it was still at work."""
    process, before = start(command, ranks), _stamp(run)
    wait_until(lambda: _stamp(run) != before or process.poll() is not None)
    pause_at_random(random.uniform(0, 0.3))
    at_work = process.poll() is None
    kill_with_children(process)
    return at_work


def _stamp(run: Path) -> int:
    file = run / "checkpoints" / "last.safetensors"
    return file.stat().st_mtime_ns if file.exists() else 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_run_resumes_to_the_same_weights(data: Path, tmp_path: Path, ranks: int) -> None:
    """SIGKILL at random moments; nothing is done but to start the run again."""
    longer = [*HARD, *settings(f"training.epochs={9 - 2 * ranks}", "training.checkpoint_every=1")]
    if ranks == 1:
        assert train_here(data, tmp_path / "whole", *longer) == 0
    else:
        finish(start(words(data, tmp_path / "whole", *longer), ranks))
    run, command = tmp_path / "run", [*words(data, tmp_path / "run", *longer), "--resume"]
    while not killed_while_training(command, run, ranks):  # it was over before
        shutil.rmtree(run)
    finish(start(command, ranks))
    assert_same_weights(tmp_path / "whole", run)


def test_a_run_reports_and_records_how_far_it_came(
    data: Path, unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stderr_of(*more: str) -> list[str]:
        capsys.readouterr()
        assert train_here(data, tmp_path / "run", *HARD, *more) == 0
        return capsys.readouterr().err.splitlines()

    model = f"; model in {tmp_path / 'run' / 'model'}"
    for stop, rows in ((3, ["3"]), (13, ["4", "8", "10", "12", "13"])):
        *_, step, last = stderr_of("--resume", "--limit-steps", str(stop))
        assert step.startswith(f"step {stop}/16  total ") and last.endswith(model)
        assert last.startswith(f"stopped at step {stop} of 16 after ") and "--resume and without --limit-steps" in last
        written = read_metrics(tmp_path / "run" / "metrics.csv")
        assert list(dict.fromkeys(row["step"] for row in written)) == rows
    assert re.fullmatch(r"finished 16 steps, the last 3 in .* s" + re.escape(model), stderr_of("--resume")[-1])
    assert stderr_of("--resume")[-1] == f"all 16 steps were done before{model}"
    assert same_table(unbroken, tmp_path / "run")


def test_a_line_cut_short_is_dropped(data: Path, unbroken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train_here(data, run, *HARD, "--limit-steps", "5") == 0
    with (run / "metrics.csv").open("a") as file:
        file.write("99,1,training,1.0,,,,,,,,,,,,\n7,2,trai")
    assert train_here(data, run, *HARD, "--resume") == 0
    assert [row["step"] for row in read_metrics(run / "metrics.csv")][-1] == "16"
    assert same_table(unbroken, run)


def test_a_finished_run_stays_as_it_is(data: Path, unbroken: Path) -> None:
    before = (unbroken / "metrics.csv").read_text()
    assert train_here(data, unbroken, *HARD, "--resume") == 0
    assert (unbroken / "metrics.csv").read_text() == before


def test_every_start_is_recorded_and_the_settings_are_the_newest(data: Path, tmp_path: Path) -> None:
    run, epochs = tmp_path / "run", settings("training.epochs=1")
    assert train_here(data, run, *epochs) == 0
    first = json.loads((run / "environment.json").read_text())["starts"]
    (run / "environment.json").write_text(json.dumps({"sittings": first}))  # as 0.1 wrote it
    assert train_here(data, run, "--resume", *settings("training.epochs=2", "inference.beam=2"), "--workers", "1") == 0
    starts = json.loads((run / "environment.json").read_text())["starts"]
    assert starts[0] == first[0] and [start["step"] for start in starts] == [0, 4]
    ours, models = (load_config(run / name / "config.toml") for name in ("", "model-last"))
    assert (ours.training.epochs, ours.inference.beam) == (2, 2) and ours == models
    assert starts[1]["provenance"]["config"] == ours.hash != starts[0]["provenance"]["config"]


def test_settings_of_a_start_that_was_refused_are_not_kept(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train_here(data, run, "--limit-steps", "1") == 0
    before = (run / "config.toml").read_text(), (run / "environment.json").read_text()
    other = with_other_words(data, tmp_path / "other")
    assert train_here(other, run, "--resume", *settings("training.epochs=9")) == 2
    assert before == ((run / "config.toml").read_text(), (run / "environment.json").read_text())


def with_other_words(data: Path, folder: Path) -> Path:
    """The same videos and segments, with another sentence."""
    shutil.copytree(data, folder)
    annotations = json.loads((folder / "train.json").read_text())
    next(iter(annotations.values()))["sentences"][0] += " again"
    (folder / "train.json").write_text(json.dumps(annotations))
    return folder


def test_other_sentences_are_other_data(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, other = tmp_path / "run", with_other_words(data, tmp_path / "other")
    assert train_here(data, run, "--limit-steps", "2") == 0
    assert train_here(other, run, "--resume") == 2
    assert "the run began with other training data (videos, segments, sent" in capsys.readouterr().err.splitlines()[-1]
    assert train_here(data, run, "--resume", "--limit-steps", "3") == 0


def test_validation_data_that_decide_cannot_be_exchanged(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = tmp_path / "run", Path(shutil.copytree(data, tmp_path / "other"))
    shutil.copy(data / "train.json", other / "val.json")
    shutil.rmtree(other / "val")
    shutil.copytree(data / "train", other / "val")
    assert train_here(data, run, "--limit-steps", "2") == 0
    assert train_here(data, run, "--resume", validate=False) == 2
    assert train_here(other, run, "--resume") == 2
    refused = [line for line in capsys.readouterr().err.splitlines() if "other validation data, or without" in line]
    assert len(refused) == 2
    last = settings('training.best_by="last"', 'training.schedule="cosine"')
    assert train_here(data, tmp_path / "last", *last, "--limit-steps", "2") == 0
    assert train_here(data, tmp_path / "last", *last, "--resume", validate=False) == 0, "there it decides nothing"


def test_the_weights_it_began_with_may_be_left_out_but_not_exchanged(
    data: Path, unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, first, other = tmp_path / "run", str(unbroken / "model"), str(tmp_path / "other" / "model-last")
    assert train_here(data, tmp_path / "other", "--limit-steps", "1") == 0
    assert train_here(data, run, "--from", first, "--limit-steps", "1") == 0
    assert train_here(data, run, "--resume", "--limit-steps", "2") == 0
    assert train_here(data, run, "--resume", "--from", first, "--limit-steps", "3") == 0
    assert train_here(data, run, "--resume", "--from", other) == 2
    assert "did not begin with the weights of this --from" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("left", [["vocabulary.txt"], ["vocabulary.txt", "environment.json", ".config.toml.x1.part"]])
def test_a_run_that_was_killed_at_its_start_starts_again(
    data: Path, unbroken: Path, tmp_path: Path, left: list[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in left:
        (run / name).write_text("half of it")
    assert train_here(data, run, *HARD) == 2, "it might be something else"
    assert train_here(data, run, *HARD, "--resume") == 0
    assert_same_weights(unbroken, run)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "letter.txt").write_text("dear")
    assert train_here(data, tmp_path / "notes", "--resume") == 2


def test_a_checkpoint_from_before_sentences_were_compared_goes_on(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train_here(data, run, "--limit-steps", "2") == 0
    tensors, state = checkpointing.read(run / "checkpoints" / "last.safetensors")
    for name in ("content", "validation_content", "started_from"):
        del state[name]
    checkpointing.write(run / "checkpoints" / "last.safetensors", tensors, state)
    assert train_here(data, run, "--resume") == 0
    assert "content" in checkpointing.read(run / "checkpoints" / "last.safetensors")[1]


def test_a_checkpoint_of_version_0_1_still_refuses_other_validation_data(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train_here(data, run, "--limit-steps", "2") == 0
    tensors, state = checkpointing.read(run / "checkpoints" / "last.safetensors")
    state["judged_by"] = state.pop("validation_content")
    checkpointing.write(run / "checkpoints" / "last.safetensors", tensors, state)
    assert train_here(data, run, "--resume", validate=False) == 2
    assert train_here(data, run, "--resume") == 0


def test_a_broken_checkpoint_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "last.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    with pytest.raises(InputError, match="not a readable checkpoint"):
        checkpointing.read(tmp_path / "last.safetensors")
