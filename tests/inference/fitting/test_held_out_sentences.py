"""Held-out sentences: which true event, and so whose annotators, a found event belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from densevid.inference.captioner import Captioner
from densevid.inference.fitting.held_out_sentences import AnnotatedEvents, NoAnnotators, held_out_sentences
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from densevid.tracks import FeatureTrack
from helpers.random_models import random_model, random_track

Span = tuple[float, float]


@dataclass(frozen=True)
class Named:
    """Annotators who can be told apart."""

    name: str
    annotators: int = 3

    def users(self, word: str) -> int:
        return len(word)


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    return Captioner(random_model({}, {"beam": 3, "max_proposals": 12}))


def found(captioner: Captioner, track: FeatureTrack, top: int = 4) -> list[Span]:
    """The events of the summary of a video."""
    rules = SummaryRules.of(captioner.config.inference, captioner.config.model.window, top)
    (events,) = LongVideoCaptioner(captioner, summary=rules).caption_many([track])
    return [(event.start, event.end) for event in events]


def within(one: Span, other: Span) -> float:
    """How much of a span lies in another."""
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0])) / (one[1] - one[0])


def annotated(spans: list[Span], source: str = "film") -> AnnotatedEvents:
    return AnnotatedEvents(tuple(spans), tuple(Named(f"{source}{n}") for n in range(len(spans))), source)


def moved(span: Span, share: float) -> Span:
    """A span of the same length in which so much of it lies."""
    shift = (span[1] - span[0]) * (1 - share)
    return span[0] + shift, span[1] + shift


def test_an_event_belongs_to_the_true_one_that_most_of_it_lies_in(captioner: Captioner) -> None:
    tracks = {f"v{number}": random_track(40, number) for number in range(6)}
    spans = {video: found(captioner, track) for video, track in tracks.items()}
    assert all(spans.values())
    truth = {
        video: annotated([moved(span, share) for span in own for share in (0.3, 0.48, 0.52 + 0.05 * number)], video)
        for number, (video, own) in enumerate(spans.items())
    }
    sentences = held_out_sentences(captioner, tracks, truth, top=4)
    assert len(sentences) == sum(map(len, spans.values()))
    owners = []
    for video, own in spans.items():
        for span in own:
            overlaps = [within(span, other) for other in truth[video].spans]
            best = overlaps.index(max(overlaps))
            owners.append((video, f"{video}{best}" if overlaps[best] >= 0.5 else None))
    assert [(one.source, getattr(one.annotators, "name", None)) for one in sentences] == owners
    assert any(owner for _, owner in owners)


@pytest.mark.parametrize(("share", "owned"), [(0.51, True), (0.49, False)])
def test_half_is_what_counts(captioner: Captioner, share: float, owned: bool) -> None:
    track = random_track(40, 1)
    span = found(captioner, track, top=1)[0]
    truth = {"v": annotated([moved(span, share)])}
    (sentence,) = held_out_sentences(captioner, {"v": track}, truth, top=1)
    assert isinstance(sentence.annotators, Named) == owned


def test_a_part_of_a_long_event_belongs_to_it(captioner: Captioner) -> None:
    """Whether its borders are right is the confidence of events to say."""
    track = random_track(40, 1)
    start, end = found(captioner, track, top=1)[0]
    (sentence,) = held_out_sentences(captioner, {"v": track}, {"v": annotated([(start - 50, end + 50)])}, top=1)
    assert isinstance(sentence.annotators, Named)


def test_about_an_event_that_is_none_nothing_is_right(captioner: Captioner) -> None:
    track = random_track(40, 2)
    nowhere = {"v": annotated([(1000.0, 1001.0)]), "none": annotated([])}
    sentences = held_out_sentences(captioner, {"v": track, "none": track}, nowhere, top=3)
    assert sentences and all(isinstance(one.annotators, NoAnnotators) for one in sentences)
    assert sentences[0].annotators.users("man") == 0 and sentences[0].annotators.annotators == 0


def test_events_of_a_composed_video_have_sources_of_their_own(captioner: Captioner) -> None:
    track = random_track(40, 1)
    spans = found(captioner, track)
    truth = replace(annotated(spans), sources=tuple(f"film {n}" for n in range(len(spans))))
    sentences = held_out_sentences(captioner, {"v": track}, {"v": truth}, top=4)
    assert len(spans) > 1 and [one.source for one in sentences] == list(truth.sources)


def test_videos_without_truth_are_left_out_and_others_stay_in_order(captioner: Captioner) -> None:
    tracks = {f"v{number}": random_track(20 + number, number) for number in range(5)}
    truth = {"v4": annotated([(0, 5)], "late"), "v1": annotated([(0, 5)], "early"), "other": annotated([(0, 5)])}
    sentences = held_out_sentences(captioner, tracks, truth, top=2)
    assert [one.source for one in sentences] == ["early"] * len(found(captioner, tracks["v1"], 2)) + ["late"] * len(
        found(captioner, tracks["v4"], 2)
    )


def test_the_evidence_is_that_of_the_events_own_sentence(captioner: Captioner) -> None:
    """After the events of a summary were put in the order of time."""
    track = random_track(40, 3)
    spans = found(captioner, track)
    sentences = held_out_sentences(captioner, {"v": track}, {"v": annotated(spans)}, top=4)
    rules = SummaryRules.of(captioner.config.inference, captioner.config.model.window, 4)
    (events,) = LongVideoCaptioner(captioner, summary=rules).caption_many([track])
    assert [one.evidence.caption for one in sentences] == [event.sentence for event in events]
    assert [getattr(one.annotators, "name", None) for one in sentences] == [f"film{n}" for n in range(len(spans))]
    assert all(0 < one.evidence.proposal_score < 1 and len(one.evidence.sentences) == 3 for one in sentences)


def test_a_video_of_several_windows_keeps_evidence_and_event_together(captioner: Captioner) -> None:
    track = random_track(130, 4)
    spans = found(captioner, track, top=12)
    assert max(end for _, end in spans) > 40
    sentences = held_out_sentences(captioner, {"v": track}, {"v": annotated(spans)}, top=12)
    assert [getattr(one.annotators, "name", None) for one in sentences] == [f"film{n}" for n in range(len(spans))]
    rules = SummaryRules.of(captioner.config.inference, captioner.config.model.window, 12)
    (events,) = LongVideoCaptioner(captioner, summary=rules).caption_many([track])
    assert [one.evidence.caption for one in sentences] == [event.sentence for event in events]
