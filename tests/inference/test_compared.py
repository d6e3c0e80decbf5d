"""By what steps are compared: by hand, and the same whatever shares a batch."""

from __future__ import annotations

from dataclasses import replace

import torch

from densevid.inference.compared import compared_by
from random_models import random_expected_words, random_model

FEATURES, WORDS = 6, 12


def test_steps_are_compared_by_what_words_depend_on() -> None:
    loaded, expected = random_model({}, {}), random_expected_words(FEATURES, WORDS)
    features = torch.randn(2, 5, FEATURES)
    as_they_are = replace(loaded.config.inference, compare="features")
    assert compared_by(expected, as_they_are)(features) is features
    assert compared_by(None, loaded.config.inference)(features) is features
    meant = compared_by(expected, loaded.config.inference)(features)
    torch.testing.assert_close(meant.float(), (features - expected.usual_F) @ expected.directions_FR)
    alone = compared_by(expected, loaded.config.inference)(features[1:, :4])
    torch.testing.assert_close(alone, meant[1:, :4], rtol=1e-12, atol=1e-12)
