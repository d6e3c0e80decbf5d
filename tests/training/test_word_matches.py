"""METEOR's formula over equal words: closed forms, and METEOR itself on real sentences."""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from densevid.timelines.clips import ClipCollection
from densevid.training.sentence_scores import WordMatches


def test_closed_forms() -> None:
    reference = ("a", "dog", "runs", "in", "the", "garden")
    scorer = WordMatches([[reference, ("nothing", "alike")]])
    assert scorer.score(reference, 0) == pytest.approx(1 - 0.6 * (1 / 6) ** 0.2)
    assert scorer.score(("two", "cats"), 0) == 0.0
    precision, recall = 3 / 4, 3 / 6  # `a dog` and `garden`: two chunks
    mean = precision * recall / (0.85 * precision + 0.15 * recall)
    assert scorer.score(("a", "dog", "eats", "garden"), 0) == pytest.approx(mean * (1 - 0.6 * (2 / 3) ** 0.2))


def test_a_word_matches_once_and_more_is_better_than_little() -> None:
    scorer = WordMatches([[("a", "man", "plays", "a", "guitar", "on", "a", "stage")]])
    assert scorer.score(("man", "man", "man"), 0) < scorer.score(("man",), 0)
    assert scorer.score(("a", "man", "plays", "a", "guitar"), 0) > scorer.score(("a", "man"), 0)
    assert scorer.scores([("man",), ("stage",)], [0, 0]).tolist() == pytest.approx([scorer.score(("man",), 0)] * 2)


@pytest.mark.skipif(find_spec("pycocoevalcap") is None, reason="needs the extra [eval]")
def test_it_follows_meteor(shared: Path) -> None:
    """Of real sentences about other clips and the same clip, those that METEOR likes are liked."""
    from densevid.evaluation.meteor import scorer, statistics

    clips = ClipCollection.read(shared / "data" / "msvd").split("train")[:60]
    draw = random.Random(0)
    pairs = [
        (draw.choice(source.captions), clip.captions[1:])
        for clip in clips
        for source in (clip, draw.choice(clips))
        if len(clip.captions) > 5
    ]
    documents = [[tuple(sentence.lower().split()) for sentence in references] for _, references in pairs]
    ours = WordMatches(documents).scores([tuple(sentence.lower().split()) for sentence, _ in pairs], range(len(pairs)))
    engine = scorer.MeteorScorer(cache=False)
    theirs = statistics.segment_scores(
        engine.statistics([(text.lower(), tuple(references)) for text, references in pairs])
    )
    assert np.corrcoef(ours, np.asarray(theirs))[0, 1] > 0.8
