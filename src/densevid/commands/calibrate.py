"""Fit a model's confidence in its events on held-out videos, and write it into the model folder.

MODEL_DIR/calibration.toml then turns scores into confidence: the probability that an event overlaps a true one with an
IoU of at least .5. `densevid predict --summary` chooses by it and writes it as the score. A few hundred videos will do.
A video whose features cannot be used is left out and named at the end, with exit code 1.

  densevid calibrate --model RUN/model --features dev/features --references dev/references_1.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import ExitCode, InputError, exit_code, named, report

if TYPE_CHECKING:
    from collections.abc import Container

    from densevid.inference.predict import OpenedJob
    from densevid.tracks import FeatureTrack


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL_DIR", help="a model folder")
    parser.add_argument(
        "--features", type=Path, required=True, metavar="DIR|STORE", help="feature folder, file or store"
    )
    parser.add_argument("--references", type=Path, nargs="+", required=True, metavar="FILE", help="the true events")
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
    from densevid.checkpoint import CALIBRATION, model_files
    from densevid.data.annotations import read_annotations
    from densevid.inference.fitting.calibration import fit_calibration
    from densevid.inference.predict import PredictionJob, open_job
    from densevid.io import provenance, require_writable, toml_text, write_text

    target = arguments.model / CALIBRATION
    require_writable(target)
    job = PredictionJob(
        model=arguments.model,
        features=arguments.features,
        durations=arguments.durations,
        seconds_per_step=arguments.seconds_per_step,
        device=arguments.device,
        threads=arguments.threads,
    )
    opened = open_job(job, report)
    truth = read_annotations(arguments.references).events
    tracks, failures = _tracks(opened, truth)
    for failure in failures:
        report(failure)
    calibration = fit_calibration(opened.captioner, tracks, truth)
    inputs = [path for path in model_files(arguments.model) if path != target]
    block = provenance(inputs=[*inputs, arguments.features, *arguments.references], command="calibrate")
    write_text(target, toml_text({**calibration.as_table(), "provenance": block}))
    print(f"{target}: fitted on {calibration.fitted['events']:,} events of {calibration.fitted['videos']:,} videos")
    total = len(failures) + len(tracks)
    if failures:
        report(f"{len(failures)} of {total} videos cannot be used and are left out")
    return exit_code(len(failures), total)


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
