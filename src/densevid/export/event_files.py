"""Events as data: ActivityNet's submission form with our details beside it, and a table for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from densevid.events import Event

# Of what a submission must tell: the page saves the same.
EXTERNAL_DATA = {"used": True, "details": "the image network of the features was trained on ImageNet"}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would calculate


def submission(
    events: Mapping[str, Sequence[Event]],
    *,
    details: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """ActivityNet's form; `details` has one entry per video (file, duration, how its events were chosen, ...)."""
    return {
        "version": "VERSION 1.0",
        "results": {video: [event.as_row() for event in rows] for video, rows in events.items()},
        "external_data": dict(EXTERNAL_DATA),
        "details": dict(details),
        "provenance": dict(provenance),
    }


def table(events: Sequence[Event], *, judged: bool = True) -> str:
    """A CSV file: start and end in seconds, confidence (empty where nothing was judged), sentence."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\r\n")
    rows.writerow(["start", "end", "confidence", "sentence"])
    for event in events:
        confidence = f"{event.score:.4f}" if judged else ""
        rows.writerow([f"{event.start:.3f}", f"{event.end:.3f}", confidence, _cell(event.sentence)])
    return text.getvalue()


def _cell(sentence: str) -> str:
    return f"'{sentence}" if sentence.startswith(FORMULA_STARTS) else sentence
