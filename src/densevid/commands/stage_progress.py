"""The stages of captioning as a person sees them, a bar, and as a program reads them, one JSON object a line."""

from __future__ import annotations

import json
import sys

from densevid.progress import Stage, WithBar, open_bar

PARTS: dict[Stage, float] = {"decode": 0.45, "features": 0.45, "events": 0.03, "sentences": 0.07}  # of a video's time
DOING: dict[Stage, str] = {"decode": "decoding", "features": "features", "events": "events", "sentences": "sentences"}
SMALLEST_STEP = 0.01


class NoStages(WithBar):
    """Silence: results alone are told."""

    def __init__(self, videos: int) -> None:
        self.videos = videos
        self._bar = None

    def __call__(self, stage: Stage, done: float) -> None:
        """The watch: `files` begins the next video."""

    def line(self, text: str) -> None:
        """A line of the result."""
        print(text, flush=True)


class StageBar(NoStages):
    """A bar on stderr for the video at hand, and how many there are; nothing where nobody watches."""

    def __init__(self, videos: int) -> None:
        super().__init__(videos)
        self._number = 0
        self._done: dict[Stage, float] = {}
        self._bar = open_bar("{task.percentage:>3.0f}%", "{task.description}", transient=True)
        self._task = self._bar.add_task("starting", total=1.0) if self._bar else None

    def __call__(self, stage: Stage, done: float) -> None:
        """Draw it; the next video begins with an empty bar."""
        if stage == "files":
            self._number, self._done = min(round(done * self.videos) + 1, self.videos), {}
        else:
            self._done[stage] = done
        if self._bar and not (stage == "files" and done >= 1):
            share = sum(part * self._done.get(name, 0.0) for name, part in PARTS.items())
            now = next((text for name, text in DOING.items() if self._done.get(name, 0.0) < 1), "writing")
            of = f", video {self._number} of {self.videos}" if self.videos > 1 else ""
            self._bar.update(self._task, completed=share, description=f"{now}{of}")

    def line(self, text: str) -> None:
        """A line of the result: above the bar where a person watches, on stdout elsewhere."""
        if self._bar and sys.stdout.isatty():
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            super().line(text)


class StageLines(NoStages):
    """`{"stage": ..., "done": ...}` on stderr, a line whenever a hundredth more is done."""

    def __init__(self, videos: int) -> None:
        super().__init__(videos)
        self._told: dict[Stage, float] = {}

    def __call__(self, stage: Stage, done: float) -> None:
        """Tell it, unless that was told already."""
        if stage == "files":
            self._told = {"files": self._told.get("files", -1.0)}
        told = self._told.get(stage, -1.0)
        if done - told >= SMALLEST_STEP or (done >= 1 and told < 1):
            self._told[stage] = done
            print(json.dumps({"stage": stage, "done": round(done, 3)}), file=sys.stderr, flush=True)
