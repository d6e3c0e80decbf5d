"""Settings: defaults < file < flag; whatever is wrong is one line that names the key."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

import pytest

from densevid.checkpoint import load_model
from densevid.config import Config, load_config, presets, schema
from densevid.errors import InputError
from densevid.io import hash_of


def test_defaults_then_file_then_flags(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[model]\nlayers = 4\nhidden = 256\n[training]\nlearning_rate = 1\n")
    config = load_config(file, ["model.layers=6", "training.seed=7"])
    assert (config.model.layers, config.model.hidden, config.model.width) == (6, 256, 1024)
    assert config.training.learning_rate == 1.0 and isinstance(config.training.learning_rate, float)
    assert config.training.seed == 7 and config.inference == Config().inference


def test_flags_count_together_whatever_their_order() -> None:
    """Neither of the two alone would be possible."""
    flags = ["model.window=100", "model.kernels=[1, 100]"]
    assert load_config(None, flags) == load_config(None, flags[::-1])
    assert load_config(None, flags).model.kernels == (1, 100)


def test_values_are_toml_and_bare_words_are_text() -> None:
    config = load_config(None, ["model.mask=discrete", 'model.compat="released"', "training.weight_decay=0"])
    assert (config.model.mask, config.model.compat, config.training.weight_decay) == ("discrete", "released", 0.0)
    assert load_config(None, ["model.encoder=bi-lstm"]).model.encoder == "bi-lstm"
    assert load_config(None, [" model.layers = 3 "]).model.layers == 3
    assert load_config(None, ["inference.score_threshold=.3"]).inference.score_threshold == 0.3


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("model.depth=3", "unknown key model.depth; model has width, hidden,"),
        ("modle.layers=3", "unknown section 'modle'; there are model, features, training, inference"),
        ("model.layers", "--set wants section.key=value, got 'model.layers'"),
        ("layers=3", "--set wants section.key=value"),
        ("model.=3", "--set wants section.key=value"),
        ("model.layers=two", "model.layers = 'two' must be of type int"),
        ("model.layers=2.5", "model.layers = 2.5 must be of type int"),
        ("model.layers=true", "model.layers = True must be of type int"),
        ("model.layers=", "--set model.layers: '' is not a TOML value"),
        ("model.layers=[", "--set model.layers: '[' is not a TOML value"),
        ("model.layers=3\nother=4", "--set model.layers: '3\\nother=4' is more than one TOML value"),
        ("model.layers=3\n[training]\nseed=4", "is more than one TOML value"),
        (f"model.layers=1{'0' * 5000}", "--set model.layers: a number of 5001 digits is too large"),
        ("model.kernels=3", "model.kernels = 3 must be a list"),
        ('model.kernels=[1, "a"]', "model.kernels = 'a' must be of type int"),
        ("model.mask=soft", "model.mask = 'soft' must be one of 'gated', 'learned', 'discrete'"),
        ("model.mask=3", "model.mask = 3 must be one of"),
        ("training.learning_rate=nan", "training.learning_rate must be a finite number, got nan"),
        ("training.learning_rate=inf", "training.learning_rate must be a finite number, got inf"),
        (
            "training.learning_rate=2024-01-01",
            "training.learning_rate = datetime.date(2024, 1, 1) must be of type float",
        ),
        # impossible values
        ("model.heads=7", "model.heads = 7 must divide model.width = 1024"),
        ("model.heads=0", "model.heads = 0 must be at least 1"),
        ("model.kernels=[1, 481]", "model.kernels = 481 is longer than model.window = 480"),
        ("model.window=200", "model.kernels = 251 is longer than model.window = 200"),
        ("model.kernels=[]", "model.kernels = [] must not be empty"),
        ("model.kernels=[0, 1]", "model.kernels = [0, 1] must be at least 1 each"),
        ("model.layers=0", "model.layers = 0 must be at least 1"),
        ("model.dropout=1", "model.dropout = 1.0 must be in [0, 1)"),
        ("training.plateau_factor=1", "training.plateau_factor = 1.0 must be in [0, 1)"),
        (f"training.learning_rate=1{'0' * 400}", "training.learning_rate: a number of 1329 bits is too large"),
        (f"model.layers=1{'0' * 400}", "model.layers: a number of 1329 bits is too large"),
        ("model.width=1028", "model.heads = 8 must divide model.width = 1028"),
        ("features.widths=[5]", "features.widths = [5] needs one entry per features.streams = ['resnet', 'bn']"),
        ("features.widths=[5, 0]", "features.widths = [5, 0] must be at least 1 each"),
        ('features.streams=["a", "a"]', "features.streams = ['a', 'a'] names a stream twice"),
        ("features.seconds_per_step=0", "features.seconds_per_step = 0.0 must be positive"),
        ("training.learning_rate=0", "training.learning_rate = 0.0 must be positive"),
        ("training.seed=-1", "training.seed = -1 must not be negative"),
        ("training.negative_iou=0.8", "training.negative_iou = 0.8 must not exceed training.positive_iou = 0.7"),
        ("training.momentum=1.5", "training.momentum = 1.5 must be in [0, 1]"),
        ("inference.score_threshold=2", "inference.score_threshold = 2.0 must be in [0, 1]"),
        ("inference.min_proposals=600", "inference.min_proposals = 600 exceeds inference.max_proposals = 500"),
        ("inference.max_words=0", "inference.max_words = 0 must be at least 1"),
    ],
)
def test_a_wrong_flag_is_one_line_that_names_the_key(flag: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_config(None, [flag])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mask", ["gated", "learned", "discrete"])
def test_four_sinusoids_need_a_width_of_fourths(mask: str) -> None:
    assert load_config(None, ["model.width=12", "model.heads=2", f"model.mask={mask}"]).model.width == 12
    flags = ["model.width=15", "model.heads=3", f"model.mask={mask}"]
    if mask == "discrete":
        assert load_config(None, flags).model.width == 15
    else:
        with pytest.raises(InputError, match=r"model.width = 15 must be divisible by 4"):
            load_config(None, flags)
    with pytest.raises(InputError, match=r"model.width = 15 must be"):
        load_config(None, [*flags, "model.encoder=bi-lstm"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\ndepth = 1", "unknown key model.depth"),
        ("model = 3", "model must be a table of settings, got 3"),
        ("layers = 3", "unknown section 'layers'"),
        ("[model]\nlayers = 'x'", "model.layers = 'x' must be of type int"),
        ("[model\n", "not a readable TOML file"),
        ("\x00", "not a readable TOML file"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "my.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_config(file)
    assert str(file) in str(caught.value)


def test_no_such_file_lists_the_presets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither a file nor a preset; presets are activitynet, "):
        load_config(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not a readable TOML file"):
        load_config(tmp_path)


@pytest.mark.parametrize("name", [None, *presets()])
def test_presets_go_through_toml_unchanged(tmp_path: Path, name: str | None) -> None:
    config = load_config(name)
    config.save(tmp_path / "config.toml")
    again = load_config(tmp_path / "config.toml")
    assert again == config and again.hash == config.hash and again.as_toml() == config.as_toml()


def test_odd_text_goes_through_toml_unchanged(tmp_path: Path) -> None:
    odd = 'a "quoted"\\ \n\t\x7f\x01 ünï'
    config = Config(features=replace(Config().features, streams=(odd,), widths=(4,)))
    config.save(tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config


def test_presets_have_the_settings_of_the_paper() -> None:
    assert {"activitynet", "youcook2", "proposal-only", "caption-only"} <= set(presets())
    assert load_config("activitynet") == Config()
    youcook2 = load_config("youcook2")
    assert youcook2.model.kernels == (1, 3, 5, 7, 9, 11, 15, 21, 27, 33, 41, 49, 57, 71, 111, 161)
    assert youcook2.features.duration_formula == "youcook2"
    weights = ("offset_weight", "mask_weight", "score_weight", "word_weight")
    assert [getattr(youcook2.training, name) for name in weights] == [10, 1, 1, 0.25]
    proposal = load_config("proposal-only")
    model = proposal.model
    assert (model.layers, model.width, model.hidden, model.stride_factor) == (1, 512, 128, 10)
    assert (proposal.training.optimizer, proposal.training.learning_rate) == ("adam", 1e-4)
    caption = load_config("caption-only").training
    sampling = (caption.sampling_start, caption.sampling_step, caption.sampling_every, caption.sampling_end)
    assert sampling == (0.05, 0.05, 5, 0.25) and caption.learning_rate == 1e-4


def test_the_hash_changes_with_every_number() -> None:
    config, hashes = Config(), {Config().hash}
    numbers = [
        (section, key, value)
        for section, entries in config.as_dict().items()
        for key, value in entries.items()
        if isinstance(value, (int, float))
    ]
    for section, key, value in numbers:
        hashes.add(hash_of({**config.as_dict(), section: {**config.as_dict()[section], key: value + 1}}))
    assert len(hashes) == len(numbers) + 1 > 30
    assert load_config("activitynet").hash == config.hash == hash_of(config.as_dict())


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("training.ema=1.0", "training.ema = 1.0 must be in [0, 1)"),
        ("training.label_smoothing=1.5", "training.label_smoothing = 1.5 must be in [0, 1)"),
        ("training.betas=[0.9]", "training.betas = [0.9] must be two numbers in [0, 1)"),
        ("training.betas=[0.9, 1.0]", "must be two numbers in [0, 1)"),
        ("training.warmup_steps=-1", "training.warmup_steps = -1 must not be negative"),
        ("training.segments_per_video=0", "training.segments_per_video = 0 must be positive"),
        ("training.checkpoint_every=-5", "must not be negative"),
        ("training.evaluate_every=-1", "must not be negative"),
        ('training.schedule="linear"', "must be one of 'plateau', 'cosine'"),
        ('training.precision="float16"', "must be one of 'float32', 'bfloat16'"),
        ('training.reward="bleu"', "must be one of 'none', 'cider', 'meteor'"),
        ('training.best_by="cider"', "training.evaluate_every = 0 must be at least 1 with training.best_by = 'cider'"),
        ("training.features_on_device=1", "must be of type bool"),
    ],
)
def test_impossible_ways_to_train(setting: str, reason: str) -> None:
    with pytest.raises(InputError) as found:
        load_config(None, [setting])
    assert reason in str(found.value)


def test_a_reward_needs_sentences() -> None:
    with pytest.raises(InputError, match="rewards sentences"):
        load_config("proposal-only", ['training.reward="cider"'])


def test_the_modern_preset_changes_the_recipe() -> None:
    training = load_config("modern").training
    assert (training.optimizer, training.schedule, training.precision) == ("adamw", "cosine", "bfloat16")
    assert training.warmup_steps > 0 and training.label_smoothing > 0 and training.ema > 0


def test_the_settings_of_a_model_folder_can_be_given_again() -> None:
    folder = Path(__file__).parents[1] / "frozen_models" / "format-1"
    assert load_config(folder / "config.toml") == load_model(folder).config


def test_what_is_chosen_is_what_is_not_the_default_and_makes_the_configuration_again() -> None:
    assert not any(Config().chosen().values())
    chosen = load_config(None, ["model.layers=4", "training.epochs=20", "inference.beam=3"]).chosen()
    assert chosen == {"model": {"layers": 4}, "features": {}, "training": {}, "inference": {"beam": 3}}
    for name in presets():
        assert Config().with_values(load_config(name).chosen()) == load_config(name)


def test_every_setting_has_a_comment_of_its_own() -> None:
    """Beside it, or on the line above."""
    lines = inspect.getsource(schema).splitlines()
    for number, line in enumerate(lines):
        if re.match(r"    \w+: .* = ", line):
            assert "  # " in line or lines[number - 1].lstrip().startswith("# "), line
