"""A fitted calibration: right for the events of summaries, and the same before a caption and after an average one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration, Reliability
from densevid.inference.fitting.calibration import HeldOut, fit_calibration, held_out_events, with_captions
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from helpers.random_models import random_model, random_track


def held_out(count: int = 4_000, towards: float = 1.0) -> HeldOut:
    """Events chosen for being right: P(right) = sigmoid(1.4 logit(confidence) + .8 - .5 log_probability)."""
    rng = np.random.default_rng(0)
    confidence, words = rng.normal(0, 2, count), rng.normal(-1, 0.4, count)
    probability = 1 / (1 + np.exp(-(towards * 1.4 * confidence + 0.8 - 0.5 * words)))
    return HeldOut(
        {"confidence": confidence, "log_probability": words}, rng.random(count) < probability, np.zeros(count, bool)
    )


def test_both_curves_together_give_the_second_alone() -> None:
    events, proposal = held_out(), LogisticCurve(("logit",), (2.0,), 0.3)
    (before, after), alone = with_captions(proposal, events), events.curve()
    logit, words = torch.linspace(-2, 2, 9), torch.linspace(-2, -0.5, 9)
    first = before({"logit": logit})
    together = after({"confidence": first.logit(), "log_probability": words})
    torch.testing.assert_close(together, alone({"confidence": 2.0 * logit + 0.3, "log_probability": words}))
    average = torch.full((9,), float(events.features["log_probability"].mean()))
    torch.testing.assert_close(first, after({"confidence": first.logit(), "log_probability": average}))


def test_what_contradicts_the_first_curve_leaves_it_as_it_is() -> None:
    proposal = LogisticCurve(("logit",), (2.0,), 0.3)
    assert with_captions(proposal, held_out(towards=-1))[0] == proposal


def test_events_of_summaries_are_right_as_often_as_their_confidence() -> None:
    """Of all events of a summary, not only the most confident."""
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
    summaries = LongVideoCaptioner(captioner, summary=SummaryRules.of(settings, window, top=10), calibration=again)
    events = held_out_events(summaries, list(tracks.values()), list(truth.values()))
    confidence = again.event({name: torch.from_numpy(values) for name, values in events.features.items()}).numpy()
    assert Reliability.of(confidence, events.right_N, bins=3).expected_error < 0.12
    assert confidence.mean() == pytest.approx(events.right_N.mean(), abs=0.05)


def test_actionness_is_fitted_to_right_proposals_and_no_event_videos() -> None:
    """Wrong proposals of videos with events do not count: they may lie where no event is."""
    rng, count = np.random.default_rng(1), 3_000
    negative, right = rng.random(count) < 0.5, rng.random(count) < 0.4
    right &= ~negative
    logit = np.where(right, 4.0, np.where(negative, -1.0, -50.0)) + rng.logistic(size=count)
    curve = HeldOut({"actionness": logit}, right, negative).actionness_curve()
    assert curve is not None
    shown = curve({"actionness": torch.tensor([-1.0, 4.0])})
    assert shown[0] < 0.1 and shown[1] > 0.9
    odds = np.log(right.sum() / negative.sum())  # the logit of the true curve at the middle of both
    assert curve({"actionness": torch.tensor(1.5)}).logit().item() == pytest.approx(odds, abs=0.7)


def test_a_confidence_is_the_product_of_both() -> None:
    proposal, actionness = LogisticCurve(("logit",), (1.0,), 0.0), LogisticCurve(("actionness",), (2.0,), -1.0)
    both = Calibration(proposal, LogisticCurve(("confidence",), (1.0,), 0.0), actionness)
    columns = {"logit": torch.linspace(-2, 2, 5), "actionness": torch.linspace(3, -3, 5)}
    expected = columns["logit"].sigmoid() * (2 * columns["actionness"] - 1).sigmoid()
    for calibration in (both, Calibration.of_table(both.as_table())):
        assert calibration.step_features == ["actionness"]
        torch.testing.assert_close(calibration.of_proposals(columns), expected)
