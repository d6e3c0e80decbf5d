"""Sums over stretches: against sums as they are written, of values that single precision would lose."""

from __future__ import annotations

import torch

from densevid.inference.rescoring import rows_at, running_total
from densevid.model.priors import exact


def test_the_difference_of_two_rows_is_the_sum_between_them() -> None:
    features = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))
    features[:, 0] = 1e6
    total = running_total(exact(features))
    first, last = torch.tensor([[0, 3, 5], [1, 4, 9]]), torch.tensor([[9, 3, 8], [2, 9, 9]])
    sums = rows_at(total, last) - rows_at(total, first)
    for video in range(2):
        for place, (start, end) in enumerate(zip(first[video].tolist(), last[video].tolist(), strict=True)):
            torch.testing.assert_close(
                sums[video, place], features[video, start:end].double().sum(dim=0), atol=1e-8, rtol=0
            )
