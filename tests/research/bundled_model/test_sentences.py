"""Sentence confidence of the bundled model: which held-out events it is fitted to, and whose annotators they have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel, save_model
from densevid.errors import InputError
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.fitting.held_out_sentences import HeldOutSentence
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.fitting.sentence_confidence import fit_sentence_confidence
from densevid.timelines.clips import Clip, ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.plan import Shot, TimelineEvent, TimelinePlan
from densevid.timelines.sentences import content_words
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import Clock, FeatureTrack
from densevid.video.labels import action_phrases, class_names
from helpers.made_sentences import made_events
from helpers.random_models import WIDTH, random_model
from helpers.tagged_models import made_classifiers, tagged_model
from research.bundled_model import sentences as module
from research.bundled_model.sentences import (
    fitted_sentence_confidence,
    fold_of,
    found_events,
    given_events,
    label_outcomes,
    picture_events,
    sentence_figures,
    source_of_event,
)

CALIBRATION = Calibration(LogisticCurve(("logit",), (1.0,), 3.0), LogisticCurve(("confidence",), (1.0,), 3.0))
CAPTIONED, NO_EVENT, ROWS = 24, 4, 20


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> ClipCollection:
    """Clips of two to a source; every sentence of a clip has a word that no other clip has, and counts differ."""
    clips = [
        Clip(
            f"clip{n}",
            "train",
            f"film{n // 2}",
            ROWS / 2,
            tuple(f"a dog runs {marker(n)} {word}" for word in ("one", "two", "three", "four")[: 2 + n % 3])
            if n < CAPTIONED
            else (),
            n * ROWS,
            ROWS,
        )
        for n in range(CAPTIONED + NO_EVENT)
    ]
    walks_NTF = np.random.default_rng(0).normal(size=(len(clips), ROWS, WIDTH)).cumsum(axis=1)
    features_RF = walks_NTF.reshape(-1, WIDTH).astype(np.float32)
    return ClipCollection(tmp_path_factory.mktemp("clips"), tuple(clips), features_RF)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    loaded = random_model({"kernels": [8, 16, 22]}, {"beam": 3, "no_repeat": 1, "summary_confidence": 0.0})
    return replace(loaded, calibration=CALIBRATION.as_table())


def marker(number: int) -> str:
    return f"place{number:02d}"


def users(event: HeldOutSentence) -> dict[int, int]:
    """How many annotators of an event used the word of a clip, for every clip that any of them did."""
    counts = {number: event.annotators.users(marker(number)) for number in range(CAPTIONED)}
    return {number: count for number, count in counts.items() if count}


def test_a_fold_and_its_model() -> None:
    assert fold_of("0=RUNS0/model") == (0, Path("RUNS0/model"))
    assert fold_of("3=a=b/model") == (3, Path("a=b/model"))


@pytest.mark.parametrize("text", ["", "0", "=model", "0=", "RUNS0/model", "one=model", "-1=model", "0.5=model"])
def test_what_is_no_fold_with_a_model_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match="expected FOLD=MODEL, such as 0=") as error:
        fold_of(text)
    assert "\n" not in str(error.value)


def test_given_events_are_whole_clips_with_their_own_annotators(collection: ClipCollection, model: LoadedModel) -> None:
    events = given_events(model, collection, "train")
    assert [event.source for event in events] == [f"film{n // 2}" for n in range(CAPTIONED)], "none without captions"
    assert [users(event) for event in events] == [{n: 2 + n % 3} for n in range(CAPTIONED)]
    assert [event.annotators.annotators for event in events] == [2 + n % 3 for n in range(CAPTIONED)]
    source, captioner = ClipFeatures(collection, "train"), Captioner(model)
    pairs = [(source.track(f"clip{n}"), [(0.0, ROWS / 2)]) for n in range(CAPTIONED)]
    alone = [next(iter(captioner.caption_segments_many([pair])))[0].sentence for pair in pairs]
    assert [event.evidence.caption for event in events] == alone and len(set(alone)) > 5


def test_only_clips_of_the_fold_are_held_out(collection: ClipCollection, model: LoadedModel) -> None:
    own = {clip.source for clip in collection.split("train-fold0") if clip.captions}
    assert {event.source for event in given_events(model, collection, "train-fold0")} == own
    assert 0 < len(own) < CAPTIONED / 2


def test_found_events_have_the_annotators_of_the_clips_that_they_show(
    collection: ClipCollection, model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMELINES", 4)
    events = found_events(model, collection, "train")
    generator = TimelineGenerator(collection, "train", seed=module.SEED)
    planned = [event.sentences for index in range(4) for event in generator.plan(index).events]
    counts = [{n: c for n in range(CAPTIONED) if (c := " ".join(said).count(marker(n)))} for said in planned]
    counts += [{n: 2 + n % 3} for n in range(CAPTIONED)]
    owned = [event for event in events if event.annotators.annotators]
    assert owned
    assert {event.source for event in events} <= {f"film{n // 2}" for n in range(CAPTIONED)}
    for event in owned:
        assert users(event) in counts
        assert event.source in {f"film{number // 2}" for number in users(event)}, "its own, also in a timeline"


def test_the_source_of_an_event_is_that_of_the_clip_in_its_middle() -> None:
    clips = [Clip(name, "train", f"film of {name}", 5.0, ()) for name in "ab"]
    shots = [Shot(clips[number], 20, 0, ticks) for number, ticks in ((0, 5), (1, 10), (0, 5))]
    events = [TimelineEvent(start, end, ()) for start, end in ((0, 5), (0, 9), (4, 15), (5, 15), (14, 16), (15, 20))]
    plan = TimelinePlan(0.5, shots, [], events)
    assert [source_of_event(plan, event)[-1] for event in events] == ["a", "a", "b", "b", "a", "a"]


def test_a_model_without_confidence_finds_no_events(collection: ClipCollection, model: LoadedModel) -> None:
    with pytest.raises(InputError, match="needs a fitted confidence; pack it first"):
        found_events(replace(model, calibration=None), collection, "train")


def test_the_events_of_all_folds_fit_one_confidence(
    collection: ClipCollection,
    model: LoadedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the order in which the folds are given, with the words of their models."""
    for number in range(2):
        save_model(tmp_path / f"model{number}", model, {})
    made, seen = {"train-fold0": made_events(40, 0), "train-fold3": made_events(60, 1)}, []

    def events(kind: str) -> Any:
        def of_fold(loaded: LoadedModel, collection: ClipCollection, split: str) -> list[HeldOutSentence]:
            seen.append((kind, split))
            return made[split]

        return of_fold

    monkeypatch.setattr(module, "found_events", events("found"))
    monkeypatch.setattr(module, "given_events", events("given"))
    monkeypatch.setattr(ClipCollection, "read", classmethod(lambda cls, folder, **_: collection))
    table = fitted_sentence_confidence([(0, tmp_path / "model0")], [(3, tmp_path / "model1")], tmp_path)
    assert seen == [("found", "train-fold0"), ("given", "train-fold3")]
    together = fit_sentence_confidence([*made["train-fold0"], *made["train-fold3"]], model.vocabulary.tokens)
    assert table == together.as_table()
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("40 held-out events of train-fold0") and second.endswith("60 held-out events of train-fold3")
    line = sentence_figures(table)
    assert line.startswith("100 events: ") and f"support {table['fitted']['support']:.1%}" in line


