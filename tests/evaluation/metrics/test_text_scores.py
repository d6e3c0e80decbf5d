"""BLEU, ROUGE-L, CIDEr and METEOR's closed forms against pycocoevalcap's own loops, on random word salads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.evaluation.metrics.cider import Cider, Documents, cider_of_items, mean_over_references
from densevid.evaluation.metrics.ngrams import Items, blocks, index_sentences, sums_by_group
from densevid.evaluation.metrics.text_scores import bleu_components, bleu_scores, rouge_scores

pytest.importorskip("pycocoevalcap")
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider as OfficialCider
from pycocoevalcap.rouge.rouge import Rouge

WORDS = st.sampled_from(["a", "b", "c", "dd", "e", "7\xa01/2", "-lrb-"])
TEXT = st.lists(WORDS, max_size=12).map(" ".join)
ITEM = st.tuples(st.integers(0, 2), TEXT, st.lists(TEXT, min_size=1, max_size=3))
Case = list[tuple[int, str, list[str]]]


def as_items(case: Case) -> tuple[list[str], Items, np.ndarray]:
    texts = list(dict.fromkeys(text for _, hypothesis, refs in case for text in (hypothesis, *refs)))
    hypothesis = np.array([texts.index(hypothesis) for _, hypothesis, _ in case])
    reference = np.array([texts.index(text) for _, _, refs in case for text in refs])
    item = np.repeat(np.arange(len(case)), [len(refs) for _, _, refs in case])
    return texts, Items(hypothesis, item, reference), np.array([group for group, _, _ in case])


def official_form(case: Case, group: int) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    chosen = [place for place, (g, _, _) in enumerate(case) if g == group]
    return {place: case[place][2] for place in chosen}, {place: [case[place][1]] for place in chosen}


def official_cider(gts: dict[int, list[str]], res: dict[int, list[str]]) -> np.ndarray:
    try:
        return OfficialCider().compute_score(gts, res)[1]
    except ValueError:  # it crashes where no reference has a word
        return np.zeros(len(res))


@settings(max_examples=150, deadline=None)
@given(st.lists(ITEM, min_size=1, max_size=9))
def test_scores_equal_the_official_loops(case: Case) -> None:
    texts, items, group = as_items(case)
    sentences = index_sentences(texts)
    shared = sentences.shared(items.hypothesis_P, items.reference_P)
    components = bleu_components(sentences, items, shared)
    corpus = bleu_scores(sums_by_group(components, group, 3))
    rouge = rouge_scores(texts, items)
    cider = mean_over_references(cider_of_items(sentences, items, group, shared).scores(), items)
    for number in set(group.tolist()):
        gts, res = official_form(case, number)
        score, each = Bleu(4).compute_score(gts, res, verbose=0)
        np.testing.assert_allclose(corpus[number], score, atol=1e-13)
        np.testing.assert_allclose(bleu_scores(components)[list(res)], np.array(each).T, atol=1e-13)
        np.testing.assert_allclose(rouge[list(res)], Rouge().compute_score(gts, res)[1], atol=1e-13)
        np.testing.assert_allclose(cider[list(res)], official_cider(gts, res), atol=1e-11)


@settings(max_examples=60, deadline=None)
@given(st.lists(ITEM, min_size=2, max_size=9), st.data())
def test_cider_counts_only_the_chosen_documents(case: Case, data: st.DataObject) -> None:
    case = [(group, hypothesis, refs[:1]) for group, hypothesis, refs in case]
    texts, items, group = as_items(case)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(case), max_size=len(case))))
    sentences = index_sentences(texts)
    shared = sentences.shared(items.hypothesis_P, items.reference_P)
    ours = cider_of_items(sentences, items, group, shared).scores(chosen)
    left = [row for row, kept in zip(case, chosen, strict=True) if kept]
    for number in {g for g, _, _ in left}:
        gts, res = official_form(left, number)
        np.testing.assert_allclose(ours[chosen][list(res)], official_cider(gts, res), atol=1e-11)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), st.lists(TEXT, min_size=1, max_size=5))
def test_cider_with_documents_of_their_own(golds: list[str], predicted: list[str]) -> None:
    """As in SODA: every prediction is a document, whichever pair is scored."""
    texts = list(dict.fromkeys([*golds, *predicted]))
    left, right = (np.array([texts.index(t) for t in side]) for side in (golds, predicted))
    pairs = np.repeat(left, len(right)), np.tile(right, len(left))
    documents = Documents(np.zeros(len(right), dtype=int), np.arange(len(right)), right)
    sentences = index_sentences(texts)
    ours = Cider(sentences, np.zeros(len(pairs[0]), dtype=int), pairs, documents, sentences.shared(*pairs)).scores()
    gts = {place: [text] for place, text in enumerate(predicted)}
    official = [official_cider(gts, {place: [gold] for place in gts}) for gold in golds]
    np.testing.assert_allclose(ours.reshape(len(golds), -1), official, atol=1e-11)


def test_an_empty_sentence_is_one_empty_word_to_rouge_and_none_to_bleu() -> None:
    items = Items.single(np.array([0, 0]), np.array([0, 1]))
    assert rouge_scores(["", "a b"], items).tolist() == [1.0, 0.0]
    assert index_sentences(["", "a b"]).length_S.tolist() == [0, 2]


def test_a_lone_pair_has_no_cider_even_as_a_copy() -> None:
    items = Items.single(np.array([0]), np.array([0]))
    sentences = index_sentences(["a man runs fast"])
    shared = sentences.shared(items.hypothesis_P, items.reference_P)
    assert cider_of_items(sentences, items, np.array([0]), shared).scores().tolist() == [0.0]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 60))
def test_blocks_cover_everything_in_order(sizes: list[int], limit: int) -> None:
    slices = blocks(np.array(sizes), limit)
    assert [place for part in slices for place in range(len(sizes))[part]] == list(range(len(sizes)))
    assert all(sum(sizes[part]) <= limit + max(sizes) for part in slices)
