"""How much videos stir: against a loop, side by side or alone, and in a confidence that has seen stills."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import ENOUGH, LEAST, Calibration, side_by_side, stir_of, stirred
from densevid.inference.fitting.calibration import fit_calibration
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from densevid.tracks import FeatureTrack
from helpers.random_models import random_model, random_track


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 5))
def test_a_span_stirs_as_much_as_its_steps_differ(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    still = rng.normal(size=3)  # videos that stir too little, somewhat and enough
    videos = [(still + 10.0 ** -rng.uniform(0, 3) * rng.normal(size=(n, 3))).astype(np.float32) for n in lengths]
    spans = np.sort(rng.uniform(0, max(lengths), size=(len(lengths), 6, 2)), axis=-1)
    found = stir_of(torch.from_numpy(spans), side_by_side([stirred(values) for values in videos], torch.device("cpu")))
    for video, values in enumerate(videos):
        size = np.linalg.norm(values, axis=1).mean()
        for place, (start, end) in enumerate(spans[video].round().astype(int)):
            inside = values[start : max(end, start + 1)]
            changes = [np.linalg.norm(b - a) / size for a, b in itertools.pairwise(inside)]
            beyond = max(end, start + 1) - 1 - start  # what is past the end of a video stirs no more
            mean = sum(changes) / max(1, min(beyond, max(lengths) - 1 - min(start, max(lengths) - 1)))
            assert found[video, place].item() == pytest.approx(np.log(min(max(mean, LEAST), ENOUGH)), abs=1e-4)


def test_half_precision_and_a_still() -> None:
    still = np.ones((5, 4), dtype=np.float16)
    assert stirred(still).tolist() == [0.0] * 5
    assert stirred(np.zeros((3, 4), dtype=np.float16)).tolist() == [0.0] * 3
    lively = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_allclose(stirred(lively.astype(np.float16)), stirred(lively.astype(np.float32)), rtol=1e-2)


def frozen(track: FeatureTrack) -> FeatureTrack:
    """Its first step, again and again."""
    return FeatureTrack(np.repeat(track.values[:1], len(track), axis=0), track.clock, track.streams)


def test_a_confidence_that_has_seen_stills_asks_how_much_they_stir() -> None:
    captioner = Captioner(random_model({}, {"min_proposals": 8, "max_proposals": 8}))
    moving = {f"m{number}": random_track(30, number) for number in range(8)}
    stills = {f"s{number}": frozen(track) for number, track in enumerate(moving.values())}
    told = {video: list(captioner.caption(track)[:4]) for video, track in moving.items()}
    nothing: dict[str, list[Event]] = {video: [] for video in stills}
    plain = fit_calibration(captioner, moving, told)
    asked = fit_calibration(captioner, moving | stills, told | nothing)
    assert plain.asks == [] and asked.asks == ["stir"]
    assert asked.proposal.weights[asked.proposal.names.index("stir")] > 0
    again = Calibration.of_table(asked.as_table())
    rules = SummaryRules.of(captioner.config.inference, captioner.config.model.window)
    teller = LongVideoCaptioner(captioner, summary=rules, calibration=again)
    tracks = [*moving.values(), *stills.values()]
    together = [told.score_P for told in teller.captioned(tracks)]
    alone = [next(iter(teller.captioned([track]))).score_P for track in tracks]
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
    surest = [max(scores, default=0.0) for scores in together]
    assert np.mean(surest[:8]) > np.mean(surest[8:])
