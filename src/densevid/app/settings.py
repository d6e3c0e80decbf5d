"""Settings of the web app, fixed when it starts: its folder, the command of a job, and its limits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MEGABYTE = 1 << 20
NOT_PLAYED = ".video"  # how the name of a file ends that browsers do not play


@dataclass(frozen=True)
class Limits:
    """How much of anything one visitor may use."""

    upload_bytes: int = 2048 * MEGABYTE
    pixels: int = 4096 * 2304  # of one picture: 4K in either of its shapes
    seconds: float = 2 * 3600.0  # of video
    job_seconds: float = 1800.0  # of work on one video; a decoder that hangs is stopped then
    waiting: int = 32  # videos in the queue or on their way into it
    workers: int = 1  # videos captioned at a time
    keep_seconds: float = 24 * 3600.0  # how long a finished job is kept
    silence_seconds: float = 60.0  # of an upload that has stopped sending
    upload_seconds: float = 2 * 3600.0  # of an upload in all, however it trickles
    disk_reserve: int = 1024 * MEGABYTE  # never filled by uploads


@dataclass(frozen=True)
class Choices:
    """What is wanted of one video, as flags of `densevid caption`.

    Attributes:
        all_words: Full guesses, however unsure the sentences are.
        fast: Features without actions.
    """

    all_words: bool = False
    fast: bool = False

    @property
    def flags(self) -> list[str]:
        """On the command line."""
        return [*(["--all-words"] if self.all_words else []), *(["--fast"] if self.fast else [])]


CommandFor = Callable[[Path, Path, str], list[str]]  # of a video, the folder for its results, and its title


def caption_command(model: str | None = None) -> CommandFor:
    """How a video is captioned: the command line of `densevid caption`, which writes its files into a folder.

    A video that browsers do not play is also written as one that they do; the page then shows that one.
    """
    chosen = [] if model is None else ["--model", model]

    def command(video: Path, out: Path, title: str) -> list[str]:
        formats = ["html,json,vtt,mp4", "--web"] if video.suffix == NOT_PLAYED else ["html,json,vtt"]
        words = ["caption", str(video), f"--title={title}", "--out", str(out), "--format", *formats]
        return [sys.executable, "-m", "densevid", *words, "--progress", "jsonl", *chosen]

    return command


@dataclass(frozen=True)
class Settings:
    """All settings; `choices` are those of a video whose sender does not choose."""

    folder: Path
    limits: Limits = field(default_factory=Limits)
    command: CommandFor = field(default_factory=caption_command)
    choices: Choices = field(default_factory=Choices)
