"""The four official evaluations as a plain loop over pycocoevalcap: what `benchmarks.evaluate` times ours against.

The loop does what the official programs do, at their cost: the METEOR jar scores every pair of every video again at
every tIoU, the tokenizer starts anew for every list, SODA calls METEOR once per reference event, and proposals are
counted cut by cut. It shares no code with `densevid.evaluation`, so it is an independent check of the numbers too.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

TIOUS = (0.3, 0.5, 0.7, 0.9)
Results = Mapping[str, list[dict[str, Any]]]
References = Sequence[Mapping[str, dict[str, Any]]]


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
    """SODA_c, references merged: the gold sentence is METEOR's hypothesis, the predictions are its references."""
    from pycocoevalcap.meteor.meteor import Meteor

    videos = list({video for file in references for video in file} & set(results))
    predicted = {video: sorted(results[video], key=lambda row: float(row["timestamp"][0])) for video in videos}
    golds = {video: [gold for file in references if video in file for gold in _events(file[video])] for video in videos}
    for gold in golds.values():
        gold.sort(key=lambda event: event[0][0])
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
