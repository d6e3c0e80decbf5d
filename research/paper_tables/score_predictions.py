"""Scores of event files, part by part, each computed once: a score file lies beside every file of predictions.

It has the hashes of predictions and references: where either has changed, all parts are computed again.

A part is `2017` or `2018` (captioning by that protocol), `soda`, `proposals`, `list` or `segments`, and of captioning
also `long.2017` and the like, for events of certain lengths. A score is `part.name` of one of them, or has a name of
its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.events import read_events
from densevid.io import provenance, write_json
from research.baselines.spans import ScoredSpans, Spans, top_n_f1
from research.paper_tables.fact_files import known_facts, made_of, read_facts

LENGTHS: dict[str, dict[str, float]] = {"long": {"min_seconds": 50.0}, "short": {"max_seconds": 15.0}}
SHORT_NAMES = {"SODA_c": "soda", "F1": "list"}
HIGH_TIOU = "0.8"
Scores = dict[str, Any]


@dataclass(frozen=True)
class Scorer:
    """Scores event files against the references of a data set; `soda` is how annotators are joined.

    Captions of given segments are of the first annotator's segments; where the others have segments of their own
    (`own_segments`), the first annotator alone is the reference.
    """

    references: tuple[Path, ...]
    soda: str
    own_segments: bool = False

    def score(self, predictions: Path, parts: Iterable[str]) -> Scores:
        """All parts of a file; missing ones are computed and written."""
        path, known = score_file(predictions), self._known(predictions)
        for part in sorted(set(parts) - known.keys()):
            known[part] = self._part(predictions, part)
            about = provenance(inputs=[predictions, *self.references], parts=sorted(known))
            write_json(path, {"parts": known, "provenance": about})
        return known

    def _known(self, predictions: Path) -> Scores:
        """The parts that were computed from these very predictions and references."""
        noted = known_facts(score_file(predictions), parts=dict)
        if noted is None or not made_of(noted, (predictions, *self.references)):
            return {}
        return {part: scores for part, scores in noted["parts"].items() if isinstance(scores, dict) and scores}

    def _part(self, predictions: Path, part: str) -> dict[str, Any]:
        if part == "list":
            return {"F1": self._list_f1(predictions)}
        from densevid.evaluation.evaluate import evaluate

        lengths, _, protocol = part.rpartition(".")
        captioning = protocol.isdigit()
        settings: dict[str, Any] = {"metrics": ("captioning",) if captioning else (part,), **LENGTHS.get(lengths, {})}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = evaluate(
                predictions, self._annotators(predictions), protocol=protocol if captioning else "2018", **settings
            )
        content = result.to_dict()
        if captioning:
            return {**content["captioning"]["average"], "events": content["coverage"]["events_per_video"]["mean"]}
        if part == "soda":
            return {"SODA_c": content["soda"]["c"][self.soda]["f1"]}
        if part == "segments":
            return dict(content["segments"]["micro"])
        return _proposals(content["proposals"]["pooled"])

    def _list_f1(self, predictions: Path) -> float:
        """F1 of all spans of a file against the first annotator's, over the tIoUs from .5 to .95."""
        predicted, truth = read_events(predictions), read_facts(self.references[0])
        spans = [_spans([(event.start, event.end) for event in predicted.get(video, [])]) for video in truth]
        listed = [ScoredSpans(each_N2, np.zeros(len(each_N2))) for each_N2 in spans]
        most = max(map(len, spans), default=0)
        return top_n_f1(listed, [_spans(events["timestamps"]) for events in truth.values()], most) if most else 0.0

    def _annotators(self, predictions: Path) -> tuple[Path, ...]:
        return self.references[:1] if self.own_segments and "segments" in predictions.stem else self.references


def score_file(predictions: Path) -> Path:
    """The score file of a file of predictions."""
    return predictions.with_suffix(".scores.json")


def part_of(score: str) -> str:
    """The part that a score belongs to."""
    if score in SHORT_NAMES:
        return SHORT_NAMES[score]
    return "proposals" if score.startswith(("AR@", "R.8@")) else score.rpartition(".")[0]


def value_of(scores: Scores, score: str) -> float | None:
    """A score of a file; None where it is undefined or not computed."""
    name = score if part_of(score) in ("soda", "proposals", "list") else score.rpartition(".")[2]
    value = scores.get(part_of(score), {}).get(name)
    return None if value is None else float(value)


def events_per_video(predictions: Path) -> float:
    """The mean number of events in a video of a file."""
    counts = [len(events) for events in read_events(predictions).values()]
    return sum(counts) / max(len(counts), 1)


def _spans(timestamps: npt.ArrayLike) -> Spans:
    return np.asarray(timestamps, dtype=np.float64).reshape(-1, 2)


def _proposals(found: dict[str, Any]) -> dict[str, Any]:
    """Average recall, recall at the paper's high tIoU, and its curve."""
    curve: Sequence[float] = found["curve"]["recall"][HIGH_TIOU]
    recalls = {name: value for name, value in found.items() if name.startswith("AR@")}
    return {**recalls, "R.8@100": curve[-1], "numbers": found["curve"]["proposals"], "curve": list(curve)}
