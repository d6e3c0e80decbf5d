"""Learning works: a handful of generated videos is learnt by heart, and it is their content that is learnt."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.batches import SegmentDataset
from densevid.data.feature_source import TracksInMemory
from densevid.data.loading import batches
from densevid.demo import RECIPE, SMALL, generate, learn
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.tracks import FeatureTrack
from densevid.training.step import total_loss

TRACKS, TRUTH = generate(seed=5, videos=6)
VARIANTS = {
    "end-to-end": {"mask": "gated"},
    "recurrent": {"mask": "discrete", "encoder": "bi-lstm", "decoder": "lstm"},
}


def settings(variant: str) -> Config:
    training = {"epochs": 150, "batch_size": 8, "plateau_patience": 30}
    return SMALL.with_values({"model": VARIANTS[variant], "training": training})


@pytest.fixture(scope="module", params=list(VARIANTS))
def learnt(request: pytest.FixtureRequest) -> LoadedModel:
    torch.set_num_threads(1)
    return learn(TRACKS, TRUTH, settings(request.param), quiet=True)


def found(predicted: list[Event], truth: list[Event]) -> float:
    """The share of true events that some predicted event covers with IoU .7 and says word for word."""

    def iou(a: Event, b: Event) -> float:
        shared = max(0.0, min(a.end, b.end) - max(a.start, b.start))
        return shared / (a.seconds + b.seconds - shared)

    hits = [
        any(iou(event, guess) >= 0.7 and guess.sentence == event.sentence for guess in predicted) for event in truth
    ]
    return sum(hits) / len(hits)


def share_found(loaded: LoadedModel, tracks: dict[str, FeatureTrack]) -> float:
    captioner = Captioner(loaded)
    return sum(found(captioner.caption(tracks[video]), TRUTH[video]) for video in TRUTH) / len(TRUTH)


def test_the_loss_is_near_zero(learnt: LoadedModel) -> None:
    dataset = SegmentDataset(
        Annotations(TRUTH, {}, []), TracksInMemory(TRACKS, RECIPE), learnt.vocabulary, learnt.config
    )
    (batch,) = batches(dataset, 1000, seed=0, epoch=0)
    with torch.no_grad():
        losses = {
            name: float(value) for name, value in total_loss(learnt.model, batch, learnt.config)[1].detached().items()
        }
    assert losses["words"] < 0.05 and losses["score"] < 0.05
    assert losses["offsets"] < 0.01 and losses["mask"] < 0.1


def test_it_proposes_and_captions_them_right(learnt: LoadedModel) -> None:
    assert share_found(learnt, TRACKS) == 1
    predicted = sum(len(Captioner(learnt).caption(track)) for track in TRACKS.values())
    assert predicted <= 1.5 * sum(map(len, TRUTH.values())), "and hardly anything else"


def test_given_segments_are_captioned_right(learnt: LoadedModel) -> None:
    captioner = Captioner(learnt)
    for video, events in TRUTH.items():
        said = captioner.caption_segments(TRACKS[video], [(event.start, event.end) for event in events])
        assert [event.sentence for event in said] == [event.sentence for event in events]


def test_permuted_features_destroy_both(learnt: LoadedModel) -> None:
    names = list(TRACKS)
    permuted = {name: TRACKS[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}
    assert share_found(learnt, permuted) <= 0.2


def test_caption_only_training_with_scheduled_sampling() -> None:
    torch.set_num_threads(1)
    base = settings("end-to-end")
    sampling = {"sampling_start": 0.25, "sampling_end": 0.25}
    config = base.with_values(
        {"training": {"task": "captions", "epochs": 60, **sampling}, "model": {"mask": "discrete"}}
    )
    captioner = Captioner(learn(TRACKS, TRUTH, config, quiet=True))
    for video, events in TRUTH.items():
        said = captioner.caption_segments(TRACKS[video], [(event.start, event.end) for event in events])
        assert [event.sentence for event in said] == [event.sentence for event in events]


def test_proposal_only_training_leaves_the_captioner_alone() -> None:
    torch.set_num_threads(1)
    config = settings("end-to-end")
    config = replace(config, training=replace(config.training, task="proposals", epochs=2))
    before = learn(TRACKS, TRUTH, replace(config, training=replace(config.training, epochs=1)), quiet=True)
    after = learn(TRACKS, TRUTH, config, quiet=True)
    words = "caption_decoder.words.weight"
    heads = "proposal_decoder.heads.0.output.weight"
    assert torch.equal(before.model.state_dict()[words] * 0, after.model.state_dict()[words] * 0)
    assert not torch.equal(before.model.state_dict()[heads], after.model.state_dict()[heads])
