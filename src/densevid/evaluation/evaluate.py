"""One evaluation: read the files, run the protocols, and report what they cover.

Captioning, SODA and segments share one index of tokenized captions, and all parts one METEOR, so that nothing is
computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from densevid.errors import InputError
from densevid.evaluation.coverage import (
    report_coverage,
    restrict,
    with_paragraphs,
    with_segments,
    with_subset,
    with_support,
)
from densevid.evaluation.files import EventFile, Source, read_predictions, read_references
from densevid.evaluation.meteor.scorer import MeteorScorer
from densevid.evaluation.metrics.caption_index import CaptionIndex
from densevid.evaluation.protocols import captioning, paragraph, proposals, segments, soda, support
from densevid.evaluation.result import PARTS, Evaluation, Settings
from densevid.legacy import current_evaluation_settings

__all__ = ["PARTS", "Evaluation", "Settings", "evaluate", "evaluate_files", "parts_of"]


def evaluate(
    predictions: Source,
    references: Source | Sequence[Source],
    *,
    protocol: str = "2018",
    metrics: Sequence[str] | None = None,
    paragraphs: Sequence[Source] = (),
    soda_metric: str = "METEOR",
    min_seconds: float | None = None,
    max_seconds: float | None = None,
    cache: bool = True,
    confidence: str = "sentence_score",
    **unknown: Any,
) -> Evaluation:
    """Score predicted events against references by the official protocols of dense video captioning.

    Args:
        predictions: An event file in the submission format of the ActivityNet challenge, or its content:
            `{"results": {video: [{"timestamp": [start, end], "sentence": text, "proposal_score": score}, ...]}}`.
        references: One file an annotator, or their content:
            `{video: {"timestamps": [[start, end], ...], "sentences": [text, ...]}}`; or `clips.json:SPLIT`.
        protocol: The captioning protocol: "2017" (the paper's), "2018" (what most papers report) or "2021".
        metrics: The parts to score, of "captioning", "soda", "paragraph", "proposals", "segments" and "support".
        paragraphs: Files of reference paragraphs, `{video: text}`; by default the references' sentences, joined.
        soda_metric: The text score inside SODA, "METEOR" or "CIDEr".
        min_seconds: Score only events of at least this length.
        max_seconds: Score only events of at most this length.
        cache: Keep METEOR's results on disk between runs.
        confidence: The field of a predicted event that ranks its sentence in the part "support".
        **unknown: Any other name is an error, but for the settings of 0.1.

    Returns:
        The scores of each part, with what they cover. By default captioning, SODA and paragraphs are scored, proposals
        if every event has a `proposal_score`, and segments if every prediction has the times of a reference event.

    Raises:
        InputError: A file cannot be read or lacks what a protocol needs, or a setting is unknown.

    Example:
        >>> from densevid import evaluate
        >>> references = {"v_1": {"timestamps": [[0, 10], [10, 25]], "sentences": ["A man runs.", "He jumps far."]}}
        >>> event = {"timestamp": [0, 10], "sentence": "A man is running."}
        >>> result = evaluate({"version": "", "external_data": {}, "results": {"v_1": [event]}}, references)
        >>> result
        Evaluation(METEOR 40.28, SODA_c 20.83, paragraph METEOR 22.41, segments METEOR 22.41; protocol 2018, 1 videos)
    """
    _refuse_unknown(unknown)
    parts = None if metrics is None else tuple(metrics)
    settings = Settings(protocol, parts, tuple(paragraphs), soda_metric, min_seconds, max_seconds, cache, confidence)
    return evaluate_files(read_predictions(predictions), _read_all(references), settings)


def _refuse_unknown(settings: Mapping[str, Any]) -> None:
    """Raise on settings that are not those of 0.1, which have no effect any more."""
    if others := current_evaluation_settings(settings):
        known = ", ".join(field.name for field in fields(Settings))
        raise InputError(f"unknown setting {', '.join(sorted(others))}; there are {known}")


def _read_all(references: Source | Sequence[Source]) -> list[EventFile]:
    """One annotator's references, or those of several."""
    files = [references] if isinstance(references, Path | str | Mapping) else list(references)
    return [read_references(file) for file in files]


def evaluate_files(
    predictions: EventFile, references: Sequence[EventFile], settings: Settings, meteor: MeteorScorer | None = None
) -> Evaluation:
    """Score files that are already read; several evaluations may share one METEOR."""
    if not references:
        raise InputError("at least one reference file is needed")
    kept, kept_references = restrict(predictions, references, settings.lengths)
    parts, skipped = parts_of(kept, kept_references, settings)
    paragraphs = [paragraph.read_paragraphs(file) for file in settings.paragraphs] if "paragraph" in parts else []
    with nullcontext(meteor) if meteor else MeteorScorer(cache=settings.cache) as scorer:
        results = _run(parts, kept, kept_references, paragraphs, settings, scorer)
    read, scored = (predictions, references), (kept, kept_references)
    coverage = report_coverage(read, scored, settings.protocol, parts)
    coverage = with_subset(coverage, read, scored, settings.lengths)
    if "paragraph" in parts:
        coverage = with_paragraphs(coverage, scored, paragraphs)
    if "segments" in parts:
        coverage = with_segments(coverage, results["segments"])
    if "support" in parts:
        coverage = with_support(coverage, results["support"])
    coverage = replace(coverage, skipped=[*skipped, *coverage.skipped])
    return Evaluation(settings, parts, coverage, **results)


def parts_of(
    predictions: EventFile, references: Sequence[EventFile], settings: Settings
) -> tuple[tuple[str, ...], list[str]]:
    """The parts to compute, and why a default part is left out.

    By default captioning, soda and paragraph; proposals if every event has a `proposal_score`; segments if every
    prediction has the times of a reference event. Support must be named: it needs many annotators.
    """
    if settings.metrics is not None:
        return tuple(part for part in PARTS if part in settings.metrics), []
    skipped = []
    without_score = sum("proposal_score" not in event for event in predictions.raw)
    if without_score:
        skipped.append(f'proposals: {without_score} of {len(predictions)} events have no "proposal_score"')
    left_out = {"support", "proposals"} if without_score else {"support"}
    if not segments.predictions_on_segments(predictions, references):
        left_out.add("segments")
    return tuple(part for part in PARTS if part not in left_out), skipped


def _run(
    parts: Sequence[str],
    predictions: EventFile,
    references: Sequence[EventFile],
    paragraph_files: Sequence[paragraph.ParagraphFile],
    settings: Settings,
    meteor: MeteorScorer,
) -> dict[str, Any]:
    """METEOR runs in the background, so the parts with the most pairs start first and finish last."""
    index = CaptionIndex(meteor)
    results: dict[str, Any] = {}
    if "paragraph" in parts:
        texts = [file.by_video for file in paragraph_files] or [paragraph.paragraphs_of(file) for file in references]
        paragraph_task = paragraph.begin_paragraphs(paragraph.paragraphs_of(predictions), texts, meteor)
    if "soda" in parts:
        soda_task = soda.begin_soda(predictions, references, index, settings.soda_metric)
    if "paragraph" in parts:
        results["paragraph"] = paragraph_task.finish()
    if "captioning" in parts:
        results["captioning"] = captioning.score_captioning(predictions, references, index, settings.protocol)
    if "proposals" in parts:
        sides = (proposals.score_proposals(predictions, files) for files in (references[:1], references))
        results["proposals"] = proposals.ProposalResults(*sides)
    if "segments" in parts:
        results["segments"] = segments.score_segments(predictions, references, index)
    if "support" in parts:
        results["support"] = support.score_support(predictions, references, settings.confidence)
    if "soda" in parts:
        results["soda"] = soda_task.finish(index)
    return results
