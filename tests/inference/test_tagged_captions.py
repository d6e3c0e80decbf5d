"""Captions of a model with tags: every way to decode gives the same, and a folder keeps what it can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel, load_model, save_model
from densevid.data.vocabulary import EOS, INIT, PAD, tokenize
from densevid.errors import InputError
from densevid.fast_forms import FastForm
from densevid.inference import generator, long_video
from densevid.inference.captioner import Captioner
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.search import NEVER_GENERATED, sentence_lengths
from densevid.kernels.caption_generator import PackedCaptionGenerator
from densevid.model.caption_decoder import DecodingState
from densevid.model.masked_transformer import MaskedTransformer
from densevid.video.labels import action_names, action_phrases, class_texts
from helpers.random_models import WORDS
from helpers.tagged_models import STREAMS, made_classifier, made_classifiers, tagged_model, tagged_track

TRACKS = [tagged_track(40), tagged_track(13, 1), tagged_track(29, 2, without_actions=True), tagged_track(1, 3)]
SPANS = [(0.0, 20.0), (3.0, 6.5), (1.0, 2.0), (7.0, 19.0)]


@pytest.fixture(autouse=True)
def classifiers() -> Iterator[None]:
    with made_classifiers():
        yield


def segments(loaded: LoadedModel, rows: int = 2) -> tuple[MaskedTransformer, Any, torch.Tensor, torch.Tensor]:
    """A model, two encoded videos, and masks of their events."""
    model = loaded.model
    features = torch.stack([torch.from_numpy(np.asarray(tagged_track(20, seed).values)) for seed in range(rows)])
    video = model.encode(features, torch.ones(rows, 20, dtype=torch.bool), padded=False)
    mask = torch.rand(5, 20, generator=torch.Generator().manual_seed(0))
    mask[1, 6:] = 0
    return model, video, mask, torch.tensor([0, 0, 0, 1, 1])


@torch.inference_mode()
def test_greedy_words_have_the_log_probabilities_of_all_words_at_once() -> None:
    captioner = Captioner(tagged_model())
    model, video, mask, video_P = segments(captioner.loaded)
    beams = captioner.caption_generator(video, mask, video_P)
    words = beams.words_PKL[:, 0]
    tags = model.tags(video, mask, video_P)
    assert tags is not None
    before = torch.cat((torch.full((5, 1), INIT), words[:, :-1]), dim=1)
    told = model.next_words(before, model.begin_caption(video.select(video_P), mask, tags)).clone()
    told[..., :NEVER_GENERATED] = -torch.inf
    log = told.log_softmax(dim=-1)
    spoken = words != PAD
    assert torch.equal(log.argmax(dim=-1)[spoken], words[spoken])
    sums = (log.gather(2, words.clamp(min=EOS)[..., None])[..., 0] * spoken).sum(dim=1)
    torch.testing.assert_close(beams.log_probability_PK[:, 0], sums / sentence_lengths(words), atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_word_by_word_equals_all_at_once_and_side_by_side() -> None:
    model, video, mask, video_P = segments(tagged_model())
    tags, shown = model.tags(video, mask, video_P), video.select(video_P)
    words = torch.randint(4, 100, (10, 6), generator=torch.Generator().manual_seed(1))
    rows = torch.arange(5).repeat_interleave(2)
    want = model.next_words(words, model.begin_caption(shown, mask, tags))
    assert tags is not None
    alone = model.begin_caption(video.select(video_P[rows]), mask[rows], tags.select(rows))
    torch.testing.assert_close(model.next_words(words, alone), want, atol=1e-4, rtol=1e-4)
    state = model.begin_caption(shown, mask, tags)
    state.branch(2)
    parts = [model.next_words(words[:, place : place + 1], state) for place in range(6)]
    torch.testing.assert_close(torch.cat(parts, dim=1), want, atol=1e-4, rtol=1e-4)
    some = torch.tensor([4, 1])
    state = model.begin_caption(shown, mask, tags)
    state.select(some)
    torch.testing.assert_close(model.next_words(words[some * 2], state), want[some * 2], atol=1e-4, rtol=1e-4)


VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"mask": "discrete"}, {"beam": 3}),
    ({"mask": "learned"}, {"mask_floor": 0.4}),
    ({"focus": "mask"}, {"beam": 4, "no_repeat": 2, "mbr_weight": 0.8, "word_prior_weight": 3.0}),
    ({"compat": "released"}, {"min_before_suppression": 20}),
    ({}, {"beam": 3, "mbr_weight": 0.8, "habit_weight": 0.5}),
    ({"copy_tags": False}, {"beam": 2}),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_packed_events_have_the_captions_of_plain_ones(variant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tagged_model(*variant)
    packed = Captioner(loaded)
    assert isinstance(packed.caption_generator, PackedCaptionGenerator)
    ours = list(packed.captioned(TRACKS))
    monkeypatch.setattr(generator, "FAST_GENERATORS", FastForm())
    plain = Captioner(loaded)
    assert not isinstance(plain.caption_generator, PackedCaptionGenerator)
    for found, want in zip(ours, plain.captioned(TRACKS), strict=True):
        assert found.sentences == want.sentences
        np.testing.assert_allclose(found.log_probability_P, want.log_probability_P, atol=1e-4)


def test_a_caption_does_not_depend_on_the_rest_of_the_batch() -> None:
    captioner = Captioner(tagged_model({}, {"beam": 3}))
    together = [[event.sentence for event in events] for events in captioner.caption_many(TRACKS)]
    assert together == [[event.sentence for event in captioner.caption(track)] for track in TRACKS]


def test_tags_reach_the_captions() -> None:
    """Without the sentinel all words are those of tags."""
    loaded = tagged_model()
    own = [event.sentence for event in Captioner(loaded).caption_segments(TRACKS[0], SPANS)]
    with torch.no_grad():
        loaded.model.caption_decoder.copy_head.sentinel.bias.fill_(-30)  # type: ignore[union-attr, operator]
    copied = [event.sentence for event in Captioner(loaded).caption_segments(TRACKS[0], SPANS)]
    assert copied != own
    assert loaded.model.tagger is not None
    texts = {word for stream, _ in STREAMS for text in class_texts(stream) for word in tokenize(text)}
    assert {word for sentence in copied for word in sentence.split()} <= texts


def saved(folder: Path, loaded: LoadedModel) -> Path:
    save_model(folder / "model", loaded, {"made": "for a test"})
    return folder / "model"


def test_a_folder_gives_the_same_captions(tmp_path: Path) -> None:
    loaded = tagged_model({}, {"beam": 2})
    again = load_model(saved(tmp_path, loaded))
    assert again.model.tagger is not None and loaded.model.tagger is not None
    assert torch.equal(again.model.tagger.gate_SE, loaded.model.tagger.gate_SE)
    assert torch.equal(again.model.tagger.words_CW, loaded.model.tagger.words_CW)
    names = [name for name in loaded.model.state_dict() if name.startswith("tagger")]
    assert names == ["tagger.gate_SE", "tagger.bias_S"], "classifiers and words of classes are not in the file"
    ours, theirs = ([event.sentence for event in Captioner(one).caption(TRACKS[0])] for one in (loaded, again))
    assert ours == theirs


@pytest.mark.parametrize("absent", [["actions"], ["appearance"], ["actions", "appearance"]], ids=str)
def test_a_model_without_a_classifier_has_the_tags_of_the_others(tmp_path: Path, absent: list[str]) -> None:
    folder = saved(tmp_path, tagged_model())
    with made_classifiers(*absent):
        loaded = load_model(folder)
    model, video, mask, video_P = segments(loaded)
    tags = model.tags(video, mask, video_P)
    left = [number for number, (name, _) in enumerate(STREAMS) if name not in absent]
    assert (None if tags is None else sorted(set(tags.kind_PN.flatten().tolist()))) == (left or None)
    captioned = next(Captioner(loaded).captioned_segments([(TRACKS[0], SPANS)], evidence=True))
    assert all(event.sentence for event in captioned.events)
    assert [len(evidence.labels) for evidence in captioned.evidence] == [3 * len(left)] * len(SPANS)


def test_features_of_another_width_have_no_tags(tmp_path: Path) -> None:
    """Such as reduced ones: the classifier cannot read them."""
    folder = saved(tmp_path, tagged_model())

    def wider(stream: str) -> tuple[np.ndarray, np.ndarray]:
        weight, bias = made_classifier(stream)
        return np.concatenate([weight, weight[:1]]), bias

    with made_classifiers(made=wider):
        loaded = load_model(folder)
    assert loaded.model.tagger is not None and loaded.model.tagger.classes == [0, 0]
    assert all(event.sentence for event in Captioner(loaded).caption(TRACKS[0]))


def test_evidence_names_the_classes_of_the_span() -> None:
    loaded = tagged_model(inference={"beam": 3})
    captioner, span = Captioner(loaded), (4.0, 9.0)
    track = TRACKS[0]
    (evidence,) = next(captioner.captioned_segments([(track, [span])], evidence=True)).evidence
    weight, bias = made_classifier("actions")
    logits = track.stream("actions")[8:18].mean(axis=0) @ weight + bias
    want = [action_names()[number] for number in np.argsort(-logits)[:3].tolist()]
    assert [label.name for label in evidence.labels[3:]] == want
    assert [label.phrase for label in evidence.labels[3:]] == [action_phrases()[name] for name in want]
    assert all(label.phrase is None for label in evidence.labels[:3])
    assert evidence.proposal_score == 1 and len(evidence.sentences) == 3 and evidence.prior == {}
    still = replace(track, values=np.concatenate([track.stream("appearance"), np.zeros((40, 5), np.float32)], axis=1))
    (evidence,) = next(captioner.captioned_segments([(still, [span])], evidence=True)).evidence
    assert len(evidence.labels) == 3, "no actions, no labels of actions"


@torch.inference_mode()
def test_in_half_precision_the_tags_are_the_same() -> None:
    """Classifiers are not rounded: the classes that a caption is made of are those that its evidence names."""
    captioner = Captioner(tagged_model({}, {"beam": 2}), precision="bfloat16")
    spoken = captioner.caption_generator.model
    assert spoken.caption_decoder.words.weight.dtype == torch.bfloat16
    features = torch.randn(300, 4, 11, generator=torch.Generator().manual_seed(0))
    assert spoken.tagger is not None and captioner.model.tagger is not None
    ours, theirs = (tagger(features, torch.ones(300, 4)) for tagger in (spoken.tagger, captioner.model.tagger))
    assert torch.equal(ours.label_PN, theirs.label_PN) and torch.equal(ours.value_PN, theirs.value_PN)
    assert all(event.sentence for event in captioner.caption(TRACKS[0]))


@pytest.mark.parametrize("tags", [-1, 400])
def test_more_tags_than_classes_or_fewer_than_none_are_refused(tags: int) -> None:
    with pytest.raises(InputError, match=f"model.tags = {tags} must be at least 0 and below 400"):
        tagged_model(tags=tags)


def test_as_many_tags_as_there_can_be_are_captioned() -> None:
    events = Captioner(tagged_model({}, {"min_proposals": 2, "max_proposals": 2}, tags=399)).caption(TRACKS[1])
    assert all(event.sentence for event in events)


@torch.inference_mode()
def test_without_a_pointer_tags_are_read_but_not_copied() -> None:
    model, video, mask, video_P = segments(tagged_model({"copy_tags": False}))
    words = torch.full((5, 1), INIT)
    state = model.begin_caption(video.select(video_P), mask, model.tags(video, mask, video_P))
    assert isinstance(state, DecodingState) and state.copied is None
    alone = model.begin_caption(video.select(video_P), mask)
    assert (model.next_words(words, state) - model.next_words(words, alone)).abs().max() > 1e-3


def test_a_video_of_several_windows_is_captioned_whether_or_not_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows stay encoded between proposing and captioning, without the features that tags are predicted from."""
    track = tagged_track(130, 5)
    found = []
    for kept_bytes in (long_video.KEPT_BYTES, 0):
        monkeypatch.setattr(long_video, "KEPT_BYTES", kept_bytes)
        (events,) = LongVideoCaptioner(Captioner(tagged_model(inference={"beam": 2}))).caption_many([track])
        found.append([(event.start, event.end, event.sentence) for event in events])
    assert found[0] == found[1] and max(end for _, end, _ in found[0]) > 40
    copied = set(tokenize(" ".join(class_texts("actions")))) - set(tokenize(" ".join(WORDS)))
    assert copied & {word for *_, sentence in found[0] for word in sentence.split()}, "tags count"
