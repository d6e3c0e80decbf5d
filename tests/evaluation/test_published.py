"""Real systems' files give the scores their authors published (ground-truth segments captioned, 2021 evaluator)."""

from __future__ import annotations

import pytest

from densevid.evaluation.evaluate import evaluate
from helpers.golden_evaluation import SHARED, needs_golden

pytestmark = [needs_golden, pytest.mark.slow]
FILES, ANNOTATIONS = SHARED / "data" / "predictions", SHARED / "data" / "activitynet"


def captioning(predictions: str, references: str) -> dict[str, float]:
    evaluation = evaluate(
        FILES / predictions, ANNOTATIONS / references, protocol="2021", metrics=["captioning"], cache=False
    )
    assert evaluation.captioning is not None
    return {name: 100 * value for name, value in evaluation.captioning.average().items()}


def test_the_published_captions_of_mdvc_get_their_published_scores() -> None:
    scores = captioning("mdvc_val_1.json", "val_1.json")
    published = {"METEOR": 9.9407, "Bleu_3": 4.2420, "Bleu_4": 1.9788, "ROUGE_L": 20.3498, "CIDEr": 40.6947}
    published |= {"Recall": 91.1735, "Precision": 91.1735}
    assert {name: round(scores[name], 4) for name in published} == published


def test_the_published_captions_of_bmt_get_their_published_scores() -> None:
    each = [captioning(f"bmt_val_{number}.json", f"val_{number}_available.json") for number in (1, 2)]
    means = {name: round(sum(scores[name] for scores in each) / 2, 3) for name in ("METEOR", "Bleu_3", "Bleu_4")}
    assert means == {"METEOR": 10.901, "Bleu_3": 4.628, "Bleu_4": 1.993}
