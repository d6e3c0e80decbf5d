"""The stages of captioning: a bar for a person, one JSON object a line for a program."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Self

from densevid.progress import Progress, Stage

PARTS: dict[Stage, float] = {"decode": 0.45, "features": 0.45, "events": 0.03, "sentences": 0.07}  # of a video's time
DOING: dict[Stage, str] = {"decode": "decoding", "features": "features", "events": "events", "sentences": "sentences"}
SMALLEST_STEP = 0.01


class NoStages:
    """No progress, results alone. A context manager and a `ProgressCallback`."""

    def __init__(self, videos: int) -> None:
        self.videos = videos

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def __call__(self, stage: Stage, done: float) -> None:
        """A `ProgressCallback`; `files` begins the next video."""

    def line(self, text: str) -> None:
        """A line of the result."""
        print(text, flush=True)


class StageBar(NoStages):
    """A bar on stderr for the present video, and how many there are; nothing where stderr is no terminal."""

    def __init__(self, videos: int) -> None:
        super().__init__(videos)
        self._number = 0
        self._done: dict[Stage, float] = {}
        self._progress = Progress(1.0, lines=False, time_left=False, transient=True)

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.close()

    def __call__(self, stage: Stage, done: float) -> None:
        """Move the bar; the next video begins with an empty one."""
        if stage == "files":
            self._number, self._done = min(round(done * self.videos) + 1, self.videos), {}
        else:
            self._done[stage] = done
        if not (stage == "files" and done >= 1):
            share = sum(part * self._done.get(name, 0.0) for name, part in PARTS.items())
            now = next((text for name, text in DOING.items() if self._done.get(name, 0.0) < 1), "writing")
            of = f", video {self._number} of {self.videos}" if self.videos > 1 else ""
            self._progress.update(share, f"{share:>4.0%}  {now}{of}")

    def line(self, text: str) -> None:
        """A line of the result: above the bar on a terminal, on stdout elsewhere."""
        if self._progress.has_bar and sys.stdout.isatty():
            self._progress.line(text)
        else:
            super().line(text)


class StageLines(NoStages):
    """`{"stage": ..., "done": ...}` on stderr, a line whenever a hundredth more is done."""

    def __init__(self, videos: int) -> None:
        super().__init__(videos)
        self._reported: dict[Stage, float] = {}

    def __call__(self, stage: Stage, done: float) -> None:
        """Print a line, unless hardly more is done than in the last one."""
        if stage == "files":
            self._reported = {"files": self._reported.get("files", -1.0)}
        reported = self._reported.get(stage, -1.0)
        if done - reported >= SMALLEST_STEP or (done >= 1 and reported < 1):
            self._reported[stage] = done
            print(json.dumps({"stage": stage, "done": round(done, 3)}), file=sys.stderr, flush=True)
