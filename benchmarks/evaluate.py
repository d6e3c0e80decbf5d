"""What is timed: files as the plain loop takes them, and predictions made from references by disturbing them.

Disturbed references are a load of realistic size, the same every time.

The four official evaluations as a plain loop over pycocoevalcap, timed against `densevid.evaluate` in one run.

The loop does what the official programs do, at their cost: the jar is asked for every pair of every video again at
every tIoU, the tokenizer starts anew for every list, SODA asks for every gold, proposals are counted cut by cut. It
also serves as an independent check: the largest difference between the two is printed beside the times.

Time `densevid evaluate` against a plain loop that calls pycocoevalcap for every video at every tIoU.

  densevid bench evaluate --references val_1.json val_2.json --videos 200
  densevid bench evaluate --references val_1.json val_2.json --predictions predictions.json

Without --predictions, sentences and times of the references are disturbed (the same way every time). Both run on the
same machine in the same run and nothing is cached, but for METEOR's paraphrase table, which is made once in the life of
an installation. On a machine that does other things too, the CPU seconds say more than the clock. The last column is
the largest difference between the numbers of the two.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.evaluate import Evaluation, evaluate
from densevid.evaluation.files import EventTable
from densevid.evaluation.java import java
from densevid.evaluation.result import as_json
from densevid.io import provenance, require_writable, write_json

SEED = 7
EVENTS = (3, 5)


def plain_references(rows: EventTable) -> dict[str, dict[str, Any]]:
    """A reference file as the plain loop takes it, every event checked."""
    told: dict[str, dict[str, Any]] = {video: {"timestamps": [], "sentences": []} for video in rows.videos}
    for video, times, sentence in zip(rows.video_E.tolist(), rows.intervals_E2.tolist(), rows.sentences, strict=True):
        told[rows.videos[video]]["timestamps"].append(times)
        told[rows.videos[video]]["sentences"].append(sentence)
    return told


def plain_results(rows: EventTable, *, scored: bool) -> dict[str, list[dict[str, Any]]]:
    """Predictions as the plain loop takes them, every event checked; `scored`: with `proposal_score`."""
    results: dict[str, list[dict[str, Any]]] = {video: [] for video in rows.videos}
    scores = rows.scores_E.tolist() if scored else [None] * len(rows)
    columns = (rows.video_E.tolist(), rows.intervals_E2.tolist(), rows.sentences, scores)
    for video, times, sentence, score in zip(*columns, strict=True):
        event = {"timestamp": times, "sentence": sentence}
        results[rows.videos[video]].append(event if score is None else {**event, "proposal_score": score})
    return results


def disturbed(references: Sequence[Mapping[str, Any]], events: tuple[int, int] = EVENTS) -> dict[str, Any]:
    """A few events a video: times moved by about a fifth of the length, words dropped, added and exchanged."""
    draw = random.Random(SEED)
    sentences = [sentence for entry in references[0].values() for sentence in entry["sentences"]]
    words = [word for sentence in sentences for word in sentence.split()]
    results = {}
    for video, entry in references[0].items():
        told = [file[video] for file in references if video in file and file[video]["sentences"]] or [entry]
        count = draw.randint(*events) if told[0]["sentences"] else 0
        results[video] = [_event(draw, draw.choice(told), sentences, words) for _ in range(count)]
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
    told = sentence.split()
    for _ in range(draw.randint(0, 5)):
        place = draw.randrange(len(told) + 1)
        if draw.random() < 0.5 and len(told) > 3:
            told.pop(min(place, len(told) - 1))
        else:
            told.insert(place, draw.choice(words))
    return " ".join(told)


TIOUS = (0.3, 0.5, 0.7, 0.9)
PARTS = ("captioning", "soda", "paragraph", "proposals")
Results = Mapping[str, list[dict[str, Any]]]
References = Sequence[Mapping[str, dict[str, Any]]]


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


def plain_captioning(results: Results, references: References) -> dict[str, float]:
    """evaluate2018: METEOR, BLEU, ROUGE-L and CIDEr of each video's pairs, recall and precision, at each tIoU."""
    videos = list({video for file in references for video in file})
    scorers, sums = _scorers(), dict[str, float]()
    for tiou in TIOUS:
        written: dict[str, list[tuple[str, str]]] = {
            video: _pairs(results, references, video, tiou) for video in videos
        }
        for name, value in _detection(results, references, videos, tiou).items():
            sums[name] = sums.get(name, 0.0) + value / len(TIOUS)
        hypotheses = _tokens([left for pairs in written.values() for left, _ in pairs])
        golds = _tokens([right for pairs in written.values() for _, right in pairs])
        first = 0
        for pairs in written.values():
            keys = range(first, first + len(pairs))
            first += len(pairs)
            res, gts = {k: [hypotheses[k]] for k in keys}, {k: [golds[k]] for k in keys}
            for names, scorer in scorers if pairs else ():
                for name, value in zip(names, np.atleast_1d(_silently(scorer.compute_score, gts, res)[0]), strict=True):
                    sums[name] = sums.get(name, 0.0) + float(value) / len(videos) / len(TIOUS)
    return sums


