"""One evaluation: read the files, run the parts asked for, and say what they cover.

Captioning, SODA and segments share one pool of tokenised captions, and all parts one METEOR, so that nothing is asked
twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from densevid.errors import InputError
from densevid.evaluation.coverage import (
    Coverage,
    LengthRange,
    report_coverage,
    restrict,
    with_paragraphs,
    with_segments,
    with_subset,
)
from densevid.evaluation.files import EventFiles, EventTable, read_predictions, read_references
from densevid.evaluation.metrics import meteor
from densevid.evaluation.metrics.text_pool import CaptionIndex
from densevid.evaluation.protocols import captioning, localization, paragraph, segments, soda

PARTS = ("captioning", "soda", "paragraph", "proposals", "segments")
Source = Path | str | Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """What to compute. `metrics` None: all that the files allow (see `parts_of`)."""

    protocol: str = "2018"
    metrics: tuple[str, ...] | None = None
    paragraphs: tuple[Source, ...] = ()
    soda_metric: str = "METEOR"
    min_seconds: float | None = None
    max_seconds: float | None = None
    meteor: str | None = None
    cache: bool = True

    def __post_init__(self) -> None:
        for name, value, known in (
            ("protocol", self.protocol, captioning.PROTOCOLS),
            ("soda metric", self.soda_metric, soda.TEXT_METRICS),
            *(("metric", metric, PARTS) for metric in self.metrics or ()),
        ):
            if value not in known:
                raise InputError(f"unknown {name} {value!r}; choose from {', '.join(known)}")
        if self.paragraphs and not self.lengths.everything:
            raise InputError("paragraph files tell of whole videos; leave out --paragraphs, or --min/--max-seconds")

    @property
    def lengths(self) -> LengthRange:
        """The events to keep."""
        return LengthRange(self.min_seconds, self.max_seconds)


@dataclass(frozen=True)
class Proposals:
    """Proposals against the first reference file, and against all pooled."""

    first: localization.Proposals
    pooled: localization.Proposals


@dataclass(frozen=True)
class Evaluation:
    """The parts that were computed, over what `coverage` says. A part that was not asked for is None."""

    settings: Settings
    parts: tuple[str, ...]
    coverage: Coverage
    captioning: captioning.Captioning | None = None
    soda: soda.Soda | None = None
    paragraph: paragraph.Paragraphs | None = None
    proposals: Proposals | None = None
    segments: segments.Segments | None = None


def evaluate(predictions: Source, references: Source | Sequence[Source], **settings: Any) -> Evaluation:
    """Score an event file by the official protocols.

        >>> evaluation = densevid.evaluate("predictions.json", references=["val_1.json"], metrics=["proposals"])
        >>> f"{evaluation.proposals.pooled.average_recall_at(10):.2f}"
        '1.00'

    Args:
        predictions: The path of an event file, or its content.
        references: One or more annotation files, or their contents: one for each annotator.
        **settings: Fields of `densevid.evaluation.evaluate.Settings`, such as `protocol="2017"` or `metrics=["soda"]`.

    Returns:
        The parts that were computed (captioning, soda, paragraph, proposals, segments) and what they cover.

    Raises:
        InputError: A file is not what it should be, or a setting is unknown.
    """
    unknown = set(settings) - {field.name for field in fields(Settings)}
    if unknown:
        raise InputError(f"unknown setting {', '.join(sorted(unknown))}; see densevid.evaluation.evaluate.Settings")
    files = [references] if isinstance(references, Path | str | Mapping) else list(references)
    tidy: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}
    chosen = Settings(**tidy)
    return evaluate_rows(read_predictions(predictions), [read_references(file) for file in files], chosen)


def evaluate_rows(predictions: EventTable, references: Sequence[EventTable], settings: Settings) -> Evaluation:
    """Score files that are already read."""
    if not references:
        raise InputError("at least one reference file is needed")
    read = EventFiles(predictions, references)
    scored = EventFiles(*restrict(predictions, references, settings.lengths))
    parts, skipped = parts_of(scored.predictions, scored.references, settings)
    files = [paragraph.read_paragraphs(file) for file in settings.paragraphs] if "paragraph" in parts else []
    with meteor.opened(settings.meteor, cache=settings.cache) as engine:
        results = _run(parts, scored, files, settings, engine)
    coverage = report_coverage(read, scored, settings.protocol, engine.engine, parts)
    coverage = with_subset(coverage, read, scored, settings.lengths)
    if "paragraph" in parts:
        coverage = with_paragraphs(coverage, scored.predictions, scored.references, files)
    if "segments" in parts:
        coverage = with_segments(coverage, results["segments"])
    coverage = replace(coverage, skipped=[*skipped, *coverage.skipped])
    return Evaluation(settings, parts, coverage, **results)


def parts_of(
    predictions: EventTable, references: Sequence[EventTable], settings: Settings
) -> tuple[tuple[str, ...], list[str]]:
    """The parts to compute, and why a part that is usual was left out.

    By default captioning, soda and paragraph; proposals if every event has a `proposal_score`; segments if every
    prediction has the times of a reference event.
    """
    if settings.metrics is not None:
        return tuple(part for part in PARTS if part in settings.metrics), []
    skipped = []
    without = sum("proposal_score" not in row for row in predictions.raw)
    if without:
        skipped.append(f'proposals: {without} of {len(predictions)} events have no "proposal_score"')
    on_segments = segments.predictions_on_segments(predictions, references)
    usual = {"captioning": True, "soda": True, "paragraph": True, "proposals": not without, "segments": on_segments}
    return tuple(part for part in PARTS if usual[part]), skipped


def _run(
    parts: Sequence[str],
    scored: EventFiles,
    files: Sequence[paragraph.ParagraphFile],
    settings: Settings,
    engine: meteor.Meteor,
) -> dict[str, Any]:
    """METEOR works in the background, so parts that ask it much begin early and finish late."""
    predictions, references = scored.predictions, scored.references
    pool = CaptionIndex(engine)
    results: dict[str, Any] = {}
    if "paragraph" in parts:
        told = [file.by_video for file in files] or [paragraph.paragraphs_of(rows) for rows in references]
        paragraphs = paragraph.begin_paragraphs(paragraph.paragraphs_of(predictions), told, engine)
    if "soda" in parts:
        stories = soda.begin_soda(predictions, references, pool)
        if settings.soda_metric == "METEOR":
            pool.begin_meteor(stories.items)
    if "paragraph" in parts:
        results["paragraph"] = paragraphs.finish()
    if "captioning" in parts:
        results["captioning"] = captioning.score_captioning(predictions, references, pool, settings.protocol)
    if "proposals" in parts:
        first, pooled = (localization.score_proposals(predictions, files) for files in (references[:1], references))
        results["proposals"] = Proposals(first, pooled)
    if "segments" in parts:
        results["segments"] = segments.score_segments(predictions, references, pool)
    if "soda" in parts:
        results["soda"] = stories.finish(pool, settings.soda_metric)
    return results
