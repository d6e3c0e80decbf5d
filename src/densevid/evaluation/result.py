"""An evaluation as plain numbers: the JSON that `densevid evaluate --json` writes, and one row a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from densevid.evaluation.evaluate import Evaluation
from densevid.evaluation.files import Floats
from densevid.evaluation.metrics.corpus import group_scores
from densevid.evaluation.protocols import localization, soda


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Fractions at full precision; undefined is None; parts not asked for are absent."""
    content: dict[str, Any] = {"protocol": evaluation.settings.protocol}
    if evaluation.captioning:
        scores = evaluation.captioning
        content["captioning"] = {"average": scores.average(), "per_tiou": scores.per_tiou()}
    if evaluation.soda:
        content["soda"] = soda_means(evaluation.soda)
        content["soda_metric"] = evaluation.soda.metric
    if evaluation.paragraph:
        content["paragraph"] = evaluation.paragraph.scores()
    if evaluation.proposals:
        sides = {"first": evaluation.proposals.first, "pooled": evaluation.proposals.pooled}
        content["proposals"] = {side: proposal_scores(scores) for side, scores in sides.items()}
    if evaluation.segments:
        content["segments"] = {"micro": evaluation.segments.micro(), "macro": evaluation.segments.macro()}
    content["coverage"] = asdict(evaluation.coverage)
    return content


def soda_means(scores: soda.Soda) -> dict[str, dict[str, dict[str, float]]]:
    """`{type: {mode: {precision, recall, f1}}}`."""
    return {kind: {mode: s.means() for mode, s in modes.items()} for kind, modes in scores.scores.items()}


def proposal_scores(scores: localization.Proposals) -> dict[str, Any]:
    """AR, the area under its curve, recall at each tIoU, and the curve itself."""
    curve = {
        "proposals": scores.average_number_J.tolist(),
        "average_recall": scores.average_recall_J.tolist(),
        "recall": {f"{tiou:g}": row.tolist() for tiou, row in zip(localization.TIOUS, scores.recall_TJ, strict=True)},
    }
    return {
        **{f"AR@{number}": scores.average_recall_at(number) for number in localization.REPORTED},
        "AUC": scores.area(),
        "recall": scores.recall(),
        "curve": curve,
    }


def per_video(evaluation: Evaluation) -> tuple[list[str], list[list[Any]]]:
    """A header and one row a video: scores of captioning averaged over tIoU, and of the other parts."""
    columns: dict[str, Mapping[str, float]] = {}
    if evaluation.captioning:
        captions = evaluation.captioning
        for name, values_TV in captions.values.items():
            columns[name] = _by_video(captions.videos, values_TV.mean(axis=0))
    if evaluation.soda:
        columns |= _soda_columns(evaluation.soda)
    if evaluation.paragraph:
        for name, values_V in evaluation.paragraph.per_video().items():
            columns[f"paragraph_{name}"] = _by_video(evaluation.paragraph.videos, values_V)
    if evaluation.proposals:
        found = evaluation.proposals.pooled
        recall_V = found.matched_VT.mean(axis=1) / np.maximum(found.events_V, 1)
        columns["proposal_recall"] = _by_video(found.videos, recall_V)
    if evaluation.segments:
        for name, values_V in group_scores(evaluation.segments.macro_VS).items():
            columns[f"segments_{name}"] = _by_video(evaluation.segments.videos, values_V)
    videos = sorted({video for column in columns.values() for video in column})
    rows = [[video, *(column.get(video, "") for column in columns.values())] for video in videos]
    return ["video", *columns], rows


def _soda_columns(scores: soda.Soda) -> dict[str, Mapping[str, float]]:
    columns: dict[str, Mapping[str, float]] = {}
    for kind, modes in scores.scores.items():
        for mode, table in modes.items():
            counted = table.counts_FV.sum(axis=0)
            f1_V = (table.values_FV3[:, :, 2] * table.counts_FV).sum(axis=0) / np.maximum(counted, 1)
            columns[f"soda_{kind}_{mode}_f1"] = _by_video(scores.videos, f1_V)
    return columns


def _by_video(videos: list[str], values_V: Floats) -> dict[str, float]:
    return dict(zip(videos, values_V.tolist(), strict=True))
