"""The gate of tags: how far each predicted class of a clip can be trusted, fitted to what annotators write.

A classifier is sure of many clips that show nothing of the kind: I3D has no class "none of these". So the value of a
tag is a logistic regression on the evidence about its class (`model/tags.py`), one for each stream; its target is the
share of the class's content words that enough annotators of the clip used. It is fitted once, before words are learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from densevid.inference.fitting.logistic import logistic_fit
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.tags import EVIDENCE, Labels, Tagger
from densevid.timelines.captions import CaptionMixture
from densevid.timelines.clips import Clip
from densevid.timelines.sentences import content_words
from densevid.timelines.taught_labels import PredictedLabels, TaughtLabels, used_words

MOST_CLIPS = 4000  # of a collection
CLIPS_AT_ONCE = 256
RIDGE = 1.0  # of standardised evidence
FEWEST = 50  # clips with labels of a stream; with fewer its gate stays


def fit_tag_gate(model: MaskedTransformer, mixture: CaptionMixture, texts: Sequence[Sequence[str]]) -> list[str]:
    """Fit the gate of every stream that has classes.

    Args:
        model: A model with tags and classes; its gate changes.
        mixture: The clips, with the sentences of their annotators.
        texts: The texts of each stream's classes; none for a stream without.

    Returns:
        A line for each stream: on how many clips its gate was fitted.
    """
    tagger = model.tagger
    assert tagger is not None
    words_C = [content_words(text) for stream in texts for text in stream]
    evidence: dict[int, list[np.ndarray]] = {}
    target: dict[int, list[float]] = {}
    for clips, labels in predicted_labels(tagger, mixture):
        first_S = np.array(tagger.first_S)
        used = [used_words(clip.captions) for clip in clips]
        for row, column in zip(*np.nonzero(labels.valid_PN.cpu().numpy()), strict=True):
            label = int(labels.label_PN[row, column])
            if words := words_C[label]:
                stream = int(np.searchsorted(first_S, label, side="right")) - 1
                evidence.setdefault(stream, []).append(labels.evidence_PNE[row, column].cpu().numpy())
                target.setdefault(stream, []).append(len(words & used[row]) / len(words))
    lines = []
    for stream, rows in sorted(evidence.items()):
        if len(rows) >= FEWEST * tagger.count:
            _fit(tagger, stream, np.array(rows, np.float64), np.array(target[stream]))
            share = f"{np.mean(target[stream]):.2f} of their words were used"
            lines.append(f"gate of tags {stream + 1}: fitted on {len(rows):,} labels, {share}")
    return lines


def taught_labels(
    model: MaskedTransformer, mixture: CaptionMixture, texts: Sequence[Sequence[str]], chance: float
) -> TaughtLabels | None:
    """What teaches the tags of the last stream on clips that lack it (`timelines/taught_labels.py`).

    Args:
        model: A model whose gate is fitted.
        mixture: The clips; the first collection, that of the timelines, has the stream.
        texts: The texts of each stream's classes.
        chance: How often such a clip gets tags.

    Returns:
        None where the stream has no classes, or too few clips have labels of it.
    """
    tagger = model.tagger
    assert tagger is not None
    stream, count = len(tagger.classes) - 1, tagger.count
    first = tagger.first_S[stream]
    words = {first + number: content_words(text) for number, text in enumerate(texts[stream])}
    rows: list[tuple[list[int], list[float], list[bool]]] = []
    for clips, labels in predicted_labels(tagger, mixture, collections=1) if tagger.classes[stream] else ():
        own = slice(-count, None)
        columns = (labels.label_PN[:, own].tolist(), labels.value_PN[:, own].tolist(), labels.valid_PN[:, own].tolist())
        for clip, label_N, value_N, valid_N in zip(clips, *columns, strict=True):
            if all(valid_N):
                used = used_words(clip.captions)
                rows.append((label_N, value_N, [bool(words[label]) and words[label] <= used for label in label_N]))
    if len(rows) < FEWEST:
        return None
    label_MN, value_MN, right_MN = (np.array(column) for column in zip(*rows, strict=True))
    return TaughtLabels(PredictedLabels(label_MN, value_MN.astype(np.float32), right_MN), words, chance)


def _fit(tagger: Tagger, stream: int, values_NE: np.ndarray, target_N: np.ndarray) -> None:
    mean_E, scale_E = values_NE.mean(axis=0), values_NE.std(axis=0)
    scale_E[scale_E == 0] = 1
    weight_E, bias = logistic_fit((values_NE - mean_E) / scale_E, target_N, np.ones(len(target_N)), RIDGE)
    slope_E = weight_E / scale_E
    assert len(slope_E) == len(EVIDENCE)
    tagger.gate_SE[stream] = torch.from_numpy(slope_E)
    tagger.bias_S[stream] = float(bias - slope_E @ mean_E)


def predicted_labels(
    tagger: Tagger, mixture: CaptionMixture, collections: int | None = None
) -> Iterator[tuple[list[Clip], Labels]]:
    """Clips of all (or the first) collections, so many of each at most, and their labels."""
    device = tagger.gate_SE.device
    for first_row, clips in mixture.parts[:collections]:
        step = max(1, len(clips) // MOST_CLIPS)
        chosen = sorted(clips[::step], key=lambda clip: clip.rows)
        for start in range(0, len(chosen), CLIPS_AT_ONCE):
            part = chosen[start : start + CLIPS_AT_ONCE]
            longest = max(clip.rows for clip in part)
            features_BTF = np.zeros((len(part), longest, mixture.footage.shape[1]), np.float32)
            mask_BT = np.zeros((len(part), longest), np.float32)
            for row, clip in enumerate(part):
                place = first_row + clip.first_row
                features_BTF[row, : clip.rows] = mixture.footage[place : place + clip.rows]
                mask_BT[row, : clip.rows] = 1
            yield part, tagger(torch.from_numpy(features_BTF).to(device), torch.from_numpy(mask_BT).to(device))
