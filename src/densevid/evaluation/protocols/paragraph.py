"""Whole videos as paragraphs: sentences joined in file order, times ignored, multi-reference, all videos one corpus.

Every character that is not a letter is a space and the PTB tokenizer is not used. A video without predictions is the
empty paragraph. Video names of a file whose FIRST name lacks `v_` all get it, as the official evaluator does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.files import EventFile, Floats, Source, load
from densevid.evaluation.meteor.scorer import MeteorScorer
from densevid.evaluation.metrics.caption_index import MeteorRequest, TextIndex
from densevid.evaluation.metrics.ngrams import Items
from densevid.evaluation.metrics.text_scores import group_scores, score_items

_NOT_LETTERS = re.compile("[^a-zA-Z]+")
_BETWEEN_SENTENCES = ". "


@dataclass(frozen=True)
class ParagraphFile:
    """Reference paragraphs from a file of their own, video names repaired."""

    name: str
    digest: str
    by_video: dict[str, str]
    warnings: list[str]


@dataclass(frozen=True)
class ParagraphScores:
    """Sums of each video (V x S, see `text_scores`); the scores are those of their total."""

    videos: list[str]
    sums_VS: Floats

    def to_dict(self) -> dict[str, float]:
        """METEOR, BLEU, ROUGE-L and CIDEr of the whole corpus."""
        return {name: float(value[0]) for name, value in group_scores(self.sums_VS.sum(axis=0, keepdims=True)).items()}

    def per_video(self) -> dict[str, Floats]:
        """The scores of each video by itself (CIDEr with the corpus's document frequencies)."""
        return {f"paragraph_{name}": values_V for name, values_V in group_scores(self.sums_VS).items()}


@dataclass(frozen=True)
class ParagraphTask:
    """Paragraphs whose METEOR is computed in the background."""

    videos: list[str]
    items: Items
    index: TextIndex
    meteor: MeteorRequest

    def finish(self) -> ParagraphScores:
        """Score them."""
        one_corpus = np.zeros(len(self.videos), dtype=np.int64)
        scored = score_items(self.index, self.items, one_corpus, self.meteor)
        return ParagraphScores(self.videos, scored.item_sums())


def begin_paragraphs(
    predictions: Mapping[str, str], references: Sequence[Mapping[str, str]], meteor: MeteorScorer
) -> ParagraphTask:
    """Start to score one paragraph a video against the paragraphs of every reference file that has the video."""
    index = TextIndex(meteor)
    videos = list(dict.fromkeys(video for file in references for video in file))
    texts = [(place, file[video]) for place, video in enumerate(videos) for file in references if video in file]
    hypothesis_V = index.numbers([paragraph_words(predictions.get(video, "")) for video in videos])
    reference_P = index.numbers([paragraph_words(text) for _, text in texts])
    items = Items(hypothesis_V, np.array([place for place, _ in texts], dtype=np.int64), reference_P)
    return ParagraphTask(videos, items, index, index.submit_meteor(items))


def paragraphs_of(file: EventFile) -> dict[str, str]:
    """The sentences of each video of a file, joined."""
    joined: dict[str, list[str]] = {video: [] for video in file.videos}
    for video, sentence in zip(file.video_E.tolist(), file.sentences, strict=True):
        joined[file.videos[video]].append(sentence)
    return with_prefix({video: _BETWEEN_SENTENCES.join(sentences) for video, sentences in joined.items()})


def read_paragraphs(source: Source) -> ParagraphFile:
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
    """A warning about a file whose names were repaired."""
    return [f"{name}: the first video name lacks `v_`; for paragraphs all its names get it"] * lacks_prefix(videos)


def paragraph_words(text: str) -> str:
    """The words of a paragraph: runs of ASCII letters in lower case."""
    return _NOT_LETTERS.sub(" ", text).strip().lower()
