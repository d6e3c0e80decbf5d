"""Tables of single clips: what each row says, scores and support, the paired difference, and pictures in a style."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel
from densevid.data.vocabulary import INIT, SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.fitting.sentence_confidence import fit_sentence_confidence
from densevid.timelines.clips import ClipCollection
from densevid.tracks import Clock, FeatureTrack
from densevid.video.labels import action_names, action_phrases
from helpers.made_sentences import made_events
from helpers.made_source import SECONDS, Made
from helpers.random_models import WIDTH, WORDS, random_model
from helpers.tagged_models import STREAMS, made_classifiers, tagged_model, tagged_track
from research.baselines.captions import NearestNeighbour
from research.baselines.spans import PriorGrid
from research.bundled_model.scores import FittedBaselines
from research.bundled_model.sentence_scores import (
    METRICS,
    PLAIN,
    SHOWN,
    OtherModel,
    WithoutStreams,
    clip_rows,
    clip_tables,
    label_sentences,
    picture_scores,
    share_of_five,
    with_style,
)

STEPS = 12
SPAN = (0.0, STEPS * SECONDS)
FREQUENT = "a man is talking"
TRUTH = {
    "clip0": ["a man is riding a horse", "a man rides a brown horse", "someone rides a horse in the park"],
    "clip1": ["a woman is slicing an onion", "a woman slices an onion", "a woman is cooking in a kitchen"],
    "clip2": ["a boy is kicking a ball", "the boy kicks a ball", "a boy plays with a ball on the grass"],
    "clip3": ["a girl is playing a guitar", "a girl plays the guitar", "the girl plays a guitar on a stage"],
}
SPANS = dict.fromkeys(TRUTH, SPAN)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> ClipCollection:
    """What references are read from."""
    folder = tmp_path_factory.mktemp("clips")
    entries = {name: {"split": "val", "seconds": SPAN[1], "captions": texts} for name, texts in TRUTH.items()}
    (folder / "clips.json").write_text(json.dumps(entries))
    return ClipCollection(folder, ())


@pytest.fixture
def classifiers() -> Iterator[None]:
    with made_classifiers():
        yield


def source_of(streams: tuple[tuple[str, int], ...] = STREAMS) -> Made:
    """The features of the four clips, and nothing else."""
    width = sum(width for _, width in streams)
    return Made({name: tagged_track(STEPS, n).values[:, :width] for n, name in enumerate(TRUTH)}, streams)


def baselines_of(source: Made) -> FittedBaselines:
    """Fitted to the first two clips."""
    pooled = np.stack([source.track(name).values.mean(axis=0) for name in list(TRUTH)[:2]])
    directions = (pooled - pooled.mean(axis=0)) / np.linalg.norm(pooled - pooled.mean(axis=0), axis=1, keepdims=True)
    neighbour = NearestNeighbour(pooled.mean(axis=0), directions, ("the first clip", "the second clip"))
    return FittedBaselines(neighbour, FREQUENT, PriorGrid(np.array([[0.0, 1.0]])))


def said(rows: dict[str, list[Event]]) -> list[str]:
    return [rows[name][0].sentence for name in TRUTH]


def of_sentences(*sentences: str) -> dict[str, list[Event]]:
    return {name: [Event(*SPAN, text)] for name, text in zip(TRUTH, sentences, strict=True)}


def styled_model(seed: int = 0) -> LoadedModel:
    """A random model that has two styles."""
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS[:-2], "<coco>", "<web>"))
    model = replace(random_model({}, {"max_words": 6, "no_repeat": 1}, seed), vocabulary=vocabulary)
    with torch.no_grad():
        model.model.caption_decoder.words.weight[list(vocabulary.styles.values())] *= 20
    return model


def test_a_style_changes_what_sentences_begin_with_and_nothing_else() -> None:
    model = styled_model()
    before = {name: tensor.clone() for name, tensor in model.model.state_dict().items()}
    styled = with_style(model, "coco")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.model.state_dict().items())
    (words,) = (name for name in before if name.endswith("caption_decoder.words.weight"))
    for name, tensor in styled.model.state_dict().items():
        if name != words:
            assert torch.equal(tensor, before[name]), name
    changed_V = (styled.model.state_dict()[words] != before[words]).any(dim=1)
    assert changed_V.nonzero().flatten().tolist() == [INIT]
    assert torch.equal(styled.model.state_dict()[words][INIT], before[words][model.vocabulary.styles["coco"]])
    with pytest.raises(InputError, match="not learned the style 'film'; it knows coco, web"):
        with_style(model, "film")
    with pytest.raises(InputError, match="it knows none"):
        with_style(random_model(), "coco")


def test_without_streams_all_but_one_are_zero() -> None:
    source = Made({"v": np.arange(1, 45).reshape(4, 11)}, (("scenes", 4), ("words", 4), ("actions", 3)))
    for kept, columns in (("scenes", slice(0, 4)), ("words", slice(4, 8)), ("actions", slice(8, 11))):
        without = WithoutStreams(source, kept)
        track, own = without.track("v"), source.track("v")
        np.testing.assert_array_equal(track.values[:, columns], own.values[:, columns])
        assert np.count_nonzero(track.values) == track.values[:, columns].size
        assert track.streams == own.streams and track.duration == own.duration
        assert without.videos() == ["v"] and "v" in without and "w" not in without
    assert source.arrays["v"].all(), "the features themselves stay"


def test_a_label_becomes_a_sentence_with_its_probability() -> None:
    def classifier(stream: str) -> tuple[np.ndarray, np.ndarray]:
        weight, bias = np.zeros((2, 400), np.float32), np.zeros(400, np.float32)
        for channel, name in enumerate(("playing guitar", "riding or walking with horse")):
            weight[channel, action_names().index(name)] = 1
        return weight, bias

    arrays = {"guitar": np.tile([9.0, 8.0], (4, 1)), "horse": np.array([[9.0, 0.0], [0.0, 20.0]])}
    source = Made(arrays, (("actions", 2),))
    with made_classifiers(made=classifier):
        rows = label_sentences(source, {"guitar": (0.0, 2.0), "horse": (0.0, 1.0)})
    (guitar,), (horse,) = rows["guitar"], rows["horse"]
    assert guitar.sentence == f"someone is {action_phrases()['playing guitar']}"
    assert horse.sentence == f"someone is {action_phrases()['riding or walking with horse']}", "the mean over steps"
    assert (guitar.start, guitar.end, horse.end) == (0.0, 2.0, 1.0)
    assert guitar.sentence_score == pytest.approx(np.e**9 / (np.e**9 + np.e**8 + 398), rel=1e-4)


def test_every_row_has_a_sentence_for_each_clip(classifiers: None) -> None:
    table = fit_sentence_confidence(made_events(60, 0), ("dog",), folds=5).as_table()
    model = replace(tagged_model(inference={"beam": 3}), sentence_confidence=table)
    source, other = source_of(), tagged_model(seed=3)
    rows = clip_rows(model, source, SPANS, baselines_of(source), {PLAIN: OtherModel(other, source)})
    assert list(rows)[:2] == ["model", SHOWN] and {PLAIN, "someone is LABEL"} < set(rows)
    for name, row in rows.items():
        assert list(row) == list(SPANS) and {len(events) for events in row.values()} == {1}, name
        assert {(event.start, event.end) for events in row.values() for event in events} == {SPAN}, name
    assert said(rows[PLAIN]) == captions(other, source) != said(rows["model"]) == captions(model, source)
    assert said(rows["most frequent sentence"]) == [FREQUENT] * 4
    assert said(rows["nearest training clip"])[:2] == ["the first clip", "the second clip"]
    absent = Made({name: tagged_track(STEPS, n, without_actions=True).values for n, name in enumerate(TRUTH)}, STREAMS)
    assert said(rows["model, without actions"]) == captions(model, absent)
    for (full,), (shown,) in zip(rows["model"].values(), rows[SHOWN].values(), strict=True):
        assert shown.sentence_score is not None
        assert (shown.full_sentence or shown.sentence) == full.sentence


def captions(model: LoadedModel, source: Made) -> list[str]:
    pairs = ((source.track(name), [SPAN]) for name in TRUTH)
    return [events[0].sentence for events in Captioner(model).caption_segments_many(pairs)]


def test_rows_that_need_something_else_are_left_out() -> None:
    """No sentence confidence, no actions, no other model."""
    source = source_of((("one", WIDTH),))
    rows = clip_rows(random_model(), source, SPANS, baselines_of(source), {})
    assert not {SHOWN, PLAIN, "someone is LABEL"} & set(rows) and "model, shuffled features" in rows


GOOD = ("a man is riding a horse", "a woman is slicing an onion", "a boy is kicking a ball", "a girl is playing")
POOR = ("a man is riding a horse", "a man is cooking in a kitchen", "a boy is on a stage", "a dog is running")


def test_the_model_is_compared_clip_by_clip_with_the_plain_captioner(collection: ClipCollection) -> None:
    tables = clip_tables({"model": of_sentences(*GOOD), PLAIN: of_sentences(*POOR)}, collection, SPANS)
    scores, compared = tables["scores"], tables["beside the plain captioner"]
    assert set(scores) == set(tables["support"]) == {"model", PLAIN}
    for metric in ("METEOR", "CIDEr"):
        (row,) = (row for name, row in compared.items() if metric in name and "micro" in name)
        low, high = row["interval"]
        assert row["difference"] == pytest.approx(scores["model"][metric] - scores[PLAIN][metric]), "in percent"
        assert low <= row["difference"] <= high and row["difference"] > 5 and 0 < row["p"] <= 1
    assert not any("Bleu" in name or "support" in name for name in compared)
    alone = clip_tables({"model": of_sentences(*GOOD), "other": of_sentences(*POOR)}, collection, SPANS)
    assert "beside the plain captioner" not in alone and alone["scores"]["model"] == scores["model"]


def test_support_counts_what_is_shown_and_full_sentences_apart(collection: ClipCollection) -> None:
    """Of four sentences one is shortened and one is not shown; scores are those of the full sentences alone."""
    model, shown = of_sentences(*GOOD), {}
    changes: list[dict[str, Any]] = [
        {"sentence_score": 0.9},
        {"sentence_score": 0.8, "sentence": "a woman is slicing", "shortened": True, "full_sentence": GOOD[1]},
        {"sentence_score": 0.7, "sentence": "a boy is in a house"},
        {"sentence_score": 0.1, "sentence": "", "full_sentence": GOOD[3]},
    ]
    for (name, (event,)), change in zip(model.items(), changes, strict=True):
        shown[name] = [replace(event, **change)]
    tables = clip_tables({"model": model, SHOWN: shown}, collection, SPANS)
    assert set(tables["scores"]) == {"model"} and set(tables["scores"]["model"]) == {*METRICS, "top 5"}
    support = tables["support"][SHOWN]
    assert (support["shown"]["coverage"], support["full"]["coverage"]) == (0.75, 0.5)
    assert support["shown"]["support"] == pytest.approx(2 / 3) and support["full"]["support"] == 0.5
    assert support["shortened"]["support"] == 1
    assert support["shown"]["at_coverage"]["0.5"]["support"] == 1, "the two most confident ones"
    assert support["shown"]["at_coverage"]["0.9"]["support"] is None, "fewer are shown"
    own = tables["support"]["model"]
    assert own["shown"]["coverage"] == own["full"]["coverage"] == 1
    assert own["shown"]["support"] == own["full"]["support"] + (own["full"]["shown"] - 4) / 4


def test_pictures_are_captioned_in_the_style_of_their_collection(tmp_path: Path) -> None:
    """Annotators who say what the model says in that style, so that any other sentence scores less."""
    model = styled_model()
    pictures_NF = np.random.default_rng(0).normal(size=(8, WIDTH)).astype(np.float16)
    styled = Captioner(with_style(model, "coco"))
    tracks = [FeatureTrack(picture_F[None], Clock.uniform(1.0), (("one", WIDTH),)) for picture_F in pictures_NF]
    own = [events[0].sentence for events in styled.caption_segments_many((track, [(0.0, 1.0)]) for track in tracks)]
    assert all(own) and len(set(own)) > 1
    folder = tmp_path / "coco"
    folder.mkdir()
    np.save(folder / "features.npy", pictures_NF)
    entries = {
        f"picture{row}": {"split": "val" if row else "train", "first_row": row, "rows": 1}
        | {"captions": [text, "somebody else saw clouds"][: 1 + row % 2]}
        for row, text in enumerate(own)
    }
    (folder / "clips.json").write_text(json.dumps(entries))
    scores = picture_scores(model, folder, 5)
    assert scores["pictures"] == 5 and set(scores) == {"pictures", *METRICS}
    assert scores["ROUGE_L"] == pytest.approx(100)
    assert picture_scores(model, folder, 99)["pictures"] == 7, "all of the split"
    folder.rename(tmp_path / "web")
    assert picture_scores(model, tmp_path / "web", 5)["ROUGE_L"] < 99
    (tmp_path / "web").rename(tmp_path / "film")
    with pytest.raises(InputError, match="not learned the style 'film'"):
        picture_scores(model, tmp_path / "film", 5)


def test_the_five_most_frequent_sentences_are_counted_in_full() -> None:
    said = ["a", "a", "a", "b", "b", "c", "d", "e", "f", "g"]
    full = {f"clip{n}": [Event(0.0, 1.0, text)] for n, text in enumerate(said)}
    assert share_of_five(full) == pytest.approx(80)
    shown = {clip: [Event(0.0, 1.0, "", full_sentence=event.sentence)] for clip, (event,) in full.items()}
    assert share_of_five(shown) == share_of_five(full), "what is shown of them makes no difference"
    assert share_of_five({}) == 0