def plain_soda(results: Results, references: References) -> dict[str, float]:
    """SODA c, references merged: the gold sentence is the hypothesis, the predictions are the references."""
    from pycocoevalcap.meteor.meteor import Meteor

    videos = list({video for file in references for video in file} & set(results))
    predicted = {video: sorted(results[video], key=lambda row: float(row["timestamp"][0])) for video in videos}
    golds = {video: [gold for file in references if video in file for gold in _events(file[video])] for video in videos}
    for told in golds.values():
        told.sort(key=lambda gold: gold[0][0])
    predicted_texts = iter(_tokens([row["sentence"] for video in videos for row in predicted[video]]))
    gold_texts = iter(_tokens([sentence for video in videos for _, sentence in golds[video]]))
    scorer, values = Meteor(), []
    for video in videos:
        res = {place: [next(predicted_texts)] for place in range(len(predicted[video]))}
        table = []
        for times, _ in golds[video]:
            text = next(gold_texts)
            meteor = scorer.compute_score(res, {place: [text] for place in res})[1] if res else []
            table.append([_iou(row["timestamp"], times) * m for row, m in zip(predicted[video], meteor, strict=True)])
        total, counts = _best_total(table), (len(predicted[video]), len(golds[video]))
        values.append([total / max(counts[0], 1), total / max(counts[1], 1), 2 * total / max(sum(counts), 1)])
    return dict(zip(("precision", "recall", "f1"), map(float, np.mean(values, axis=0)), strict=True))


def plain_paragraphs(results: Results, references: References) -> dict[str, float]:
    """para_evaluate: one paragraph a video, all references at once, one corpus."""

    def words(sentences: Sequence[str]) -> str:
        return " ".join(re.sub("[^a-zA-Z]", " ", ". ".join(sentences)).lower().split())

    videos = dict.fromkeys(video for file in references for video in file)
    res = {video: [words([row["sentence"] for row in results.get(video, [])])] for video in videos}
    gts = {video: [words(file[video]["sentences"]) for file in references if video in file] for video in videos}
    scores: dict[str, float] = {}
    for names, scorer in _scorers():
        values = np.atleast_1d(_silently(scorer.compute_score, gts, res)[0])
        scores |= dict(zip(names, map(float, values), strict=True))
    return scores


def plain_proposals(results: Results, references: References) -> dict[str, float]:
    """The release's average recall, against the first reference file."""
    gold = {video: entry["timestamps"] for video, entry in references[0].items() if entry["timestamps"]}
    kept: dict[str, list[Any]] = {}
    ratio = 100 * len(gold) / sum(map(len, results.values()))
    for video in gold:
        rows = sorted(results.get(video, []), key=lambda row: row["proposal_score"])[::-1]
        kept[video] = [row["timestamp"] for row in rows[: int(len(rows) * ratio)]]
    share = 100 * len(gold) / max(sum(map(len, kept.values())), 1)
    recall = np.zeros((10, 100))
    for place, tiou in enumerate(np.linspace(0.5, 0.95, 10)):
        for video, times in gold.items():
            hits = np.array([[_plain_iou(p, g) >= tiou for p in kept[video]] for g in times]).reshape(len(times), -1)
            for step in range(100):
                cut = min(int(max(hits.shape[1], 1) * ((step + 1) / 100.0 * share)), hits.shape[1])
                recall[place, step] += hits[:, :cut].any(axis=1).sum()
    return {"AR@100": float(recall[:, -1].mean() / sum(map(len, gold.values())))}


PLAIN: dict[str, Callable[[Results, References], dict[str, float]]] = {
    "captioning": plain_captioning,
    "soda": plain_soda,
    "paragraph": plain_paragraphs,
    "proposals": plain_proposals,
}


def _ours(predictions: Mapping[str, Any], references: References, parts: Sequence[str]) -> Evaluation:
    return evaluate(predictions, list(references), metrics=tuple(parts), cache=False)


def _headlines(part: str, evaluation: Evaluation) -> dict[str, float]:
    """The numbers that the plain version of the part computes too."""
    content = as_json(evaluation)
    if part == "captioning":
        return {name: value for name, value in content[part]["average"].items() if name != "F1"}
    if part == "soda":
        return dict(content[part]["c"]["merged"])
    return dict(content[part]) if part == "paragraph" else {"AR@100": content[part]["first"]["AR@100"]}


