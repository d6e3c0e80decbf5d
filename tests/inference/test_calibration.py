"""Confidence against distributions whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from densevid.errors import InputError
from densevid.inference.confidence import Calibration, Reliability
from densevid.inference.fitting.logistic import LogisticCurve

RNG = np.random.default_rng(0)


def drawn(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Events that are right with probability sigmoid(2 logit - .5 share + .3)."""
    logit, share = RNG.normal(1, 2, count), RNG.random(count)
    probability = 1 / (1 + np.exp(-(2 * logit - 0.5 * share + 0.3)))
    return {"logit": logit, "share": share}, RNG.random(count) < probability


def test_the_curve_that_made_the_data_is_found() -> None:
    curve = LogisticCurve.fit(*drawn(200_000))
    assert curve.weights == pytest.approx((2, -0.5), abs=0.06) and curve.bias == pytest.approx(0.3, abs=0.06)


def test_it_is_reliable_on_other_events_and_a_curve_that_is_too_sure_is_not() -> None:
    curve = LogisticCurve.fit(*drawn(4_000))
    columns, right = drawn(20_000)
    tensors = {name: torch.from_numpy(values) for name, values in columns.items()}
    said = curve(tensors).numpy()
    assert Reliability.of(said, right).expected_error < 0.02
    overconfident = LogisticCurve(curve.names, tuple(5 * weight for weight in curve.weights), 5 * curve.bias)
    assert Reliability.of(overconfident(tensors).numpy(), right).expected_error > 0.04


def test_events_that_can_be_told_apart_perfectly_still_give_a_finite_curve() -> None:
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


def test_it_survives_its_table() -> None:
    assert Calibration.of_table(calibration().as_table()) == calibration()


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_a_table_that_makes_no_sense_is_one_line(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        Calibration.of_table({**calibration().as_table(), **change})
    assert "calibration.toml" in str(error.value) and "\n" not in str(error.value)


def test_a_curve_is_stretched_by_its_logit() -> None:
    curve = LogisticCurve(("logit",), (1.5,), -0.25)
    logit = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(curve.stretched(2.0, 0.5)({"logit": logit}), (3.0 * logit).sigmoid())
