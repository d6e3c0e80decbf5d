"""How long predictions took: each file of them says it, but those that were made while others learnt were slowed down.

So the step `time` makes those of the first seed once more, with nothing else on the device, and notes that beside them.

Predictions of the models that tables need, and of the baselines: event files, each written once, with its time.

Kinds: `learned` (everything proposed), `summary` (as many events as a video usually has), `calibrated` (a summary by
fitted confidence), `segments` (the true segments, captioned), `oracle` and `oracle-summary` (proposed spans with the
sentence of the true event they overlap most), and each of the first two and `segments` on `shuffled` features.
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
    """Where the time of predictions by themselves is noted, where it was measured."""
    return predictions.with_suffix(".time.json")


def predicted_seconds(path: Path) -> float | None:
    """Seconds a video, as they were measured when the file was written; None where nothing was computed."""
    noted = known_facts(path, provenance=dict)
    return _seconds_a_video(noted["provenance"] if noted else {})


def times_alone(files: Sequence[Path]) -> dict[Path, float]:
    """Seconds a video of those that were timed alone on the device, by the file that notes them."""
    found = {time_file(file): _seconds_a_video(known_facts(time_file(file)) or {}) for file in files}
    return {file: seconds for file, seconds in found.items() if seconds is not None}


def prediction_times(files: Sequence[Path]) -> dict[Path, float]:
    """Seconds a video, by the file that notes them: alone on the device if that was measured, else as they came."""
    came = {file: predicted_seconds(file) for file in files}
    return times_alone(files) or {file: seconds for file, seconds in came.items() if seconds is not None}


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
        """What is predicted on."""
        return self.runs.data

    def path(self, wanted: Wanted) -> Path:
        """Where these predictions lie; other weights or other settings of inference lie elsewhere."""
        run = self.runs.of(wanted.row, wanted.seed)
        digest = hash_of({"model": run.hash, **self.runs.config(wanted.row).chosen()["inference"]})[:8]
        return self.runs.out / "predictions" / f"{wanted.row}-{digest}" / f"seed-{wanted.seed}" / f"{wanted.kind}.json"

    def baseline(self, name: str) -> Path:
        """Where the predictions of a baseline lie."""
        return self.runs.out / "predictions" / "baselines" / f"{name}.json"

    def predict(self, wanted: Wanted) -> str | None:
        """Write them, unless they are there; why they cannot be had, if they cannot."""
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
        """Whether these are written; an oracle's file must be of the spans as they are now."""
        path = self.path(wanted)
        if wanted.kind not in ORACLE or not path.exists():
            return path.exists()
        spans = self.path(replace(wanted, kind=ORACLE[wanted.kind]))
        return _made_of(path, spans)

    def _run(self, run: ModelRun, wanted: Wanted, path: Path) -> None:
        told, facts = _timed(self._opened(run, wanted))
        block = provenance(config_hash=told.config.hash, inputs=model_files(run.model), model=run.hash, **facts)
        write_events(path, told.events, provenance=block)

    def time(self, wanted: Wanted) -> float:
        """Predict once more, for the time alone, and note it beside the predictions; seconds a video."""
        run = self.runs.of(wanted.row, wanted.seed)
        told, facts = _timed(self._opened(run, wanted))
        about = provenance(config_hash=told.config.hash, model=run.hash)
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
            opened = replace(opened, teller=calibrated(opened, self.data.held_out()))
        if wanted.kind in SHUFFLED:
            opened = replace(opened, source=ShuffledFeatures(opened.source))
        return opened

    def _oracle(self, learned: Wanted, path: Path) -> str | None:
        if reason := self.predict(learned):
            return reason
        truth = read_annotations(self.data.test().references[:1]).events
        told = read_events(self.path(learned))
        corrected = {video: with_true_sentences(events, truth.get(video, [])) for video, events in told.items()}
        write_events(path, corrected, provenance=provenance(inputs=[self.path(learned)], oracle="sentences"))
        return None

    def predict_baselines(self) -> None:
        """Write the event files of all baselines, unless they are there."""
        names = (*BASELINES, *GIVEN_SEGMENTS)
        if not all(self.baseline(name).exists() for name in names):
            test, (told, source) = self.data.test(), self.data.learnt()
            write_baselines(test.references, self.data.test_source(), told, source, self.baseline("any").parent)
        for name in BASELINES:
            short = self.baseline(f"{name}-summary")
            if not (_made_of(short, self.baseline(name)) and read_facts(short)["provenance"].get("chosen") == RULE):
                count = self.data.dataset.summary_events
                chosen = {video: top_n(events, count) for video, events in self._told(name)}
                write_events(short, chosen, provenance=provenance(inputs=[self.baseline(name)], chosen=RULE))

    def _told(self, baseline: str) -> Sequence[tuple[str, list[Event]]]:
        return list(read_events(self.baseline(baseline)).items())


def _made_of(path: Path, source: Path) -> bool:
    """Whether a file is there and was made of the other as that is now."""
    facts = known_facts(path)
    return facts is not None and source.exists() and made_of(facts, [source])


def _timed(opened: OpenedJob) -> tuple[Predictions, dict[str, Any]]:
    """Predict; what was told, and how long it took on what."""
    if torch.cuda.is_available():
        replace(opened, videos=opened.videos[:1]).run()  # kernels are compiled outside the measured time
    begun = time.perf_counter()
    told = opened.run()
    seconds = time.perf_counter() - begun
    if told.interrupted:
        raise KeyboardInterrupt
    if told.failures:
        raise InputError(next(iter(told.failures.values())))
    device = opened.captioner.device
    facts = {
        "seconds": seconds,
        "videos": len(told.events),
        "device": str(device),
        "device_name": describe_device(device),
    }
    return told, facts


def with_true_sentences(events: Sequence[Event], truth: Sequence[Event]) -> list[Event]:
    """Each span with the sentence of the true event that it overlaps most."""
    if not truth or not events:
        return list(events)
    spans, true_spans = (torch.tensor([(event.start, event.end) for event in some]) for some in (events, truth))
    nearest = temporal_iou(spans, true_spans).argmax(dim=1).tolist()
    return [replace(event, sentence=truth[index].sentence) for event, index in zip(events, nearest, strict=True)]


def calibrated(opened: OpenedJob, held_out: EventSet) -> LongVideoCaptioner:
    """The same teller with confidence fitted on held-out videos."""
    source, truth = open_features(held_out.features), held_out.annotations().events
    tracks = {video: source.track(video) for video in source.videos() if video in truth}
    return LongVideoCaptioner(
        opened.captioner,
        summary=opened.teller.summary,
        calibration=fit_calibration(opened.captioner, tracks, truth),
    )


def _on(opened: OpenedJob, test: EventSet) -> OpenedJob:
    """The videos of the test set alone."""
    known = set().union(*(read_facts(file) for file in test.references))
    return replace(opened, videos=[video for video in opened.videos if video in known])


def _flags(inference: InferenceConfig) -> tuple[str, ...]:
    return tuple(f"inference.{name}={_toml(value)}" for name, value in asdict(inference).items())


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
