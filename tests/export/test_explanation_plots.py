"""Figures of a look inside the model: their descriptions are checked as text, their drawing as pixels."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from densevid.events import Event
from densevid.export.document import Figure
from densevid.export.explanation_plots import (
    EMPTY,
    attention_figure,
    entropy_figure,
    explanation_figures,
    masks_figure,
)
from densevid.inference.explain import ExplainedProposal, Explanation

STEPS = 40
HOSTILE = r"costs $5 \frac{ and $x^2 <b> ünï 漢"


def proposal(
    start: int, end: int, score: float, sentence: str = HOSTILE, *, offset: int = 0, confidence: float | None = None
) -> ExplainedProposal:
    """With a confidence as the timeline shows it."""
    random = np.random.default_rng(start)
    window = ((np.arange(STEPS) >= start) & (np.arange(STEPS) < end)).astype(float)
    learned = random.uniform(size=STEPS)
    words = tuple(sentence.split())
    attention = random.dirichlet(np.ones(STEPS), size=(2, 4, len(words)))
    mask = score * window + (1 - score) * learned
    event = Event(start, end, sentence, score if confidence is None else confidence)
    edges = np.arange(STEPS + 1.0) + offset
    return ExplainedProposal(event, edges, window, learned, mask, words, attention, confidence, score, score)


@pytest.fixture
def explanation() -> Explanation:
    sure = (proposal(2, 12, 0.78, confidence=0.874), proposal(14, 19, 0.9, "a dog barks", confidence=0.5))
    return Explanation(sure, (proposal(20, 31, 0.4, "a man runs"),), of_timeline=True)


def picture(figure: Figure) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(figure.png, np.uint8), cv2.IMREAD_COLOR)


def test_all_figures_of_an_explanation_are_drawn(explanation: Explanation) -> None:
    figures = explanation_figures(explanation)
    assert [figure.title for figure in figures] == [
        "Event masks.",
        "Where each word looked.",
        "How spread the attention is.",
    ]
    assert [figure.name for figure in figures] == ["masks", "words", "entropy"]
    assert all(min(picture(figure).shape[:2]) > 200 and picture(figure).std() > 5 for figure in figures)
    assert explanation_figures(Explanation((), ())) == ()


def test_figures_have_a_description_for_screen_readers(explanation: Explanation) -> None:
    text = attention_figure(explanation).description
    assert HOSTILE in text and text.index(HOSTILE) < text.index("a dog barks") and "a man runs" not in text
    low, high = explanation.entropy_L
    text = entropy_figure(explanation).description
    assert f"{low:.2f}, {high:.2f} nats" in text
    assert ("not flatter" in text) == (high <= low)


def test_the_number_of_the_page_is_how_sure_an_event_is_and_the_other_is_its_score(
    explanation: Explanation, texts: list[str]
) -> None:
    """In the pictures and to those who cannot see them."""
    masks, words, _ = explanation_figures(explanation)
    assert "(87% sure, score 0.78; 50% sure, score 0.90)" in masks.description and "(score 0.40)" in masks.description
    assert "0:02.0–0:12.0, 87% sure, score 0.78" in words.description
    for label, times in {"87% sure, score 0.78   ": 2, "50% sure, score 0.90   ": 2, "score 0.40   ": 1}.items():
        assert sum(text.startswith(label) for text in texts) == times, "in both figures, what is unsure in one"
    assert masks.description.startswith("The surest events of the timeline that differ (")
    for score, printed in {0.0031: "0.0031", 0.096: "0.096", 0.104: "0.10", 0.0: "0.00", 1.0: "1.00"}.items():
        unsure = (replace(explanation.unconfident[0], score=score),)
        assert f"(score {printed})" in masks_figure(replace(explanation, unconfident=unsure)).description
    given = replace(explanation.confident[0], confidence=None, score=None, gate=None)
    assert "(given span)" in masks_figure(replace(explanation, confident=(given,))).description


@pytest.fixture
def texts(monkeypatch) -> list[str]:
    """All that is written into drawings."""
    from matplotlib.text import Text

    written: list[str] = []
    seen: set[Text] = set()
    draw = Text.draw

    def noted(self: Text, *args: object, **named: object) -> None:
        if self not in seen:  # the layout draws everything once before
            written.append(self.get_text())
        seen.add(self)
        draw(self, *args, **named)

    monkeypatch.setattr(Text, "draw", noted)
    return written


def test_for_an_empty_timeline_the_best_proposals_are_drawn_and_labelled(texts: list[str]) -> None:
    best = Explanation((proposal(2, 12, 0.78),), (proposal(20, 31, 0.4, "a man runs"),))
    masks, words, _ = explanation_figures(best)
    assert masks.title == f"Event masks. {EMPTY}" and words.title == f"Where each word looked. {EMPTY}"
    assert texts.count(EMPTY) == 2, "the files alone show it too"
    assert "% sure" not in masks.description + words.description


def test_words_get_stronger_colours_where_they_look_more_and_many_layers_stand_in_rows(explanation) -> None:
    """White is nothing, so that a page in the dark may invert it."""
    one = explanation.confident[0]

    def figure_of(attention: np.ndarray) -> Figure:
        return attention_figure(replace(explanation, confident=(replace(one, attention_LHWT=attention),)))

    attention = np.zeros_like(one.attention_LHWT)
    attention[..., 5] = 1
    pixels = picture(figure_of(attention))
    white, dark = (pixels.min(axis=2) > 250).mean(), (pixels.max(axis=2) < 130).mean()
    assert white > 0.8 and 0.005 < dark < 0.1
    six = picture(figure_of(attention[[0] * 6]))
    assert six.shape[1] == pixels.shape[1] and six.shape[0] > 2.5 * pixels.shape[0]


def test_masks_found_in_different_windows_have_times_of_their_own() -> None:
    apart = Explanation(
        (proposal(2, 12, 0.95), proposal(5, 9, 0.9, offset=300)), (proposal(20, 31, 0.4, offset=600),), of_timeline=True
    )
    figure = masks_figure(apart)
    assert "read at once" in figure.description
    together = Explanation((proposal(2, 12, 0.95), proposal(5, 9, 0.9)), (proposal(20, 31, 0.4),), of_timeline=True)
    assert "read at once" not in masks_figure(together).description
    assert picture(figure).shape[0] > picture(masks_figure(together)).shape[0]


def test_a_learned_mask_is_named_though_the_first_event_has_none(explanation: Explanation, texts: list[str]) -> None:
    first = replace(explanation.confident[0], learned_T=None, gate=None)
    masks_figure(replace(explanation, confident=(first,)))
    assert "learned mask" in texts and "gate 0.40" in texts
