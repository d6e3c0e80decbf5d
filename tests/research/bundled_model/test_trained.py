"""The weights in the repository that training goes on from, and the model that is yet to be scored."""

from __future__ import annotations

from pathlib import Path

import pytest

from densevid.checkpoint import load_model
from research.bundled_model import training
from research.bundled_model.__main__ import MOST_BYTES

FOLDER = Path(training.__file__).parent / "trained"


@pytest.mark.parametrize("name", ["words", "model"])
def test_a_stage_loads_and_no_file_of_it_is_too_large(name: str) -> None:
    loaded = load_model(FOLDER / name)
    assert {"coco", "flickr8k", "msrvtt_frames", "youcook2_frames"} == set(loaded.vocabulary.styles)
    assert max(file.stat().st_size for file in (FOLDER / name).iterdir()) <= MOST_BYTES
    assert f"| `{name}` |" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_packed_model_has_both_confidences_and_the_first_stage_none() -> None:
    model, words = load_model(FOLDER / "model"), load_model(FOLDER / "words")
    assert model.calibration and model.sentence_confidence and model.word_prior and model.actionness
    assert not (words.calibration or words.sentence_confidence or words.word_prior or words.actionness)
    assert model.vocabulary.tokens == words.vocabulary.tokens
