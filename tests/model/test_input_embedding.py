"""Streams side by side, and the two kinds of input dropout."""

from __future__ import annotations

import pytest
import torch

from densevid.model.input_embedding import ChannelDropout, InputEmbedding, WholeStepDropout


@pytest.mark.parametrize("widths", [(6,), (6, 4), (3, 4, 5)])
def test_each_stream_gets_its_share_of_the_width(widths: tuple[int, ...]) -> None:
    embedding = InputEmbedding(widths, 16, 0.1, released=False).eval()
    features = torch.randn(2, 7, sum(widths))
    assert embedding(features).shape == (2, 7, 16)
    assert sum(linear.out_features for linear in embedding.streams) == 16
    changed = features.clone()
    changed[..., : widths[0]] += 1
    share = embedding.streams[0].out_features
    torch.testing.assert_close(embedding(features)[..., share:], embedding(changed)[..., share:])


def test_paper_dropout_drops_a_channel_for_the_whole_video() -> None:
    torch.manual_seed(0)
    values = torch.ones(5, 9, 200)
    dropped = ChannelDropout(0.3)(values)
    assert (dropped == dropped[:, :1]).all(), "constant over time"
    assert (dropped[0] != dropped[1]).any(), "another mask for another video"
    assert 0.2 < float((dropped == 0).float().mean()) < 0.4
    torch.testing.assert_close(dropped.max(), torch.tensor(1 / 0.7))
    assert (ChannelDropout(0.3).eval()(values) == values).all()


def test_released_dropout_drops_whole_steps_and_scales_at_test_time() -> None:
    torch.manual_seed(0)
    values = torch.ones(4, 300, 5)
    dropped = WholeStepDropout(0.1)(values)
    assert (dropped == dropped[..., :1]).all() and set(dropped.unique().tolist()) == {0.0, 1.0}
    assert 0.05 < float((dropped == 0).float().mean()) < 0.15
    torch.testing.assert_close(WholeStepDropout(0.1).eval()(values), 0.9 * values)
