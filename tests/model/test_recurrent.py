"""The Bi-LSTM encoder: padding changes nothing, and a mask touches its output only."""

from __future__ import annotations

import torch

from densevid.model.recurrent import BiLSTMEncoder, LSTMDecoder


def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    encoder = BiLSTMEncoder(2, 16, 0.2).eval()
    values = torch.randn(2, 9, 16)
    valid = torch.arange(9) < torch.tensor([[9], [5]])
    memory = encoder(values, valid)
    alone = encoder(values[1:, :5], valid[1:, :5])
    torch.testing.assert_close(memory.last_BTD[1, :5], alone.last_BTD[0])
    assert (memory.last_BTD[1, 5:] == 0).all()
    assert len(memory.layers) == 2


def test_every_step_knows_both_sides() -> None:
    encoder = BiLSTMEncoder(1, 16, 0.0).eval()
    values = torch.randn(1, 6, 16)
    changed = values.clone()
    changed[0, 3] += 1
    valid = torch.ones(1, 6, dtype=torch.bool)
    moved = (encoder(values, valid).last_BTD - encoder(changed, valid).last_BTD).abs().amax(-1)[0]
    assert (moved > 1e-6).all()


def test_the_mask_multiplies_the_output() -> None:
    encoder = BiLSTMEncoder(1, 16, 0.0).eval()
    values, valid, mask = torch.randn(1, 6, 16), torch.ones(1, 6, dtype=torch.bool), torch.rand(1, 6)
    want = encoder(values, valid).last_BTD * mask[..., None]
    torch.testing.assert_close(encoder(values, valid, mask).last_BTD, want)


def test_the_decoder_starts_from_the_mean_over_the_event() -> None:
    values, valid = torch.randn(1, 6, 16), torch.ones(1, 6, dtype=torch.bool)
    memory = BiLSTMEncoder(1, 16, 0.0).eval()(values, valid, torch.tensor([[0.0, 1, 1, 0, 0, 0]]))
    state = LSTMDecoder(1, 16, 7, 0.0).eval().begin(memory)
    torch.testing.assert_close(state.cell[0], memory.last_BTD[:, 1:3].mean(dim=1))
