"""CIDEr-D and METEOR's formula on equal words: closed forms, and against the evaluation."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from densevid.timelines.clips import ClipCollection
from densevid.training.sentence_scores import Cider, WordMatches, Words
from helpers.waiting import LIMIT_SECONDS

WORDS = ["a", "the", "man", "dog", "cat", "runs", "jumps", "sits", "on", "over", "bed", "wall", "quickly", "again"]


def corpus(seed: int, documents: int) -> tuple[list[list[Words]], list[Words]]:
    draw = random.Random(seed)

    def sentence() -> Words:
        return tuple(draw.choices(WORDS, k=draw.randint(1, 9)))

    references = [[sentence() for _ in range(draw.randint(1, 4))] for _ in range(documents)]
    hypotheses = [draw.choice(document) if draw.random() < 0.3 else sentence() for document in references]
    return references, hypotheses


def test_cider_of_two_documents_by_hand() -> None:
    cider = Cider([[("a", "dog")], [("a", "cat")]])
    # "a" is in every document and weighs nothing; "dog" and "a dog" weigh log 2 each, so order 1 and 2 match fully.
    assert cider.score(("a", "dog"), 0) == pytest.approx(10 * 2 / 4)
    assert cider.score(("a", "dog"), 1) == pytest.approx(0)
    # one word more: unigram cosine w.(w, w') = 1/sqrt 2, bigram the same, and one bigram more than the reference
    longer = 10 * (2 / math.sqrt(2)) / 4 * math.exp(-1 / 72)
    assert cider.score(("a", "dog", "sleeps"), 0) == pytest.approx(longer)
    assert cider.score((), 0) == 0


def test_repeating_a_word_does_not_pay() -> None:
    cider = Cider([[("a", "dog", "runs")], [("a", "cat", "sits")], [("the", "man", "jumps")]])
    assert cider.score(("dog", "dog", "dog"), 0) < cider.score(("a", "dog", "runs"), 0) / 2


@pytest.mark.skipif(find_spec("densevid.evaluation") is None, reason="the evaluator is not part of this checkout")
@pytest.mark.parametrize("seed", range(5))
def test_cider_is_that_of_the_evaluation(seed: int) -> None:
    references, hypotheses = corpus(seed, 12)
    ngrams, scorer = (import_module(f"densevid.evaluation.metrics.{name}") for name in ("ngrams", "cider"))
    texts = [" ".join(words) for words in [*hypotheses, *(words for document in references for words in document)]]
    item_P = np.repeat(np.arange(len(references)), [len(document) for document in references])
    items = ngrams.Items(np.arange(len(hypotheses)), item_P, len(hypotheses) + np.arange(len(item_P)))
    sentences = ngrams.index_sentences(texts)
    shared = sentences.shared(items.hypothesis_P, items.reference_P)
    pairs = scorer.cider_of_items(sentences, items, np.zeros(len(hypotheses), dtype=np.int64), shared).scores()
    want = scorer.mean_over_references(pairs, items)
    np.testing.assert_allclose(
        Cider(references).scores(hypotheses, range(len(hypotheses))), want, rtol=1e-12, atol=1e-12
    )


def test_word_matches_of_closed_forms() -> None:
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
def test_word_matches_follow_meteor(shared: Path) -> None:
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


def test_training_is_imported_without_scipy_and_pycocoevalcap() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("scipy", "pycocoevalcap", "rich", "matplotlib")))
import densevid.training.run
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT_SECONDS)
