"""The trivial baselines, each on something whose answer is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from densevid.cli import main, run_program
from densevid.data.annotations import Annotations
from densevid.errors import InputError
from densevid.events import Event, read_events
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.sources import ClipFeatures, ComposedFeatures
from densevid.tracks import Clock, FeatureTrack
from helpers.clip_collections import write_collection
from research.baselines.captions import NearestNeighbour, described, mean_features, most_frequent_sentence
from research.baselines.event_files import add_arguments, as_events, run, training_fractions
from research.baselines.shuffled_features import ShuffledFeatures
from research.baselines.spans import (
    PriorGrid,
    ScoredSpans,
    average_recall,
    change_points,
    change_strengths,
    top_n_f1,
    whole_video,
)


def track(values: np.ndarray, rate: float = 0.5) -> FeatureTrack:
    return FeatureTrack(values.astype(np.float32), Clock.uniform(rate), (("x", values.shape[1]),))


def steps(levels: list[float], lengths: list[int]) -> FeatureTrack:
    """A track that is constant between jumps."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(len(levels), 8))
    return track(np.repeat(directions * np.array(levels)[:, None], lengths, axis=0))


def test_the_whole_video_is_one_span() -> None:
    assert whole_video(42.5).spans_N2.tolist() == [[0.0, 42.5]]


def test_the_prior_grid_finds_the_spans_it_was_shown_most_useful_first() -> None:
    shown = np.array([[0, 0.5]] * 5 + [[0.5, 1]] * 3 + [[0.25, 0.75]] * 2)
    grid = PriorGrid.fit(shown, count=3)
    np.testing.assert_allclose(grid.spans_N2, [[0, 0.5], [0.5, 1], [0.25, 0.75]])
    spans = grid.spans(80.0)
    np.testing.assert_allclose(spans.spans_N2[0], [0, 40])
    assert (np.diff(spans.score_N) < 0).all()


def test_the_prior_grid_is_the_greedy_answer_of_brute_force() -> None:
    rng = np.random.default_rng(1)
    shown = np.minimum(np.sort(rng.random((60, 2)), axis=1) + np.array([0, 0.05]), 1)
    grid = PriorGrid.fit(shown, count=4)
    reached = [average_recall([ScoredSpans(grid.spans_N2[:k], np.ones(k))], [shown], k) for k in (1, 2, 3, 4)]
    assert reached == sorted(reached)
    edges = np.arange(41) / 40
    every = [(a, b) for a in edges for b in edges if a < b]
    best = max(average_recall([ScoredSpans(np.array([span]), np.ones(1))], [shown], 1) for span in every)
    assert reached[0] == pytest.approx(best)


def test_change_points_are_where_the_track_jumps() -> None:
    jumping = steps([1, 3, 2, 4], [20, 30, 25, 25])
    points, strength = change_strengths(jumping)
    assert set(points.tolist()) == {0, 20, 50, 75, 100}
    assert strength[0] == strength[-1] == strength.max()
    spans = change_points(jumping)
    assert len(spans.spans_N2) == 10
    found = {tuple(span) for span in spans.spans_N2.tolist()}
    assert {(0.0, 10.0), (10.0, 25.0), (25.0, 37.5), (37.5, 50.0)} <= found
    assert (np.diff(spans.score_N) <= 0).all()


def test_a_constant_track_has_no_change_points_inside() -> None:
    assert change_points(steps([1], [30])).spans_N2.tolist() == [[0.0, 15.0]]
    assert change_points(track(np.ones((1, 3)))).spans_N2.tolist() == [[0.0, 0.5]]


def test_average_recall_by_hand() -> None:
    predicted = [ScoredSpans(np.array([[0.0, 10], [0, 20]]), np.array([1, 0.5]))]
    truth = [np.array([[0.0, 10], [0.0, 16], [50, 60]])]
    assert average_recall(predicted, truth, 1) == pytest.approx((10 + 3) / 30)  # 10/16 reaches .5, .55, .6
    assert average_recall(predicted, truth, 2) == pytest.approx((10 + 7) / 30)  # 16/20 reaches .5 to .8


def test_the_f1_of_the_top_n_by_hand() -> None:
    predicted = [ScoredSpans(np.array([[0.0, 10], [30, 40], [0, 1]]), np.array([1, 0.5, 0.2]))]
    truth = [np.array([[0.0, 10], [0.0, 16], [50, 60]])]
    precision, recall = 10 / 20, (10 + 3) / 30
    assert top_n_f1(predicted, truth, 2) == pytest.approx(2 * precision * recall / (precision + recall))


def test_the_most_frequent_sentence_counts_without_letter_case() -> None:
    sentences = ["A man runs.", "Two dogs play", "a man runs", "two dogs play.", "A MAN  runs."]
    assert most_frequent_sentence(sentences) == "A man runs."
    with pytest.raises(InputError):
        most_frequent_sentence([])


