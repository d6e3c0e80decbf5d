"""Caption every video of a folder from Python and write all events to one file.

    python examples/caption_a_folder.py videos/ --out events.json

`densevid caption FOLDER` does the same with pages and subtitles; start from this file if you need the events in your
own program. A video that cannot be read is named on stderr, and the others are captioned.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import densevid
from densevid.errors import InputError, exit_code, named, run_main
from densevid.events import Event, write_events
from densevid.video.inputs import find_jobs


def counted(number: int, noun: str = "event") -> str:
    """A number with its noun, as `1 event`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def caption_folder(
    folder: Path, *, model: str | None = None, top: int | None = None
) -> tuple[dict[str, list[Event]], list[str]]:
    """Caption the videos of a folder.

    Args:
        folder: A folder, searched recursively, or a single video.
        model: Name or folder of a model; the default model if None.
        top: Events per video at most; None for the events that the model is confident about.

    Returns:
        The events of each video, and one line for each video that failed.
    """
    jobs, failures = find_jobs([folder])
    captioner = densevid.load(model)
    events: dict[str, list[Event]] = {}
    for job in jobs:
        try:
            events[job.video] = list(captioner.caption(job.path, top=top))
        except InputError as error:
            failures.append(named(str(job.path), error))
            continue
        print(f"{job.video}: {counted(len(events[job.video]))}")
        for event in events[job.video]:
            print(f"  {event.start:7.1f} to {event.end:7.1f} s  {event.score:4.0%}  {event.sentence}")
    return events, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Caption a folder and write the events."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of videos, or one video")
    parser.add_argument("--out", type=Path, default=Path("events.json"), help="the event file to write (events.json)")
    parser.add_argument("--model", help="name or folder of a model (the default model)")
    parser.add_argument("--top", type=int, help="events per video at most")
    parsed = parser.parse_args(arguments)

    events, failures = caption_folder(parsed.folder, model=parsed.model, top=parsed.top)
    for line in failures:
        print(line, file=sys.stderr)
    if events:
        write_events(parsed.out, events)
        print(f"{parsed.out}: {counted(sum(map(len, events.values())))} of {counted(len(events), 'video')}")
    return exit_code(len(failures), len(failures) + len(events))


if __name__ == "__main__":
    run_main(main)
