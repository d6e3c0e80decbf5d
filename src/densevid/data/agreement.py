"""How much the sentences that people wrote about one clip agree, so that what most of them say is learnt more often.

Of twenty sentences about a clip some are odd: a detail, a guess, another language. A sentence agrees with the others as
far as it has rare words and phrases in common with them: the mean cosine of their n-grams of order 1 to 4, weighed by
log(N / df) over the N clips of the split, as CIDEr does. `training.consensus` says how much that matters: the chance of
a sentence is proportional to exp(consensus z), z its agreement in standard deviations around the mean of its clip.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.data.caption_text import grams, tokenize
from densevid.data.clip_collection import Clip

ORDERS = 4
Gram = tuple[str, ...]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """The agreement of every sentence, in standard deviations; of one that several clips have, the mean over these."""

    deviation: dict[str, float]

    @classmethod
    def of(cls, clips: Sequence[Clip]) -> Agreement:
        """Compare the sentences of each clip with one another."""
        told = [[tokenize(sentence) for sentence in clip.captions] for clip in clips]
        inside = ({gram for words in sentences for gram in _all_grams(words)} for sentences in told)
        frequency = Counter(gram for found in inside for gram in found)
        rarity = {gram: float(np.log(len(clips) / count)) for gram, count in frequency.items()}
        deviations = defaultdict(list)
        for clip, sentences in zip(clips, told, strict=True):
            for sentence, deviation in zip(clip.captions, _deviations(sentences, rarity), strict=True):
                deviations[sentence].append(float(deviation))
        return cls({sentence: float(np.mean(values)) for sentence, values in deviations.items()})

    def chances(self, sentences: Sequence[str], consensus: float) -> Floats:
        """How often each of these is to be heard; they add up to one."""
        weight_S = np.array([consensus * self.deviation.get(sentence, 0.0) for sentence in sentences])
        chance_S = np.exp(weight_S - weight_S.max())
        return np.asarray(chance_S / chance_S.sum())


def _deviations(sentences: Sequence[Sequence[str]], rarity: dict[Gram, float]) -> Floats:
    """Of one clip's sentences."""
    if len(sentences) < 2:
        return np.zeros(len(sentences))
    common_S = np.zeros(len(sentences))
    for order in range(1, ORDERS + 1):
        counts = [Counter(grams(words, order)) for words in sentences]
        place = {gram: number for number, gram in enumerate({gram for count in counts for gram in count})}
        weight_SG = np.zeros((len(sentences), len(place)))
        for weight_G, count in zip(weight_SG, counts, strict=True):
            weight_G[[place[gram] for gram in count]] = [rarity[gram] * times for gram, times in count.items()]
        length_S1 = np.linalg.norm(weight_SG, axis=1, keepdims=True)
        direction_SG = np.divide(weight_SG, length_S1, out=np.zeros_like(weight_SG), where=length_S1 > 0)
        common_S += direction_SG @ direction_SG.sum(axis=0) - (direction_SG**2).sum(axis=1)
    spread = common_S.std()
    return np.asarray((common_S - common_S.mean()) / spread) if spread > 0 else np.zeros(len(sentences))


def _all_grams(words: Sequence[str]) -> list[Gram]:
    return [gram for order in range(1, ORDERS + 1) for gram in grams(words, order)]
