"""The authors' weights give the authors' numbers: every stage, and the two commands from files to predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.cli import main
from densevid.config import TrainingConfig
from densevid.import_released import import_released
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.losses import caption_loss, mask_loss, proposal_losses
from densevid.training.targets import Targets

RELEASED_MODEL = Path(__file__).parent / "golden" / "released_model"
PER_STEP = 0.5


class Golden:
    """One golden model: its arrays, its settings, and its files in the layout people have."""

    def __init__(self, name: str, folder: Path) -> None:
        self.arrays = np.load(RELEASED_MODEL / f"{name}.npz", allow_pickle=False)
        self.facts: dict[str, Any] = json.loads((RELEASED_MODEL / f"{name}.json").read_text())
        self.weights, self.words = folder / f"{name}.pth", folder / "words.txt"
        names = [key for key in self.arrays.files if key.startswith("weights/")]
        torch.save({key.removeprefix("weights/"): torch.from_numpy(self.arrays[key]) for key in names}, self.weights)
        self.words.write_text("\n".join(self.facts["vocab"]) + "\n")
        self.folder = folder

    def tensor(self, key: str) -> Tensor:
        return torch.from_numpy(self.arrays[key])

    @property
    def settings(self) -> list[str]:
        facts = self.facts
        mask = ("gated" if facts["gated_mask"] else "learned") if facts["learn_mask"] else "discrete"
        values = {
            "width": facts["d_model"],
            "hidden": facts["d_hidden"],
            "heads": facts["n_heads"],
            "layers": facts["n_layers"],
            "window": facts["window"],
            "kernels": facts["kernel_list"],
            "stride_factor": facts["stride_factor"],
            "mask": json.dumps(mask),
        }
        return [f"model.{key}={value}" for key, value in values.items()]

    def save_features(self, split: str = "") -> Path:
        root = self.folder / "features"
        (root / split).mkdir(parents=True)
        for index, frames in enumerate(self.arrays["in/frames"]):
            values = self.arrays["in/features"][index, :frames]
            np.save(root / split / f"video{index}_resnet.npy", values[:, :2048])
            np.save(root / split / f"video{index}_bn.npy", values[:, 2048:])
        return root


@pytest.fixture(params=["e2e_mask", "discrete_mask"])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Golden]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Golden(request.param, tmp_path)
    torch.set_num_threads(threads)


@pytest.fixture
def model(golden: Golden) -> MaskedTransformer:
    return import_released(golden.weights, golden.words, "activitynet", golden.settings).model.eval()


def close(ours: Tensor, theirs: Tensor) -> None:
    scale = float(theirs.abs().max())
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().max()) <= 1e-4 * scale


@torch.inference_mode()
def test_every_stage_agrees(golden: Golden, model: MaskedTransformer) -> None:
    features = golden.tensor("in/features").float()
    seen = torch.ones(features.shape[:2], dtype=torch.bool)
    positive, negative = golden.tensor("in/positive_anchors"), golden.tensor("in/negative_anchors")
    words = golden.tensor("in/sentences")
    positive_BU, negative_BU = positive[..., 0].long(), negative[..., 0].long()
    row = torch.arange(2)
    captioned_B = positive_BU[row, golden.tensor("in/captioned_positive")]

    video = model.encode(features, seen)
    close(video.embedded_BTD, golden.tensor("out/embedded"))
    for ours, theirs in zip(video.memory.layers, golden.tensor("out/encoder_layers"), strict=True):
        close(ours, theirs)
    close(model.proposal_decoder.anchor_outputs(video.memory.last_BTD), golden.tensor("out/anchor_outputs"))

    anchors = model.proposal_decoder.grid.anchors(features.shape[1]).double()
    assert anchors[:, 0].tolist() == golden.arrays["anchor/centre"].tolist()
    assert anchors[:, 1].tolist() == golden.arrays["anchor/length"].tolist()

    predictions = model(features, seen, captioned_B, words[:, :-1])
    logits, offsets = predictions.proposals.logits_BA, predictions.proposals.offsets_BA2
    scores = torch.stack((logits.gather(1, positive_BU), logits.gather(1, negative_BU)), dim=-1)
    close(scores.flatten(0, 1), golden.tensor("out/score_logits"))
    drawn = offsets[row[:, None], positive_BU].flip(-1).flatten(0, 1)
    close(drawn, golden.tensor("out/offsets"))
    next_words = words[:, 1:]
    close(predictions.word_logits_PLV[next_words != 1], golden.tensor("out/word_logits"))

    everyone = torch.ones_like(positive_BU, dtype=torch.bool)
    targets = Targets(positive_BU, everyone, positive[..., [3, 2]], negative_BU, everyone)
    config = TrainingConfig()
    score, offset = proposal_losses(predictions.proposals, targets, config)
    close(score, golden.tensor("out/cls_loss")[0])
    close(offset, golden.tensor("out/reg_loss")[0])
    close(caption_loss(predictions.word_logits_PLV, words, row >= 0, config), golden.tensor("out/sent_loss")[0])
    if predictions.event_mask.soft_logits_PT is not None:
        close(mask_loss(predictions.event_mask, seen, config), golden.tensor("out/mask_loss")[0])


def predictions_of(golden: Golden, *flags: str, split: str = "") -> dict[str, list[dict[str, Any]]]:
    """The two commands, as a user types them."""
    folder, out = golden.folder / "model", golden.folder / "predictions.json"
    words = ["--vocabulary", str(golden.words), "--preset", "activitynet", "--out", str(folder)]
    settings = [part for setting in golden.settings for part in ("--set", setting)]
    assert main(["import-released", str(golden.weights), *words, *settings]) == 0
    features = str(golden.save_features(split))
    command = ["predict", "--model", str(folder), "--features", features, "--device", "cpu", *flags, "--out", str(out)]
    assert main(command) == 0
    content = json.loads(out.read_text())
    assert {"version", "results", "external_data", "provenance"} <= content.keys()
    results: dict[str, list[dict[str, Any]]] = content["results"]
    return results


@pytest.mark.parametrize("split", ["", "validation"])
def test_the_two_commands_reproduce_the_releases_proposals(golden: Golden, split: str) -> None:
    results = predictions_of(golden, "--seconds-per-step", str(PER_STEP), split=split)
    assert list(results) == ["video0", "video1"]
    different_sentences = total = 0
    for ours, theirs in zip(results.values(), golden.facts["proposals"], strict=True):
        assert len(ours) == len(theirs)
        for row, (start, end, score, sentence) in zip(swapped_ties(ours, theirs), theirs, strict=True):
            assert row["timestamp"] == [start * PER_STEP, end * PER_STEP]
            assert row["proposal_score"] == pytest.approx(score, abs=1e-5)
            different_sentences += row["sentence"] != sentence
            total += 1
    assert different_sentences <= total / 200


def swapped_ties(ours: list[dict[str, Any]], theirs: list[list[Any]]) -> list[dict[str, Any]]:
    """Ours in their order where neighbours are closer than 1e-5 in score, else as they are."""
    rows = list(ours)
    for index in range(len(rows) - 1):
        near = rows[index]["proposal_score"] - rows[index + 1]["proposal_score"] < 1e-5
        if near and rows[index]["timestamp"] != [value * PER_STEP for value in theirs[index][:2]]:
            rows[index], rows[index + 1] = rows[index + 1], rows[index]
    return rows


def test_durations_become_the_releases_seconds(golden: Golden) -> None:
    table = golden.folder / "anet_duration_frame.csv"
    table.write_text("video0,47.5,1190\n")  # video1 is missing in it, which means .5
    results = predictions_of(golden, "--durations", str(table))
    per_step = 47.5 * int(1190 / int(47.5) * 0.5) / 1190
    ends = [row["timestamp"][1] for row in results["video0"]]
    assert all(abs(end / per_step - round(end / per_step)) < 1e-6 for end in ends)
    assert results["video1"][0]["timestamp"][1] * 2 == golden.facts["proposals"][1][0][1]


def test_given_segments_are_captioned_as_given(golden: Golden) -> None:
    segments = golden.folder / "references.json"
    spans = [[1.25, 9.5], [30.0, 33.3]]
    segments.write_text(json.dumps({"video1": {"duration": 38, "timestamps": spans, "sentences": ["a", "b"]}}))
    results = predictions_of(golden, "--segments", str(segments))
    assert [row["timestamp"] for row in results["video1"]] == spans and list(results) == ["video1"]
    assert all(row["sentence"] for row in results["video1"])


class TestBadInput:
    @pytest.fixture
    def small(self, tmp_path: Path) -> Golden:
        return Golden("discrete_mask", tmp_path)

    def fails(self, capsys: pytest.CaptureFixture[str], golden: Golden, *settings: str) -> str:
        flags = [part for setting in settings for part in ("--set", setting)]
        base = ["import-released", str(golden.weights), "--vocabulary", str(golden.words), "--preset", "activitynet"]
        assert main([*base, *flags, "--out", str(golden.folder / "model")]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1 and not (golden.folder / "model").exists()
        return message

    def test_settings_of_another_size_say_what_to_set(self, small: Golden, capsys: pytest.CaptureFixture[str]) -> None:
        message = self.fails(capsys, small)
        assert "--set 'model.width=64'" in message and "model.kernels=[1, 2, 3" in message

    def test_missing_and_unknown_keys_are_listed(self, small: Golden, capsys: pytest.CaptureFixture[str]) -> None:
        state = torch.load(small.weights, weights_only=True)
        state["surprise.weight"] = state.pop("cap_model.decoder.out.bias")
        torch.save(state, small.weights)
        message = self.fails(capsys, small, *small.settings)
        assert "missing cap_model.decoder.out.bias" in message and "unknown surprise.weight" in message

    def test_a_pickle_that_runs_code_is_not_loaded(self, small: Golden, capsys: pytest.CaptureFixture[str]) -> None:
        trap = small.folder / "trap"

        class Trap:
            def __reduce__(self) -> tuple[Any, ...]:
                return (Path.touch, (trap,))

        torch.save({"weights": Trap()}, small.weights)
        assert "safely" in self.fails(capsys, small) and not trap.exists()

    def test_a_short_word_list_is_counted(self, small: Golden, capsys: pytest.CaptureFixture[str]) -> None:
        small.words.write_text("\n".join(small.facts["vocab"][:-1]))
        assert "60 words, the word list has 59" in self.fails(capsys, small, *small.settings)

    def test_a_text_file_is_not_a_model(self, small: Golden, capsys: pytest.CaptureFixture[str]) -> None:
        small.weights.write_text("not weights")
        assert "not a state_dict" in self.fails(capsys, small)


def test_word_logits_are_a_softmax_over_the_whole_vocabulary(golden: Golden, model: MaskedTransformer) -> None:
    assert model.caption_decoder.words.weight.shape[0] == len(golden.facts["vocab"])
    loss = F.cross_entropy(golden.tensor("out/word_logits"), golden.tensor("out/word_targets"))
    close(loss, golden.tensor("out/sent_loss")[0])
