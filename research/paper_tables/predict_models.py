"""Predictions of the models that tables need, and of the baselines: event files, each written once, with its time.

Kinds: `learned` (all proposals), `summary` (as many events as a training video has on average), `calibrated` (a summary
by fitted confidence), `segments` (captions of the true segments), `oracle` and `oracle-summary` (proposed spans with
the sentence of the true event they overlap most), and the first two and `segments` on `shuffled` features.

An event file records how long it took; while others trained on the same device it took longer. So the step `time`
predicts the first seed of each again with nothing else on the device, and writes the time beside the file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from densevid.checkpoint import model_files
from densevid.config import InferenceConfig
from densevid.data.annotations import read_annotations
from densevid.data.layouts import open_features
from densevid.device import describe_device
from densevid.errors import InputError, one_line
from densevid.events import Event, read_events, write_events
from densevid.inference.fitting.calibration import fit_calibration
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.predict import OpenedJob, PredictionJob, Predictions, open_job
from densevid.intervals import temporal_iou
from densevid.io import hash_of, provenance, write_json
from research.baselines.event_files import write_baselines
from research.baselines.shuffled_features import ShuffledFeatures
from research.baselines.spans import RULE, top_n
from research.paper_tables.fact_files import NUMBER, known_facts, made_of, read_facts
from research.paper_tables.model_runs import ModelRun, Runs
from research.paper_tables.prepared_data import EventSet, PreparedData


def time_file(predictions: Path) -> Path:
    """The file of the time of predictions alone on the device."""
    return predictions.with_suffix(".time.json")


def predicted_seconds(path: Path) -> float | None:
    """Seconds a video, as measured when the file was written; None where nothing was computed."""
    noted = known_facts(path, provenance=dict)
    return _seconds_a_video(noted["provenance"] if noted else {})


def times_alone(files: Sequence[Path]) -> dict[Path, float]:
    """Seconds a video of predictions that were timed alone on the device, by the file that has the time."""
    found = {time_file(file): _seconds_a_video(known_facts(time_file(file)) or {}) for file in files}
    return {file: seconds for file, seconds in found.items() if seconds is not None}


def prediction_times(files: Sequence[Path]) -> dict[Path, float]:
    """Seconds a video, by the file that has the time: alone on the device if measured, else as they were written."""
    written = {file: predicted_seconds(file) for file in files}
    return times_alone(files) or {file: seconds for file, seconds in written.items() if seconds is not None}


def _seconds_a_video(facts: Mapping[str, Any]) -> float | None:
    known = all(isinstance(facts.get(name), NUMBER) for name in ("seconds", "videos"))
    return facts["seconds"] / facts["videos"] if known and facts["videos"] else None


SHUFFLED = {"shuffled": "learned", "shuffled-summary": "summary", "shuffled-segments": "segments"}
ORACLE = {"oracle": "learned", "oracle-summary": "summary"}
BASELINES = ("whole_video", "prior_grid", "change_points", "frequent_whole_video")
GIVEN_SEGMENTS = ("segments_nearest", "segments_most_frequent")
EventLists = dict[str, list[Event]]


@dataclass(frozen=True)
class Wanted:
    """Predictions of a row with a seed."""

    row: str
    kind: str
    seed: int


@dataclass(frozen=True)
class Predictor:
    """Makes predictions under `out/predictions`."""

    runs: Runs
    device: str | None = None

    @property
    def data(self) -> PreparedData:
        """The data set."""
        return self.runs.data

    def path(self, wanted: Wanted) -> Path:
        """The file of these predictions, by weights and settings of inference."""
        run = self.runs.of(wanted.row, wanted.seed)
        digest = hash_of({"model": run.hash, **self.runs.config(wanted.row).chosen()["inference"]})[:8]
        return self.runs.out / "predictions" / f"{wanted.row}-{digest}" / f"seed-{wanted.seed}" / f"{wanted.kind}.json"

    def baseline(self, name: str) -> Path:
        """The file of a baseline's predictions."""
        return self.runs.out / "predictions" / "baselines" / f"{name}.json"

    def predict(self, wanted: Wanted) -> str | None:
        """Write predictions, unless they exist; return why they are not possible, if so."""
        path, run = self.path(wanted), self.runs.of(wanted.row, wanted.seed)
        if self.is_there(wanted):
            return None
        if reason := self.data.unavailable(run.row):
            return reason
        if run.trained is None:
            return "not trained yet"
        if wanted.kind in ORACLE:
            return self._oracle(replace(wanted, kind=ORACLE[wanted.kind]), path)
        if wanted.kind == "calibrated" and not self.data.has_held_out:
            return "there are no videos to fit confidence on"
        try:
            self._run(run, wanted, path)
        except InputError as error:  # such as a model too weak to fit confidence on
            return one_line(error)
        return None

    def is_there(self, wanted: Wanted) -> bool:
        """Whether these are written; an oracle's file must have the spans as they are now."""
        path = self.path(wanted)
        if wanted.kind not in ORACLE or not path.exists():
            return path.exists()
        spans = self.path(replace(wanted, kind=ORACLE[wanted.kind]))
        return _made_of(path, spans)

    def _run(self, run: ModelRun, wanted: Wanted, path: Path) -> None:
        predictions, facts = _timed(self._opened(run, wanted))
        inputs = model_files(run.model)
        block = provenance(config_hash=predictions.config.hash, inputs=inputs, model=run.hash, **facts)
        write_events(path, predictions.events, provenance=block)

    def time(self, wanted: Wanted) -> float:
        """Predict again only to measure the time, and write it beside the predictions; return seconds a video."""
        run = self.runs.of(wanted.row, wanted.seed)
        predictions, facts = _timed(self._opened(run, wanted))
        about = provenance(config_hash=predictions.config.hash, model=run.hash)
        write_json(time_file(self.path(wanted)), {**facts, "provenance": about})
        return facts["seconds"] / facts["videos"]

    def _opened(self, run: ModelRun, wanted: Wanted) -> OpenedJob:
        test = self.data.test(run.row.streams)
        kind = SHUFFLED.get(wanted.kind, wanted.kind)
        job = PredictionJob(
            model=run.model,
            features=test.features,
            segments=test.references[0] if kind == "segments" else None,
            settings=_flags(self.runs.config(wanted.row).inference),
            device=self.device,
            summary=kind == "calibrated",
            top=self.data.dataset.summary_events if kind == "summary" else None,
        )
        opened = _on(open_job(job), test)
        if kind == "calibrated":
            opened = replace(opened, video_captioner=calibrated(opened, self.data.held_out()))
        if wanted.kind in SHUFFLED:
            opened = replace(opened, source=ShuffledFeatures(opened.source))
        return opened

    def _oracle(self, learned: Wanted, path: Path) -> str | None:
        if reason := self.predict(learned):
            return reason
        truth = read_annotations(self.data.test().references[:1]).events
        predicted = read_events(self.path(learned)).items()
        corrected = {video: with_true_sentences(events, truth.get(video, [])) for video, events in predicted}
        write_events(path, corrected, provenance=provenance(inputs=[self.path(learned)], oracle="sentences"))
        return None

    def predict_baselines(self) -> None:
        """Write the event files of all baselines, unless they exist."""
        names = (*BASELINES, *GIVEN_SEGMENTS)
        if not all(self.baseline(name).exists() for name in names):
            test, (annotations, source) = self.data.test(), self.data.for_baselines()
            write_baselines(test.references, self.data.test_source(), annotations, source, self.baseline("any").parent)
        for name in BASELINES:
            summary = self.baseline(f"{name}-summary")
            if not (_made_of(summary, self.baseline(name)) and read_facts(summary)["provenance"].get("chosen") == RULE):
                count = self.data.dataset.summary_events
                chosen = {video: top_n(events, count) for video, events in read_events(self.baseline(name)).items()}
                write_events(summary, chosen, provenance=provenance(inputs=[self.baseline(name)], chosen=RULE))


