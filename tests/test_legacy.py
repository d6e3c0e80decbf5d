"""What version 0.1 wrote is still read, with one line that names the present form."""

from __future__ import annotations

from pathlib import Path

import pytest

from densevid import legacy
from densevid.checkpoint import load_model
from densevid.cli import main
from densevid.config import Config, load_config
from densevid.errors import InputError

FROZEN = Path(__file__).parent / "frozen_models"
OLD_SETTINGS = """
[training]
quiet_every = 7
disguised = 0.25
proposal_loss = "overlap"
consensus = 0.5

[inference]
beam = 4
agreement = 0.8
compare = "features"
expected_weight = 2.0
"""


@pytest.fixture(autouse=True)
def nothing_reported_yet() -> None:
    legacy.forget_reports()


def test_renamed_and_removed_settings_of_a_file_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text(OLD_SETTINGS)
    config = load_config(tmp_path / "config.toml")
    assert (config.training.negatives_every, config.training.channel_permuted) == (7, 0.25)
    assert (config.inference.mbr_weight, config.inference.word_prior_weight) == (0.8, 2.0)
    assert config.inference.similarity_space == "features"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"densevid: {tmp_path / 'config.toml'}: ")
    assert "training.quiet_every is now training.negatives_every" in line
    assert "training.consensus has no effect any more" in line


def test_a_whole_file_of_version_0_1_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(FROZEN / "config-0.1.toml")
    assert (config.model.width, config.training.ema, config.training.epochs) == (16, 0.9, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert all(key in line for key in (*legacy.RENAMED_KEYS, *legacy.REMOVED_KEYS))


def test_a_file_that_is_read_again_is_reported_once_for_each_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text(OLD_SETTINGS)
    for _ in range(3):
        load_config(tmp_path / "config.toml")
    assert capsys.readouterr().err.count("\n") == 1
    main(["models"])
    load_config(tmp_path / "config.toml")
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("key", sorted(legacy.REMOVED_KEYS))
def test_a_removed_setting_changes_nothing(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_config(None, [f"{key}=1"]) == Config()
    assert capsys.readouterr().err == f"densevid: {key} has no effect any more\n"


def test_flags_may_have_old_names(capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(None, ["inference.agreement=.5", "inference.beam=2"])
    assert config.inference.mbr_weight == 0.5
    assert capsys.readouterr().err == "densevid: inference.agreement is now inference.mbr_weight\n"


def test_present_names_are_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    load_config(None, ["training.negatives_every=5"])
    assert capsys.readouterr().err == ""


def test_an_old_name_beside_the_present_one_is_an_error() -> None:
    with pytest.raises(InputError, match=r"unknown key training\.quiet_every"):
        load_config(None, ["training.quiet_every=5", "training.negatives_every=7"])


def test_present_names_exist() -> None:
    settings = Config().as_dict()
    for old, new in legacy.RENAMED_KEYS.items():
        assert new.partition(".")[2] in settings[new.partition(".")[0]]
        assert old.partition(".")[2] not in settings[old.partition(".")[0]]
    for removed in legacy.REMOVED_KEYS:
        assert removed.partition(".")[2] not in settings[removed.partition(".")[0]]


def test_a_renamed_verb_runs_the_present_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["expect", "--help"])
    shown = capsys.readouterr()
    assert stop.value.code == 0 and shown.out.startswith("usage: densevid fit-priors")
    assert shown.err == "densevid: `densevid expect` is now `densevid fit-priors`\n"


def test_of_several_ranks_only_the_first_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    load_config(None, ["training.consensus=1"])
    assert capsys.readouterr().err == ""


def test_run_folders_and_checkpoints_have_present_keys() -> None:
    assert legacy.current_checkpoint({"step": 3, "judged_by": "x"}) == {"step": 3, "validation_content": "x"}
    first = {"command": ["train"]}
    assert legacy.current_environment({"sittings": [first]}) == {"starts": [first]}
    assert legacy.current_environment(first) == {"starts": [first]}
    assert legacy.current_environment({}) == {}


def test_models_and_settings_of_0_1_keep_norms_that_count_padding() -> None:
    """0.1 had no `model.norm_padding` and counted padding."""
    assert load_config(FROZEN / "config-0.1.toml").model.norm_padding == "counted"
    assert load_model(FROZEN / "format-1").config.model.norm_padding == "counted"
