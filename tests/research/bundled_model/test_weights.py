"""The weights in the repository: the first stage, that training goes on from, and what became of it."""

from __future__ import annotations

from pathlib import Path

import densevid
from densevid.checkpoint import load_model
from densevid.pipeline.model_registry import DEFAULT
from research.bundled_model import training
from research.bundled_model.__main__ import MOST_BYTES

MODELS = Path(densevid.__file__).parent / "pretrained"
FOLDER = Path(training.__file__).parent
STYLES = {"coco", "flickr8k", "msrvtt_frames", "youcook2_frames"}


def test_the_first_stage_loads_and_none_of_its_files_is_too_large() -> None:
    loaded = load_model(FOLDER / "words")
    assert set(loaded.vocabulary.styles) == STYLES
    assert max(file.stat().st_size for file in (FOLDER / "words").iterdir()) <= MOST_BYTES


def test_the_bundled_model_has_all_confidences_and_priors_and_the_first_stage_none() -> None:
    model, words = load_model(MODELS / (MODELS / DEFAULT).read_text().strip()), load_model(FOLDER / "words")
    assert model.calibration and model.sentence_confidence and model.word_prior and model.actionness
    assert not (words.calibration or words.sentence_confidence or words.word_prior or words.actionness)
    assert model.vocabulary.tokens == words.vocabulary.tokens


def test_the_bundled_model_of_the_first_version_still_loads() -> None:
    first = load_model(FOLDER / "first")
    assert first.calibration and first.word_prior and first.sentence_confidence is None
