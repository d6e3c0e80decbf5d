"""Training works: a model overfits a handful of generated videos, and depends on their content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.dataloader import batches
from densevid.data.dataset import SegmentDataset
from densevid.data.sources import InMemoryFeatures
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import FeatureTrack
from densevid.training.objective import total_loss
from examples.learn_generated_videos import RECIPE, SMALL, generate, learn

TRACKS, TRUTH = generate(seed=5, videos=6)
VARIANTS = {
    "end-to-end": {"mask": "gated"},
    "recurrent": {"mask": "discrete", "encoder": "bi-lstm", "decoder": "lstm"},
}


def settings(variant: str) -> Config:
    training = {"epochs": 150, "batch_size": 8, "plateau_patience": 30}
    return SMALL.with_values({"model": VARIANTS[variant], "training": training})


@pytest.fixture(scope="module", params=list(VARIANTS))
def trained(request: pytest.FixtureRequest) -> LoadedModel:
    torch.set_num_threads(1)
    return learn(TRACKS, TRUTH, settings(request.param), verbose=False)


def covers(guess: Event, event: Event) -> bool:
    """Whether the two overlap with IoU .7."""
    shared = max(0.0, min(guess.end, event.end) - max(guess.start, event.start))
    return shared >= 0.7 * (guess.seconds + event.seconds - shared)


def same_sentence(guess: Event, event: Event) -> bool:
    return guess.sentence == event.sentence


def share_found(loaded: LoadedModel, tracks: dict[str, FeatureTrack], *alike: Callable[[Event, Event], bool]) -> float:
    """The share of true events to which some predicted event of the same video is alike in every way given."""
    captioner, hits = Captioner(loaded), list[bool]()
    for video, truth in TRUTH.items():
        predicted = captioner.caption(tracks[video])
        hits += [any(all(same(guess, event) for same in alike) for guess in predicted) for event in truth]
    return sum(hits) / len(hits)


def test_the_loss_is_near_zero(trained: LoadedModel) -> None:
    dataset = SegmentDataset(
        Annotations(TRUTH, {}, []), InMemoryFeatures(TRACKS, RECIPE), trained.vocabulary, trained.config
    )
    (batch,) = batches(dataset, 1000, seed=0, epoch=0)
    with torch.no_grad():
        losses = {
            name: float(value) for name, value in total_loss(trained.model, batch, trained.config)[1].detached().items()
        }
    assert losses["words"] < 0.05 and losses["score"] < 0.05
    assert losses["offsets"] < 0.01 and losses["mask"] < 0.1


def test_an_overfitted_model_finds_and_captions_its_videos(trained: LoadedModel) -> None:
    assert share_found(trained, TRACKS, covers, same_sentence) == 1
    predicted = sum(len(Captioner(trained).caption(track)) for track in TRACKS.values())
    assert predicted <= 1.5 * sum(map(len, TRUTH.values())), "and hardly anything else"


def test_given_segments_are_captioned_right(trained: LoadedModel) -> None:
    captioner = Captioner(trained)
    for video, events in TRUTH.items():
        captioned = captioner.caption_segments(TRACKS[video], [(event.start, event.end) for event in events])
        assert [event.sentence for event in captioned] == [event.sentence for event in events]


def test_permuted_features_destroy_both(trained: LoadedModel) -> None:
    names = list(TRACKS)
    permuted = {name: TRACKS[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}
    assert share_found(trained, permuted, covers) <= 0.5, "boundaries"
    assert share_found(trained, permuted, same_sentence) <= 0.6, "sentences, of which there are only six"
    assert share_found(trained, permuted, covers, same_sentence) <= 0.2


def test_caption_only_training_with_scheduled_sampling() -> None:
    torch.set_num_threads(1)
    base = settings("end-to-end")
    sampling = {"sampling_start": 0.25, "sampling_end": 0.25}
    config = base.with_values(
        {"training": {"task": "captions", "epochs": 60, **sampling}, "model": {"mask": "discrete"}}
    )
    captioner = Captioner(learn(TRACKS, TRUTH, config, verbose=False))
    for video, events in TRUTH.items():
        captioned = captioner.caption_segments(TRACKS[video], [(event.start, event.end) for event in events])
        assert [event.sentence for event in captioned] == [event.sentence for event in events]


def test_proposal_only_training_leaves_the_captioner_alone() -> None:
    torch.set_num_threads(1)
    config = settings("end-to-end")
    config = replace(config, training=replace(config.training, task="proposals", epochs=2))
    after = learn(TRACKS, TRUTH, config, verbose=False)
    torch.manual_seed(config.training.seed)  # as `learn` does, so these are the weights it began with
    before = MaskedTransformer(config, len(after.vocabulary)).state_dict()
    for name, value in after.model.named_parameters():
        captions = name.startswith(("caption_decoder.", "masking."))
        assert torch.equal(value, before[name]) == captions, name
