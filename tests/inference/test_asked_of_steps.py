"""Whether anything happens in spans, against a loop; and a confidence that asks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.data.annotations import Annotations
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration, actionness_of, mean_actionness, side_by_side, totals_of
from densevid.inference.fitting.actionness import fit_actionness
from densevid.inference.fitting.calibration import fit_calibration
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from densevid.tracks import FeatureTrack
from helpers.made_source import Made
from helpers.random_models import random_happening, random_model, random_track


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 5))
def test_a_span_is_the_mean_of_its_steps(lengths: list[int], seed: int) -> None:
    rng, actionness = np.random.default_rng(seed), random_happening(3)
    videos = [rng.normal(size=(steps, 3)).astype(np.float32) for steps in lengths]
    spans = np.sort(rng.uniform(-1, max(lengths) + 1, size=(len(lengths), 6, 2)), axis=-1)
    totals = side_by_side([mean_actionness(actionness, values) for values in videos], torch.device("cpu"))
    found = actionness_of(torch.from_numpy(spans), totals, torch.tensor(lengths))
    for video, values in enumerate(videos):
        logits = actionness.of_steps(values)
        for place, (start, end) in enumerate(spans[video].round().astype(int)):
            first = min(max(start, 0), len(values) - 1)  # what is past the end of a video is not asked about
            mean = logits[first : max(end, first + 1)].mean()
            assert found[video, place].item() == pytest.approx(float(mean), abs=1e-4)


def dull(track: FeatureTrack) -> FeatureTrack:
    """As lively as it was, but elsewhere."""
    return replace(track, values=track.values - np.float32(4))


def test_a_confidence_asks_whether_anything_happens_where_that_was_fitted() -> None:
    loaded = random_model({}, {"min_proposals": 8, "max_proposals": 8})
    lively = {f"l{number}": random_track(30, number) for number in range(8)}
    quiet = {f"q{number}": dull(random_track(30, 20 + number)) for number in range(8)}
    told = {video: list(Captioner(loaded).caption(track)[:4]) for video, track in lively.items()}
    truth: dict[str, list[Event]] = told | {video: [] for video in quiet}
    tracks = lively | quiet
    learnt = {f"more {video}": events for video, events in truth.items()}
    source = Made(
        {f"more {video}": track.values for video, track in tracks.items()}, next(iter(tracks.values())).streams
    )
    actionness = fit_actionness(source, Annotations(learnt, {}, []))
    captioner = Captioner(replace(loaded, actionness=actionness))
    asked = fit_calibration(captioner, tracks, truth)
    assert asked.asks == ["happening"]
    assert asked.actionness is not None and asked.actionness.weights[0] > 0
    assert "happening" not in asked.proposal.names, "that is judged where something happens"
    again = Calibration.of_table(asked.as_table())
    rules = SummaryRules.of(captioner.config.inference, captioner.config.model.window)
    teller = LongVideoCaptioner(captioner, summary=rules, calibration=again)
    together = [told.score_P for told in teller.captioned(tracks.values())]
    alone = [next(iter(teller.captioned([track]))).score_P for track in tracks.values()]
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
    surest = [max(scores, default=0.0) for scores in together]
    assert min(surest[:8]) > max(surest[8:])
    with pytest.raises(InputError, match=r"happening\.safetensors is missing"):
        list(LongVideoCaptioner(Captioner(loaded), summary=rules, calibration=again).captioned(tracks.values()))


def test_what_is_asked_is_known_by_name() -> None:
    assert list(totals_of(["stir"], None)) == ["stir"]
    assert list(totals_of(["stir", "happening"], random_happening(3))) == ["stir", "happening"]
