"""The fit of actionness: on features that decide it, and against regression on spans written out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from densevid.data.annotations import Annotations
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.fitting import actionness as fitting
from densevid.inference.fitting.actionness import fit_actionness
from densevid.inference.fitting.logistic import logistic_fit
from densevid.model.priors import Actionness
from helpers.made_source import Made

STREAMS = (("seen", 3), ("moved", 2))
Floats = npt.NDArray[np.float64]


def data(videos: int = 30, seed: int = 0) -> tuple[Made, Annotations]:
    """Every third video has no events: its first feature is lower, and its last one changes less."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Floats] = {}
    events: dict[str, list[Event]] = {}
    for number in range(videos):
        steps, negative = int(rng.integers(1, 25)), number % 3 == 0
        arrays[f"v{number}"] = rng.normal(size=(steps, 5)) * [1, 1, 1, 0.1, 0.02 if negative else 0.2]
        arrays[f"v{number}"][:, 0] += 0 if negative else 2
        events[f"v{number}"] = [] if negative else [Event(0.0, steps / 2, "a"), Event(0.0, steps / 2, "b")]
    return Made(arrays, STREAMS), Annotations(events, {}, [])


def logit(actionness: Actionness, values: Floats) -> float:
    return float(actionness.of_steps(values).mean())


def test_held_out_videos_are_separated() -> None:
    actionness = fit_actionness(*data())
    assert actionness is not None and actionness.about["fitted"]["negatives"] == 10
    source, annotations = data(300, seed=1)
    right = [
        (logit(actionness, source.arrays[video]) > 0) == bool(events) for video, events in annotations.events.items()
    ]
    assert np.mean(right) > 0.85, "a third has no events"
    assert actionness.change_F[-1] > 0 < actionness.value_F[0]


def test_the_fit_is_logistic_regression_on_spans() -> None:
    """Spans cut out one by one; scaled by stream, every video and both kinds count alike."""
    source, annotations = data()
    actionness = fit_actionness(source, annotations)
    rows: list[Floats] = []
    right: list[float] = []
    share: list[float] = []
    for video, values in source.arrays.items():
        steps = values.astype(np.float32).astype(float)
        change = np.abs(np.diff(steps, axis=0)) if len(steps) > 1 else np.zeros((1, 5))
        both = np.c_[steps, np.r_[change[:1], change][: len(steps)]]
        spans = [both[start : start + 6].mean(axis=0) for start in range(0, max(1, len(both) - 5), 3)]
        kind = sum(bool(events) == bool(annotations.events[video]) for events in annotations.events.values())
        rows += spans
        right += [float(bool(annotations.events[video]))] * len(spans)
        share += [0.5 / kind / len(spans)] * len(spans)
    x, y, w = np.array(rows), np.array(right), np.array(share)
    assert w.sum() == pytest.approx(1)
    centred = x - w @ x
    size = np.sqrt([(w @ centred[:, block] ** 2).mean() for block in np.split(np.arange(10), [3, 5, 8])])
    scaled = centred / size.repeat([3, 2, 3, 2])
    weights, bias = logistic_fit(scaled, y, w, fitting.RIDGE)
    assert actionness is not None
    wanted = scaled @ weights + bias
    found = x @ np.r_[actionness.value_F, actionness.change_F] + float(actionness.bias)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_of_many_videos_few_spans_each_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_SPANS", 40)
    actionness = fit_actionness(*data())
    assert actionness is not None and actionness.about["fitted"] == {"videos": 30, "negatives": 10, "spans": 30}


def test_events_beyond_the_end_do_not_count() -> None:
    source, annotations = data()
    annotations.events["v1"][:] = [Event(0.0, 0.5, "the first step"), Event(400.0, 900.0, "long after its end")]
    assert fit_actionness(source, annotations) is not None


def test_data_that_cannot_be_fitted_is_one_line() -> None:
    source, annotations = data()
    everywhere = {video: events for video, events in annotations.events.items() if events}
    assert fit_actionness(source, Annotations(everywhere, {}, [])) is None
    with pytest.raises(InputError, match="actionness cannot be fitted"):
        fit_actionness(source, Annotations({video: [] for video in annotations.events}, {}, []))
    source.arrays["v3"][0, 1] = np.nan
    with pytest.raises(InputError, match="v3: its features hold NaN"):
        fit_actionness(source, annotations)
