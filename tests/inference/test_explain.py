"""What an explanation says is what the network does: masks by their formula, attention by its outcome."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.inference.explain import Explanation, explain, watched_attention
from densevid.model.layers import MultiHeadAttention
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack

STEPS, LAYERS, HEADS = 20, 3, 2
WORDS = ("a", "man", "walks", "his", "dog", "home")


def loaded_model(**model: object) -> LoadedModel:
    torch.manual_seed(3)
    values = {"width": 16, "hidden": 24, "heads": HEADS, "layers": LAYERS, "window": 24, "kernels": [2, 5, 9], **model}
    config = Config().with_values({"model": values, "features": {"streams": ["one"], "widths": [6]}})
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS))
    network = MaskedTransformer(config, len(vocabulary)).eval()
    for parameter in network.parameters():  # spread enough that attention is not flat and scores differ
        parameter.data.mul_(1.6)
    return LoadedModel(network, config, vocabulary, None)


def track(steps: int = STEPS) -> FeatureTrack:
    values = np.random.default_rng(0).normal(size=(steps, 6)).astype(np.float32)
    return FeatureTrack(values, Clock.uniform(0.5), (("one", 6),))


KINDS = [
    {},
    {"mask": "learned"},
    {"mask": "discrete"},
    {"decoder": "lstm"},
    {"encoder": "bi-lstm", "decoder": "lstm"},
    {"compat": "released"},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_model_can_be_explained(kind: dict[str, object]) -> None:
    found = explain(loaded_model(**kind), track())
    assert found.proposals
    heads = 1 if kind.get("decoder") == "lstm" else HEADS
    for proposal in found.proposals:
        assert proposal.attention_LHWT.shape == (LAYERS, heads, len(proposal.words), len(proposal.mask_T))
        assert len(proposal.edges) == 1 + len(proposal.mask_T)
        np.testing.assert_allclose(proposal.attention_LHWT.sum(axis=-1), 1, atol=1e-5)
        assert (proposal.learned_T is None) == (kind.get("mask") == "discrete")
        assert " ".join(proposal.words) == proposal.event.sentence.rstrip(".").lower() or not proposal.words
    scores = [proposal.event.score for proposal in found.confident]
    assert scores == sorted(scores, reverse=True)
    assert all(proposal.event.score < min(0.7, scores[-1] + 1e-9) for proposal in found.unconfident)


def test_masks_follow_the_paper() -> None:
    """f_GM = P_e Bin(S_p, E_p) + (1 - P_e) f_M."""
    for proposal in explain(loaded_model(), track(), each=3).proposals:
        assert proposal.learned_T is not None
        gate = proposal.event.score
        np.testing.assert_allclose(
            proposal.mask_T, gate * proposal.window_T + (1 - gate) * proposal.learned_T, atol=1e-6
        )
        inside = np.flatnonzero(proposal.window_T) * 0.5
        assert (
            inside[0] <= proposal.event.start < inside[0] + 0.5 and inside[-1] < proposal.event.end <= inside[-1] + 0.5
        )


@pytest.mark.parametrize("released", [False, True])
def test_weights_times_values_is_what_attention_gives(released: bool) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, 0.0, released=released)
    query, memory = torch.randn(3, 4, 8), attention.project(torch.randn(3, 5, 8))
    attended = torch.tensor([True, True, False, True, True])[None, None, None]
    weights = attention.weights(query, memory, attended)
    assert not weights[..., 2].any()
    mixed = (weights @ memory.values).transpose(1, 2).flatten(-2)
    torch.testing.assert_close(attention.output(mixed), attention(query, memory, attended))


def test_entropy_of_even_attention_is_the_log_of_the_steps() -> None:
    loaded = loaded_model()
    for layer in loaded.model.caption_decoder.layers:
        layer.cross_attention.query.weight.data.zero_()
    found = explain(loaded, track())
    np.testing.assert_allclose(found.entropy_L, [math.log(STEPS)] * LAYERS, atol=1e-5)


def test_watching_leaves_no_trace() -> None:
    loaded = loaded_model()
    explain(loaded, track())
    attention = loaded.model.caption_decoder.layers[0].cross_attention
    assert not attention._forward_pre_hooks
    with pytest.raises(RuntimeError), watched_attention(loaded.model):
        raise RuntimeError
    assert not attention._forward_pre_hooks


def test_short_and_broken_tracks() -> None:
    assert explain(loaded_model(kernels=[9]), track(4)) == Explanation((), ())
    assert explain(loaded_model(kernels=[9]), track(4)).entropy_L.shape == (0,)
    broken = track()
    broken.values[3, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        explain(loaded_model(), broken)


def test_a_longer_video_is_explained_wherever_its_surest_events_are() -> None:
    """And each as its window alone would have it."""
    loaded, long = loaded_model(), track(120)
    found = explain(loaded, long, each=4)
    assert len(found.confident) == 4
    starts = {proposal.edges[0] for proposal in found.proposals}
    assert max(starts) > 12.0, "more than the first window"
    for proposal in found.proposals:
        assert proposal.edges[0] <= proposal.event.start < proposal.event.end <= proposal.edges[-1] <= 60.0
        first = round(proposal.edges[0] / 0.5)
        alone = FeatureTrack(long.values[first : first + 24], long.clock, long.streams)
        same = [o for o in explain(loaded, alone, each=200).proposals if np.allclose(o.window_T, proposal.window_T)]
        assert any(abs(o.event.score - proposal.event.score) < 1e-5 for o in same), "as its window alone has it"
    best = explain(loaded, FeatureTrack(long.values[:24], long.clock, long.streams), each=4)
    assert found.confident[0].event.score >= best.confident[0].event.score


def test_times_of_a_longer_video_follow_its_own_clock() -> None:
    even, edges = track(60), np.concatenate(([0.0], np.cumsum(np.linspace(0.2, 0.9, 60))))
    uneven = FeatureTrack(even.values, Clock.from_edges(edges), even.streams)
    for one, other in zip(
        explain(loaded_model(), even).proposals, explain(loaded_model(), uneven).proposals, strict=True
    ):
        steps = even.clock.steps([one.event.start, one.event.end])
        np.testing.assert_allclose([other.event.start, other.event.end], uneven.clock.seconds(steps), atol=1e-4)
        np.testing.assert_allclose(other.edges, uneven.clock.seconds(even.clock.steps(one.edges)), atol=1e-9)


def test_models_that_read_one_window_are_explained_in_it() -> None:
    found = explain(loaded_model(compat="released"), track(60))
    assert {tuple(proposal.edges[[0, -1]]) for proposal in found.proposals} == {(0.0, 12.0)}