def test_the_trust_in_labels_is_fitted_on_clips_that_are_not_held_out(tmp_path: Path) -> None:
    """Of each label, the share of its words that annotators of the clip used."""
    with made_classifiers():
        loaded = tagged_model()
    rng = np.random.default_rng(1)
    texts = ("someone is juggling balls", "a man is bowling", "nothing to see")
    clips = [
        Clip(f"c{n}", "train", f"film{n}", ROWS / 2, (texts[n % 3],) * 2 if n != 5 else (), n * ROWS, ROWS)
        for n in range(12)
    ]
    width = sum(loaded.config.features.widths)
    features = rng.normal(size=(12 * ROWS, width)).astype(np.float32)
    made = ClipCollection(tmp_path, tuple(clips), features)
    found = label_outcomes(loaded, made, {"film0"}, ())
    tagger = loaded.model.tagger
    assert tagger is not None
    names = [name for stream in loaded.config.features.streams for name in class_names(stream)]
    want = set()
    for clip in clips[1:]:
        if not clip.captions:
            continue
        rows = torch.from_numpy(features[clip.first_row : clip.first_row + ROWS])[None]
        labels = tagger(rows, torch.ones(1, ROWS))
        for number, value in zip(labels.label_PN[0].tolist(), labels.value_PN[0].tolist(), strict=True):
            words = content_words(action_phrases().get(names[number], names[number]))
            if words:
                used = len(words & content_words(clip.captions[0])) / len(words)
                want.add((names[number], round(value, 3), round(used, 3)))
    assert {(one.label.name, round(one.label.value, 3), round(one.used, 3)) for one in found} == want
    assert {one.label.phrase is None for one in found} == {True, False}


def test_held_out_pictures_are_events_captioned_as_videos_are(model: LoadedModel, tmp_path: Path) -> None:
    """In the style of videos, with the annotators of the picture; pictures that were learned from are none."""
    pictures_NF = np.random.default_rng(0).normal(size=(5, WIDTH)).astype(np.float16)
    np.save(tmp_path / "features.npy", pictures_NF)
    entries = {
        f"picture{row}": {"split": "val" if row else "train", "source": f"photo{row}", "first_row": row, "rows": 1}
        | {"captions": [f"a dog runs {marker(row)} {word}" for word in ("one", "two", "three", "four")[: max(row, 1)]]}
        for row in range(5)
    }
    (tmp_path / "clips.json").write_text(json.dumps(entries))
    events = picture_events(model, tmp_path)
    tracks = [FeatureTrack(picture_F[None], Clock.uniform(1.0), (("one", WIDTH),)) for picture_F in pictures_NF[1:]]
    captions = Captioner(model).caption_segments_many((track, [(0.0, 1.0)]) for track in tracks)
    assert [event.evidence.caption for event in events] == [own[0].sentence for own in captions]
    assert [users(event) for event in events] == [{row: row} for row in range(1, 5)]
    assert [event.source for event in events] == [f"{tmp_path.name} photo{row}" for row in range(1, 5)]
