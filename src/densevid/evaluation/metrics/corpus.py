"""METEOR, BLEU, ROUGE-L and CIDEr of groups of items: a group's score is a closed form of sums over its items.

A group is a video at a tIoU, a paragraph or a whole set. `ItemScores` is computed once; which items count, and how
they are grouped, only changes what is summed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from densevid.evaluation.files import Booleans, Floats, Integers
from densevid.evaluation.java import STATISTICS
from densevid.evaluation.metrics import bleu
from densevid.evaluation.metrics.cider import Cider, cider_of_items, mean_over_references
from densevid.evaluation.metrics.meteor import corpus_scores, summable
from densevid.evaluation.metrics.ngrams import Items, sums_by_group
from densevid.evaluation.metrics.rouge import rouge_scores
from densevid.evaluation.metrics.text_pool import TextIndex

TEXT_METRICS = ("METEOR", *bleu.NAMES, "ROUGE_L", "CIDEr")
_BLEU = STATISTICS
_ROUGE = _BLEU + bleu.COMPONENTS
SUMS = _ROUGE + 3  # METEOR's statistics, BLEU's components, ROUGE, CIDEr, how many items


@dataclass(frozen=True)
class ItemScores:
    """What each item adds to its group, but for CIDEr, which depends on the other items that count."""

    items: Items
    group_I: Integers
    sums_IS: Floats
    cider: Cider

    def item_sums(self, active_I: Booleans | None = None) -> Floats:
        """N x S: what each of the N items that count (all by default) adds."""
        active = np.ones(len(self.group_I), dtype=bool) if active_I is None else active_I
        rows = self.sums_IS[active]
        rows[:, _ROUGE + 1] = mean_over_references(self.cider.scores(active), self.items)[active]
        return rows

    def group_sums(self, groups: int, active_I: Booleans) -> Floats:
        """G x S sums over the items that count."""
        return sums_by_group(self.item_sums(active_I), self.group_I[active_I], groups)


def item_scores(pool: TextIndex, items: Items, group_I: Integers) -> ItemScores:
    """Score items once; CIDEr's documents are the references of the items of the same group."""
    pool.begin_meteor(items)
    sums_IS = np.ones((len(group_I), SUMS))
    shared = pool.sentences.shared(items.hypothesis_P, items.reference_P)
    sums_IS[:, _BLEU:_ROUGE] = bleu.bleu_components(pool.sentences, items, shared)
    sums_IS[:, _ROUGE] = rouge_scores(pool.texts, items)
    cider = cider_of_items(pool.sentences, items, group_I, shared)
    sums_IS[:, :_BLEU] = summable(pool.meteor_statistics(items))
    return ItemScores(items, group_I, sums_IS, cider)


def group_scores(sums_GS: Floats) -> dict[str, Floats]:
    """The scores of each group; 0 in a group without items."""
    count_G = sums_GS[:, -1]
    divisor_G = np.maximum(count_G, 1)
    bleu_4G = np.where(count_G > 0, bleu.bleu_scores(sums_GS[:, _BLEU:_ROUGE]).T, 0.0)
    meteor_G = corpus_scores(sums_GS[:, :_BLEU])
    columns = (meteor_G, *bleu_4G, sums_GS[:, _ROUGE] / divisor_G, sums_GS[:, _ROUGE + 1] / divisor_G)
    return dict(zip(TEXT_METRICS, columns, strict=True))
