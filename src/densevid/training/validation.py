"""Validation: the losses on held-out segments every epoch, and scores of sentences and proposals every few epochs.

What the evaluator would add where it is not installed can be scored afterwards: predictions are written in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.loading import Loader
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.decoding import sentences as decode_sentences
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.learner import PARTS, autocast
from densevid.training.ranks import Ranks, gather, mean_over_ranks
from densevid.training.scores import Events, cider_of, evaluator_scores
from densevid.training.step import segment_memory, total_loss


@dataclass(frozen=True)
class Scored:
    """Scores by their column in the metrics, the events they are of, and why there are not more of them."""

    scores: dict[str, float]
    predictions: dict[str, Events]
    missing: str | None = None


@torch.no_grad()
def validation_losses(model: MaskedTransformer, loader: Loader, config: Config) -> dict[str, float]:
    """Each loss over the held-out segments, the same anchors drawn every time; all ranks take part."""
    model.eval()
    sums, count = torch.zeros(len(PARTS) - 1, dtype=torch.float64), 0
    for size, batch in zip(loader.sizes(0), loader.batches(0), strict=True):
        with autocast(config, batch.valid_BT.device):
            total, losses = total_loss(model, batch, config)
        values = torch.stack([total.float(), *(value.float() for value in losses.detached().values())])
        sums += mean_over_ranks(values).double().cpu() * size
        count += size
    return dict(zip(PARTS, (sums / count).tolist(), strict=False))


def validation_scores(loaded: LoadedModel, loader: Loader, told: Annotations, ranks: Ranks) -> Scored:
    """All that the task can be scored by; all ranks predict, and all have the result."""
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
        scores |= evaluator_scores(predictions, told) if ranks.leads else {}
    except (ImportError, InputError) as error:
        missing = f"no METEOR here ({error}); `densevid evaluate` scores RUN/validation/ afterwards"
    return Scored(gather(scores)[0], predictions, missing)


@torch.inference_mode()
def caption_true_segments(loaded: LoadedModel, loader: Loader) -> dict[int, str]:
    """The most likely sentence of every held-out segment, by its number."""
    model, vocabulary, config = loaded.model, loaded.vocabulary, loaded.config
    decode = vocabulary.decode_released if model.released else vocabulary.decode
    sentences: dict[int, str] = {}
    for batch in loader.batches(0):
        with autocast(config, batch.valid_BT.device):
            state = model.caption_decoder.begin(segment_memory(model, batch))
            words_PL = decode_sentences(model, state, len(batch), config.inference).words_PL
        sentences |= dict(zip(batch.sample_P.tolist(), map(decode, words_PL.tolist()), strict=True))
    return {number: text for part in gather(sentences) for number, text in part.items()}


@torch.inference_mode()
def predict_events(loaded: LoadedModel, loader: Loader, ranks: Ranks) -> Events:
    """Events of the held-out videos (of the first `evaluate_videos` of them, if that is set)."""
    config, dataset = loaded.config, loader.dataset
    videos = dataset.videos[: config.training.evaluate_videos or None]
    captioner = Captioner(loaded, device=loader.device, precision=config.training.precision)
    own = videos[ranks.rank :: ranks.count]
    mine = dict(zip(own, captioner.caption_many(map(dataset.source.track, own)), strict=True))
    together = {video: events for part in gather(mine) for video, events in part.items()}
    return {video: together[video] for video in videos}


def _as_events(sentences: dict[int, str], loader: Loader) -> Events:
    dataset, events = loader.dataset, Events()
    for number, told in enumerate(dataset.told):
        video = dataset.videos[int(dataset.video_N[number])]
        events.setdefault(video, []).append(Event(told.start, told.end, sentences[number]))
    return events
