"""What an explanation says is what the network does: masks by their formula, attention by its outcome."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.inference.captioner import Captioner
from densevid.inference.explain import Explanation, explain, watched_attention
from densevid.inference.explain_window import Candidates, ProposalRef
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.windows import Windows
from densevid.model.attention import MultiHeadAttention
from densevid.model.masked_transformer import MaskedTransformer
from densevid.pipeline.captioner import VideoCaptioner
from densevid.pipeline.model_registry import InstalledModel
from densevid.pipeline.request import EventRequest
from densevid.pipeline.result import CaptionResult
from densevid.tracks import Clock, FeatureTrack
from helpers.tagged_models import made_classifiers, tagged_model, tagged_track

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
        alone = Captioner(loaded).caption(FeatureTrack(long.values[first : first + 24], long.clock, long.streams))
        rows = np.array([(event.start + first / 2, event.end + first / 2, event.score) for event in alone])
        own = (proposal.event.start, proposal.event.end, proposal.score)
        assert np.abs(rows - own).max(axis=1).min() < 1e-4, "as its window alone has it"
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


def turned_round(**model: object) -> LoadedModel:
    """A model whose confidence is the lower the higher the score: what is best by score is not in its timeline."""
    curves = (
        {"names": ["logit"], "weights": [-1.0], "bias": 0.0},
        {"names": ["confidence"], "weights": [1.0], "bias": 0},
    )
    table = {"format": {"version": 1}, "proposal": curves[0], "event": curves[1]}
    return replace(loaded_model(**model), calibration=table)


def timeline(
    loaded: LoadedModel, video: FeatureTrack, request: EventRequest
) -> tuple[CaptionResult, list[ProposalRef]]:
    captioner = VideoCaptioner(InstalledModel("one", Path(__file__).parent), device="cpu")
    captioner.__dict__["loaded"] = loaded
    result = captioner.caption_track(video, request)
    pairs = zip(result.detections, result, strict=True)
    return result, [ProposalRef(found.window, found.anchor, event) for found, event in pairs]


@pytest.mark.parametrize("steps", [STEPS, 120], ids=["short", "long"])
@pytest.mark.parametrize(
    "choice", [EventRequest(), EventRequest(top=3), EventRequest(dense=True)], ids=lambda choice: choice.text
)
def test_the_events_of_the_timeline_are_explained_the_surest_first(choice: EventRequest, steps: int) -> None:
    loaded = turned_round()
    chosen, captioned = timeline(loaded, track(steps), choice)
    found = explain(loaded, track(steps), captioned)
    assert found.of_timeline and found.confident
    confidence = [proposal.confidence for proposal in found.confident]
    assert confidence[0] == max(event.score for event in chosen.events)
    assert confidence == sorted(confidence, reverse=True)
    masks = {event: found.mask for event, found in zip(chosen, chosen.detections, strict=True)}
    for proposal in found.confident:
        assert proposal.event.score == proposal.confidence and " ".join(proposal.words) == proposal.event.sentence
        np.testing.assert_allclose(proposal.mask_T, masks[proposal.event].values, atol=6e-4)
        assert proposal.edges[[0, -1]] == pytest.approx([masks[proposal.event].start, masks[proposal.event].end])
    if not choice.dense:
        ranked = explain(loaded, track(steps))
        assert found.confident[0].score < ranked.confident[0].score, "by score it would be another"


def test_unsure_proposals_are_the_lowest_of_all_that_are_proposed() -> None:
    loaded = loaded_model()
    _, captioned = timeline(loaded, track(), EventRequest(top=2))
    found = explain(loaded, track(), captioned)
    shown = [(proposal.event.start, proposal.event.end) for proposal in found.confident]

    def alike(one: tuple[float, float], other: tuple[float, float]) -> bool:
        shared = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
        return shared > 0.5 * (one[1] - one[0] + other[1] - other[0] - shared)

    lowest: list[float] = []
    for event in sorted(Captioner(loaded).caption(track()), key=lambda event: event.score):
        if event.score < 0.7 and len(lowest) < 2 and not any(alike((event.start, event.end), span) for span in shown):
            lowest.append(event.score)
            shown.append((event.start, event.end))
    assert lowest and [proposal.score for proposal in found.unconfident] == pytest.approx(lowest[::-1], abs=1e-5)


def test_of_very_many_unsure_proposals_those_are_shown_that_lie_apart() -> None:
    start = torch.arange(400.0)
    kept = Candidates(torch.zeros(400).long(), torch.arange(400), torch.stack((start, start + 1), 1), start % 10 / 20)
    first, second = kept.least_sure(2, torch.tensor([[0.0, 20.0]])).anchor_P.tolist()
    assert {first, second} == {0, 390}, "both are among the lowest tenth"
    assert not len(kept.least_sure(2, kept.interval_P2).anchor_P), "all are shown"


def test_what_is_unsure_and_in_the_timeline_has_the_number_of_the_timeline() -> None:
    loaded = loaded_model()
    chosen, captioned = timeline(loaded, track(), EventRequest(dense=True))
    unsure = explain(loaded, track(), captioned).unconfident
    assert unsure and all(proposal.event in chosen.events and proposal.confidence is not None for proposal in unsure)
    assert all(proposal.confidence is None for proposal in explain(loaded, track()).proposals)


@pytest.mark.parametrize("kind", [{}, {"compat": "released"}], ids=str)
@pytest.mark.parametrize("steps", [STEPS, 120], ids=["short", "long"])
def test_given_spans_are_explained_in_the_windows_they_were_read_in(kind: dict[str, object], steps: int) -> None:
    loaded, spans = loaded_model(**kind), ((1.0, 4.0), (steps / 2 - 3.0, steps / 2 + 2.0))
    chosen, captioned = timeline(loaded, track(steps), EventRequest(segments=spans))
    found = explain(loaded, track(steps), captioned)
    assert [proposal.event for proposal in found.confident] == list(chosen.events)
    for proposal, (start, end) in zip(found.confident, spans, strict=True):
        assert proposal.confidence is None and proposal.score is None and proposal.learned_T is None
        middles = (proposal.edges[1:] + proposal.edges[:-1]) / 2
        inside = (middles > start) & (middles < end)
        own = middles < steps / 2
        if inside.any():  # the release reads the first window alone
            np.testing.assert_array_equal(proposal.mask_T[own], inside[own])


def test_a_video_in_which_nothing_is_proposed_is_explained_as_a_whole() -> None:
    loaded = loaded_model(kernels=[9])
    chosen, captioned = timeline(loaded, track(4), EventRequest(dense=True))
    (proposal,) = explain(loaded, track(4), captioned).proposals
    assert proposal.event == chosen.events[0] and proposal.mask_T.tolist() == [1.0] * 4 and proposal.score is None


def test_explained_words_are_those_of_the_given_sentence() -> None:
    loaded = loaded_model()
    _, captioned = timeline(loaded, track(), EventRequest(top=1))
    event = replace(captioned[0].event, sentence="his dog walks")
    (proposal,) = explain(loaded, track(), [replace(captioned[0], event=event)]).confident
    assert proposal.words == ("his", "dog", "walks") and proposal.attention_LHWT.shape[2] == 3


@pytest.mark.parametrize("tags", [False, True], ids=["plain", "tags"])
@pytest.mark.parametrize("steps", [STEPS, 120], ids=["short", "long"])
def test_windows_kept_of_captioning_are_explained_as_if_computed_anew(steps: int, tags: bool) -> None:
    loaded, video = loaded_model(), track(steps)
    if tags:
        with made_classifiers():
            loaded, video = tagged_model({"window": 24, "kernels": [2, 5, 9]}), tagged_track(steps)
    long = LongVideoCaptioner.build(Captioner(loaded), top=3, keep=True)
    found = long.finished(next(long.captioned([video]))).by_time()
    assert set(long.kept) == set(Windows.over(video, 24).starts)
    rows = zip(found.first_P.tolist(), found.anchor_P.tolist(), found.events(), strict=True)
    shown = [ProposalRef(*row) for row in rows]
    computed, kept = explain(loaded, video, shown), explain(loaded, video, shown, kept=long.kept)
    assert len(kept.proposals) == len(computed.proposals) > 3
    for ours, theirs in zip(kept.proposals, computed.proposals, strict=True):
        assert ours.event == theirs.event and ours.words == theirs.words
        np.testing.assert_allclose(ours.mask_T, theirs.mask_T, atol=1e-5)
        np.testing.assert_allclose(ours.attention_LHWT, theirs.attention_LHWT, atol=1e-5)
