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
from densevid import Event
from densevid.errors import run_main
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the scores of a file beside those of the baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=Path, help="an event file, as `densevid predict` writes it")
    parser.add_argument("--references", type=Path, nargs="+", required=True, help="annotation files, one per annotator")
    parsed = parser.parse_args(arguments)

    events = read_events(parsed.events)
    columns = [
        densevid.evaluate(
            submission(predictions), parsed.references, metrics=["captioning", "soda", "proposals"]
        ).headlines()
        for predictions in (events, with_sentences_of_others(events))
    ]
    print(f"{'in percent':12}{'events':>10}{'exchanged':>12}")
    for name in columns[0]:
        print(f"{name:12}{100 * (columns[0][name] or 0):10.2f}{100 * (columns[1][name] or 0):12.2f}")
    return 0


if __name__ == "__main__":
    run_main(main)
