"""Extract the features of many videos into a feature store, with several workers and a report.

Each outcome is appended to a log in the store at once, so that an interrupt or a kill loses nothing; the report is made
from the log of all runs.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from densevid.data.store.reader import FeatureStore
from densevid.device import Device, network_device
from densevid.errors import InputError
from densevid.io import provenance, write_json
from densevid.video.backbones import DEFAULT, Backbone, find_backbone
from densevid.video.extract import Extractor, usable_cores
from densevid.video.inputs import find_jobs
from densevid.video.workers import Job, Outcome, extract_all

REPORT = "extract-report.json"
LOG = "extract-log.jsonl"
WORKERS_ON_A_GPU = 4
MOST_WORKERS_PER_CORE = 4


@dataclass
class ExtractionReport:
    """The outcome of an extraction.

    Attributes:
        store: The feature store.
        named: Videos that were named, those refused included.
        extracted: Videos that were extracted in this run.
        already_there: Videos that the store had before.
        seconds: Duration of the extracted videos.
        failed: One line for each video that failed, with the reason.
        read_in_part: One line for each video in the store that could only be read in part.
    """

    store: Path
    named: int
    extracted: int = 0
    already_there: int = 0
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)
    read_in_part: list[str] = field(default_factory=list)


def extract_many(
    inputs: Iterable[str | Path],
    out: Path | str,
    *,
    backbone: str | Backbone = DEFAULT,
    seconds_per_step: float = 0.5,
    device: Device = "auto",
    workers: int | None = None,
    resume: bool = False,
    fast: bool = False,
) -> ExtractionReport:
    """Compute the features of many videos and keep them in a feature store.

        >>> report = densevid.extract_many(["video.mp4"], out="store", backbone="appearance", workers=1)
        >>> report.extracted, report.failed
        (1, [])

    Workers are processes that import the main module, so a script calls this under `if __name__ == "__main__":`.

    Args:
        inputs: Video files, folders of them, and text files that list them.
        out: The folder of the store, which is made.
        backbone: What describes the frames, by a name that `densevid extract --help` lists or as a `Backbone`.
        seconds_per_step: How much time a step of a track covers.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.
        workers: How many videos to read at once; None follows the number of cores.
        resume: Go on with a store that is there already.
        fast: Leave out the stream that takes most of the time (the actions of `scenes-and-actions`).

    Returns:
        How many videos were extracted, which failed and why, and which could only be read in part.

    Raises:
        InputError: No video was found, the store cannot be written, or it was made in another way.
    """
    if isinstance(inputs, str | Path):
        inputs = [inputs]
    extraction = Extraction(inputs, workers, device)
    chosen = find_backbone(backbone) if isinstance(backbone, str) else backbone
    extractor = extraction.extractor(chosen, seconds_per_step, fast=fast)
    if extractor.notice:
        warnings.warn(extractor.notice, stacklevel=2)
    for _ in extraction.into(out, extractor, resume=resume):
        pass
    return extraction.report


class Extraction:
    """One run over some inputs; the steps behind `extract_many`.

    Args:
        inputs: Video files, folders, and text files that list them.
        workers: Videos at a time; None for one per core, or 4 on a GPU.
        device: Where networks run.

    Attributes:
        jobs: The videos that were found.
        missing: Those that the store does not have yet.

    Raises:
        InputError: No video was found.
    """

    def __init__(self, inputs: Iterable[str | Path], workers: int | None = None, device: Device = "auto") -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers must be at least 1, got {workers}")
        self.jobs, self._refused = find_jobs(inputs)
        if not self.jobs:
            raise InputError("; ".join(self._refused) or "no video was named")
        self.device = device
        most = MOST_WORKERS_PER_CORE * usable_cores()
        self.workers = min(workers or _default_workers(device), most, len(self.jobs))
        self.missing: list[Job] = []

    def extractor(
        self, backbone: Backbone, seconds_per_step: float = 0.5, dtype: str = "float16", *, fast: bool = False
    ) -> Extractor:
        """The extractor that each worker uses."""
        threads = max(1, usable_cores() // self.workers)
        return Extractor(backbone, seconds_per_step, device=self.device, threads=threads, dtype=dtype, fast=fast)

    def open_store(self, out: Path | str, extractor: Extractor, *, resume: bool = False) -> FeatureStore:
        """Create the store, or resume it, and determine what is missing: videos, or streams of them."""
        self.store = FeatureStore.create(
            out,
            extractor.backbone.streams,
            dtype=extractor.dtype.name,
            recipe=extractor.recipe,
            provenance=provenance(command="extract"),
            resume=resume,
        )
        self.missing = [job for job in self.jobs if not self._is_there(job.video, extractor)]
        return self.store

    def _is_there(self, video: str, extractor: Extractor) -> bool:
        """Whether the store has all streams of a video that the extractor makes."""
        return video in self.store and set(self.store.absent(video)) <= set(extractor.absent)

    def into(self, out: Path | str, extractor: Extractor, *, resume: bool = False) -> Iterator[Outcome]:
        """Open the store and run."""
        self.open_store(out, extractor, resume=resume)
        return self.run(extractor)

    def run(self, extractor: Extractor) -> Iterator[Outcome]:
        """Extract what is missing, yielding outcomes as they are ready; afterwards `report` is complete."""
        there = len(self.jobs) - len(self.missing)
        self.report = ExtractionReport(self.store.path, len(self.jobs) + len(self._refused), already_there=there)
        self.report.failed += self._refused
        try:
            for outcome in extract_all(self.missing, extractor, self.store.add, self.workers):
                self._note(outcome)
                yield outcome
        finally:
            with suppress(OSError):  # a full disk is reported already, and the log remains
                self._finish()

    def _note(self, outcome: Outcome) -> None:
        if outcome.is_fatal:
            raise self._disk_full(outcome.error or "")
        self.report.extracted += outcome.error is None
        self.report.seconds += outcome.seconds
        if outcome.error:
            self.report.failed.append(outcome.error)
        row = {
            "video": outcome.job.video,
            "path": str(outcome.job.path),
            "error": outcome.error,
            "warning": outcome.warning,
        }
        try:
            with (self.store.path / LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")
        except OSError as error:
            raise self._disk_full(f"cannot save: {error.strerror}") from error

    def _disk_full(self, what: str) -> InputError:
        return InputError(f"{self.store}: {what}; free disk space and run it again with --resume")

    def _finish(self) -> None:
        """Write the report: the last outcome of each video in any run."""
        self.store.refresh()
        known = _last_known(self.store.path / LOG)
        partial = {video: f"{row['path']}: {row['warning']}" for video, row in known.items() if row.get("warning")}
        named = {job.video for job in self.jobs}
        self.report.read_in_part = [line for video, line in partial.items() if video in named]
        content = {
            "extracted": self.report.extracted,
            "already_there": self.report.already_there,
            "seconds": self.report.seconds,
            "failed": self._refused
            + [row["error"] for video, row in known.items() if row.get("error") and video not in self.store],
            "read_in_part": list(partial.values()),
            "provenance": provenance(recipe=self.store.recipe.id if self.store.recipe else None),
        }
        write_json(self.store.path / REPORT, content)


def _last_known(log: Path) -> dict[str, dict[str, Any]]:
    """The last row of each video; incomplete lines are skipped."""
    known: dict[str, dict[str, Any]] = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []:
        try:
            row = json.loads(line)
            known[row["video"]] = row
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _default_workers(device: Device) -> int:
    """One per core; few are enough for a GPU, and each takes some of its memory."""
    return min(usable_cores(), WORKERS_ON_A_GPU) if network_device(device) == "cuda" else usable_cores()
