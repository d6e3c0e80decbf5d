"""A sentence holds for a clip if a caption of the clip contains all of its content words."""

from __future__ import annotations

import numpy as np

from densevid.timelines.sentences import content_words, find_shared_sentences, implied
from helpers.clip_collections import ACTIONS, sentences


def test_forms_of_a_word_are_one_word() -> None:
    assert content_words("A man slices onions.") == content_words("the MEN were slicing an onion")
    assert content_words("Two dogs are running") == content_words("a dog runs")


def test_what_is_implied_follows_the_chain() -> None:
    words = implied(content_words("a lady is chopping carrots"))
    assert content_words("a person cuts vegetables") <= words
    assert content_words("a woman is cutting food") <= words
    assert not content_words("a man is cutting food") <= words
    assert not content_words("a person") & implied(content_words("frying an egg"))


def test_a_relation_holds_exactly_where_its_rule_does() -> None:
    rng = np.random.default_rng(3)
    captions = [sentences(rng, ACTIONS[int(rng.integers(len(ACTIONS)))]) for _ in range(40)]
    sources = [f"source{number // 2}" for number in range(40)]
    shared = find_shared_sentences(captions, sources)
    assert [shared.sentences[i] for i in shared.about(7)] == captions[7]
    for index, text in enumerate(shared.sentences):
        words = content_words(text)
        holds = [any(words <= implied(content_words(other)) for other in clip) for clip in captions]
        by_several = len({source for source, yes in zip(sources, holds, strict=True) if yes}) > 1
        meaning = shared.meaning_S[index]
        assert (meaning >= 0) == (by_several and 2 <= len(words) <= 7)
        if meaning >= 0:
            assert shared.holds_KN[meaning].tolist() == holds


def test_sentences_of_several_clips_hold_for_each_and_not_for_the_others() -> None:
    captions = [
        ["A man is playing a guitar on a stage.", "A man plays a guitar."],
        ["The guy is playing guitar at home.", "A man with a hat"],
        ["A man is cooking."],
    ]
    shared = find_shared_sentences(captions, ["a", "b", "c"])
    assert shared.common([0]) == captions[0]
    assert shared.common([0, 1]) == ["A man plays a guitar."]
    assert shared.common([0], without=[1]) == ["A man is playing a guitar on a stage."]
    assert shared.common([0, 2]) == []


def test_sentences_without_visual_content_are_not_specific() -> None:
    captions = [
        ["A man is doing something.", "A man is dancing."],
        ["A man does it in a hall.", "A boy and a man dance."],
    ]
    shared = find_shared_sentences(captions, ["a", "b"])
    specific = {shared.sentences[i]: bool(shared.specific_K[k]) for i, k in enumerate(shared.meaning_S) if k >= 0}
    assert specific["A man is dancing."]
    assert not specific.get("A man is doing something.", False)