def _made_of(path: Path, source: Path) -> bool:
    """Whether a file exists and was made of the other as that is now."""
    facts = known_facts(path)
    return facts is not None and source.exists() and made_of(facts, [source])


def _timed(opened: OpenedJob) -> tuple[Predictions, dict[str, Any]]:
    """Predict; return the predictions, and how long they took on which device."""
    if torch.cuda.is_available():
        replace(opened, videos=opened.videos[:1]).run()  # kernels are compiled outside the measured time
    begun = time.perf_counter()
    predictions = opened.run()
    seconds = time.perf_counter() - begun
    if predictions.interrupted:
        raise KeyboardInterrupt
    if predictions.failures:
        raise InputError(next(iter(predictions.failures.values())))
    device = opened.captioner.device
    facts = {"seconds": seconds, "videos": len(predictions.events)}
    return predictions, {**facts, "device": str(device), "device_name": describe_device(device)}


def with_true_sentences(events: Sequence[Event], truth: Sequence[Event]) -> list[Event]:
    """Each span with the sentence of the true event that it overlaps most."""
    if not truth or not events:
        return list(events)
    spans, true_spans = (torch.tensor([(event.start, event.end) for event in some]) for some in (events, truth))
    nearest = temporal_iou(spans, true_spans).argmax(dim=1).tolist()
    return [replace(event, sentence=truth[index].sentence) for event, index in zip(events, nearest, strict=True)]


def calibrated(opened: OpenedJob, held_out: EventSet) -> LongVideoCaptioner:
    """The captioner of a job with a confidence fitted on held-out videos."""
    source, truth = open_features(held_out.features), held_out.annotations().events
    tracks = {video: source.track(video) for video in source.videos() if video in truth}
    return LongVideoCaptioner(
        opened.captioner,
        summary=opened.video_captioner.summary,
        calibration=fit_calibration(opened.captioner, tracks, truth),
    )


def _on(opened: OpenedJob, test: EventSet) -> OpenedJob:
    """The job for the videos of the test set only."""
    known = set().union(*(read_facts(file) for file in test.references))
    return replace(opened, videos=[video for video in opened.videos if video in known])


def _flags(inference: InferenceConfig) -> tuple[str, ...]:
    return tuple(f"inference.{name}={_toml(value)}" for name, value in asdict(inference).items())


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
