"""The report on annotators' habits: counts, agreement, and an AUC that finds a habit only if the features have it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from research.reports.caption_habits import HABITS, Captions, agreement_table, auc, evidence_table, shares_table, users


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """400 clips of 200 sources: half have a habit that the first feature shows, a quarter one that nothing shows."""
    random = np.random.default_rng(0)
    clips, features = {}, random.integers(0, 256, (800, 6), dtype=np.uint8)
    for number in range(400):
        game, talk = number % 2 == 0, random.random() < 0.25
        features[2 * number : 2 * number + 2, 0] = 200 if game else 20
        texts = ["a man plays a video game" if game else "a dog"] * 5 + ["people are talking" if talk else "a cat"] * 5
        clips[f"c{number}"] = {
            "split": "train", "first_row": 2 * number, "rows": 2, "source": f"s{number // 2}", "captions": texts,
        }  # fmt: skip
    own = tmp_path / "own"
    own.mkdir()
    (own / "clips.json").write_text(json.dumps(clips))
    np.save(own / "features.npy", features)
    np.save(tmp_path / "peak.npy", np.full(6, 4, dtype=np.float32))
    return own


def test_habits_are_counted_by_annotator(folder: Path) -> None:
    captions = Captions.read(folder)
    assert set(users(captions, HABITS["video game"]).tolist()) == {0, 5}
    assert "| own | 400 | 4,000 |" in shares_table([captions], HABITS)
    assert "| own, video game | 50% | 0% | 0% | 100% | 0% | 0% |" in agreement_table([captions], HABITS)


def test_only_what_the_features_show_is_predicted(folder: Path) -> None:
    lines = evidence_table([Captions.read(folder)], HABITS).splitlines()
    found = {line.split(" | ")[0]: float(line.split(" | ")[2].strip(" |")) for line in lines[2:]}
    assert found["| own, video game"] == 1
    assert 0.35 < found["| own, speech-like"] < 0.65


def test_the_area_counts_pairs() -> None:
    random = np.random.default_rng(1)
    scores, positive = random.integers(0, 5, 40).astype(float), random.random(40) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    assert auc(scores, positive) == pytest.approx(np.mean(pairs))
