"""The gate of tags, fitted to made clips: it finds out which classes annotators say, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from densevid.config import Config
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.tags import Classes, Labels
from densevid.timelines.captions import CaptionCollection, CaptionMixture
from densevid.timelines.clips import Clip
from densevid.timelines.sentences import content_words
from densevid.timelines.taught_labels import used_words
from densevid.training import tag_gate
from densevid.training.tag_gate import fit_tag_gate, taught_labels

ACTIONS = ("playing a guitar", "riding a horse", "slicing an onion", "swimming", "dancing", "the")
OBJECTS = ("a dog", "a cat", "a car", "a boat")
TEXTS: list[tuple[str, ...]] = [OBJECTS, (), ACTIONS]
WIDTHS = (len(OBJECTS), 3, len(ACTIONS))
COUNT = 2


def model() -> MaskedTransformer:
    """Classes are channels of the features: a classifier that can be read off."""
    config = Config().with_values(
        {
            "model": {"width": 8, "hidden": 8, "heads": 2, "layers": 1, "window": 20, "kernels": [2], "tags": COUNT},
            "features": {"streams": ["appearance", "other", "actions"], "widths": list(WIDTHS)},
        }
    )
    torch.manual_seed(0)
    made = MaskedTransformer(config, 30)
    assert made.tagger is not None
    nothing = torch.zeros(1, dtype=torch.long)
    made.tagger.set_classes(
        [
            Classes(torch.eye(width), torch.zeros(width), nothing.expand(width, 1)) if texts else None
            for width, texts in zip(WIDTHS, TEXTS, strict=True)
        ]
    )
    return made


def clips(count: int, seed: int, *, actions: bool = True) -> tuple[list[Clip], np.ndarray]:
    """The surer a classifier is of an action, the more often annotators say it; objects they never say."""
    rng = np.random.default_rng(seed)
    found: list[Clip] = []
    rows: list[np.ndarray] = []
    for number in range(count):
        length, action = int(rng.integers(1, 5)), int(rng.integers(len(ACTIONS)))
        sure = rng.uniform(0, 6)
        values = rng.normal(size=(length, sum(WIDTHS))) * 0.3
        values[:, -len(ACTIONS) + action] += sure
        if not actions:
            values[:, -len(ACTIONS) :] = 0
        said = ACTIONS[action] if rng.random() < 1 / (1 + np.exp(3 - sure)) else "looking at something"
        source = f"{seed}-{number}"
        found.append(Clip(source, "train", source, 1.0, (f"A man is {said}.",), sum(map(len, rows)), length))
        rows.append(values)
    return found, np.concatenate(rows).astype(np.float16)


def mixture(*parts: tuple[list[Clip], np.ndarray]) -> CaptionMixture:
    (own, footage), *others = parts
    collections = [
        CaptionCollection(f"more{n}", 1.0, tuple(more), values, "") for n, (more, values) in enumerate(others)
    ]
    return CaptionMixture(own, footage, collections)


def labelled(made: MaskedTransformer, data: CaptionMixture) -> list[tuple[Clip, Labels]]:
    """The labels of every clip, one by one."""
    assert made.tagger is not None
    found = []
    for first, some in data.parts:
        for clip in some:
            place = first + clip.first_row
            values = torch.from_numpy(data.footage[place : place + clip.rows].astype(np.float32))[None]
            found.append((clip, made.tagger(values, torch.ones(1, clip.rows))))
    return found


def judged(pairs: list[tuple[Clip, Labels]], stream: int) -> tuple[np.ndarray, np.ndarray]:
    """Of every label of a stream that has words: its value, and the share of its words that were used."""
    columns = slice(0, COUNT) if stream == 0 else slice(-COUNT, None)
    values, shares = [], []
    texts = [content_words(text) for own in TEXTS for text in own]
    for clip, labels in pairs:
        rows = zip(labels.label_PN[0, columns].tolist(), labels.value_PN[0, columns].tolist(), strict=True)
        for label, value in rows:
            if texts[label] and labels.valid_PN[0, columns].all():
                values.append(value)
                shares.append(len(texts[label] & used_words(clip.captions)) / len(texts[label]))
    return np.array(values), np.array(shares)


def test_the_gate_learns_which_labels_are_right() -> None:
    made, data = model(), mixture(clips(500, 0))
    lines = fit_tag_gate(made, data, TEXTS)
    assert len(lines) == 2 and lines[0].startswith("gate of tags 1: fitted on 1,000 labels, 0.00 of")
    assert lines[1].startswith("gate of tags 3:")
    values, shares = judged(labelled(made, data), 2)
    assert values.mean() == pytest.approx(shares.mean(), abs=1e-3), "the bias is free"
    objects, _ = judged(labelled(made, data), 0)
    assert objects.max() < 0.05, "objects are never said"
    values, shares = judged(labelled(made, mixture(clips(600, 1))), 2)  # of other clips
    assert values[shares == 1].mean() > values[shares == 0].mean() + 0.4
    for low, high in ((0, 0.2), (0.2, 0.6), (0.6, 1)):
        part = (values >= low) & (values < high)
        assert part.sum() > 30 and values[part].mean() == pytest.approx(shares[part].mean(), abs=0.1)


def test_batches_of_clips_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    gates = []
    for size in (256, 7):
        monkeypatch.setattr(tag_gate, "CLIPS_AT_ONCE", size)
        made = model()
        fit_tag_gate(made, mixture(clips(120, 2), clips(60, 3)), TEXTS)
        assert made.tagger is not None
        gates.append(torch.cat([made.tagger.gate_SE, made.tagger.bias_S[:, None]], dim=1))
    torch.testing.assert_close(gates[0], gates[1], atol=1e-3, rtol=1e-3)


def test_a_stream_with_few_labels_keeps_its_gate() -> None:
    made, plain = model(), model()
    few, values = clips(100, 4)
    values[few[40].first_row :, -len(ACTIONS) :] = 0  # 40 clips have actions
    lines = fit_tag_gate(made, mixture((few, values)), TEXTS)
    assert [line.split(":")[0] for line in lines] == ["gate of tags 1"]
    assert made.tagger is not None and plain.tagger is not None
    assert torch.equal(made.tagger.gate_SE[1:], plain.tagger.gate_SE[1:])
    assert not torch.equal(made.tagger.gate_SE[0], plain.tagger.gate_SE[0])


def test_clips_of_other_collections_count_for_the_gate() -> None:
    made, data = model(), mixture(clips(80, 5), clips(60, 6, actions=False))
    lines = fit_tag_gate(made, data, TEXTS)
    assert lines[0].startswith("gate of tags 1: fitted on 280 labels")
    assert len(lines) == 2 and int(lines[1].split("fitted on ")[1].split(" ")[0]) <= 160


def test_what_is_taught_is_what_the_classifier_predicts_for_the_timelines_clips() -> None:
    made, data = model(), mixture(clips(80, 7), clips(60, 8))
    fit_tag_gate(made, data, TEXTS)
    taught = taught_labels(made, data, TEXTS, 0.5)
    assert taught is not None and taught.chance == 0.5
    first = len(OBJECTS)
    words = {first + number: content_words(text) for number, text in enumerate(ACTIONS)}
    assert taught.words == {label: own for label, own in words.items() if own}

    def rows(values: Any) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, values))

    want = []
    for clip, labels in labelled(made, data)[:80]:
        own, used = labels.label_PN[0, -COUNT:].tolist(), used_words(clip.captions)
        right = [bool(words[label]) and words[label] <= used for label in own]
        want.append((*own, *right, *(round(value, 3) for value in labels.value_PN[0, -COUNT:].tolist())))
    predicted = taught.predicted
    found = [
        (*labels.tolist(), *right.tolist(), *(round(float(value), 3) for value in values))
        for labels, right, values in zip(predicted.label_MN, predicted.right_MN, predicted.value_MN, strict=True)
    ]
    assert [row[: 2 * COUNT] for row in rows(found)] == [row[: 2 * COUNT] for row in rows(want)]
    np.testing.assert_allclose(np.array(rows(found), float), np.array(rows(want), float), atol=2e-3)


def test_nothing_is_taught_without_classes_or_with_few_clips() -> None:
    made, data = model(), mixture(clips(40, 9), clips(60, 10))
    assert taught_labels(made, data, TEXTS, 0.5) is None, "40 clips of the timelines are too few"
    assert taught_labels(made, mixture(clips(60, 9)), TEXTS, 0.5) is not None
    assert made.tagger is not None
    made.tagger.set_classes([Classes(torch.eye(4), torch.zeros(4), torch.zeros(4, 1, dtype=torch.long)), None, None])
    assert taught_labels(made, mixture(clips(60, 9)), [OBJECTS, (), ()], 0.5) is None
