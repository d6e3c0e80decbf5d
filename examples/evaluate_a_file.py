"""Score an event file against references, and beside it the same events with their sentences exchanged.

    python examples/evaluate_a_file.py events.json --references val_1.json val_2.json

The second column is a baseline: the times and confidences are those of your file, but each video has the sentences of
another one. What remains of a score there does not come from describing the right video. `densevid evaluate` prints
all scores of a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import densevid
from densevid import Evaluation, Event
from densevid.errors import run_main
from densevid.evaluation.result import as_json
from densevid.events import read_events


def with_sentences_of_others(events: dict[str, list[Event]]) -> dict[str, list[Event]]:
    """Give each video's events the sentences of the next video, repeated or cut to their number."""
    videos = [video for video, found in events.items() if found]
    others = dict(zip(videos, [*videos[1:], *videos[:1]], strict=True))
    return {
        video: [
            replace(event, sentence=events[others[video]][number % len(events[others[video]])].sentence)
            for number, event in enumerate(found)
        ]
        for video, found in events.items()
    }


def submission(events: dict[str, list[Event]]) -> dict[str, Any]:
    """Events in the form of an event file, without writing one."""
    results = {video: [event.as_row() for event in found] for video, found in events.items()}
    return {"version": "VERSION 1.0", "results": results, "external_data": {}}


def main_scores(evaluation: Evaluation) -> dict[str, float]:
    """The scores that papers report, in percent."""
    scores = as_json(evaluation)  # what `densevid evaluate --json` writes
    return {
        "METEOR (ActivityNet 2018)": 100 * scores["captioning"]["average"]["METEOR"],
        "CIDEr": 100 * scores["captioning"]["average"]["CIDEr"],
        "SODA_c": 100 * scores["soda"]["c"]["multi"]["f1"],
        "recall, 10 events a video": 100 * scores["proposals"]["pooled"]["AR@10"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the scores of a file beside those of the baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=Path, help="an event file, as `densevid predict` writes it")
    parser.add_argument("--references", type=Path, nargs="+", required=True, help="annotation files, one per annotator")
    parsed = parser.parse_args(arguments)

    events = read_events(parsed.events)
    parts = ["captioning", "soda", "proposals"]
    columns = [
        main_scores(densevid.evaluate(submission(predictions), parsed.references, metrics=parts))
        for predictions in (events, with_sentences_of_others(events))
    ]
    print(f"{'':28}{'events':>10}{'exchanged':>12}")
    for name, value in columns[0].items():
        print(f"{name:28}{value:10.2f}{columns[1][name]:12.2f}")
    return 0


if __name__ == "__main__":
    run_main(main)
