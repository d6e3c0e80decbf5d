"""How our kernel reads the memories of events, by their number.

`densevid bench inference --readings` prints what each of `candidates` takes on a GPU; the fastest belong in `_BEST`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """Slots of a tile, warps of a program, stages of its pipeline, programs an event."""

    block: int = 32
    warps: int = 4
    stages: int = 2
    splits: int = 1


# Measured on an H200 for 10, 186, 640 and 2,976 events, width 1024: 0.9, 2.3, 2.9 and 3.5 TB/s of its 4.8. Few events
# are spread over its 132 processors. With the tile as the right operand it was 2.8 at the most.
_BEST: tuple[tuple[int, Reading], ...] = (
    (32, Reading(stages=3, splits=8)),
    (300, Reading(splits=4)),
)


def reading_for(events: int) -> Reading:
    """The best that is known."""
    return next((reading for most, reading in _BEST if events <= most), Reading())


def candidates(events: int) -> Iterator[Reading]:
    """What is worth trying for so many events beside that: more warps, or more tiles under way.

    What limits it may be shared memory: counted in the machine code, 8 warps move 530 KB there for a tile of 64 KB, and
    4 warps 340 KB.
    """
    splits = reading_for(events).splits
    for warps, stages in ((4, 2), (4, 3), (8, 2)):
        yield Reading(32, warps, stages, splits)
