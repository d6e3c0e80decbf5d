"""CIDEr-D by hand on a small corpus, and against the project's evaluator where it is installed."""

from __future__ import annotations

import math
import random
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from densevid.training.sentence_scores import Cider, Words

WORDS = ["a", "the", "man", "dog", "cat", "runs", "jumps", "sits", "on", "over", "bed", "wall", "quickly", "again"]


def corpus(seed: int, documents: int) -> tuple[list[list[Words]], list[Words]]:
    draw = random.Random(seed)

    def sentence() -> Words:
        return tuple(draw.choices(WORDS, k=draw.randint(1, 9)))

    references = [[sentence() for _ in range(draw.randint(1, 4))] for _ in range(documents)]
    hypotheses = [draw.choice(document) if draw.random() < 0.3 else sentence() for document in references]
    return references, hypotheses


def test_two_documents_by_hand() -> None:
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
def test_it_is_the_evaluators(seed: int) -> None:
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
