"""Which videos share a batch: as many as a device likes, by the events that are spoken of in each.

On a GPU few videos with many events each keep it busy, and the fewer they are the sooner it begins; of videos with few
events it takes more to make the reading of weights and the launching of kernels worth it. How many events a video has,
the batch before tells: the first is as small as any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from densevid.inference.captioned_video import ReadTrack

EVENTS_TOGETHER = 3000  # of a batch, about
VIDEOS_ON_GPU = (16, 64)  # of full length, at least and at most
VIDEOS_ON_CPU = (4, 4)


class Batches:
    """Batches of one run over videos; `steps` fixes how many steps of video each has at most."""

    def __init__(self, window: int, *, on_gpu: bool, steps: int | None = None) -> None:
        self.window, self.fixed = window, steps is not None
        self.fewest, self.most = VIDEOS_ON_GPU if on_gpu else VIDEOS_ON_CPU
        self.steps = self.fewest * window if steps is None else steps

    def __call__(self, reads: Iterable[ReadTrack]) -> Iterator[list[ReadTrack]]:
        """As many videos as have `steps` steps together, padded to the longest, at least one."""
        batch: list[ReadTrack] = []
        longest = 0
        try:
            for read in reads:
                longest = max(longest, len(read.values_TF))
                if batch and longest * (len(batch) + 1) > self.steps:
                    yield batch
                    batch, longest = [], len(read.values_TF)
                batch.append(read)
        except Exception:  # what is wrong with a video is no reason to lose those before it
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def learn(self, videos: int, events: int) -> None:
        """So many events were spoken of in so many videos: the next batch has as many videos as suits that."""
        if not self.fixed:
            suits = EVENTS_TOGETHER * videos // max(1, events)
            self.steps = min(max(suits, self.fewest), self.most) * self.window
