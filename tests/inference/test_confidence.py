"""Confidence: curves against distributions whose truth is known, actionness of spans against a loop, files of 0.1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.checkpoint import CALIBRATION, load_model, save_model
from densevid.data.annotations import Annotations
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import (
    Calibration,
    Reliability,
    actionness_of,
    actionness_total,
    pad_totals,
    running_totals,
)
from densevid.inference.fitting.actionness import fit_actionness
from densevid.inference.fitting.calibration import fit_calibration
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from densevid.io import toml_text
from densevid.tracks import FeatureTrack
from helpers.made_source import Made
from helpers.random_models import random_actionness, random_model, random_track

RNG = np.random.default_rng(0)


def drawn(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Events that are right with probability sigmoid(2 logit - .5 share + .3)."""
    logit, share = RNG.normal(1, 2, count), RNG.random(count)
    probability = 1 / (1 + np.exp(-(2 * logit - 0.5 * share + 0.3)))
    return {"logit": logit, "share": share}, RNG.random(count) < probability


def test_the_curve_that_made_the_data_is_found() -> None:
    curve = LogisticCurve.fit(*drawn(200_000))
    assert curve.weights == pytest.approx((2, -0.5), abs=0.06) and curve.bias == pytest.approx(0.3, abs=0.06)


def test_a_fitted_curve_is_reliable_on_held_out_events_and_an_overconfident_one_is_not() -> None:
    curve = LogisticCurve.fit(*drawn(4_000))
    columns, right = drawn(20_000)
    tensors = {name: torch.from_numpy(values) for name, values in columns.items()}
    confidence = curve(tensors).numpy()
    assert Reliability.of(confidence, right).expected_error < 0.02
    overconfident = LogisticCurve(curve.names, tuple(5 * weight for weight in curve.weights), 5 * curve.bias)
    assert Reliability.of(overconfident(tensors).numpy(), right).expected_error > 0.04


def test_separable_events_still_give_a_finite_curve() -> None:
    curve = LogisticCurve.fit({"logit": np.r_[-np.ones(20), np.ones(20)]}, np.r_[np.zeros(20), np.ones(20)])
    assert 0 < curve.weights[0] < 20
    constant = LogisticCurve.fit({"logit": np.ones(8)}, np.r_[np.zeros(6), np.ones(2)])
    assert float(constant({"logit": torch.ones(())})) == pytest.approx(0.25)


def test_one_kind_of_event_is_not_enough() -> None:
    with pytest.raises(InputError, match="needs both kinds"):
        LogisticCurve.fit({"logit": np.ones(5)}, np.ones(5))


def test_expected_error_is_the_weighted_gap() -> None:
    reliability = Reliability.of([0.05, 0.05, 0.95, 1.0], [0, 1, 1, 1])
    assert reliability.events_K.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert reliability.expected_error == pytest.approx((2 * 0.45 + 2 * 0.025) / 4)
    assert Reliability.of([], []).expected_error == 0


def calibration() -> Calibration:
    return Calibration(
        LogisticCurve(("logit",), (1.5,), -0.25),
        LogisticCurve(("confidence", "log_probability"), (1.0, 0.1), 0.0),
        fitted={"events": 7},
    )


def test_a_calibration_survives_saving_and_loading() -> None:
    assert Calibration.of_table(calibration().as_table()) == calibration()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": {"version": 9}}, "format 9"),
        ({"format": 1}, "format None"),
        ({"proposal": {"names": ["logit"], "weights": [1.0, 2.0], "bias": 0.0}}, "one finite weight"),
        ({"proposal": {"names": ["logit"], "weights": [float("nan")], "bias": 0.0}}, "one finite weight"),
        ({"proposal": {"names": ["log_probability"], "weights": [1.0], "bias": 0.0}}, "unknown column"),
        ({"event": 3}, "needs names, weights and a bias"),
        ({"event": {"names": [], "weights": []}}, "needs names, weights and a bias"),
    ],
)
def test_a_table_that_is_no_calibration_is_one_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Calibration.of_table({**calibration().as_table(), **change})
    assert "calibration.toml" in str(error.value) and "\n" not in str(error.value)


