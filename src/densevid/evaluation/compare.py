"""Two systems on the same references: confidence intervals of their scores, and a paired test of the difference.

Every score is a function of sums over videos, so both tests only re-weight videos. The bootstrap draws videos with
replacement, the same draw for both systems, and gives 95% intervals; the paired test exchanges the two systems' rows of
a video at random and counts how often the difference is as large as the one observed (approximate randomisation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from densevid.evaluation.files import Floats
from densevid.evaluation.metrics.text_scores import TEXT_METRICS, group_scores
from densevid.evaluation.protocols.captioning import CaptioningScores
from densevid.evaluation.protocols.paragraph import ParagraphScores
from densevid.evaluation.protocols.proposals import ProposalScores
from densevid.evaluation.protocols.segments import SegmentScores
from densevid.evaluation.protocols.soda import NAMES, SodaScores
from densevid.evaluation.protocols.support import SupportScores
from densevid.evaluation.report import Table, percent
from densevid.evaluation.result import Evaluation

DRAWS = 2000
SEED = 0
LEVEL = 0.95
ROUNDING = 1e-12


@dataclass(frozen=True)
class Sample:
    """A score as a function of sums over videos: `score` maps B x K sums to B values."""

    name: str
    videos: list[str]
    table_VK: Floats
    score: Callable[[Floats], Floats]


@dataclass(frozen=True)
class Comparison:
    """One score of both systems, the 95% intervals, and the two-sided p of the paired test."""

    name: str
    first: float
    second: float
    first_interval: tuple[float, float]
    second_interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]
    p_value: float


def compare(first: Evaluation, second: Evaluation, draws: int = DRAWS) -> list[Comparison]:
    """Compare every score that both evaluations have.

    Args:
        first: One system's evaluation.
        second: Another system's, against the same references.
        draws: Bootstrap draws, and random exchanges of the paired test.

    Returns:
        One `Comparison` a score, the same for the same inputs every time.
    """
    others = {sample.name: sample for sample in samples(second)}
    random = np.random.default_rng(SEED)
    return [compare_samples(a, others[a.name], draws, random) for a in samples(first) if a.name in others]


def not_compared(first: Evaluation, second: Evaluation) -> list[str]:
    """Parts that only one of the two has, with the name of its file."""
    names = [evaluation.coverage.files["predictions"]["name"] for evaluation in (first, second)]
    alone = [(part, names[0]) for part in first.parts if part not in second.parts]
    alone += [(part, names[1]) for part in second.parts if part not in first.parts]
    return [f"{part}: only {name} has what it needs" for part, name in alone]


def compare_samples(first: Sample, second: Sample, draws: int, random: np.random.Generator) -> Comparison:
    """Bootstrap and paired test of one score."""
    a_VK, b_VK = _aligned(first, second)
    score = first.score
    a, b = (float(score(table.sum(axis=0, keepdims=True))[0]) for table in (a_VK, b_VK))
    drawn_BV = random.multinomial(len(a_VK), np.full(len(a_VK), 1 / max(len(a_VK), 1)), size=draws).astype(np.float64)
    a_B, b_B = score(drawn_BV @ a_VK), score(drawn_BV @ b_VK)
    exchanged_BK = random.integers(0, 2, size=drawn_BV.shape).astype(np.float64) @ (b_VK - a_VK)
    shuffled_B = score(b_VK.sum(axis=0) - exchanged_BK) - score(a_VK.sum(axis=0) + exchanged_BK)
    as_large = int((np.abs(shuffled_B) >= abs(b - a) - ROUNDING).sum())
    p_value = (1 + as_large) / (1 + draws)
    return Comparison(first.name, a, b, _interval(a_B), _interval(b_B), b - a, _interval(b_B - a_B), p_value)


def comparison_table(names: tuple[str, str], comparisons: Sequence[Comparison]) -> Table:
    """Both systems with 95% intervals over videos, their difference and the p of the paired test; of SODA, F1."""
    header = ("score", *names, "difference", "95% of it", "p")
    rows = [
        (
            c.name,
            f"{percent(c.first)} {_percent_range(c.first_interval)}",
            f"{percent(c.second)} {_percent_range(c.second_interval)}",
            f"{100 * c.difference:+.2f}",
            _percent_range(c.difference_interval),
            f"{c.p_value:.4f}",
        )
        for c in comparisons
        if not c.name.startswith("soda") or c.name.endswith("f1")
    ]
    return Table("comparison (brackets: 95% over videos)", header, rows)


def samples(evaluation: Evaluation) -> Iterator[Sample]:
    """The scores of an evaluation that can be compared."""
    if evaluation.captioning:
        yield from _of_captioning(evaluation.captioning)
    if evaluation.soda:
        yield from _of_soda(evaluation.soda)
    if evaluation.paragraph:
        yield from _of_paragraphs(evaluation.paragraph)
    if evaluation.proposals:
        yield from _of_proposals("first", evaluation.proposals.first)
        yield from _of_proposals("pooled", evaluation.proposals.pooled)
    if evaluation.segments:
        yield from _of_segments(evaluation.segments)
    if evaluation.support:
        yield from _of_support(evaluation.support)


def _of_captioning(scores: CaptioningScores) -> Iterator[Sample]:
    means = scores.per_video()
    for name, values_V in means.items():
        yield Sample(f"captioning {name}", scores.videos, _with_count(values_V), _mean_of_ratios)
    both = np.column_stack([means["Precision"], means["Recall"], np.ones(len(scores.videos))])
    yield Sample("captioning F1", scores.videos, both, _f1)


def _of_soda(scores: SodaScores) -> Iterator[Sample]:
    for kind, modes in scores.tables.items():
        for mode, table in modes.items():
            for place, name in enumerate(NAMES):
                columns = [
                    _with_count(v * c, c) for v, c in zip(table.values_FV3[:, :, place], table.counts_FV, strict=True)
                ]
                yield Sample(
                    f"soda {kind} {mode} {name}", scores.videos, np.concatenate(columns, axis=1), _mean_of_ratios
                )


def _of_paragraphs(scores: ParagraphScores) -> Iterator[Sample]:
    for name in TEXT_METRICS:
        yield Sample(f"paragraph {name}", scores.videos, scores.sums_VS, _corpus_score(name))


def _of_proposals(side: str, scores: ProposalScores) -> Iterator[Sample]:
    table = _with_count(scores.matched_VT.mean(axis=1), scores.events_V.astype(np.float64))
    yield Sample(f"proposals {side} AR@100", scores.videos, table, _mean_of_ratios)


def _of_segments(scores: SegmentScores) -> Iterator[Sample]:
    per_video = group_scores(scores.macro_VS)
    for name in TEXT_METRICS:
        yield Sample(f"segments micro {name}", scores.videos, scores.micro_VS, _corpus_score(name))
        yield Sample(f"segments macro {name}", scores.videos, _with_count(per_video[name]), _mean_of_ratios)


def _of_support(scores: SupportScores) -> Iterator[Sample]:
    counts = scores.per_video()
    events_V, shown_V, supported_V = (counts[f"support_{name}"] for name in ("events", "shown", "supported"))
    yield Sample("support", scores.videos, np.column_stack([supported_V, shown_V]), _mean_of_ratios)
    yield Sample("support coverage", scores.videos, np.column_stack([shown_V, events_V]), _mean_of_ratios)


def _corpus_score(name: str) -> Callable[[Floats], Floats]:
    return lambda sums_BS: group_scores(sums_BS)[name]


def _with_count(values_V: Floats, count_V: Floats | None = None) -> Floats:
    counts = np.ones(len(values_V)) if count_V is None else np.asarray(count_V, dtype=np.float64)
    return np.column_stack([values_V, counts])


def _mean_of_ratios(sums_BK: Floats) -> Floats:
    values, counts = sums_BK[:, 0::2], sums_BK[:, 1::2]
    return np.asarray(np.divide(values, counts, out=np.zeros_like(values), where=counts > 0).mean(axis=1))


def _f1(sums_B3: Floats) -> Floats:
    precision, recall = (sums_B3[:, :2] / np.maximum(sums_B3[:, 2:], 1)).T
    both = precision + recall
    return np.asarray(np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0))


def _aligned(first: Sample, second: Sample) -> tuple[Floats, Floats]:
    """Both tables over the videos of either; a video that one does not count adds nothing to it."""
    videos = list(dict.fromkeys([*first.videos, *second.videos]))
    place = {video: index for index, video in enumerate(videos)}
    tables = np.zeros((2, len(videos), first.table_VK.shape[1]))
    for table, sample in zip(tables, (first, second), strict=True):
        table[[place[video] for video in sample.videos]] = sample.table_VK
    return tables[0], tables[1]


def _interval(values_B: Floats) -> tuple[float, float]:
    low, high = np.quantile(values_B, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _percent_range(interval: tuple[float, float]) -> str:
    return f"[{100 * interval[0]:.2f}, {100 * interval[1]:.2f}]"
