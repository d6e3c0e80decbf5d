"""Shared sentences: which captions hold for which clips, so that several clips can be shots of one event.

A sentence holds for a clip if its content words are a subset of those of one of the clip's captions, hypernyms
included: "A person cuts an onion" holds for a clip with the caption "The lady is cutting onions in a kitchen", because
a lady is a person. Words are compared by a light English stem; collections in other languages work by whole words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FUNCTION_WORDS = """
a an the is are was were be been being am do does did has have had his her hers their its it him them they he she we
you i my your our this that these those there here some any all one two three and or but as of to in on at by for with
from into onto upon off out up down over under about around through across near next behind front inside outside while
when then also very just so too not no s t who which what how together using something thing things another other each
"""
SAME = {
    "guy": "man", "men": "man", "gentleman": "man", "male": "man", "lady": "woman", "ladies": "woman",
    "women": "woman", "female": "woman", "someone": "person", "somebody": "person", "people": "person",
    "human": "person", "kid": "child", "kids": "child", "children": "child", "infant": "baby", "bicycle": "bike",
    "speak": "talk", "speaking": "talk", "speaks": "talk", "ran": "run", "sang": "sing", "rode": "ride",
}  # fmt: skip
# Hypernym: hyponyms. A sentence stays true if a word on the right is replaced by the one on the left.
KINDS = {
    "person": "man woman boy girl child baby chef player singer soldier dancer teenager toddler actor",
    "child": "boy girl baby toddler",
    "cut": "slice chop dice mince carve",
    "cook": "fry boil bake grill roast saute",
    "vegetable": "onion potato potatoe carrot tomato cucumber pepper garlic cabbage broccoli celery mushroom ginger",
    "fruit": "apple banana orange lemon pineapple mango watermelon strawberry",
    "meat": "chicken beef pork bacon steak sausage ham",
    "seafood": "fish shrimp prawn crab lobster",
    "food": "vegetable fruit meat seafood egg bread cake pizza pasta noodle rice soup salad sandwich dough tofu",
    "dog": "puppy",
    "cat": "kitten",
    "bird": "parrot duck owl penguin chicken",
    "animal": "dog cat bird horse monkey panda bear tiger lion elephant rabbit hamster squirrel cow sheep goat pig fox",
    "instrument": "guitar piano flute violin drum keyboard trumpet saxophone cello",
    "music": "instrument song",
    "car": "jeep van suv",
    "vehicle": "car truck bus bike motorcycle motorbike scooter train tractor",
    "fight": "box wrestle",
    "run": "jog sprint",
}
# Words without visual content: a sentence of these and people alone makes no event.
VAGUE_WORDS = """
do doing make making show get take put have look start try go come use see give video clip scene camera tv television
movie film trailer episode program commercial advertisement
"""
MOST_WORDS = 7


@dataclass(frozen=True, eq=False)
class SharedSentences:
    """The meanings (sets of content words) that clips of at least two sources share.

    Attributes:
        holds_KN: Meaning x clip: whether the meaning holds for the clip.
        specific_K: Whether the meaning has visual content besides people.
        sentences: All captions, clip after clip; those of clip n are `first_N[n] .. first_N[n + 1]`.
        meaning_S: The meaning of each sentence, -1 if it is not shared.
        first_N: Index of the first sentence of each clip, and the number of sentences.
    """

    holds_KN: npt.NDArray[np.bool_]
    specific_K: npt.NDArray[np.bool_]
    sentences: tuple[str, ...]
    meaning_S: npt.NDArray[np.int64]
    first_N: npt.NDArray[np.int64]

    def about(self, clip: int) -> range:
        """The indices of the sentences of one clip."""
        return range(int(self.first_N[clip]), int(self.first_N[clip + 1]))

    def common(self, clips: Sequence[int], without: Sequence[int] = (), meaning: int | None = None) -> list[str]:
        """The sentences that hold for all of some clips and for none of others, each text once.

        Args:
            clips: The clips; for a single one, all of its captions hold.
            without: Clips that the sentences must not hold for.
            meaning: Also include all sentences of the collection with this meaning.
        """
        indices = np.concatenate([np.arange(self.first_N[clip], self.first_N[clip + 1]) for clip in clips])
        meaning_I = self.meaning_S[indices]
        shared_I = meaning_I >= 0
        true_I = np.ones_like(shared_I)
        if len(clips) > 1:
            true_I = shared_I & self.holds_KN[meaning_I[:, None], list(clips)].all(axis=1)
        if len(without):
            true_I &= ~(shared_I & self.holds_KN[meaning_I[:, None], list(without)].any(axis=1))
        same_meaning = self.with_meaning.get(meaning, ()) if meaning is not None else ()
        return list(dict.fromkeys([self.sentences[index] for index in (*indices[true_I].tolist(), *same_meaning)]))

    @cached_property
    def with_meaning(self) -> dict[int, list[int]]:
        """The sentences of each meaning."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for index, meaning in enumerate(self.meaning_S.tolist()):
            found[meaning].append(index)
        found.pop(-1, None)
        return dict(found)


