"""Laws of captioning: neither company nor order nor limits change a result, and the plain way says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.plain_captioner import PlainCaptioner
from densevid.data.vocabulary import INIT
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.generator import CaptionGenerator, GeneratorLimits
from densevid.inference.nms import best
from densevid.tracks import FeatureTrack
from helpers.anchor_masks import masks_of_anchors
from helpers.random_models import random_model, random_track

VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"mask": "discrete"}, {}),
    ({"mask": "learned"}, {"mask_floor": 0.3}),
    ({"compat": "released"}, {"min_before_suppression": 20}),
    ({"compat": "released", "mask": "discrete"}, {"min_before_suppression": 20}),
    ({"encoder": "bi-lstm", "decoder": "lstm"}, {}),
    ({"decoder": "lstm", "mask": "discrete"}, {"beam": 3}),
    ({}, {"beam": 3, "no_repeat": 1, "length_penalty": 0.5}),
]


def same(ours: list[Event], theirs: list[Event]) -> None:
    """To 1e-5, sentences to the letter."""
    assert [event.sentence for event in ours] == [event.sentence for event in theirs]
    numbers = [[(event.start, event.end, event.score) for event in events] for events in (ours, theirs)]
    np.testing.assert_allclose(*map(np.array, numbers), atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module", params=VARIANTS, ids=str)
def captioner(request: pytest.FixtureRequest) -> Captioner:
    return Captioner(random_model(*request.param))


def tied(captioner: Captioner, tracks: list[FeatureTrack], number: int) -> set[int]:
    """Events of which a beam ends with two sentences that are equally likely to the last digit: either will do."""
    alone, together = next(captioner.captioned([tracks[number]])), list(captioner.captioned(tracks))[number]
    apart_P = np.abs(alone.log_probability_P - together.log_probability_P)
    last_digit_P = np.spacing(np.abs(alone.log_probability_P).astype(np.float32))
    return set(np.flatnonzero(apart_P <= last_digit_P).tolist()) if captioner.config.inference.beam > 1 else set()


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=6), seed=st.integers(0, 99))
@example(lengths=[1, 32, 22], seed=94)
def test_one_by_one_equals_batched(captioner: Captioner, lengths: list[int], seed: int) -> None:
    tracks = [random_track(steps, seed + number) for number, steps in enumerate(lengths)]
    together = list(captioner.caption_many(tracks))
    assert len(together) == len(tracks)
    for number, (track, events) in enumerate(zip(tracks, together, strict=True)):
        alone = captioner.caption(track)
        if [event.sentence for event in alone] != [event.sentence for event in events]:
            ties = tied(captioner, tracks, number)
            events = [
                replace(each, sentence=alone[at].sentence) if at in ties else each for at, each in enumerate(events)
            ]
        same(alone, events)


def test_other_videos_in_a_batch_change_no_anchor_and_no_mask(
    captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the padding of its batch, an event's anchor leads to the mask that it was captioned under."""
    tracks = [random_track(steps, steps) for steps in (40, 13, 29, 1, 31)]
    alone = [next(captioner.captioned([track])) for track in tracks]
    applied: list[tuple[torch.Tensor, torch.Tensor]] = []
    generate = type(captioner.caption_generator).__call__

    def noted(self: CaptionGenerator, video: Any, mask_PT: torch.Tensor, video_P: torch.Tensor, *rest: Any) -> Any:
        applied.append((mask_PT, video_P))
        return generate(self, video, mask_PT, video_P, *rest)

    monkeypatch.setattr(type(captioner.caption_generator), "__call__", noted)
    captioner.steps_at_once = 200
    together = list(captioner.captioned(tracks))
    mask_PT, video_P = applied[0]  # those after it are some of these
    loaded = replace(random_model(), model=captioner.model, config=captioner.config)
    for number, (track, ours, theirs) in enumerate(zip(tracks, together, alone, strict=True)):
        assert ours.anchor_P.tolist() == theirs.anchor_P.tolist()
        masks_PT = masks_of_anchors(loaded, track, ours.anchor_P.tolist())
        np.testing.assert_allclose(masks_PT, mask_PT[video_P == number][:, : len(track)], atol=1e-5)


def test_limits_of_memory_change_nothing(captioner: Captioner) -> None:
    tracks = [random_track(steps, steps) for steps in (40, 13, 29, 40, 2)]
    loaded = replace(random_model(), model=captioner.model, config=captioner.config)
    for limits in (GeneratorLimits(1, 1), GeneratorLimits(64, 200)):
        narrow = Captioner(loaded, steps_at_once=30, limits=limits)
        for ours, theirs in zip(narrow.caption_many(tracks), captioner.caption_many(tracks), strict=True):
            same(ours, theirs)


def test_given_segments_together_and_alone(captioner: Captioner) -> None:
    captioned = [
        (random_track(40, 1), [(0.0, 20.0), (3.2, 4.1)]),
        (random_track(7, 2), []),
        (random_track(21, 3), [(10.0, 99.0)]),
    ]
    together = list(captioner.caption_segments_many(captioned))
    assert [[(event.start, event.end) for event in events] for events in together] == [spans for _, spans in captioned]
    for (track, spans), events in zip(captioned, together, strict=True):
        same(captioner.caption_segments(track, spans), events)


@pytest.mark.parametrize("mask", ["gated", "learned", "discrete"])
@pytest.mark.parametrize("seed", range(3))
def test_captions_equal_those_of_the_plain_captioner(mask: str, seed: int) -> None:
    loaded = random_model({"mask": mask}, seed=seed)
    tracks = [random_track(steps, seed) for steps in (8, 33, 40)]
    plain = PlainCaptioner(loaded)
    for track, ours in zip(tracks, Captioner(loaded).captioned(tracks), strict=True):
        theirs = plain.caption(track)
        assert ours.sentences == theirs.sentences
        np.testing.assert_allclose(ours.reported_P2, theirs.intervals, atol=1e-4)
        np.testing.assert_allclose(ours.score_P, theirs.scores, atol=1e-5)
    assert len(set(ours.sentences)) > 1


