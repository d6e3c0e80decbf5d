"""Qualitative pages: ten videos of the test set, reference above prediction; the best, around the median, the worst.

They are chosen by SODA_c of the summary, not by hand. An index links to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from densevid.data.annotations import read_annotations
from densevid.evaluation.evaluate import evaluate
from densevid.events import Event, read_events
from densevid.export.document import ShownEvent, TimelineDocument, references
from densevid.export.index_page import IndexRow, index_page
from densevid.export.timeline_page import timeline_page
from densevid.io import read_json, write_text
from research.paper_tables.definitions import Dataset

PLACES = (("best", 3), ("median", 4), ("worst", 3))
ABOUT = (
    "{count} validation videos of {data}, by SODA_c of a summary of {events} events: the three best, four around the"
    " median and the three worst. Of {people} the first one's events and sentences are shown; SODA_c is of {joined}."
)
JOINED = {"multi": "the annotator who agrees best", "per_reference": "the mean over annotators"}


def write_pages(predictions: Path, reference_files: Sequence[Path], dataset: Dataset, folder: Path, model: str) -> Path:
    """Write a page for each chosen video and an index, the best first.

    Args:
        predictions: An event file of summaries.
        reference_files: One for each annotator.
        dataset: What they are of.
        folder: Where to write.
        model: The title of the model.

    Returns:
        The path of the index.
    """
    predicted, truth = read_events(predictions), read_annotations(reference_files[:1])
    scores = scores_by_video(predictions, reference_files, dataset.soda)
    chosen = spread_out({video: score for video, score in scores.items() if truth.events.get(video)})
    rows = []
    for number, (place, video, score) in enumerate(chosen, start=1):
        events = truth.events[video]
        seconds = truth.durations.get(video) or max(event.end for event in events)
        title = f"{place}: {video}, SODA_c {100 * score:.1f}"
        page = Path(f"{number:02d}-{place}.html")
        document = _document(title, seconds, events, predicted[video], model)
        watchable = dataset.family == "paper"  # composed timelines are features, no video
        write_text(folder / page, timeline_page(replace(document, watchable=watchable)))
        rows.append(IndexRow(title, page, seconds, tuple(predicted[video]), references=tuple(events)))
    people = "one annotator" if len(reference_files) == 1 else f"{len(reference_files)} annotators"
    about = ABOUT.format(
        count=len(rows), data=dataset.title, events=dataset.summary_events, people=people, joined=JOINED[dataset.soda]
    )
    write_text(folder / "index.html", index_page("Reference and prediction", rows, model=model, about=about))
    return folder / "index.html"


def scores_by_video(predictions: Path, reference_files: Sequence[Path], soda: str) -> dict[str, float]:
    """SODA_c of every video with predictions."""
    header, table = evaluate(predictions, list(reference_files), metrics=("soda",)).per_video()
    column = header.index(f"soda_c_{soda}_f1")
    captioned = {video for video, events in read_json(predictions)["results"].items() if events}
    return {str(row[0]): float(row[column]) for row in table if row[0] in captioned and row[column] != ""}


def spread_out(scores: dict[str, float]) -> list[tuple[str, str, float]]:
    """(place, video, score) of the best, of those around the middle, and of the worst; none twice."""
    order = sorted(scores, key=lambda video: (-scores[video], video))
    middle = max(0, len(order) // 2 - 2)
    starts = {"best": 0, "median": middle, "worst": max(0, len(order) - 3)}
    chosen: dict[str, str] = {}
    for place, count in PLACES:
        for video in order[starts[place] : starts[place] + count]:
            chosen.setdefault(video, place)
    return [(chosen[video], video, scores[video]) for video in order if video in chosen]


def _document(
    title: str, seconds: float, truth: Sequence[Event], events: Sequence[Event], model: str
) -> TimelineDocument:
    shown = tuple(ShownEvent(event, confidence=float(np.clip(event.score, 0, 1))) for event in events)
    return TimelineDocument(title, seconds, (*references(truth), *shown), model=model)
