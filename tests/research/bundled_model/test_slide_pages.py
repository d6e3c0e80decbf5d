"""Drawn pages of slides: each layout leaves something to read, in the colours of its deck, and each page is another."""

from __future__ import annotations

import numpy as np
import pytest

from research.bundled_model import slide_pages
from research.bundled_model.slide_pages import HEIGHT, LAYOUTS, WIDTH, Deck, draw_page


@pytest.mark.parametrize("layout", dict.fromkeys(LAYOUTS), ids=lambda layout: layout.__name__)
def test_every_layout_draws_on_its_paper(layout: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slide_pages, "LAYOUTS", (layout,))
    rng = np.random.default_rng(3)
    deck = Deck.any(rng)
    page = draw_page(rng, deck)
    assert page.shape == (HEIGHT, WIDTH, 3) and page.dtype == np.uint8
    drawn = (page != np.array(deck.paper)).any(axis=2)
    assert 0.002 < drawn[110:].mean() < 0.7, "below the title there is something, and paper is left"


def test_pages_of_a_deck_differ_and_share_its_paper() -> None:
    rng = np.random.default_rng(1)
    deck = Deck.any(rng)
    first, second = draw_page(rng, deck), draw_page(rng, deck)
    assert (first != second).any()
    for page in (first, second):
        assert (page[-1] == np.array(deck.paper)).all()


def test_the_same_numbers_draw_the_same_page() -> None:
    pages = [draw_page(rng, Deck.any(rng)) for rng in (np.random.default_rng(7), np.random.default_rng(7))]
    assert (pages[0] == pages[1]).all()


def test_decks_are_dark_on_light_or_light_on_dark() -> None:
    decks = [Deck.any(np.random.default_rng(seed)) for seed in range(20)]
    lighter = [np.mean(deck.paper) > np.mean(deck.ink) for deck in decks]
    assert 0 < sum(lighter) < 20
    assert all(abs(np.mean(deck.paper) - np.mean(deck.ink)) > 80 for deck in decks)
