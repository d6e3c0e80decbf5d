"""The ratio of the appendix, and that words are replaced by guesses at the right place."""

from __future__ import annotations

import pytest
import torch

from densevid.config import TrainingConfig, load_config
from densevid.training.step import mix_words, sampling_ratio


@pytest.mark.parametrize(("epoch", "ratio"), [(0, 0.05), (4, 0.05), (5, 0.1), (19, 0.2), (20, 0.25), (99, 0.25)])
def test_the_ratio_rises_as_in_the_appendix(epoch: int, ratio: float) -> None:
    assert sampling_ratio(load_config("caption-only").training, epoch) == pytest.approx(ratio)


def test_it_is_off_by_default() -> None:
    assert sampling_ratio(TrainingConfig(), 50) == 0


def test_guesses_move_one_place_to_the_right() -> None:
    words = torch.tensor([[2, 5, 6, 7]])
    logits = torch.nn.functional.one_hot(torch.tensor([[9, 10, 11, 12]]), 13).float()
    assert mix_words(words, logits, 1.0).tolist() == [[2, 9, 10, 11]]
    assert mix_words(words, logits, 0.0).tolist() == words.tolist()
    many = mix_words(words.expand(4000, 4), logits.expand(4000, 4, 13), 0.25)
    assert float((many[:, 1:] > 8).float().mean()) == pytest.approx(0.25, abs=0.03)
