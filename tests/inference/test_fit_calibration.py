"""A fitted confidence: of events as people read them, and as sure before a word is said as after a usual sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from densevid.events import Event
from densevid.inference.calibration import Calibration, Reliability
from densevid.inference.captioner import Captioner
from densevid.inference.fit_calibration import Judged, _settled, fit_calibration, judged_events
from densevid.inference.logistic import LogisticCurve
from densevid.inference.storyteller import Storyteller
from densevid.inference.summary import SummaryRules
from random_models import random_model, random_track


def judged(count: int = 4_000, towards: float = 1.0) -> Judged:
    """Events chosen for being right: P(right) = sigmoid(1.4 logit(confidence) + .8 - .5 log_probability)."""
    rng = np.random.default_rng(0)
    confidence, words = rng.normal(0, 2, count), rng.normal(-1, 0.4, count)
    probability = 1 / (1 + np.exp(-(towards * 1.4 * confidence + 0.8 - 0.5 * words)))
    return Judged({"confidence": confidence, "log_probability": words}, rng.random(count) < probability)


def test_both_curves_together_say_what_the_second_said_alone() -> None:
    told, proposal = judged(), LogisticCurve(("logit",), (2.0,), 0.3)
    settled, alone = _settled(proposal, told), told.curve()
    logit, words = torch.linspace(-2, 2, 9), torch.linspace(-2, -0.5, 9)
    first = settled.proposal({"logit": logit})
    together = settled.event({"confidence": first.logit(), "log_probability": words})
    torch.testing.assert_close(together, alone({"confidence": 2.0 * logit + 0.3, "log_probability": words}))
    usual = torch.full((9,), float(told.columns["log_probability"].mean()))
    torch.testing.assert_close(first, settled.event({"confidence": first.logit(), "log_probability": usual}))


def test_what_contradicts_the_first_curve_leaves_it_as_it_is() -> None:
    proposal = LogisticCurve(("logit",), (2.0,), 0.3)
    assert _settled(proposal, judged(towards=-1)).proposal == proposal


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
    teller = Storyteller(captioner, summary=SummaryRules.of(settings, window, top=10), calibration=again)
    told = judged_events(teller, list(tracks.values()), list(truth.values()))
    said = again.event({name: torch.from_numpy(values) for name, values in told.columns.items()}).numpy()
    assert Reliability.of(said, told.right_N, bins=3).expected_error < 0.12
    assert said.mean() == pytest.approx(told.right_N.mean(), abs=0.05)
