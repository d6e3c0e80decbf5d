"""Paragraph scores as plain loops: times ignored, every annotator's paragraph a reference, all videos one corpus."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def paragraphs(results: dict[str, Any], references: Sequence[Any], scorers: Any) -> dict[str, float]:
    """Scores of one paragraph a video; a video without predictions is the empty paragraph. No tokenizer is used."""
    videos = list(dict.fromkeys(video for file in references for video in file))
    pairs = []
    for video in videos:
        golds = [words(file[video]["sentences"]) for file in references if video in file]
        pairs.append((words([event["sentence"] for event in results.get(video, [])]), golds))
    return scorers.corpus(pairs)


def words(sentences: Sequence[str]) -> str:
    """The sentences in file order: letters in lower case, everything else a space."""
    return " ".join(re.sub("[^a-zA-Z]", " ", ". ".join(sentences)).lower().split())