def content_words(sentence: str) -> frozenset[str]:
    """The stems of the content words of a sentence."""
    words = re.findall(r"[^\W\d_]+", sentence.lower())
    return frozenset(_stem(SAME.get(word, word)) for word in words if word not in STOP_WORDS)


def implied(words: frozenset[str]) -> frozenset[str]:
    """The words and all their hypernyms: an onion is a vegetable, and food."""
    return words.union(*(IMPLIED[word] for word in words if word in IMPLIED))


def find_shared_sentences(captions: Sequence[Sequence[str]], sources: Sequence[str]) -> SharedSentences:
    """Find the sentences that clips share.

    Args:
        captions: The sentences of each clip.
        sources: The source of each clip; a meaning must be shared by clips of at least two sources.
    """
    texts = tuple(text for sentences in captions for text in sentences)
    first_N = np.cumsum([0, *map(len, captions)])
    words_of = [content_words(text) for text in texts]
    postings = _postings(map(implied, words_of))
    clip_S = np.repeat(np.arange(len(captions)), np.diff(first_N))
    source_N = np.unique(np.asarray(sources), return_inverse=True)[1]

    number: dict[frozenset[str], int] = {}
    rows: list[npt.NDArray[np.bool_]] = []
    specific: list[bool] = []
    for words in dict.fromkeys(words_of):
        if not 2 <= len(words) <= MOST_WORDS:
            continue
        clips = np.unique(clip_S[_all_of(words, postings)])
        if len(np.unique(source_N[clips])) > 1:
            number[words] = len(rows)
            rows.append(np.bincount(clips, minlength=len(captions)).astype(bool))
            specific.append(bool(words - PEOPLE - VAGUE))
    meaning_S = np.array([number.get(words, -1) for words in words_of], dtype=np.int64)
    holds_KN = np.array(rows, dtype=bool).reshape(len(rows), len(captions))
    return SharedSentences(holds_KN, np.array(specific, dtype=bool), texts, meaning_S, first_N)


def _postings(words_of: Iterable[frozenset[str]]) -> dict[str, npt.NDArray[np.int64]]:
    """Inverted index: for every word the sentences that contain it, in order."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for index, words in enumerate(words_of):
        for word in words:
            found[word].append(index)
    return {word: np.array(indices) for word, indices in found.items()}


def _all_of(words: frozenset[str], postings: dict[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """The sentences that contain all of the words, by intersecting the index from the rarest word on."""
    rarest, *others = sorted((postings[word] for word in words), key=len)
    for other in others:
        place = np.searchsorted(other, rarest)
        rarest = rarest[(place < len(other)) & (other[np.minimum(place, len(other) - 1)] == rarest)]
    return rarest


def _stem(word: str) -> str:
    """Remove the endings of English verbs and plurals: slices, sliced, slicing -> slic."""
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def _all_implied() -> dict[str, frozenset[str]]:
    """All hypernyms of each stem: KINDS inverted and followed transitively."""
    kinds = {_stem(kind): frozenset(map(_stem, words.split())) for kind, words in KINDS.items()}
    implied_by: dict[str, frozenset[str]] = {}
    for _ in kinds:  # as often as a chain can be long
        for kind, words in kinds.items():
            for word in words:
                implied_by[word] = implied_by.get(word, frozenset()) | {kind} | implied_by.get(kind, frozenset())
    return implied_by


STOP_WORDS = frozenset(FUNCTION_WORDS.split())
IMPLIED = _all_implied()
PEOPLE = frozenset(word for word, kinds in IMPLIED.items() if "person" in kinds) | {"person"}
VAGUE = frozenset(map(_stem, VAGUE_WORDS.split()))
