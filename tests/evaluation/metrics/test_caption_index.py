"""Captions by number: tokenized once, and again only where the caption after them in a file changes their tokens."""

from __future__ import annotations

import numpy as np
import pytest

from densevid.evaluation.files import official_order
from densevid.evaluation.meteor.scorer import MeteorScorer
from densevid.evaluation.metrics.caption_index import CaptionIndex

pytest.importorskip("pycocoevalcap")


def test_captions_are_tokenized_as_lines_of_their_file() -> None:
    index = CaptionIndex(MeteorScorer(cache=False))
    raw = ["hello :-)", "a man walks.", "hello :-)", "hello :-)"]
    captions = index.captions(raw)
    assert index.order_matters
    texts = [index.texts[number] for number in index.in_files(captions, np.array([0, 0, 1, 2])).tolist()]
    assert texts == ["hello :--rrb-", "a man walks", "hello -rrb-", "hello -rrb-"]
    assert index.in_files(captions[:1], np.array([0])).tolist() == index.numbers(["hello -rrb-"]).tolist()


def test_a_caption_is_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from densevid.evaluation.metrics import caption_index

    seen: list[str] = []
    plain = caption_index.tokenize
    monkeypatch.setattr(caption_index, "tokenize", lambda raw: (seen.extend(raw), plain(raw))[1])
    index = CaptionIndex(MeteorScorer(cache=False))
    first = index.captions(["a dog", "a cat", "a dog"])
    assert index.captions(["a cat", "a dog"]).tolist() == first[[1, 0]].tolist()
    assert sorted(filter(None, seen)) == ["a cat", "a dog"]


def test_official_order_is_that_of_a_set_with_hash_seed_zero() -> None:
    names = [f"v_{number}" for number in range(50)]
    ordered = official_order([names[:30], names[20:]])
    assert sorted(ordered) == sorted(names)
    assert ordered == official_order([names[:30], names[20:]])
    assert set(official_order([names], names[:7])) == set(names[:7])
    assert ordered != names
