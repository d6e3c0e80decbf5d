"""Fit a model's confidence in its events on held-out videos, and write it into the model folder.

MODEL_DIR/calibration.toml then turns scores into confidence: the probability that an event overlaps a true one with an
IoU of at least .5. `densevid predict --summary` chooses by it and writes it as the score. A few hundred videos will do.
A video whose features cannot be used is left out and named at the end, with exit code 1.

--sentences fits the confidence of sentences as well, MODEL_DIR/sentence_confidence.toml: the probability that every
content word of a sentence was used by at least two annotators of the event. The references then hold the sentences of
all annotators of each event, about 20: a clips.json of captioned clips, or one file an annotator.

  densevid calibrate --model RUN/model --features dev/features --references dev/references_1.json
  densevid calibrate --model RUN/model --features clips/store --references clips/clips.json:train-dev --sentences
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from densevid.errors import ExitCode, InputError, exit_code, named, report

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from densevid.events import Event
    from densevid.inference.confidence import Calibration
    from densevid.inference.fitting.held_out_sentences import AnnotatedEvents
    from densevid.inference.predict import OpenedJob
    from densevid.inference.sentence_confidence import SentenceConfidence
    from densevid.tracks import FeatureTrack


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL_DIR", help="a model folder")
    parser.add_argument(
        "--features", type=Path, required=True, metavar="DIR|STORE", help="feature folder, file or store"
    )
    parser.add_argument("--references", type=Path, nargs="+", required=True, metavar="FILE", help="the true events")
    parser.add_argument("--sentences", action="store_true", help="fit the confidence of sentences as well")
    clock = parser.add_mutually_exclusive_group()
    clock.add_argument("--durations", type=Path, metavar="CSV", help="the release's id,duration,frames file")
    clock.add_argument(
        "--seconds-per-step",
        type=float,
        metavar="S",
        help="one number for all videos (default: a store's own; for the release's two files a video the model's)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, ... (auto: cuda where there is one)")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads (default: torch's choice)")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Fit and write."""
    from densevid.checkpoint import CALIBRATION, SENTENCE_CONFIDENCE
    from densevid.inference.fitting.calibration import fit_calibration
    from densevid.inference.predict import PredictionJob, open_job
    from densevid.io import require_writable

    target, sentences = arguments.model / CALIBRATION, arguments.model / SENTENCE_CONFIDENCE
    require_writable(target)
    job = PredictionJob(
        model=arguments.model,
        features=arguments.features,
        durations=arguments.durations,
        seconds_per_step=arguments.seconds_per_step,
        device=arguments.device,
        threads=arguments.threads,
        sentence_scores=False,  # of an old fit
    )
    opened = open_job(job, report)
    annotated = _annotated(arguments.references) if arguments.sentences else {}
    truth = _events_of(annotated) if arguments.sentences else _events_in(arguments.references)
    tracks, failures = _tracks(opened, truth)
    for failure in failures:
        report(failure)
    calibration = fit_calibration(opened.captioner, tracks, truth)
    confidence = _sentence_confidence(opened, tracks, annotated, calibration) if arguments.sentences else None
    _write(arguments, target, calibration.as_table())
    print(f"{target}: fitted on {calibration.fitted['events']:,} events of {calibration.fitted['videos']:,} videos")
    if confidence is not None:
        _write(arguments, sentences, confidence.as_table())
        print(f"{sentences}: {_figures(confidence)}")
    total = len(failures) + len(tracks)
    if failures:
        report(f"{len(failures)} of {total} videos cannot be used and are left out")
    return exit_code(len(failures), total)


def _write(arguments: argparse.Namespace, target: Path, table: Mapping[str, Any]) -> None:
    """Write what was fitted, with the files that it follows from."""
    from densevid.checkpoint import CALIBRATION, SENTENCE_CONFIDENCE, model_files
    from densevid.evaluation.files import split_of
    from densevid.io import provenance, toml_text, write_text

    fitted = {arguments.model / CALIBRATION, arguments.model / SENTENCE_CONFIDENCE}
    inputs = [path for path in model_files(arguments.model) if path not in fitted]
    references = [Path(str(split_of(str(path))[0])) for path in arguments.references]
    block = provenance(inputs=[*inputs, arguments.features, *references], command="calibrate")
    write_text(target, toml_text({**table, "provenance": block}))


