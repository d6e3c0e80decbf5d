"""The fit of prior words against ridge regression written out another way, on features that decide the words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

from densevid.data.annotations import Annotations
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.fitting import word_prior as fitting
from densevid.inference.fitting.word_prior import fit_word_prior
from helpers.made_source import Made

WORDS = ("dog", "cat", "runs", "sleeps", "a", "once")
VIDEOS, WIDTH = 40, 5
Floats = npt.NDArray[np.float64]


STREAMS = (("one", WIDTH),)


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary((*SPECIAL_TOKENS, *WORDS))


@pytest.fixture
def data() -> tuple[Made, Annotations]:
    """Two events in 4 s of every video: the first feature decides which animal, the second what it does."""
    rng = np.random.default_rng(0)
    arrays, events = {}, {}
    for number in range(VIDEOS):
        values = rng.normal(size=(8, WIDTH))
        own = []
        for part in range(2):
            animal, deed = rng.integers(2, size=2)
            values[4 * part : 4 * part + 4, :2] += 3 * np.array([animal, deed]) + 5
            subject, verb = WORDS[animal], WORDS[2 + deed]
            span = (2.0 * part, 2.0 * part + 2.0)
            own += [Event(*span, f"A {subject} {verb}, a {subject}!"), Event(*span, f"the {subject}")]
        arrays[f"v{number}"], events[f"v{number}"] = values, own
    events["v0"].append(Event(0.0, 2.0, "once"))
    events["unknown"] = [Event(0.0, 2.0, "dog")]
    return Made(arrays, STREAMS), Annotations(events, dict.fromkeys(events, 4.0), [])


def examples(source: Made, annotations: Annotations) -> tuple[Floats, Floats]:
    """x and y of every event, word by word."""
    x, y = [], []
    for video, values in source.arrays.items():
        for part in range(2):
            x.append(values.astype(np.float32)[4 * part : 4 * part + 4].astype(float).mean(axis=0))
            contained = [
                e.sentence.lower().replace(",", "").replace("!", "").split()
                for e in annotations.events[video]
                if e.start == 2 * part
            ]
            y.append([np.mean([word in words for words in contained]) for word in WORDS])
    return np.array(x), np.array(y)


def test_the_fit_is_ridge_regression_from_means_to_shares(
    data: tuple[Made, Annotations], vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By solving for a padded system, with the strength that the fit itself chose."""
    chosen: list[float] = []

    def noted(best: Callable[..., float]) -> Callable[..., float]:
        def best_ridge(*arguments: object) -> float:
            chosen.append(best(*arguments))
            return chosen[-1]

        return best_ridge

    monkeypatch.setattr(fitting, "best_ridge", noted(fitting.best_ridge))
    prior = fit_word_prior(data[0], data[1], vocabulary)
    x, y = examples(*data)
    count = len(x)
    events = (y > 0).sum(axis=0)
    rarity = np.where(events >= 3, np.log(count / np.maximum(events, 1)), 0)
    np.testing.assert_allclose(prior.rarity_V[4:], rarity, rtol=1e-5, atol=1e-6)
    assert prior.rarity_V[:4].tolist() == [0] * 4 and rarity[WORDS.index("once")] == 0
    centred, target = x - x.mean(axis=0), (y - y.mean(axis=0)) * rarity
    padded = np.vstack([centred, np.sqrt(chosen[0]) * np.eye(WIDTH)])
    weight = np.linalg.lstsq(padded, np.vstack([target, np.zeros((WIDTH, len(WORDS)))]), rcond=None)[0]
    np.testing.assert_allclose((prior.directions_FR @ prior.words_RV)[:, 4:], weight, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(prior.mean_F, x.mean(axis=0), rtol=1e-5)


def test_the_strength_of_the_ridge_is_that_of_generalised_cross_validation() -> None:
    """The hat matrix written out, for every strength."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 6)) * [3, 2, 1, 1, 0.5, 0]
    y = x @ rng.normal(size=(6, 4)) * 0.3 + rng.normal(size=(30, 4))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    scores = {}
    for ridge in (fitting.RIDGES.numpy() * (x**2).sum() / len(x)).tolist():
        hat = x @ np.linalg.solve(x.T @ x + ridge * np.eye(6), x.T)
        scores[ridge] = ((y - hat @ y) ** 2).sum() / (len(x) - 1 - np.trace(hat)) ** 2
    square, basis = torch.linalg.eigh(torch.from_numpy(x.T @ x))
    along = (basis.T @ torch.from_numpy(x.T @ y)).square().sum(dim=1)
    found = fitting.best_ridge(square.clamp(min=0), along, float((y**2).sum()), len(x))
    assert found == pytest.approx(min(scores, key=scores.__getitem__), rel=1e-6)


def test_a_feature_predicts_its_word(data: tuple[Made, Annotations], vocabulary: Vocabulary) -> None:
    prior = fit_word_prior(data[0], data[1], vocabulary)
    seen = torch.tensor([[8.0, 5, 0, 0, 0], [5.0, 8, 0, 0, 0]])[None]  # a cat that runs, a dog that sleeps
    sure = prior.word_scores(seen, torch.tensor([2]), torch.eye(2), torch.zeros(2, dtype=torch.long))[:, 4:8]
    assert (sure > 0).tolist() == [[False, True, True, False], [True, False, False, True]]


def test_sums_in_batches_are_the_same(
    data: tuple[Made, Annotations], vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fit_word_prior(data[0], data[1], vocabulary)
    monkeypatch.setattr(fitting, "EVENTS_AT_ONCE", 3)
    parts = fit_word_prior(data[0], data[1], vocabulary)
    torch.testing.assert_close(parts.directions_FR @ parts.words_RV, whole.directions_FR @ whole.words_RV)


def test_data_that_cannot_be_fitted_is_one_line(data: tuple[Made, Annotations], vocabulary: Vocabulary) -> None:
    source, annotations = data
    with pytest.raises(InputError, match="no video has both features and events"):
        fit_word_prior(Made({}, STREAMS), annotations, vocabulary)
    same = {video: np.ones_like(values) for video, values in source.arrays.items()}
    for arrays in (same, {video: 0 * values for video, values in same.items()}):
        with pytest.raises(InputError, match="the features of all 80 events are the same"):
            fit_word_prior(Made(arrays, STREAMS), annotations, vocabulary)
    everywhere = {video: [Event(0.0, 2.0, "a dog")] for video in source.arrays}
    few = {video: events for video, events in annotations.events.items() if video == "v0"}
    for events in (everywhere, few):
        with pytest.raises(InputError, match="no word is in the sentences of 3 or more"):
            fit_word_prior(source, Annotations(events, {}, []), vocabulary)
    source.arrays["v3"][2, 1] = np.nan
    with pytest.raises(InputError, match="v3: its features hold NaN"):
        fit_word_prior(source, annotations, vocabulary)
