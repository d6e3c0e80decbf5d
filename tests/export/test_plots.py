"""The paper's figures: what they say is checked in numbers, that they are drawn in pixels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from densevid.events import Event
from densevid.export.document import Figure, ShownEvent, TimelineDocument, references
from densevid.export.plots import (
    attention_figure,
    entropy_figure,
    explanation_figures,
    masks_figure,
    recall_curves,
    recall_figure,
    timeline_figure,
    write_figures,
)
from densevid.inference.explain import ExplainedProposal, Explanation

STEPS = 40
HOSTILE = r"costs $5 \frac{ and $x^2 <b> ünï 漢"


def proposal(start: int, end: int, score: float, sentence: str = HOSTILE, offset: int = 0) -> ExplainedProposal:
    random = np.random.default_rng(start)
    window = ((np.arange(STEPS) >= start) & (np.arange(STEPS) < end)).astype(float)
    learned = random.uniform(size=STEPS)
    words = tuple(sentence.split())
    attention = random.dirichlet(np.ones(STEPS), size=(2, 4, len(words)))
    mask = score * window + (1 - score) * learned
    event = Event(start, end, sentence, score)
    return ExplainedProposal(event, np.arange(STEPS + 1.0) + offset, window, learned, mask, words, attention)


@pytest.fixture
def explanation() -> Explanation:
    return Explanation((proposal(2, 12, 0.95),), (proposal(20, 31, 0.4, "a man runs"),))


def picture(figure: Figure) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(figure.png, np.uint8), cv2.IMREAD_COLOR)


def test_all_figures_of_an_explanation_are_drawn(explanation: Explanation) -> None:
    figures = explanation_figures(explanation)
    assert [figure.title for figure in figures] == [
        "Event masks.",
        "Where each word looked.",
        "How spread the attention is.",
    ]
    assert all(min(picture(figure).shape[:2]) > 200 and picture(figure).std() > 5 for figure in figures)
    assert explanation_figures(Explanation((), ())) == ()


def test_figures_are_told_to_those_who_cannot_see_them(explanation: Explanation) -> None:
    assert "scores 0.95 to 0.40" in masks_figure(explanation).description
    assert HOSTILE in attention_figure(explanation.confident[0]).description
    low, high = explanation.entropy_L
    said = entropy_figure(explanation).description
    assert f"{low:.2f}, {high:.2f} nats" in said
    assert ("not flatter" in said) == (high <= low)


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


def test_recall_of_nothing() -> None:
    assert not recall_curves([], [Event(0, 1, "")], (0.5,)).any()
    assert "Of 1 references, 0 events" in recall_figure([], [Event(0, 1, "")]).description


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


def test_words_get_stronger_colours_where_they_look_more_and_many_layers_stand_in_rows(explanation) -> None:
    """White is nothing, so that a page in the dark may invert it."""
    one = explanation.confident[0]
    attention = np.zeros_like(one.attention_LHWT)
    attention[..., 5] = 1
    pixels = picture(attention_figure(replace(one, attention_LHWT=attention)))
    white, dark = (pixels.min(axis=2) > 250).mean(), (pixels.max(axis=2) < 130).mean()
    assert white > 0.8 and 0.005 < dark < 0.1
    six = picture(attention_figure(replace(one, attention_LHWT=attention[[0] * 6])))
    assert six.shape[1] == pixels.shape[1] and six.shape[0] > 2.5 * pixels.shape[0]


def test_figures_have_names_for_their_files(explanation: Explanation, document: TimelineDocument) -> None:
    figures = (*explanation_figures(explanation), timeline_figure(document), recall_figure([], []))
    assert [figure.name for figure in figures] == ["masks", "words", "entropy", "timeline", "recall"]


def test_masks_found_in_different_windows_have_times_of_their_own() -> None:
    apart = Explanation((proposal(2, 12, 0.95), proposal(5, 9, 0.9, offset=300)), (proposal(20, 31, 0.4, offset=600),))
    figure = masks_figure(apart)
    assert "read at once" in figure.description
    together = Explanation((proposal(2, 12, 0.95), proposal(5, 9, 0.9)), (proposal(20, 31, 0.4),))
    assert "read at once" not in masks_figure(together).description
    assert picture(figure).shape[0] > picture(masks_figure(together)).shape[0]