def _figures(confidence: SentenceConfidence) -> str:
    """How well the confidence of sentences holds, on a line."""
    fitted = confidence.fitted
    shown = f"{fitted['coverage']:.0%} of them get a sentence, {fitted['support']:.0%} of those are right"
    return f"fitted on {fitted['events']:,} events of {fitted['sources']:,} sources; {shown}"


def _events_in(references: Sequence[Path]) -> Mapping[str, Sequence[Event]]:
    from densevid.data.annotations import read_annotations

    return read_annotations(references).events


def _events_of(annotated: Mapping[str, AnnotatedEvents]) -> dict[str, list[Event]]:
    from densevid.events import Event

    return {video: [Event(start, end, "") for start, end in each.spans] for video, each in annotated.items()}


def _annotated(references: Sequence[Path]) -> dict[str, AnnotatedEvents]:
    """The events of every video, with the words of all annotators of each."""
    from densevid.evaluation.files import read_references
    from densevid.evaluation.metrics.content_words import AnnotatorWords
    from densevid.inference.fitting.held_out_sentences import AnnotatedEvents

    sentences: dict[str, dict[tuple[float, float], list[str]]] = {}
    sources: dict[str, str] = {}
    for path in references:
        file = read_references(str(path))
        sources |= _sources(path)
        for video in file.videos:
            sentences.setdefault(video, {})
        rows = zip(file.video_E.tolist(), file.intervals_E2.tolist(), file.sentences, strict=True)
        for video, times, sentence in rows:
            start, end = (round(seconds, 3) for seconds in times)
            if 0 <= start < end:
                sentences[file.videos[video]].setdefault((start, end), []).append(sentence)
    if max((len(own) for spans in sentences.values() for own in spans.values()), default=0) < 2:
        raise InputError("--sentences needs references by at least two annotators: a clips.json, or one file for each")
    return {
        video: AnnotatedEvents(tuple(spans), tuple(map(AnnotatorWords, spans.values())), sources.get(video, video))
        for video, spans in sentences.items()
    }


def _sources(path: Path) -> dict[str, str]:
    """The videos that the clips of a clips.json were cut from; nothing for other references."""
    from densevid.evaluation.files import split_of
    from densevid.io import read_json
    from densevid.timelines.clips import source_of

    content = read_json(Path(str(split_of(str(path))[0])))
    entries = content.items() if isinstance(content, dict) else ()
    return {name: source_of(name, entry) for name, entry in entries if isinstance(entry, dict) and "captions" in entry}


def _sentence_confidence(
    opened: OpenedJob,
    tracks: Mapping[str, FeatureTrack],
    annotated: Mapping[str, AnnotatedEvents],
    calibration: Calibration,
) -> SentenceConfidence:
    """Fit the confidence of sentences to the summaries that the new calibration gives."""
    from densevid.inference.fitting.held_out_sentences import held_out_sentences
    from densevid.inference.fitting.sentence_confidence import fit_sentence_confidence

    captioner = opened.captioner
    events = held_out_sentences(captioner, tracks, annotated, calibration=calibration)
    return fit_sentence_confidence(events, captioner.vocabulary.tokens)


def _tracks(opened: OpenedJob, wanted: Container[str]) -> tuple[dict[str, FeatureTrack], list[str]]:
    """The tracks of videos that can be used, which are read later, and a line about each of the others."""
    tracks: dict[str, FeatureTrack] = {}
    failures = [failure for video, failure in opened.failures.items() if video in wanted]
    for video in opened.videos:
        if video in wanted:
            try:
                track = opened.source.track(video)
                opened.captioner.read(track)  # while its name is known
                tracks[video] = track
            except InputError as error:
                failures.append(named(video, error))
    return tracks, failures
