"""Score an event file by the official protocols of dense video captioning.

  densevid evaluate predictions.json --references val_1.json val_2.json
  densevid evaluate predictions.json --references val_1.json val_2.json --protocol 2021 --json scores.json
  densevid evaluate predictions.json --references val.json --metrics captioning,soda --format markdown
  densevid evaluate ours.json --references val_1.json val_2.json --compare theirs.json --per-video ours.csv
  densevid evaluate predictions.json --references val_1.json --metrics proposals --plot recall.png
  densevid evaluate predictions.json --references val_1.json val_2.json --min-seconds 50
  densevid evaluate captions.json --references clips.json:val --metrics support

Without --metrics: captioning, soda and paragraph; proposals if every event has a "proposal_score"; segments if every
event has the times of a reference event; support only if it is named. Tables show scores x 100; --json writes fractions
at full precision. docs/evaluation.md defines each number.
"""

from __future__ import annotations

import argparse
import csv
import io
import warnings
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from densevid.errors import InputError, report
from densevid.io import provenance, require_writable, write_json, write_text
from densevid.legacy import current_evaluation_settings

if TYPE_CHECKING:
    from densevid.evaluation.files import EventFile
    from densevid.evaluation.result import Evaluation, Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    add = parser.add_argument
    add("predictions", help="event file in ActivityNet's submission form")
    add("--references", nargs="+", required=True, metavar="FILE", help="one file an annotator, or clips.json:SPLIT")
    add("--protocol", default="2018", help="2017 (the paper's), 2018 (default; what most report) or 2021")
    add("--metrics", metavar="PART,...", help="captioning, soda, paragraph, proposals, segments, support")
    add("--paragraphs", nargs="+", default=[], metavar="FILE", help="reference paragraphs, {video: text}")
    add("--soda-metric", default="METEOR", metavar="NAME", help="text score inside SODA: METEOR (default) or CIDEr")
    add("--confidence", default="sentence_score", metavar="FIELD", help="of support: an event's field that ranks it")
    add("--min-seconds", type=float, metavar="S", help="only events of at least S seconds")
    add("--max-seconds", type=float, metavar="S", help="only events of at most S seconds")
    add("--compare", metavar="FILE", help="another event file: 95%% bootstrap intervals and a paired test")
    add("--json", metavar="OUT", help="write all numbers")
    add("--per-video", metavar="OUT", help="write one row a video as CSV")
    add("--plot", metavar="OUT", help="write the recall curves of proposals as a picture")
    add("--format", default="table", help="table (default), markdown, latex or csv")
    add("--no-cache", action="store_true", help="compute METEOR anew, and keep nothing")
    add("--meteor", choices=("native", "java"), help=argparse.SUPPRESS)  # of 0.1


def run(args: argparse.Namespace) -> int:
    """Evaluate, print, write."""
    from densevid.evaluation.report import FORMATS

    if args.format not in FORMATS:
        raise InputError(f"unknown format {args.format!r}; choose from {', '.join(FORMATS)}")
    if args.meteor:
        current_evaluation_settings({"--meteor": args.meteor})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        notes = _evaluate_and_write(args)
    for note in (*notes, *(warning.message for warning in caught)):
        report(f"warning: {note}")
    return 0


def _evaluate_and_write(args: argparse.Namespace) -> list[str]:
    """Return warnings."""
    from densevid.evaluation.compare import compare, comparison_table, not_compared
    from densevid.evaluation.evaluate import evaluate_files
    from densevid.evaluation.files import read_predictions, read_references, split_of
    from densevid.evaluation.meteor.scorer import MeteorScorer
    from densevid.evaluation.report import coverage_table, score_tables, show

    settings = _settings(args)
    predictions, references = read_predictions(args.predictions), [read_references(file) for file in args.references]
    other = read_predictions(args.compare) if args.compare else None
    _require_outputs(args, settings, predictions)
    with MeteorScorer(cache=settings.cache) as meteor:
        evaluation = evaluate_files(predictions, references, settings, meteor)
        second = evaluate_files(other, references, settings, meteor) if other is not None else None
    content = evaluation.to_dict()
    tables, covered = list(score_tables(content)), [coverage_table(evaluation.coverage)]
    notes = evaluation.coverage.warnings
    if other is not None and second is not None:
        comparisons, alone = compare(evaluation, second), not_compared(evaluation, second)
        content["comparison"] = {c.name: asdict(c) for c in comparisons}
        content["compared_with"] = {"coverage": asdict(second.coverage), "parts_not_compared": alone}
        tables.append(comparison_table((predictions.name, other.name), comparisons))
        covered.append(coverage_table(second.coverage, f"coverage of {other.name}"))
        notes = list(dict.fromkeys([*notes, *second.coverage.warnings, *(f"not compared: {note}" for note in alone)]))
    inputs = [args.predictions, *(split_of(file)[0] for file in args.references), *args.paragraphs]
    inputs += [args.compare] if args.compare else []
    content["provenance"] = provenance(inputs=inputs, settings=asdict(settings))
    _write(args, evaluation, content)
    show(tables, args.format)
    show(covered, "table", aside=args.format != "table")
    return notes


def _require_outputs(args: argparse.Namespace, settings: Settings, predictions: EventFile) -> None:
    """Check before the work that every output can be written or drawn."""
    from densevid.evaluation.report import picture_kind

    for path in filter(None, (args.json, args.per_video, args.plot)):
        require_writable(path)
    if not args.plot:
        return
    picture_kind(args.plot)
    if settings.metrics is not None and "proposals" not in settings.metrics:
        raise InputError("--plot draws proposals, which are not scored; add proposals to --metrics")
    if any("proposal_score" not in event for event in predictions.raw):
        raise InputError(f'--plot draws proposals, but {predictions.name} has events without "proposal_score"')
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("--plot draws with matplotlib", name="matplotlib")


def _settings(args: argparse.Namespace) -> Settings:
    from densevid.evaluation.result import PARTS, Settings

    metrics = None if args.metrics is None else tuple(part.strip() for part in args.metrics.split(",") if part.strip())
    if metrics == ():
        raise InputError(f"--metrics names no part; choose from {', '.join(PARTS)}")
    return Settings(
        protocol=args.protocol,
        metrics=metrics,
        paragraphs=tuple(args.paragraphs),
        soda_metric=args.soda_metric,
        min_seconds=args.min_seconds,
        max_seconds=args.max_seconds,
        cache=not args.no_cache,
        confidence=args.confidence,
    )


def _write(args: argparse.Namespace, evaluation: Evaluation, content: dict[str, Any]) -> None:
    from densevid.evaluation.report import encodable, plot_proposals

    if args.json:
        write_json(args.json, content)
    if args.per_video:
        text = io.StringIO()
        header, rows = evaluation.per_video()
        csv.writer(text, lineterminator="\n").writerows([header, *rows])
        write_text(args.per_video, encodable(text.getvalue()))
    if args.plot and evaluation.proposals is not None:
        plot_proposals(args.plot, {"first": evaluation.proposals.first, "pooled": evaluation.proposals.pooled})