def test_mean_features_cover_the_steps_of_a_span() -> None:
    values = np.arange(20, dtype=float).reshape(10, 2)
    means = mean_features(track(values), [(0, 5), (1.0, 2.0), (4.9, 5.0), (0.6, 0.7)])
    np.testing.assert_allclose(means, [values.mean(0), values[2:4].mean(0), values[9], values[1]])


def test_the_nearest_neighbour_of_a_training_clip_is_itself(tmp_path: Path) -> None:
    source = ClipFeatures(ClipCollection.read(write_collection(tmp_path / "clips")), "train")
    annotations = source.annotations()
    neighbour = NearestNeighbour.fit(annotations, source)
    captioned = described({video: rows[:1] for video, rows in annotations.events.items()}, source, neighbour)
    assert all(captioned[video][0].sentence == rows[0].sentence for video, rows in annotations.events.items())


def test_nearest_means_direction_not_length(tmp_path: Path) -> None:
    source = ClipFeatures(ClipCollection.read(write_collection(tmp_path / "clips")), "train")
    neighbour = NearestNeighbour.fit(source.annotations(), source)
    video = source.videos()[0]
    far = source.track(video).values.astype(np.float64)
    far = neighbour.mean_F + 30 * (far - neighbour.mean_F)
    seconds = source.extent(video).duration or 0
    assert neighbour.describe(track(far), [(0, seconds)]) == neighbour.describe(source.track(video), [(0, seconds)])


def test_shuffled_features_are_another_videos_on_ones_own_clock(tmp_path: Path) -> None:
    source = ClipFeatures(ClipCollection.read(write_collection(tmp_path / "clips")), "train")
    shuffled = ShuffledFeatures(source, seed=4)
    assert shuffled.other == ShuffledFeatures(source, seed=4).other
    assert sorted(shuffled.other.values()) == source.videos()
    for video, other in shuffled.other.items():
        assert video != other
        mine, theirs = shuffled.track(video), source.track(other).values
        assert len(mine) == source.extent(video).steps and mine.duration == source.extent(video).duration
        assert {row.tobytes() for row in mine.values} <= {row.tobytes() for row in theirs}


def test_scores_keep_their_order_and_are_positive() -> None:
    events = as_events(ScoredSpans(np.array([[0.0, 1], [1, 2], [2, 3]]), np.array([5.0, -1, -7])))
    assert [event.score for event in events] == sorted((event.score for event in events), reverse=True)
    assert events[0].score == 1 and 0 < events[-1].score < 1e-6


def test_fractions_of_training_events() -> None:
    annotations = Annotations({"a": [Event(1, 5, "x")], "b": [Event(0, 1, "y")]}, {"a": 10.0, "b": None}, [])
    np.testing.assert_allclose(training_fractions(annotations), [[0.1, 0.5]])


def test_all_files_are_written_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clips = write_collection(tmp_path / "clips")
    for split, videos in (("train", 20), ("test", 6)):
        words = ["timelines", str(clips), "--split", split, "--videos", str(videos), "--out", str(tmp_path / split)]
        assert main(words) == 0
    capsys.readouterr()
    words = ["--references", tmp_path / "test" / "references_1.json", "--features", tmp_path / "test" / "features"]
    words += [
        "--train-references",
        tmp_path / "train" / "references_1.json",
        "--train-features",
        tmp_path / "train/features",
    ]
    words += ["--out", tmp_path / "out"]
    assert run_program("event_files", None, add_arguments, run, list(map(str, words))) == 0
    written = capsys.readouterr().out.split()
    assert len(written) == 6 and all(len(read_events(path)) == 6 for path in written)
    truth = json.loads((tmp_path / "test" / "references_1.json").read_text())
    segments = read_events(tmp_path / "out" / "segments_nearest.json")
    assert {v: [[e.start, e.end] for e in rows] for v, rows in segments.items()} == {
        video: entry["timestamps"] for video, entry in truth.items()
    }


def test_baselines_do_not_solve_real_timelines(shared: Path) -> None:
    """The figures of docs/research/timelines.md, with a margin: models must score higher."""
    clips = ClipCollection.read(shared / "data" / "msvd")
    training = ComposedFeatures(TimelineGenerator(clips, "train"), 300).annotations(annotators=1)
    grid = PriorGrid.fit(training_fractions(training))
    generator = TimelineGenerator(clips, "val")
    videos = [generator.video(index) for index in range(100)]
    truth = [np.array([v.plan.span(event) for event in v.plan.events]) for v in videos]
    found = {
        "whole video": [whole_video(video.plan.seconds) for video in videos],
        "prior grid": [grid.spans(video.plan.seconds) for video in videos],
        "change points": [change_points(video.track) for video in videos],
    }
    recall = {name: average_recall(spans, truth, 10) for name, spans in found.items()}
    assert recall["whole video"] < 0.15
    assert 0.4 < recall["prior grid"] < 0.65
    assert 0.4 < recall["change points"] < 0.68