def _pairs(results: Results, references: References, video: str, tiou: float) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for row in results.get(video, [])[:1000]:
        events = [event for file in references if video in file for event in _events(file[video])]
        close = [sentence for times, sentence in events if _iou(row["timestamp"], times) >= tiou]
        pairs += [(row["sentence"], sentence) for sentence in close or ["abc123!@#"]]
    return pairs


def _detection(results: Results, references: References, videos: Sequence[str], tiou: float) -> dict[str, float]:
    """The best annotator's share of events covered and of predictions that hit, each maximum on its own."""
    recall = precision = 0.0
    for video in videos:
        predicted = [row["timestamp"] for row in results.get(video, [])[:1000]]
        annotators = [file[video]["timestamps"] for file in references if video in file]
        hits = [[[_iou(p, gold) > tiou for p in predicted] for gold in golds] for golds in annotators]
        recall += max(sum(map(any, table)) / max(len(table), 1) for table in hits)
        precision += max(sum(map(any, zip(*table, strict=True))) / max(len(predicted), 1) for table in hits)
    return {"Recall": recall / len(videos), "Precision": precision / len(videos)}


def _events(entry: Mapping[str, Any]) -> list[tuple[list[float], str]]:
    return list(zip(entry["timestamps"], entry["sentences"], strict=True))


def _iou(predicted: Sequence[float], times: Sequence[float]) -> float:
    shared = max(0, min(times[1], predicted[1]) - max(times[0], predicted[0]))
    hull = max(times[1], predicted[1]) - min(times[0], predicted[0])
    return float(shared / (min(hull, times[1] - times[0] + predicted[1] - predicted[0]) + 1e-8))


def _plain_iou(predicted: Sequence[float], times: Sequence[float]) -> float:
    shared = max(0.0, min(times[1], predicted[1]) - max(times[0], predicted[0]))
    union = (predicted[1] - predicted[0]) + (times[1] - times[0]) - shared
    return shared / union if union else 0.0


def _best_total(table: Sequence[Sequence[float]]) -> float:
    best = [0.0] * (len(table[0]) + 1 if table else 1)
    for row in table:
        previous, best = best, [0.0]
        for column, value in enumerate(row):
            best.append(max(previous[column + 1], best[column], previous[column] + value))
    return best[-1]


def _scorers() -> list[tuple[tuple[str, ...], Any]]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge

    bleu = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")
    return [(bleu, Bleu(4)), (("METEOR",), Meteor()), (("ROUGE_L",), Rouge()), (("CIDEr",), Cider())]


def _tokens(sentences: Sequence[str]) -> list[str]:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    if not sentences:
        return []
    ascii_only = ["".join(c if ord(c) < 128 else " " for c in sentence) for sentence in sentences]
    with _without_chatter():
        answered = PTBTokenizer().tokenize({k: [{"caption": text}] for k, text in enumerate(ascii_only)})
    return [answered[k][0] for k in range(len(sentences))]


def _silently(function: Callable[..., Any], *arguments: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """The tokenizer's program reports its speed on the terminal's standard error."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _timed(action: Callable[[], Any]) -> tuple[Any, Cost]:
    os.environ["PATH"] = f"{Path(java()).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    wall, cpu = time.perf_counter(), _processor_seconds()
    result = action()
    gc.collect()  # pycocoevalcap ends its programs when its objects are deleted, and only then is their time known
    return result, Cost(time.perf_counter() - wall, _processor_seconds() - cpu)


def _processor_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subject."""
    add = parser.add_argument
    add("--references", nargs="+", required=True, metavar="FILE", help="one file an annotator")
    add("--predictions", metavar="FILE", help="event file; by default the references, disturbed")
    add("--videos", type=int, metavar="N", help="only the first N videos of the first reference file")
    add("--parts", default="captioning,soda,paragraph,proposals", metavar="PART,...", help="what to time")
    add("--json", metavar="OUT", help="write the times")


def run(args: argparse.Namespace) -> int:
    """Time, print, write."""
    from dataclasses import asdict

    from densevid.evaluation.meteor.paraphrases import paraphrase_table
    from densevid.evaluation.report import Table, as_text

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
    from densevid.evaluation.files import read_predictions, read_references

    if args.videos is not None and args.videos < 1:
        raise InputError(f"--videos must be at least 1, got {args.videos}")
    references = [plain_references(read_references(path)) for path in args.references]
    videos = list(references[0])[: args.videos]
    references = [{video: file[video] for video in videos if video in file} for file in references]
    if args.predictions:
        results = plain_results(read_predictions(args.predictions), scored="proposals" in parts)
    else:
        results = disturbed(references)["results"]
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
    from densevid.cli import main

    sys.exit(main(["bench", "evaluate", *sys.argv[1:]]))
