"""A fitted confidence: of events as people read them, and as sure before a word is said as after a usual sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration, Reliability
from densevid.inference.fitting.calibration import HeldOut, _with_words, fit_calibration, held_out_events
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from helpers.random_models import random_model, random_track


def judged(count: int = 4_000, towards: float = 1.0) -> HeldOut:
    """Events chosen for being right: P(right) = sigmoid(1.4 logit(confidence) + .8 - .5 log_probability)."""
    rng = np.random.default_rng(0)
    confidence, words = rng.normal(0, 2, count), rng.normal(-1, 0.4, count)
    probability = 1 / (1 + np.exp(-(towards * 1.4 * confidence + 0.8 - 0.5 * words)))
    return HeldOut(
        {"confidence": confidence, "log_probability": words}, rng.random(count) < probability, np.zeros(count, bool)
    )


def test_both_curves_together_say_what_the_second_said_alone() -> None:
    told, proposal = judged(), LogisticCurve(("logit",), (2.0,), 0.3)
    (before, after), alone = _with_words(proposal, told), told.curve()
    logit, words = torch.linspace(-2, 2, 9), torch.linspace(-2, -0.5, 9)
    first = before({"logit": logit})
    together = after({"confidence": first.logit(), "log_probability": words})
    torch.testing.assert_close(together, alone({"confidence": 2.0 * logit + 0.3, "log_probability": words}))
    usual = torch.full((9,), float(told.columns["log_probability"].mean()))
    torch.testing.assert_close(first, after({"confidence": first.logit(), "log_probability": usual}))


def test_what_contradicts_the_first_curve_leaves_it_as_it_is() -> None:
    proposal = LogisticCurve(("logit",), (2.0,), 0.3)
    assert _with_words(proposal, judged(towards=-1))[0] == proposal


def test_what_people_read_is_as_often_right_as_it_says() -> None:
    """Of stories however unsure, and not of what is sure alone."""
    captioner = Captioner(random_model({}, {"min_proposals": 8, "max_proposals": 8}))
    tracks = {f"v{number}": random_track(30, number) for number in range(24)}
    rng = np.random.default_rng(0)
    truth: dict[str, list[Event]] = {
        video: [event for event in captioner.caption(track) if rng.random() < event.score] or [Event(0, 1, "x")]
        for video, track in tracks.items()
    }
    fitted = fit_calibration(captioner, tracks, truth)
    again = Calibration.of_table(fitted.as_table())
    settings, window = captioner.config.inference, captioner.config.model.window
    teller = LongVideoCaptioner(captioner, summary=SummaryRules.of(settings, window, top=10), calibration=again)
    told = held_out_events(teller, list(tracks.values()), list(truth.values()))
    said = again.event({name: torch.from_numpy(values) for name, values in told.columns.items()}).numpy()
    assert Reliability.of(said, told.right_N, bins=3).expected_error < 0.12
    assert said.mean() == pytest.approx(told.right_N.mean(), abs=0.05)


def test_whether_anything_happens_is_judged_by_what_is_right_and_by_quiet_videos() -> None:
    """Wrong proposals of videos with events say nothing of it: they may lie where nothing happens."""
    rng, count = np.random.default_rng(1), 3_000
    quiet, right = rng.random(count) < 0.5, rng.random(count) < 0.4
    right &= ~quiet
    logit = np.where(right, 4.0, np.where(quiet, -1.0, -50.0)) + rng.logistic(size=count)
    curve = HeldOut({"happening": logit}, right, quiet).happening_curve()
    assert curve is not None
    said = curve({"happening": torch.tensor([-1.0, 4.0])})
    assert said[0] < 0.1 and said[1] > 0.9
    odds = np.log(right.sum() / quiet.sum())  # the logit of the true curve at the middle of both
    assert curve({"happening": torch.tensor(1.5)}).logit().item() == pytest.approx(odds, abs=0.7)


def test_a_confidence_is_the_product_of_both() -> None:
    proposal, actionness = LogisticCurve(("logit",), (1.0,), 0.0), LogisticCurve(("happening",), (2.0,), -1.0)
    both = Calibration(proposal, LogisticCurve(("confidence",), (1.0,), 0.0), actionness)
    columns = {"logit": torch.linspace(-2, 2, 5), "happening": torch.linspace(3, -3, 5)}
    expected = columns["logit"].sigmoid() * (2 * columns["happening"] - 1).sigmoid()
    for calibration in (both, Calibration.of_table(both.as_table())):
        assert calibration.asks == ["happening"]
        torch.testing.assert_close(calibration.of_proposals(columns), expected)
