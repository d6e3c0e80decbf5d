"""Taught labels: classes that annotators name, given to pictures and clips for which no classifier has predicted any.

Pictures have no actions, so from few clips alone a caption decoder would learn what the tags of actions are for. A
clip whose annotators used all words of a class gets this class as a tag, among wrong ones, ranked and valued as the
classifier's own predictions are for some other clip about which it was right; a clip that fits no class gets those of
a clip about which it was wrong. So a tag's value stays what it is: how often its words are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.timelines.clips import Clip
from densevid.timelines.sentences import content_words, implied

ANNOTATORS_PER_USER = 10  # one in so many must have used a word, at least one


@dataclass(frozen=True)
class PredictedLabels:
    """What a classifier predicts for M clips: N classes each, how far they can be trusted, and which are right."""

    label_MN: npt.NDArray[np.int64]
    value_MN: npt.NDArray[np.float32]
    right_MN: npt.NDArray[np.bool_]


class TaughtLabels:
    """Draws labels for clips.

    Args:
        predicted: What the classifier predicts for clips whose annotators are known.
        words: The content words of each class, by its number; classes without words are never right.
        chance: How often a clip gets labels.
    """

    def __init__(self, predicted: PredictedLabels, words: dict[int, frozenset[str]], chance: float) -> None:
        self.predicted, self.chance = predicted, chance
        self.words = {label: own for label, own in words.items() if own}
        any_M = predicted.right_MN.any(axis=1)
        self._right, self._wrong = np.flatnonzero(any_M), np.flatnonzero(~any_M)
        self._named: dict[tuple[str, ...], list[int]] = {}

    @property
    def none(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """No labels."""
        count = self.predicted.label_MN.shape[1]
        return np.full(count, -1), np.zeros(count, np.float32)

    def named(self, clip: Clip) -> list[int]:
        """The classes all of whose words annotators of the clip used."""
        key = clip.captions
        if key not in self._named:
            used = used_words(clip.captions)
            self._named[key] = [label for label, words in self.words.items() if words <= used]
        return self._named[key]

    def draw(self, clip: Clip, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The labels of a clip and their values; -1 for each where it gets none."""
        named = self.named(clip)
        among = self._right if named else self._wrong
        if rng.random() >= self.chance or not len(among):
            return self.none
        like = among[int(rng.integers(len(among)))]
        right = rng.permutation(named).tolist()
        taken = set(named)
        labels = []
        for label, is_right in zip(
            self.predicted.label_MN[like].tolist(), self.predicted.right_MN[like].tolist(), strict=True
        ):
            if is_right and right:
                labels.append(right.pop())
            else:
                labels.append(-1 if is_right or label in taken else label)
        return np.array(labels), self.predicted.value_MN[like]


def used_words(captions: Sequence[str]) -> frozenset[str]:
    """The content words, and what they imply, that enough annotators of a clip used."""
    counts: dict[str, int] = {}
    for caption in captions:
        for word in implied(content_words(caption)):
            counts[word] = counts.get(word, 0) + 1
    enough = max(1, len(captions) // ANNOTATORS_PER_USER)
    return frozenset(word for word, count in counts.items() if count >= enough)
