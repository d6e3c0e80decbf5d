"""The summary report runs on real clips with a small trained model, and its figures are those of the evaluator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel, save_model
from densevid.cli import run_program
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.events import Event
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from research.reports.summaries import Timelines, add_arguments, reliability, run, scores


def test_true_events_score_one_and_their_confidence_is_measured(shared: Path) -> None:
    collection = ClipCollection.read(shared / "data" / "msvd")
    timelines = Timelines.of(collection, "val", 3)
    generator = TimelineGenerator(collection, "val", seed=0)
    assert [each.video for each in timelines.videos] == [generator.name(index) for index in range(3)]
    events = [
        [Event(*each.plan.span(event), event.sentences[0], 0.8) for event in each.plan.events]
        for each in timelines.videos
    ]
    found = scores(events, timelines)
    assert found["F1"] == pytest.approx(100) and found["SODA_c"] > 95
    assert reliability(events, timelines).expected_error == pytest.approx(0.2)


@pytest.mark.slow
def test_one_command_makes_the_report(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    collection = ClipCollection.read(shared / "data" / "msvd")
    (name, width), *_ = collection.streams
    model = {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "kernels": [21, 57, 111], "stride_factor": 10}
    config = Config().with_values({"model": model, "features": {"streams": [name], "widths": [width]}})
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "a", "man", "is"))
    network = MaskedTransformer(config, len(vocabulary))
    save_model(tmp_path / "model", LoadedModel(network, config, vocabulary, collection.recipe), {})
    files = ["--model", str(tmp_path / "model"), "--clips", str(shared / "data" / "msvd"), "--out", str(tmp_path)]
    command = [*files, "--videos", "12", "--long-minutes", "8", "--long-videos", "1"]
    assert run_program("summaries", None, add_arguments, run, command) == 0
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["summary"]["events a video"] == figures["best by score"]["events a video"]
    assert 0 <= figures["long videos"]["stay"] <= 100 and (tmp_path / "reliability.png").stat().st_size > 1000
    assert np.isfinite(figures["expected calibration error of the confidence"])
    assert "summary: events a video" in capsys.readouterr().out
