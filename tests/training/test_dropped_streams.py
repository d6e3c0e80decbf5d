"""Streams and clips that are left out while training: how often, what of them, and that validation sees all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from densevid.config import Config
from densevid.data.batches import Batch
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training import objective as module
from densevid.training.objective import Objective, clip_caption_loss, total_loss, with_dropped_streams
from helpers.tagged_models import made_classifiers, tagged_model

WIDTHS = (4, 3, 2)
CONFIG = {
    "model": {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 12, "kernels": [2, 4]},
    "features": {"streams": ["scenes", "actions", "sounds"], "widths": list(WIDTHS)},
}


def config(**training: Any) -> Config:
    return Config().with_values({**CONFIG, "training": {"task": "captions", **training}})


def batch(videos: int, *, labels: bool = False, width: int = sum(WIDTHS), steps: int = 6) -> Batch:
    """Features that are nowhere zero; one whole-length event each, with a sentence."""
    generator = torch.Generator().manual_seed(videos)
    words = torch.randint(4, 20, (videos, 5), generator=generator)
    words[:, 0], words[:, -1] = 2, 3
    events = torch.tensor([0.0, float(steps)]).expand(videos, 1, 2)
    return Batch(
        videos=[f"v{number}" for number in range(videos)],
        features_BTF=torch.rand(videos, steps, width, generator=generator) + 0.5,
        valid_BT=torch.ones(videos, steps, dtype=torch.bool),
        events_BG2=events,
        event_valid_BG=torch.ones(videos, 1, dtype=torch.bool),
        sample_P=torch.arange(videos),
        segment_P2=events[:, 0],
        segment_index_P=torch.zeros(videos, dtype=torch.long),
        words_PL=words,
        padded=False,
        label_BN=torch.randint(1000, 1400, (videos, 3), generator=generator) if labels else None,
        value_BN=torch.rand(videos, 3, generator=generator) if labels else None,
    )


def kinds(shown: Batch, given: Batch) -> list[str]:
    """What is left of each video: all, the first stream, nothing; anything else is an error."""
    found = []
    for ours, theirs in zip(shown.features_BTF, given.features_BTF, strict=True):
        first, rest = ours[:, : WIDTHS[0]], ours[:, WIDTHS[0] :]
        if torch.equal(ours, theirs):
            found.append("all")
        elif not ours.any():
            found.append("nothing")
        else:
            assert torch.equal(first, theirs[:, : WIDTHS[0]]) and not rest.any()
            found.append("first")
    return found


@pytest.mark.parametrize(("streams", "whole"), [(0.3, 0.0), (0.0, 0.25), (0.4, 0.2)])
def test_so_many_are_left_out_and_videos_never_as_a_whole(streams: float, whole: float) -> None:
    given = replace(batch(1500), clips=batch(1500))
    torch.manual_seed(0)
    shown = with_dropped_streams(given, config(stream_dropout=streams, video_dropout=whole))
    assert shown.clips is not None and given.clips is not None
    for some, own, unseen in ((shown, given, 0.0), (shown.clips, given.clips, whole)):
        found = kinds(some, own)
        assert found.count("nothing") / 1500 == pytest.approx(unseen, abs=0.04)
        assert found.count("first") / 1500 == pytest.approx(streams * (1 - unseen), abs=0.04)
        assert torch.equal(some.words_PL, own.words_PL) and torch.equal(some.valid_BT, own.valid_BT)


def test_without_either_the_batch_is_as_it_was_and_no_random_number_is_drawn() -> None:
    given = replace(batch(4), clips=batch(3))
    before = torch.get_rng_state()
    shown = with_dropped_streams(given, config())
    assert shown.features_BTF is given.features_BTF and shown.clips is not None and given.clips is not None
    assert shown.clips.features_BTF is given.clips.features_BTF
    assert torch.equal(torch.get_rng_state(), before)
    assert with_dropped_streams(replace(given, clips=None), config(video_dropout=0.5)).clips is None


def test_stored_precision_and_empty_batches_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    half = replace(batch(8), features_BTF=batch(8).features_BTF.half())
    assert with_dropped_streams(half, config(stream_dropout=0.5)).features_BTF.dtype == torch.float16
    unread = replace(batch(8), features_BTF=torch.empty(8, 0, 0))
    assert with_dropped_streams(unread, config(stream_dropout=0.5)).features_BTF.shape == (8, 0, 0)


def test_a_clip_that_is_not_seen_has_no_given_tags() -> None:
    given = replace(batch(4), clips=batch(400, labels=True))
    torch.manual_seed(1)
    shown = with_dropped_streams(given, config(video_dropout=0.5, stream_dropout=0.3)).clips
    assert shown is not None and given.clips is not None
    assert shown.label_BN is not None and given.clips.label_BN is not None
    for row, kind in enumerate(kinds(shown, given.clips)):
        if kind == "nothing":
            assert (shown.label_BN[row] == -1).all()
        else:
            assert torch.equal(shown.label_BN[row], given.clips.label_BN[row])
    assert (shown.label_BN == -1).any()


def test_training_drops_and_validation_sees_all(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = config(video_dropout=0.999, clip_share=1.0)
    torch.manual_seed(0)
    model = MaskedTransformer(chosen, 20).eval()  # no dropout of its own
    given = replace(batch(4), clips=batch(5))
    assert given.clips is not None
    unseen = replace(given.clips, features_BTF=torch.zeros_like(given.clips.features_BTF))
    want = [clip_caption_loss(model, clips, chosen, 0) for clips in (unseen, given.clips)]
    assert abs((want[0] - want[1]).item()) > 1e-4
    found = Objective(model, chosen)(given, 0)[1]["words"]
    torch.testing.assert_close(found, want[0].detach())
    torch.testing.assert_close(total_loss(model, given, chosen)[1].words, want[1])
    monkeypatch.setattr(module, "with_dropped_streams", lambda batch, config: batch)
    torch.testing.assert_close(Objective(model, chosen)(given, 0)[1]["words"], want[1].detach())


def test_given_tags_are_read_where_there_are_no_actions_and_reach_the_loss() -> None:
    with made_classifiers():
        loaded = tagged_model()
    model = loaded.model
    clips = batch(6, labels=True, width=11)
    clips.features_BTF[:3, :, 6:] = 0  # the first three are pictures
    nothing = replace(clips, label_BN=torch.full((6, 3), -1))

    def losses(clips: Batch) -> list[float]:
        found = []
        for row in range(6):
            one: dict[str, Any] = {
                name: value[row : row + 1] for name, value in vars(clips).items() if isinstance(value, torch.Tensor)
            }
            found.append(clip_caption_loss(model, replace(clips, **one), loaded.config, 0).item())
        return found

    told, untold = losses(clips), losses(nothing)
    different = [abs(one - other) > 1e-4 for one, other in zip(told, untold, strict=True)]
    assert different == [True] * 3 + [False] * 3
    assert losses(replace(clips, label_BN=None, value_BN=None)) == pytest.approx(untold, abs=1e-5)
