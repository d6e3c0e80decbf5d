"""One job: a video on its way to a timeline, its state for its owner, and its record, which outlives the server."""

from __future__ import annotations

import secrets
import shutil
import time
import unicodedata
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from densevid.app.settings import Choices
from densevid.errors import InputError
from densevid.io import provenance, read_json, write_json

RECORD = "job.json"
VIDEO = "video"  # an uploaded file is always called this: the client's name for it is only shown
STAGES = ("check", "decode", "features", "events", "sentences")
FORMATS = ("html", "json", "vtt")
LONGEST_NAME = 160


class State(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Job:
    """What is known about one job."""

    folder: Path
    name: str
    size: int
    state: State = State.QUEUED
    progress: dict[str, float] = field(default_factory=dict)
    error: str = ""
    attempts: int = 0
    created: float = field(default_factory=time.time)
    finished: float | None = None
    video: dict[str, Any] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)

    @property
    def id(self) -> str:
        """The folder's name, which is random."""
        return self.folder.name

    @property
    def upload(self) -> Path:
        """Where its video lies; once it is known what it is, its name ends accordingly, which players go by."""
        known = self.folder / f"{VIDEO}{self.video.get('ending', '')}"
        return known if known.exists() else self.folder / VIDEO

    @property
    def stage(self) -> str:
        """The first stage that has begun and is not over; stages overlap, since pictures flow through them.

        Where all that have begun are over it is the next: that is what is waited for.
        """
        begun = [place for place, stage in enumerate(STAGES) if stage in self.progress]
        if not begun:
            return ""
        following = min(begun[-1] + 1, len(STAGES) - 1)
        return STAGES[next((place for place in begun if self.progress[STAGES[place]] < 1), following)]

    @property
    def cache(self) -> Path:
        """Where work that was interrupted is taken up again."""
        return self.folder / "cache"

    @property
    def over(self) -> bool:
        """Whether the job has ended, well or not."""
        return self.state in (State.DONE, State.FAILED)

    def result(self, format: str) -> Path:
        """Where its timeline lies, in one of `FORMATS`."""
        return self.folder / f"{VIDEO}.densevid.{format}"

    def media(self, name: str) -> tuple[Path, str] | None:
        """The video, or the copy of it that was made for browsers, by the name that a page has for it; and its type."""
        if self.video and name == self.upload.name:
            return self.upload, self.video["media_type"]
        copy = self.result("mp4")
        return (copy, "video/mp4") if self.state is State.DONE and name == copy.name and copy.is_file() else None

    def learn(self, video: dict[str, Any]) -> None:
        """Record what the upload is, and give its file the ending of its format.

        In this order: `upload` finds a file that has no ending yet, but not one whose ending no record names, as a
        server that is killed in between would leave it.
        """
        lies = self.upload
        self.video = video
        self.save()
        lies.rename(self.folder / f"{VIDEO}{video['ending']}")

    def begin(self) -> None:
        """Begin work on the job, from its first stage."""
        self.state, self.progress, self.error = State.RUNNING, {STAGES[0]: 0.0}, ""
        self.attempts += 1

    def end(self, state: State, error: str = "") -> None:
        """End work on the job."""
        self.state, self.error, self.finished = state, error, time.time()
        shutil.rmtree(self.cache, ignore_errors=True)

    def advance(self, stage: str, done: float) -> None:
        """Work on it has got this far; it never goes back."""
        self.progress[stage] = max(self.progress.get(stage, 0.0), min(1.0, done))

    def save(self) -> None:
        """Keep what is known in its folder."""
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("folder", "choices")}
        content |= {"choices": asdict(self.choices)}
        write_json(self.folder / RECORD, {"job": content, "provenance": provenance()})

    @staticmethod
    def load(folder: Path) -> Job:
        """Read what `save` kept."""
        try:
            content = read_json(folder / RECORD)["job"]
            choices = Choices(**content.get("choices", {}))
            return Job(folder=folder, **{**content, "state": State(content["state"]), "choices": choices})
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{folder / RECORD}: not the record of a job") from error

    def public(self) -> dict[str, Any]:
        """The state of the job for its owner: without paths, with links to the files there are."""
        shown = {key: value for key, value in asdict(self).items() if key not in ("folder", "attempts", "choices")}
        shown |= asdict(self.choices)
        shown |= {"stage": self.stage, "done": self.progress.get(self.stage, 0.0)}
        links = {"self": f"/jobs/{self.id}"}
        if self.video:
            links["video"] = f"/jobs/{self.id}/{self.upload.name}"
        if self.state is State.DONE:
            links |= {format: f"/jobs/{self.id}/result.{format}" for format in FORMATS}
        return {"id": self.id, **shown, "links": links}


def new_id() -> str:
    """A name that cannot be guessed: whoever knows it may see the job."""
    return secrets.token_hex(16)


def is_id(text: str) -> bool:
    """Whether a text could be one of `new_id`'s, and so is safe as the name of a folder."""
    return len(text) == 32 and set(text) <= set("0123456789abcdef")


def shown_name(name: str) -> str:
    """A client's file name fit to be shown: its last part, without marks that are invisible or turn text around."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    seen = "".join(mark for mark in last if unicodedata.category(mark)[0] != "C")
    return " ".join(seen.split())[:LONGEST_NAME] or "video"
