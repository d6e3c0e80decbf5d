"""Compare the captions in two folders or files: the same sentences, times within 1 ms, scores within 1e-5.

    python -m scripts.compare_captions BEFORE AFTER

Each is an event file (`NAME.densevid.json`, or what `densevid predict` writes) or a folder of them. Prints the largest
differences and every video that differs. Exit code 0 if all are equal, else 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from densevid.errors import InputError, run_main
from densevid.events import Event, read_events

SECONDS, SCORE = 1e-3, 1e-5


@dataclass
class Worst:
    """The largest differences so far, and the videos that differ."""

    seconds: float = 0.0
    score: float = 0.0
    events: int = 0
    lines: tuple[str, ...] = ()

    def add(self, video: str, before: Sequence[Event], after: Sequence[Event]) -> None:
        """Compare the events of one video."""
        if [event.sentence for event in before] != [event.sentence for event in after]:
            self.lines += (f"{video}: {len(before)} events before, {len(after)} after, or other sentences",)
            return
        pairs = list(zip(before, after, strict=True))
        seconds = max((max(abs(b.start - a.start), abs(b.end - a.end)) for b, a in pairs), default=0.0)
        score = max((abs(b.score - a.score) for b, a in pairs), default=0.0)
        self.events += len(pairs)
        self.seconds, self.score = max(self.seconds, seconds), max(self.score, score)
        if seconds > SECONDS or score > SCORE:
            self.lines += (f"{video}: times differ by up to {seconds:.3g} s, scores by up to {score:.3g}",)


def captions(path: Path) -> dict[str, list[Event]]:
    """The events of a file, or of all files of a folder but the index over them."""
    if not path.is_dir():
        return read_events(path)
    files = sorted(file for file in path.glob("*.json") if file.name != "index.densevid.json")
    if not files:
        raise InputError(f"{path}: holds no event file")
    return {video: events for file in files for video, events in read_events(file).items()}


def compare(before: Mapping[str, Sequence[Event]], after: Mapping[str, Sequence[Event]]) -> Worst:
    """The differences between two sets of captions, by video."""
    worst = Worst()
    for video in sorted(before.keys() ^ after.keys()):
        worst.lines += (f"{video}: only {'before' if video in before else 'after'}",)
    for video in sorted(before.keys() & after.keys()):
        worst.add(video, before[video], after[video])
    return worst


def main() -> int:
    """Compare two folders or files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    args = parser.parse_args()
    before, after = captions(args.before), captions(args.after)
    worst = compare(before, after)
    print(f"{len(before)} videos, {worst.events} events of equal sentences")
    print(f"largest differences: {worst.seconds:.3g} s, score {worst.score:.3g}")
    for line in worst.lines:
        print(line)
    return 1 if worst.lines else 0


if __name__ == "__main__":
    run_main(main)
