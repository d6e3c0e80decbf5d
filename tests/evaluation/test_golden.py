"""Every number of the official evaluators, clean and odd predictions, both datasets, to 1e-9."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from densevid.evaluation.meteor.scorer import MeteorScorer
from densevid.evaluation.meteor.statistics import corpus_score, segment_scores
from densevid.evaluation.metrics.caption_index import CaptionIndex
from densevid.evaluation.protocols.captioning import TIOUS, score_captioning
from densevid.evaluation.protocols.paragraph import begin_paragraphs, paragraphs_of, read_paragraphs
from densevid.evaluation.protocols.proposals import score_proposals
from densevid.evaluation.protocols.soda import NAMES, score_soda
from helpers.golden_evaluation import (
    CLOSE,
    REFERENCES,
    assert_close,
    golden_files,
    load,
    needs_golden,
    parts_of,
    predictions,
    references,
)

pytestmark = needs_golden
MODES = {"merged": "merged", "multi": "multi", "pdvc": "per_reference"}


@pytest.fixture(scope="module")
def meteor() -> Iterator[MeteorScorer]:
    engine = MeteorScorer(cache=False)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def index(meteor: MeteorScorer) -> CaptionIndex:
    return CaptionIndex(meteor)


@pytest.mark.parametrize("name", golden_files("e20"))
def test_captioning_equals_the_official_evaluator(name: str, index: CaptionIndex) -> None:
    predicted, kind, annotated = parts_of(name)
    result = load(name)["result"]
    ours = score_captioning(predictions(predicted), references(annotated), index, kind[1:5])
    assert_close(ours.average(), result["average"])
    per_tiou = ours.per_tiou()
    for place, tiou in enumerate(TIOUS):
        assert_close(per_tiou[str(tiou)], {metric: values[place] for metric, values in result["per_tiou"].items()})


@pytest.mark.parametrize("name", ["small_clean.e2018.pervideo.json.gz", "yc2small_clean.e2018.pervideo.json.gz"])
def test_captioning_of_each_video_equals_the_official_evaluator(name: str, index: CaptionIndex) -> None:
    predicted = name.split(".")[0]
    ours = score_captioning(predictions(predicted), references(predicted.removesuffix("_clean")), index, "2018")
    for run in load(name)["runs"]:
        place = TIOUS.index(run["tiou"])
        for metric, by_video in run["scores"].items():
            names = [f"Bleu_{n}" for n in range(1, 5)] if metric == "Bleu" else [metric]
            golden = np.array([np.atleast_1d(by_video.get(video, [0.0] * len(names))) for video in ours.videos])
            mine = np.stack([ours.values[n][place] for n in names], axis=1)
            np.testing.assert_allclose(mine, golden, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("name", golden_files("soda"))
def test_soda_equals_the_official_evaluator(name: str, index: CaptionIndex) -> None:
    predicted, kind, annotated = parts_of(name)
    _, letter, mode, metric = kind.split("_")
    text = {"Meteor": "METEOR", "Cider": "CIDEr"}[metric]
    ours = score_soda(predictions(predicted), references(annotated), index, text, [letter]).tables[letter][MODES[mode]]
    result = load(name)["result"]
    assert_close(ours.means(), dict(zip(NAMES, result["mean_PRF"], strict=True)) if mode == "pdvc" else result)
    for file, golden in enumerate(result.get("per_reference_PRF", [])):
        alone = ours.values_FV3[file][ours.counts_FV[file]].mean(axis=0)
        np.testing.assert_allclose(alone, golden, atol=CLOSE, rtol=0)


def test_soda_of_each_video_equals_the_official_evaluator(index: CaptionIndex) -> None:
    (run,) = load("small_nasty.soda_c_merged.pervideo.json.gz")
    (by_video,) = (table for name, table in run.items() if name.startswith("per_video"))
    ours = score_soda(predictions("small_nasty"), references("small"), index, types=["c"])
    assert set(by_video) == set(ours.videos)
    for video, values in zip(ours.videos, ours.tables["c"]["merged"].values_FV3[0], strict=True):
        ((golds, predicted, total, _),) = by_video[video][0]
        assert values[:2] == pytest.approx([total / predicted, total / golds], abs=CLOSE)


@pytest.mark.parametrize("from_files", [False, True], ids=["joined", "paragraph-files"])
@pytest.mark.parametrize("name", golden_files("para"))
def test_paragraphs_equal_the_official_evaluator(name: str, from_files: bool, meteor: MeteorScorer) -> None:
    predicted, _, annotated = parts_of(name)
    files = [read_paragraphs(path).by_video for path in sorted(REFERENCES.glob(f"{annotated}_para*.json"))]
    golds = files if from_files else [paragraphs_of(rows) for rows in references(annotated)]
    ours = begin_paragraphs(paragraphs_of(predictions(predicted)), golds, meteor).finish()
    assert_close(ours.to_dict(), load(name)["result"]["scores"])


@pytest.mark.parametrize("name", golden_files("prop"))
@pytest.mark.parametrize(("limit", "most"), [("max100", 100), ("uncapped", None)])
def test_proposals_equal_the_official_evaluator(name: str, limit: str, most: int | None) -> None:
    predicted, kind, annotated = parts_of(name)
    golden = load(name)["result"][limit]
    files = references(annotated) if kind == "prop12" else references(annotated)[:1]
    ours = score_proposals(predictions(predicted), files, most)
    assert 100 * ours.area() == pytest.approx(golden["area"], abs=CLOSE)
    assert ours.average_number_J[-1] == pytest.approx(golden["N_last"], abs=CLOSE)
    assert ours.average_recall_J[-1] == pytest.approx(golden["AR_at_last"], abs=CLOSE)
    assert list(ours.recall().values()) == pytest.approx(golden["recall_at_last_per_tiou"], abs=CLOSE)
    np.testing.assert_allclose(ours.recall_TJ, golden["recall"], atol=CLOSE, rtol=0)
    for number, (_, recall) in golden["AR_at"].items():
        assert ours.average_recall_at(int(number)) == pytest.approx(recall, abs=CLOSE)


def test_every_headline_of_the_summary_has_a_test_above() -> None:
    tested = {
        (p, f"{k}@{r}") for kind in ("e20", "soda", "para", "prop") for p, k, r in map(parts_of, golden_files(kind))
    }
    assert {(p, headline) for p, headlines in load("summary.json").items() for headline in headlines} <= tested


def test_meteor_of_pairs_and_of_blocks_equals_the_jar(meteor: MeteorScorer) -> None:
    content = load("meteor_pairs.json.gz")
    rows = content["rows"]
    stats = meteor.statistics([(row["hyp"], tuple(row["refs"])) for row in rows])
    np.testing.assert_array_equal(stats, [list(map(float, row["stats"].split())) for row in rows])
    np.testing.assert_allclose(segment_scores(stats), [row["score"] for row in rows], atol=1e-12, rtol=0)
    for block in content["blocks"]:
        chosen = stats[block["first"] : block["first"] + block["n"]]
        assert corpus_score(chosen) == pytest.approx(block["corpus_score"], abs=1e-14)