def test_only_the_chosen_are_captioned(captioner: Captioner) -> None:
    tracks = [random_track(steps, steps) for steps in (40, 1, 25)]
    few = list(captioner.caption_many(tracks, choose=lambda selection: best(selection, 2)))
    for ours, theirs in zip(few, captioner.caption_many(tracks), strict=True):
        same(ours, theirs[:2])


@torch.inference_mode()
def test_a_sentence_knows_how_likely_it_is() -> None:
    captioner = Captioner(random_model({"mask": "discrete"}))
    track = random_track(40)
    (found,) = captioner.captioned([track])
    model, vocabulary = captioner.model, captioner.vocabulary
    for span, sentence, log_probability in zip(
        found.reported_P2, found.sentences, found.log_probability_P, strict=True
    ):
        words = torch.tensor([vocabulary.encode(sentence, 99)[1:]])[:, :8]
        mask = model.segment_mask(torch.tensor(span)[None].float(), 40, torch.tensor([40.0]))
        video = model.encode(torch.from_numpy(track.values)[None], torch.ones(1, 40, dtype=torch.bool))
        before = torch.cat((torch.tensor([[INIT]]), words[:, :-1]), dim=1)
        logits = model.next_words(before, model.begin_caption(video, mask))
        logits[..., : INIT + 1] = -torch.inf
        chances = logits.log_softmax(-1).gather(-1, words[..., None])
        assert log_probability == pytest.approx(float(chances.mean()), abs=1e-4)


def test_numbers_that_are_none_are_refused() -> None:
    captioner, track = Captioner(random_model()), random_track(5)
    values = track.values.copy()
    values[2, 1], values[3, 1] = np.inf, -np.inf
    with pytest.raises(InputError, match="NaN, infinity"):
        captioner.caption(FeatureTrack(values, track.clock, track.streams))


def test_numbers_that_a_network_cannot_compute_with_are_refused() -> None:
    """And not reported as an event without words."""
    captioner, track = Captioner(random_model()), random_track(20)
    large = FeatureTrack(np.full_like(track.values, 3e38), track.clock, track.streams)
    for captioned in (lambda: captioner.caption(large), lambda: captioner.caption_segments(large, [(1.0, 4.0)])):
        with pytest.raises(InputError, match="too large for this model"):
            captioned()
    assert captioner.caption(track)


def test_bfloat16_gives_nearly_the_scores_of_float32() -> None:
    loaded = random_model({"mask": "discrete"})
    exact, coarse = Captioner(loaded), Captioner(loaded, precision="bfloat16")
    tracks = [random_track(steps, steps) for steps in (40, 31)]
    pairs = list(zip(exact.captioned(tracks), coarse.captioned(tracks), strict=True))
    for ours, theirs in pairs:
        assert ours.anchor_P.tolist() == theirs.anchor_P.tolist()
        np.testing.assert_allclose(ours.log_probability_P, theirs.log_probability_P, atol=0.3)


def test_float16_is_nearer_to_float32_and_refuses_what_overflows() -> None:
    loaded = random_model({"mask": "discrete"})
    track = random_track(40)
    exact, coarse, fine = (
        next(Captioner(loaded, precision=precision).captioned([track]))  # type: ignore[arg-type]
        for precision in ("float32", "bfloat16", "float16")
    )
    errors = [np.abs(one.log_probability_P - exact.log_probability_P).mean() for one in (coarse, fine)]
    assert errors[1] < errors[0] / 2
    with torch.no_grad():
        loaded.model.caption_decoder.layers[0].feed_forward.expand.weight.mul_(1e6)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="too large for float16"):
        next(Captioner(loaded, precision="float16").captioned([track]))


def test_equal_spans_are_encoded_once_and_reported_each(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = Captioner(random_model({"mask": "discrete"}))
    track, spans = random_track(40), [(0.1, 4.0), (10.0, 12.0), (0.2, 3.9), (0.0, 4.0), (10.0, 12.1)]
    encoded: list[int] = []
    encode = captioner.caption_generator.encode.__class__.__call__
    monkeypatch.setattr(
        captioner.caption_generator.encode.__class__,
        "__call__",
        lambda self, shared, part: encoded.append(len(part.event_P)) or encode(self, shared, part),
    )
    captioned = captioner.caption_segments(track, spans)
    assert sum(encoded) == 3
    assert [(event.start, event.end) for event in captioned] == spans
    assert captioned[0].sentence == captioned[2].sentence == captioned[3].sentence
    for event, span in zip(captioned, spans, strict=True):
        assert event.sentence == captioner.caption_segments(track, [span])[0].sentence


def test_reading_ahead_keeps_the_order(captioner: Captioner) -> None:
    tracks = [random_track(steps, steps) for steps in (40, 13, 29, 40, 2)]
    captioner.steps_at_once = 40
    want = [video.sentences for video in captioner.captioned(tracks)]
    captioner.ahead = True
    assert [video.sentences for video in captioner.captioned(tracks)] == want


def test_videos_before_a_broken_one_are_not_lost(captioner: Captioner) -> None:
    captioner.steps_at_once, captioner.ahead = 1, True
    broken = random_track(5)
    broken.values[2, 1] = float("nan")
    videos = captioner.captioned([random_track(40), random_track(13), broken])
    assert len(next(videos).sentences) and len(next(videos).sentences)
    with pytest.raises(InputError, match="NaN"):
        next(videos)
