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
    assert found.proposals and len(found.edges) == 1 + len(found.proposals[0].mask_T)
    heads = 1 if kind.get("decoder") == "lstm" else HEADS
    for proposal in found.proposals:
        assert proposal.attention_LHWT.shape == (LAYERS, heads, len(proposal.words), len(found.edges) - 1)
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
    assert explain(loaded_model(kernels=[9]), track(4)) == Explanation(pytest.approx(np.arange(5) / 2), (), ())
    assert explain(loaded_model(kernels=[9]), track(4)).entropy_L.shape == (0,)
    broken = track()
    broken.values[3, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        explain(loaded_model(), broken)
    long = explain(loaded_model(), track(60))
    assert long.edges[-1] == 12.0, "the first window of a longer video"
