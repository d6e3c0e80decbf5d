"""Validation: losses on held-out data every epoch, scores of captions and proposals every few epochs.

CIDEr needs nothing else; METEOR and average recall come from `densevid.evaluation`. Where METEOR's data are missing,
the predictions are written all the same, and can be scored afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.dataloader import SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.data.vocabulary import tokenize
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.reranking import generate_sentences
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.distributed import Ranks, gather, mean_over_ranks
from densevid.training.loss_monitor import PARTS
from densevid.training.objective import segment_memory, total_loss
from densevid.training.rewards import documents_of
from densevid.training.sentence_scores import Cider
from densevid.training.train_state import autocast

Events = dict[str, list[Event]]


def cider_of(sentences: Mapping[int, str], dataset: SegmentDataset) -> float:
    """Mean CIDEr (x 100, as papers print it) of one sentence per segment against all references of its times."""
    documents, document_N = documents_of(dataset)
    first = {document: number for number, document in reversed(list(enumerate(document_N.tolist())))}
    words = [tuple(tokenize(sentences[number])) for number in first.values()]
    return 100 * float(Cider(documents).scores(words, list(first)).mean())


def evaluator_scores(predictions: Mapping[str, Events], annotations: Annotations) -> dict[str, float]:
    """METEOR and average recall in percent, by the project's evaluator.

    Args:
        predictions: `captions` of the true segments (scored by METEOR), `events` of whole videos (METEOR of dense
            captioning and average recall with at most 100 a video), or both.
        annotations: The true events.

    Raises:
        ImportError: A package that the evaluator needs is not installed.
        InputError: The data that METEOR needs are not there.
    """
    from densevid.evaluation.evaluate import evaluate

    scores: dict[str, float | None] = {}
    if "captions" in predictions:
        result = evaluate(_submission(predictions["captions"]), _references(annotations), metrics=("segments",))
        assert result.segments is not None
        scores["meteor"] = result.segments.micro()["METEOR"]
    if "events" in predictions:
        kept = replace(annotations, events={video: annotations.events[video] for video in predictions["events"]})
        parts = ("captioning", "proposals")
        result = evaluate(_submission(predictions["events"]), _references(kept), metrics=parts)
        assert result.captioning is not None and result.proposals is not None
        scores["dense_meteor"] = result.captioning.average()["METEOR"]
        scores["average_recall"] = result.proposals.pooled.average_recall_at(100)
    return {name: 100 * value for name, value in scores.items() if value is not None}


def require_scorer(best_by: str, *, validated: bool) -> None:
    """Raise InputError before a run that could not compute the score `training.best_by` that decides what is best."""
    if best_by in ("loss", "last"):
        return
    if not validated:
        raise InputError(f"training.best_by = {best_by!r} needs --validation FILE or --validation-split NAME")
    if best_by == "meteor":
        event = Event(0.0, 1.0, "a dog runs")
        try:
            evaluator_scores({"captions": {"v": [event]}}, Annotations({"v": [event]}, {"v": 1.0}, []))
        except (ImportError, InputError) as error:
            raise InputError(f"training.best_by = 'meteor': no METEOR here ({error}); 'cider' needs nothing") from error


def _submission(events: Events) -> dict[str, Any]:
    results = {video: [event.as_row() for event in found] for video, found in events.items()}
    return {"version": "VERSION 1.0", "results": results, "external_data": {}}


def _references(annotations: Annotations) -> dict[str, Any]:
    def entry(video: str, events: Sequence[Event]) -> dict[str, Any]:
        times = [[event.start, event.end] for event in events]
        sentences = [event.sentence for event in events]
        return {"duration": annotations.durations.get(video), "timestamps": times, "sentences": sentences}

    return {video: entry(video, events) for video, events in annotations.events.items() if events}


@dataclass(frozen=True)
class ValidationScores:
    """Scores by their column of metrics.csv, the predictions that were scored, and why a score is missing."""

    scores: dict[str, float]
    predictions: dict[str, Events]
    missing: str | None = None


@torch.no_grad()
def validation_losses(model: MaskedTransformer, loader: SegmentLoader, config: Config) -> dict[str, float]:
    """The mean losses over held-out segments, with the same anchors drawn every time; all ranks take part."""
    model.eval()
    sums, count = torch.zeros(len(PARTS) - 1, dtype=torch.float64), 0
    for size, batch in zip(loader.sizes(0), loader.batches(0), strict=True):
        with autocast(config, batch.valid_BT.device):
            total, losses = total_loss(model, batch, config)
        values = torch.stack([total.float(), *(value.float() for value in losses.detached().values())])
        sums += mean_over_ranks(values).double().cpu() * size
        count += size
    return dict(zip(PARTS, (sums / count).tolist(), strict=False))


def validation_scores(
    loaded: LoadedModel, loader: SegmentLoader, annotations: Annotations, ranks: Ranks
) -> ValidationScores:
    """All scores of the task; all ranks predict, and all get the result.

    Args:
        loaded: The model, which is set to evaluation mode.
        loader: Batches of held-out data.
        annotations: Their true events.
        ranks: The processes that train together.
    """
    task, scores, missing = loaded.config.training.task, {}, None
    predictions: dict[str, Events] = {}
    loaded.model.eval()
    if task != "proposals":
        sentences = caption_true_segments(loaded, loader)
        scores["cider"] = cider_of(sentences, loader.dataset)
        predictions["captions"] = _as_events(sentences, loader)
    if task != "captions":
        predictions["events"] = predict_events(loaded, loader, ranks)
    try:
        scores |= evaluator_scores(predictions, annotations) if ranks.leads else {}
    except (ImportError, InputError) as error:
        missing = f"no METEOR here ({error}); `densevid evaluate` scores RUN/validation/ afterwards"
    return ValidationScores(gather(scores)[0], predictions, missing)


@torch.inference_mode()
def caption_true_segments(loaded: LoadedModel, loader: SegmentLoader) -> dict[int, str]:
    """The most likely sentence of every held-out segment, by its number."""
    model, vocabulary, config = loaded.model, loaded.vocabulary, loaded.config
    decode = vocabulary.decode_released if model.released else vocabulary.decode
    sentences: dict[int, str] = {}
    for batch in loader.batches(0):
        with autocast(config, batch.valid_BT.device):
            state = model.caption_decoder.begin(segment_memory(model, batch))
            words_PL = generate_sentences(model, state, len(batch), config.inference).words_PL
        sentences |= dict(zip(batch.sample_P.tolist(), map(decode, words_PL.tolist()), strict=True))
    return {number: text for part in gather(sentences) for number, text in part.items()}


@torch.inference_mode()
def predict_events(loaded: LoadedModel, loader: SegmentLoader, ranks: Ranks) -> Events:
    """Events of the held-out videos; every rank predicts its share."""
    dataset = loader.dataset
    captioner = Captioner(loaded, device=loader.device, precision=loaded.config.training.precision)
    own = dataset.videos[ranks.rank :: ranks.count]
    mine = dict(zip(own, captioner.caption_many(map(dataset.source.track, own)), strict=True))
    together = {video: events for part in gather(mine) for video, events in part.items()}
    return {video: together[video] for video in dataset.videos}


def _as_events(sentences: dict[int, str], loader: SegmentLoader) -> Events:
    dataset, events = loader.dataset, Events()
    for number, true_event in enumerate(dataset.events):
        video = dataset.videos[int(dataset.video_N[number])]
        events.setdefault(video, []).append(Event(true_event.start, true_event.end, sentences[number]))
    return events
