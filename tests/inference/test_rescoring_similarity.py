"""By what steps are compared: by hand, and the same whatever shares a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.plain_captioner import PlainCaptioner
from densevid.checkpoint import LoadedModel
from densevid.inference.captioner import Captioner
from densevid.inference.explain_window import ReadWindow, windows_read
from densevid.inference.rescoring import contrast_scores, similarity_space
from densevid.model.priors import WordPrior
from densevid.tracks import Clock, FeatureTrack
from helpers.random_models import WIDTH, random_model, random_word_prior

FEATURES, WORDS = 6, 12


def test_steps_are_compared_in_the_space_of_the_word_prior() -> None:
    loaded, expected = random_model({}, {}), random_word_prior(FEATURES, WORDS)
    features = torch.randn(2, 5, FEATURES)
    as_they_are = replace(loaded.config.inference, similarity_space="features")
    assert similarity_space(expected, as_they_are)(features) is features
    assert similarity_space(None, loaded.config.inference)(features) is features
    meant = similarity_space(expected, loaded.config.inference)(features)
    torch.testing.assert_close(meant.float(), (features - expected.mean_F) @ expected.directions_FR)
    alone = similarity_space(expected, loaded.config.inference)(features[1:, :4])
    torch.testing.assert_close(alone, meant[1:, :4], rtol=1e-12, atol=1e-12)


def jumping(first: int, second: int) -> FeatureTrack:
    """Forty steps; one half of the features jumps at one step, the other half at another."""
    values = np.zeros((40, WIDTH), dtype=np.float32)
    values[first:, : WIDTH // 2] = 3.0
    values[second:, WIDTH // 2 :] = 3.0
    return FeatureTrack(values, Clock.uniform(0.5), (("one", WIDTH),))


@pytest.fixture
def half() -> LoadedModel:
    """A model whose words depend on the second half of its features alone, and that moves borders to changes."""
    loaded = random_model({}, {"border_reach": 1.0, "border_weight": 1.0, "contrast_weight": 1.0})
    directions = torch.zeros(WIDTH, 2)
    directions[WIDTH // 2 :] = torch.randn(WIDTH - WIDTH // 2, 2, generator=torch.Generator().manual_seed(0))
    words = len(loaded.vocabulary)
    expected = WordPrior(torch.zeros(WIDTH), directions, torch.randn(2, words), torch.ones(words))
    return replace(loaded, word_prior=expected)


def compared(loaded: LoadedModel, by: str) -> LoadedModel:
    return replace(loaded, config=loaded.config.with_values({"inference": {"similarity_space": by}}))


def test_boundaries_lie_where_the_space_of_the_word_prior_changes(half: LoadedModel) -> None:
    track = jumping(12, 26)
    borders = {}
    for by in ("words", "features"):
        events = Captioner(compared(half, by)).caption(track)
        borders[by] = {2 * border for event in events for border in (event.start, event.end)}
    assert 26 in borders["words"] and 12 not in borders["words"]
    assert {12, 26} <= borders["features"]


def test_contrast_is_computed_in_the_space_of_the_word_prior(half: LoadedModel) -> None:
    """Scores of the same proposals: what jumps without a word that depends on it does not count."""
    found = {}
    for by, weight in (("words", 0.0), ("words", 1.0), ("features", 1.0)):
        settings = {"border_reach": 0.0, "border_weight": 0.0, "contrast_weight": weight, "similarity_space": by}
        made = Captioner(replace(half, config=half.config.with_values({"inference": settings})))
        found[by, weight] = {(event.start, event.end): event.score for event in made.caption(jumping(12, 26))}
    plain, words, features = found.values()
    by_hand = made.proposal_generator.similarity_space(torch.from_numpy(jumping(12, 26).values)[None])
    assert by_hand.shape[-1] == WIDTH  # the last of them goes by features
    meant = torch.from_numpy(jumping(12, 26).values)[None] @ half.word_prior.directions_FR  # type: ignore[union-attr]
    for span, score in words.items():
        steps = torch.tensor([[[2 * border for border in span]]])
        contrast = contrast_scores(steps, meant, torch.tensor([40]), made.config.model.window)
        assert score == pytest.approx(plain[span] * float(contrast), abs=1e-5)
    assert words != features


@pytest.mark.parametrize("by", ["words", "features"])
def test_explained_boundaries_are_those_that_are_reported(half: LoadedModel, by: str) -> None:
    settings = {"similarity_space": by, "contrast_weight": 0.0}
    loaded, track = replace(half, config=half.config.with_values({"inference": settings})), jumping(12, 26)
    captioned = {(event.start, event.end) for event in Captioner(loaded).caption(track)}
    window = ReadWindow.of(loaded, track, windows_read(loaded, track), 0)
    seen = window.proposals.intervals_BA2[0].clamp(0, 40) / 2
    assert all(((seen - torch.tensor(span)).abs().sum(dim=1) < 1e-3).any() for span in captioned)
    plain = PlainCaptioner(loaded).caption(track).intervals
    assert {(start / 2, end / 2) for start, end in plain} == captioned
