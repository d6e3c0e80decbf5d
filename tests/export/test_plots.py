"""Recall and timelines as figures: their numbers are checked as text, their drawing as pixels."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from densevid.events import Event
from densevid.export.document import ShownEvent, TimelineDocument, references
from densevid.export.plots import (
    recall_curves,
    recall_figure,
    timeline_figure,
    write_figures,
)

HOSTILE = r"costs $5 \frac{ and $x^2 <b> ünï 漢"


def test_recall_is_what_counting_gives() -> None:
    random = np.random.default_rng(1)
    spans = np.sort(random.uniform(0, 60, size=(30, 2)), axis=1)
    predictions = [Event(a, b, "", score) for (a, b), score in zip(spans[:24], random.uniform(size=24), strict=True)]
    truth = [Event(a, b, "") for a, b in spans[24:]]
    curves = recall_curves(predictions, truth, (0.3, 0.5))

    def iou(one: Event, other: Event) -> float:
        shared = max(0.0, min(one.end, other.end) - max(one.start, other.start))
        return shared / (one.seconds + other.seconds - shared)

    ranked = sorted(predictions, key=lambda event: -event.score)
    for row, tiou in zip(curves, (0.3, 0.5), strict=True):
        for count, recall in enumerate(row):
            found = sum(any(iou(event, target) >= tiou for event in ranked[:count]) for target in truth)
            assert recall == pytest.approx(found / len(truth))
    assert curves.shape == (2, 25) and curves[0, -1] > 0


def test_recall_without_proposals_is_zero() -> None:
    assert not recall_curves([], [Event(0, 1, "")], (0.5,)).any()
    assert "Of 1 reference, found with 0 proposals: 0% at" in recall_figure([], [Event(0, 1, "")]).description


def test_a_timeline_is_drawn_in_the_colours_of_its_references(tmp_path: Path) -> None:
    truth = references([Event(0, 10, "one"), Event(20, 30, HOSTILE)])
    document = TimelineDocument("title", 30, (*truth, ShownEvent(Event(1, 10, "one"), 0.8)))
    figure = timeline_figure(document)
    assert "Reference, 0:00 to 0:10: one" in figure.description
    (path,) = write_figures([("timeline", figure)], tmp_path)
    drawn = cv2.imread(str(path)).reshape(-1, 3)[:, ::-1].astype(int)
    blue, orange = ((np.abs(drawn - colour).sum(axis=1) < 12).sum() for colour in ((63, 127, 208), (208, 122, 45)))
    assert blue > 100 and orange == 0, "the first colour twice, the second once, the third not at all"
    assert timeline_figure(TimelineDocument("title", 5)).description == "No event."


def test_figures_have_names_for_their_files(document: TimelineDocument) -> None:
    assert [figure.name for figure in (timeline_figure(document), recall_figure([], []))] == ["timeline", "recall"]
