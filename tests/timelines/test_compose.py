"""Composed timelines of a generated collection: the rules of the composition, one by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from densevid.data.feature_rows import blend
from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.plan import TimelinePlan
from densevid.timelines.sentences import content_words, implied
from helpers.clip_collections import write_collection
from research.reports.timelines import dissolve_rates, shots_of_events

VIDEOS = 400


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> ClipCollection:
    return ClipCollection.read(write_collection(tmp_path_factory.mktemp("made") / "clips", clips=300))


@pytest.fixture(scope="module")
def generator(collection: ClipCollection) -> TimelineGenerator:
    return TimelineGenerator(collection, "test", seed=0)


@pytest.fixture(scope="module")
def plans(generator: TimelineGenerator) -> list[TimelinePlan]:
    return [generator.plan(index) for index in range(VIDEOS)]


def shots_between(plan: TimelinePlan, start: int, end: int) -> list[int]:
    starts = plan.starts
    return [number for number in range(len(plan.shots)) if starts[number] < end and start < starts[number + 1]]


def alone(plan: TimelinePlan, number: int) -> np.ndarray:
    """The ticks at which an event is the only one."""
    seen = np.zeros(plan.ticks, dtype=int)
    for event in plan.events:
        seen[event.start : event.end] += 1
    event = plan.events[number]
    return np.flatnonzero((seen == 1) & (np.arange(plan.ticks) >= event.start) & (np.arange(plan.ticks) < event.end))


def test_a_video_depends_on_collection_split_seed_and_index_alone(
    collection: ClipCollection, generator: TimelineGenerator
) -> None:
    again = TimelineGenerator(ClipCollection.read(collection.folder), "test", seed=0)
    for index in (17, 3, 99):  # another object, another order, nothing composed before
        first, second = generator.video(index), again.video(index)
        np.testing.assert_array_equal(first.track.values, second.track.values)
        assert first.plan.events == second.plan.events
    other = TimelineGenerator(collection, "test", seed=1)
    assert [event.start for event in other.plan(3).events] != [event.start for event in generator.plan(3).events] or (
        other.plan(3).shots != generator.plan(3).shots
    )


def test_splits_show_different_sources(collection: ClipCollection, plans: list[TimelinePlan]) -> None:
    train = TimelineGenerator(collection, "train", seed=0)
    shown = {shot.clip.source for plan in plans for shot in plan.shots}
    trained = {shot.clip.source for index in range(60) for shot in train.plan(index).shots}
    assert shown and trained and not shown & trained


def test_background_is_footage_that_is_never_captioned(generator: TimelineGenerator, plans: list[TimelinePlan]) -> None:
    aside = {clip.source for clip in generator.pool.background.clips}
    with_background = 0
    for plan in plans:
        covered = np.zeros(plan.ticks, dtype=bool)
        for event in plan.events:
            covered[event.start : event.end] = True
        sources = np.concatenate([[shot.clip.source in aside] * shot.ticks for shot in plan.shots])
        np.testing.assert_array_equal(sources, ~covered)
        with_background += not covered.all()
    assert 0 < with_background < len(plans), "some videos hold none"
    other_seed = TimelineGenerator(generator.collection, "test", seed=5)
    assert {clip.source for clip in other_seed.pool.background.clips} == aside


def test_an_event_is_one_to_five_shots_of_its_own_and_those_it_shares(plans: list[TimelinePlan]) -> None:
    own_shots, all_shots = [], []
    for plan in plans:
        for shot in plan.shots:
            assert 0 <= shot.first < shot.first + shot.ticks <= shot.clip_ticks == shot.clip.rows
        starts = np.repeat(np.arange(len(plan.shots)), [shot.ticks for shot in plan.shots])
        for number, event in enumerate(plan.events):
            own = alone(plan, number)
            own_shots.append(len(np.unique(starts[own])))
            all_shots.append(len(shots_between(plan, event.start, event.end)))
            assert len(own) < event.end - event.start or all_shots[-1] <= 5, "more than five are shared in part"
    assert set(own_shots) - {0} == {1, 2, 3, 4, 5}
    assert max(all_shots) > 5
    assert np.array_equal(shots_of_events(plans), [all_shots, own_shots])


def test_sentences_hold_for_all_shots_of_an_event_and_not_for_its_neighbours(plans: list[TimelinePlan]) -> None:
    def holds(sentence: str, captions: tuple[str, ...]) -> bool:
        return any(content_words(sentence) <= implied(content_words(caption)) for caption in captions)

    for plan in plans:
        for event in plan.events:
            assert len(event.sentences) >= 2 and len(set(event.sentences)) == len(event.sentences)
            for number in shots_between(plan, event.start, event.end):
                captions = plan.shots[number].clip.captions
                assert all(holds(sentence, captions) or sentence in captions for sentence in event.sentences)


def test_one_source_is_shown_for_one_event_or_shared_stretch(plans: list[TimelinePlan]) -> None:
    for plan in plans:
        where: dict[str, set[tuple[int, ...]]] = {}
        for start, shot in zip(plan.starts, plan.shots, strict=False):
            seen = tuple(n for n, e in enumerate(plan.events) if e.start < start + shot.ticks and start < e.end)
            where.setdefault(shot.clip.source, set()).add(seen)
        assert all(len(places) == 1 for places in where.values())


def test_the_features_are_those_of_the_shots(generator: TimelineGenerator) -> None:
    features = generator.collection.features
    assert features is not None
    for index in range(20):
        timeline = generator.video(index)
        plan, values = timeline.plan, timeline.track.values
        assert len(values) == plan.ticks and timeline.track.duration == plan.seconds
        pure = np.ones(plan.ticks, dtype=bool)
        for dissolve in plan.dissolves:
            pure[dissolve.start : dissolve.start + dissolve.ticks] = False
        rows = np.concatenate([s.clip.first_row + np.arange(s.first, s.first + s.ticks) for s in plan.shots])
        np.testing.assert_array_equal(values[pure], features[rows[pure]])
        assert (values[~pure] != features[rows[~pure]]).any(axis=1).all()
        assert (np.linalg.norm(values.astype(np.float32), axis=1) > 0).all(), "never zeros"


def test_a_dissolve_goes_from_one_to_the_other_at_the_length_in_between() -> None:
    a, b = np.array([[3.0, 0.0]] * 3), np.array([[0.0, 5.0]] * 3)
    mixed = blend(a, b, np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(mixed[[0, 2]], [[3, 0], [0, 5]])
    assert np.linalg.norm(mixed[1]) == pytest.approx(4.0)
    assert mixed[1, 1] / mixed[1, 0] == pytest.approx(5 / 3)


def test_dissolves_occur_inside_events_as_often_as_at_borders(plans: list[TimelinePlan]) -> None:
    joints = {True: [0, 0], False: [0, 0]}  # at a border: dissolves, all
    for plan in plans:
        borders = {edge for event in plan.events for edge in (event.start, event.end)}
        soft = {dissolve.shot for dissolve in plan.dissolves}
        for number, start in enumerate(plan.starts[1:-1], start=1):
            if start in borders or any(event.start < start < event.end for event in plan.events):
                joints[start in borders][0] += number in soft
                joints[start in borders][1] += 1
        for dissolve in plan.dissolves:
            assert 1.0 <= dissolve.ticks * plan.tick <= 3.0
    border, inside = (joints[kind][0] / joints[kind][1] for kind in (True, False))
    assert border == pytest.approx(inside, abs=0.04) and inside == pytest.approx(0.27, abs=0.03)
    assert (border, inside) == pytest.approx(dissolve_rates(plans))


def test_the_first_step_of_an_event_is_any_step_of_its_footage(plans: list[TimelinePlan]) -> None:
    """Where in its clip it lies, and whether it is in a dissolve, are distributed as for all steps."""
    place: dict[bool, list[float]] = {True: [], False: []}
    mixed: dict[bool, list[bool]] = {True: [], False: []}
    for plan in plans:
        position = np.concatenate([(s.first + np.arange(s.ticks) + 0.5) / s.clip_ticks for s in plan.shots])
        soft = np.zeros(plan.ticks, dtype=bool)
        for dissolve in plan.dissolves:
            soft[dissolve.start : dissolve.start + dissolve.ticks] = True
        first = np.isin(np.arange(plan.ticks), [event.start for event in plan.events])
        for kind in (True, False):
            place[kind] += position[first == kind].tolist()
            mixed[kind] += soft[first == kind].tolist()
    grid = np.linspace(0, 1, 50)
    distance = [np.searchsorted(np.sort(place[kind]), grid) / len(place[kind]) for kind in (True, False)]
    assert abs(distance[0] - distance[1]).max() < 0.05
    assert abs(np.mean(mixed[True]) - np.mean(mixed[False])) < 0.04


def test_clips_that_cannot_be_composed_are_refused(tmp_path: Path, collection: ClipCollection) -> None:
    with pytest.raises(InputError, match="there is no split 'nope'"):
        TimelineGenerator(collection, "nope")
    with pytest.raises(InputError, match="seed must not be negative"):
        TimelineGenerator(collection, "test", -1)
    few = ClipCollection.read(write_collection(tmp_path / "few", clips=12))
    with pytest.raises(InputError, match=r"split 'test' has clips of 3 sources; timelines need at least 8"):
        TimelineGenerator(few, "test")


@pytest.mark.parametrize("captioned", [0, 1])
def test_too_few_sentences_are_named_as_the_reason(tmp_path: Path, captioned: int) -> None:
    folder = write_collection(tmp_path / "single", clips=40, splits=("test",))
    content = json.loads((folder / "clips.json").read_text())
    aside = {c.name for c in TimelineGenerator(ClipCollection.read(folder), "test").pool.background.clips}
    shown = [name for name in content if name not in aside]
    for name in shown[captioned:]:
        content[name]["captions"] = content[name]["captions"][-1:]
    (folder / "clips.json").write_text(json.dumps(content))
    reason = (
        f"an event needs 2 sentences, and {len(shown) - captioned} of the {len(shown)} clips that are not background"
    )
    with pytest.raises(InputError, match=rf"single: {reason} have fewer; the others cannot fill a timeline"):
        TimelineGenerator(ClipCollection.read(folder), "test").plan(0)


def test_a_small_collection_whose_sentences_nobody_shares_still_works(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "alone", clips=60, splits=("test",))
    content = json.loads((folder / "clips.json").read_text())
    for number, entry in enumerate(content.values()):
        word = f"w{chr(97 + number // 10)}x{chr(97 + number % 10)}k"
        entry["captions"] = [f"The {word} stands", f"A {word} lies"]
    (folder / "clips.json").write_text(json.dumps(content))
    generator = TimelineGenerator(ClipCollection.read(folder), "test")
    plan = generator.plan(0)
    assert plan.events and all(len(event.sentences) == 2 for event in plan.events)
