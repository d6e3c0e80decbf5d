"""What limits words: kernel ridge regression against a plain solve, and features that determine all words or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from densevid.cli import run_program
from densevid.timelines.clips import ClipCollection
from helpers.clip_collections import write_collection
from research.reports.word_limits import (
    RIDGES,
    add_arguments,
    best_ridge,
    fit_of,
    frequent_words,
    gaussian,
    linear,
    predict,
    predictors,
    run,
    share_table,
)


def test_every_ridge_is_solved_as_by_itself() -> None:
    rng = np.random.default_rng(0)
    training, test, shares = rng.normal(size=(12, 5)), rng.normal(size=(4, 5)), rng.random((12, 3))
    for kernel in (linear, lambda first, second: gaussian(first, second, 0.5)):
        inner, outer = kernel(training, training), kernel(test, training)
        for ridge, ours in zip(RIDGES, predict(inner, outer, shares, RIDGES), strict=True):
            plain = inner + ridge * np.trace(inner) / 12 * np.eye(12)
            want = outer @ np.linalg.solve(plain, shares - shares.mean(0)) + shares.mean(0)
            np.testing.assert_allclose(ours, want, atol=1e-6)


def test_a_gaussian_kernel_is_one_for_equals_and_falls_with_the_distance() -> None:
    here, there = np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(gaussian(here, there, 0.5), [[1.0, np.exp(-1.0)]])


@pytest.mark.parametrize(("informed", "least", "most"), [(True, 0.9, 1.0), (False, -1.0, 0.1)])
def test_features_that_determine_all_words_or_none(informed: bool, least: float, most: float) -> None:
    rng = np.random.default_rng(1)
    kind_C, kind_D = rng.integers(0, 4, 80), rng.integers(0, 4, 30)
    means = [np.eye(4)[kind if informed else rng.integers(0, 4, len(kind))] + 0.01 for kind in (kind_C, kind_D)]
    predicted = predictors(means[0], means[1], np.eye(4)[kind_C])
    for shares in predicted.values():
        fit = fit_of(shares, np.eye(4)[kind_D], np.eye(4)[kind_C].mean(0))
        assert least <= fit.explained <= most
        assert (fit.precision > 0.99) == informed


def test_the_ridge_is_chosen_on_what_is_held_out() -> None:
    rng = np.random.default_rng(2)
    features, noise = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    assert best_ridge(linear(features, features), noise)[1] > best_ridge(linear(features, features), features[:, :2])[1]


def test_shares_are_those_of_the_sentences_and_the_command_prints_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_collection(tmp_path / "clips")
    clips = list(ClipCollection.read(folder).clips)
    words = frequent_words(clips)
    table = share_table(clips, words)
    for row, clip in enumerate(clips[:3]):
        for column, word in enumerate(words[:5]):
            using = sum(word in sentence.lower().rstrip(".").split() for sentence in clip.captions)
            assert table[row, column] == pytest.approx(using / len(clip.captions))
    command = [str(folder), "--learn", "train", "--on", "test"]
    assert run_program("word_limits", None, add_arguments, run, command) == 0
    out = capsys.readouterr().out
    assert "ridge regression" in out and "Gaussian kernel" in out