def test_a_curve_is_stretched_by_its_logit() -> None:
    curve = LogisticCurve(("logit",), (1.5,), -0.25)
    logit = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(curve.stretched(2.0, 0.5)({"logit": logit}), (3.0 * logit).sigmoid())


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 5))
def test_a_span_is_the_mean_of_its_steps(lengths: list[int], seed: int) -> None:
    rng, actionness = np.random.default_rng(seed), random_actionness(3)
    videos = [rng.normal(size=(steps, 3)).astype(np.float32) for steps in lengths]
    spans = np.sort(rng.uniform(-1, max(lengths) + 1, size=(len(lengths), 6, 2)), axis=-1)
    totals = pad_totals([actionness_total(actionness, values) for values in videos], torch.device("cpu"))
    found = actionness_of(torch.from_numpy(spans), totals, torch.tensor(lengths))
    for video, values in enumerate(videos):
        logits = actionness.of_steps(values)
        for place, (start, end) in enumerate(spans[video].round().astype(int)):
            first = min(max(start, 0), len(values) - 1)  # steps past the end of a video do not count
            mean = logits[first : max(end, first + 1)].mean()
            assert found[video, place].item() == pytest.approx(float(mean), abs=1e-4)


def shifted(track: FeatureTrack) -> FeatureTrack:
    """Changing as much, but elsewhere in feature space."""
    return replace(track, values=track.values - np.float32(4))


def test_a_confidence_with_actionness_is_lower_for_no_event_videos() -> None:
    loaded = random_model({}, {"min_proposals": 8, "max_proposals": 8})
    shown = {f"l{number}": random_track(30, number) for number in range(8)}
    negatives = {f"q{number}": shifted(random_track(30, 20 + number)) for number in range(8)}
    events = {video: list(Captioner(loaded).caption(track)[:4]) for video, track in shown.items()}
    truth: dict[str, list[Event]] = events | {video: [] for video in negatives}
    tracks = shown | negatives
    training = {f"more {video}": events for video, events in truth.items()}
    source = Made(
        {f"more {video}": track.values for video, track in tracks.items()}, next(iter(tracks.values())).streams
    )
    actionness = fit_actionness(source, Annotations(training, {}, []))
    captioner = Captioner(replace(loaded, actionness=actionness))
    fitted = fit_calibration(captioner, tracks, truth)
    assert fitted.step_features == ["actionness"]
    assert fitted.actionness is not None and fitted.actionness.weights[0] > 0
    assert "actionness" not in fitted.proposal.names, "it has a curve of its own"
    again = Calibration.of_table(fitted.as_table())
    rules = SummaryRules.of(captioner.config.inference, captioner.config.model.window)
    summaries = LongVideoCaptioner(captioner, summary=rules, calibration=again)
    together = [video.score_P for video in summaries.captioned(tracks.values())]
    alone = [next(iter(summaries.captioned([track]))).score_P for track in tracks.values()]
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
    highest = [max(scores, default=0.0) for scores in together]
    assert min(highest[:8]) > max(highest[8:])
    with pytest.raises(InputError, match=r"actionness\.safetensors is missing"):
        list(LongVideoCaptioner(Captioner(loaded), summary=rules, calibration=again).captioned(tracks.values()))


def test_step_features_are_known_by_name() -> None:
    assert running_totals([], None) == {}
    assert list(running_totals(["actionness"], random_actionness(3))) == ["actionness"]


def with_calibration(folder: Path, table: dict[str, Any]) -> Path:
    save_model(folder, random_model(), {})
    (folder / CALIBRATION).write_text(toml_text(table))
    return folder


def test_a_calibration_of_01_loads_under_the_present_names(tmp_path: Path) -> None:
    table = {
        "format": {"version": 1},
        "proposal": {"names": ["logit", "company"], "weights": [1.0, 2.0], "bias": 0.5},
        "event": {"names": ["confidence", "log_probability"], "weights": [1.0, 0.1], "bias": 0.0},
        "happening": {"names": ["happening"], "weights": [1.5], "bias": -2.0},
        "fitted": {"videos": 3},
    }
    content = load_model(with_calibration(tmp_path / "model", table)).calibration
    assert content is not None
    found = Calibration.of_table(content)
    assert found.proposal == LogisticCurve(("logit", "neighbor_support"), (1.0, 2.0), 0.5)
    assert found.actionness == LogisticCurve(("actionness",), (1.5,), -2.0) and found.fitted == {"videos": 3}


def test_a_calibration_fitted_to_feature_change_gives_way_to_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = {"names": ["logit", "stir"], "weights": [1.0, 2.0], "bias": 0.5}
    folder = with_calibration(tmp_path / "model", {**calibration().as_table(), "proposal": curve})
    assert load_model(folder).calibration is None
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "densevid calibrate" in line
