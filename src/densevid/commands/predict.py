"""Caption every video of a feature folder or store and write ActivityNet's submission form, in selection order.

With --summary only the events of the summary, one after another in order of time, each with its confidence as its
score; where the model is confident about nothing there is no event. --top N: at most N events that hardly overlap,
whatever their confidence. A video longer than the model's window is read in overlapping windows (--set
inference.read=first-window reads only the first).

Features may be the release's two files a video, one .npy a video, one HDF5 file, or densevid's own store. A video whose
features cannot be used is left out and reported; the others are written all the same (exit code 1), and so are those
that are finished when the command is interrupted.

  densevid predict --model models/released --features features/validation --durations anet_duration_frame.csv \\
      --out predictions.json
  densevid predict --model RUN/model --features store --segments val_1.json --out captions.json
  densevid predict --model RUN/model --features store --summary --out summaries.json
  densevid predict --model RUN/model --features store --top 5 --out at-most-five-each.json
  densevid predict --model RUN/model --features store --set inference.beam=3 --set inference.no_repeat=2 --out beam.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import ExitCode, InputError, exit_code, report

if TYPE_CHECKING:
    from densevid.inference.predict import Predictions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL_DIR", help="a model folder")
    parser.add_argument(
        "--features", type=Path, required=True, metavar="DIR|STORE", help="feature folder, file or store"
    )
    clock = parser.add_mutually_exclusive_group()
    clock.add_argument("--durations", type=Path, metavar="CSV", help="the release's id,duration,frames file")
    clock.add_argument(
        "--seconds-per-step",
        type=float,
        metavar="S",
        help="one number for all videos (default: a store's own; for the release's two files a video the model's)",
    )
    parser.add_argument("--segments", type=Path, metavar="REFERENCES", help="caption these segments, propose nothing")
    parser.add_argument("--summary", action="store_true", help="only the events of the summary")
    parser.add_argument("--top", type=int, metavar="N", help="at most N events that hardly overlap")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as inference.beam=3")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, ... (auto: cuda where there is one)")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16"),
        help="of the events' encoding and words (default: bfloat16 on CUDA, else float32)",
    )
    parser.add_argument("--threads", type=int, default=None, help="CPU threads (default: torch's choice)")
    parser.add_argument("--out", type=Path, required=True, metavar="PREDICTIONS", help="the event file to write")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Predict and write."""
    from densevid.checkpoint import model_files
    from densevid.events import write_events
    from densevid.inference.predict import PredictionJob, open_job
    from densevid.io import provenance, require_writable
    from densevid.progress import Progress

    require_writable(arguments.out)
    job = PredictionJob(
        model=arguments.model,
        features=arguments.features,
        durations=arguments.durations,
        seconds_per_step=arguments.seconds_per_step,
        segments=arguments.segments,
        settings=tuple(arguments.set),
        device=arguments.device,
        threads=arguments.threads,
        precision=arguments.precision,
        summary=arguments.summary,
        top=arguments.top,
    )
    opened = open_job(job, report)
    with Progress(len(opened.videos)) as progress:
        predictions = opened.run(lambda text: progress.advance(1, text))
    if predictions.events:
        inputs = [path for path in (arguments.features, arguments.durations, arguments.segments) if path]
        block = provenance(config_hash=predictions.config.hash, inputs=[*model_files(arguments.model), *inputs])
        write_events(arguments.out, predictions.events, provenance=block)
        events = sum(map(len, predictions.events.values()))
        print(f"{arguments.out}: {events:,} events in {len(predictions.events):,} videos")
    return _finish(predictions)


def _finish(predictions: Predictions) -> ExitCode:
    """Report what is missing, after everything else is written."""
    if predictions.unseen:
        from densevid.inference.segments import unseen_text

        report(unseen_text(predictions.unseen))
    if predictions.interrupted:
        raise KeyboardInterrupt
    failures = list(predictions.failures.values())
    total = len(failures) + len(predictions.events)
    for failure in failures[1:]:
        report(failure)
    if failures:
        line = f"{len(failures)} of {total} videos cannot be captioned and are left out: {failures[0]}"
        if not predictions.events:
            raise InputError(line)
        report(line)
    return exit_code(len(failures), total)
