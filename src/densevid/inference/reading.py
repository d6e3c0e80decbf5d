"""How our kernel reads the memories of events, by their number and width.

`densevid bench inference --readings` prints what each of `candidates` takes on a GPU; the fastest belong in `_BEST`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Reading:
    """Slots of a tile, warps of a program, tiles under way together, programs an event, chunks of its channels."""

    block: int = 32
    warps: int = 8
    stages: int = 2
    splits: int = 1
    chunks: int = 1

    def fits(self, width: int) -> bool:
        """Chunks are for the widths that they divide into what a tensor core takes."""
        whole = width & (width - 1) == 0
        return self.chunks == 1 or (whole and width // self.chunks >= 16)


# Not measured yet. At most so many events: enough programs for every processor of a GPU, and no more than that.
_BEST: tuple[tuple[int, Reading], ...] = (
    (32, Reading(splits=8)),
    (64, Reading(splits=4)),
    (256, Reading(splits=2)),
)


def reading_for(events: int, width: int) -> Reading:
    """The best that is known."""
    found = next((reading for most, reading in _BEST if events <= most), Reading())
    return found if found.fits(width) else Reading(splits=found.splits)


def candidates(events: int, width: int) -> Iterator[Reading]:
    """What is worth trying for so many events."""
    splits = (8, 16) if events <= 32 else (1, 2, 4) if events <= 512 else (1, 2)
    shapes = [(32, 8, 2, 1), (32, 8, 3, 1), (32, 16, 3, 1), (16, 8, 4, 1), (16, 8, 4, 8), (32, 8, 2, 8), (32, 8, 3, 8)]
    for (block, warps, stages, chunks), parts in product(shapes, splits):
        reading = Reading(block, warps, stages, parts, chunks)
        if reading.fits(width):
            yield reading
