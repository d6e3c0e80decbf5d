"""Whole videos as paragraphs: sentences joined in file order, times ignored, true multi-reference, one corpus.

Every character that is not a letter is a space and the PTB tokenizer is not used. A video without predictions is the
empty paragraph. Video names of a file whose FIRST name lacks `v_` all get it, as the official evaluator does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.files import EventTable, Floats, load
from densevid.evaluation.metrics.corpus import group_scores, item_scores
from densevid.evaluation.metrics.meteor import Meteor
from densevid.evaluation.metrics.ngrams import Items
from densevid.evaluation.metrics.text_pool import TextIndex

_NOT_LETTERS = re.compile("[^a-zA-Z]+")
_BETWEEN_SENTENCES = ". "


@dataclass(frozen=True)
class ParagraphFile:
    """Reference paragraphs as the user wrote them down, video names repaired."""

    name: str
    digest: str
    by_video: dict[str, str]
    warnings: list[str]


@dataclass(frozen=True)
class Paragraphs:
    """Sums of each video (V x S, see `corpus`); the scores are those of their total."""

    videos: list[str]
    sums_VS: Floats

    def scores(self) -> dict[str, float]:
        """METEOR, BLEU, ROUGE-L and CIDEr of the whole corpus."""
        return {name: float(value[0]) for name, value in group_scores(self.sums_VS.sum(axis=0, keepdims=True)).items()}

    def per_video(self) -> dict[str, Floats]:
        """The scores of each video by itself (CIDEr with the corpus's document frequencies)."""
        return group_scores(self.sums_VS)


@dataclass(frozen=True)
class ParagraphTask:
    """Paragraphs that METEOR is at work on."""

    videos: list[str]
    items: Items
    pool: TextIndex

    def finish(self) -> Paragraphs:
        """Score them."""
        one_corpus = np.zeros(len(self.videos), dtype=np.int64)
        return Paragraphs(self.videos, item_scores(self.pool, self.items, one_corpus).item_sums())


def begin_paragraphs(
    predictions: Mapping[str, str], references: Sequence[Mapping[str, str]], meteor: Meteor
) -> ParagraphTask:
    """Start to score one paragraph a video against the paragraphs of every reference file that has the video."""
    pool = TextIndex(meteor)
    videos = list(dict.fromkeys(video for file in references for video in file))
    told = [(place, file[video]) for place, video in enumerate(videos) for file in references if video in file]
    hypothesis_V = pool.numbers([paragraph_words(predictions.get(video, "")) for video in videos])
    reference_P = pool.numbers([paragraph_words(text) for _, text in told])
    items = Items(hypothesis_V, np.array([place for place, _ in told], dtype=np.int64), reference_P)
    pool.begin_meteor(items)
    return ParagraphTask(videos, items, pool)


def paragraphs_of(rows: EventTable) -> dict[str, str]:
    """The sentences of each video of a file, joined."""
    joined: dict[str, list[str]] = {video: [] for video in rows.videos}
    for video, sentence in zip(rows.video_E.tolist(), rows.sentences, strict=True):
        joined[rows.videos[video]].append(sentence)
    return with_prefix({video: _BETWEEN_SENTENCES.join(sentences) for video, sentences in joined.items()})


def read_paragraphs(source: Path | str | Mapping[str, Any]) -> ParagraphFile:
    """Read a paragraph file: `{video: text}`."""
    name, digest, content, warnings = load(source, "paragraphs")
    if not isinstance(content, Mapping):
        raise InputError(f"{name}: paragraphs need {{video: text}}")
    for video, text in content.items():
        if not isinstance(text, str):
            raise InputError(f"{name}: video {video}: a paragraph must be text, got {type(text).__name__}")
    return ParagraphFile(name, digest, with_prefix(content), warnings + prefix_notes(name, content))


def with_prefix(by_video: Mapping[str, str]) -> dict[str, str]:
    """The official evaluator's repair of names without `v_`."""
    prefix = "v_" if lacks_prefix(by_video) else ""
    return {prefix + video: text for video, text in by_video.items()}


def lacks_prefix(videos: Iterable[str]) -> bool:
    """Whether the first name lacks `v_`, so that all names get it."""
    return not next(iter(videos), "v_").startswith("v_")


def prefix_notes(name: str, videos: Iterable[str]) -> list[str]:
    """What to say about a file whose names were repaired."""
    return [f"{name}: the first video name lacks `v_`; for paragraphs all its names get it"] * lacks_prefix(videos)


def paragraph_words(text: str) -> str:
    """The words of a paragraph: runs of ASCII letters in lower case."""
    return _NOT_LETTERS.sub(" ", text).strip().lower()
