"""Each kind of odd input alone: the golden number, or a defined score where the official code is broken."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from densevid.errors import InputError
from densevid.evaluation.evaluate import Settings, evaluate_files, parts_of
from densevid.evaluation.files import read_predictions
from densevid.evaluation.meteor.scorer import MeteorScorer
from helpers.golden_evaluation import CLOSE, PREDICTIONS, assert_close, load, needs_golden, prediction_path, references

pytestmark = needs_golden
SINGLES = ["small_clean", *sorted(path.stem for path in (PREDICTIONS / "single").glob("*.json"))]
UNREADABLE = {"top_not_json": "not valid JSON", "top_no_results": '"results"'}
BAD_TIMES = {"ev_inf": "finite", "ev_nan": "finite", "ev_notime": "missing", "ev_nulltime": "[start, end]"}
BAD_TIMES |= {"ev_onetime": "[start, end]", "ev_strtime": "a number"}
BAD_SENTENCES = {"ev_listsent": "text", "ev_nosent": "missing", "ev_nullsent": "text"}
BAD_SCORES = {"ev_noscore": "missing"}
LINE_BREAKS = ("ev_cr", "ev_crlf", "ev_formfeed", "ev_vtab")
NO_COMMON_VIDEO = ("st_no_results", "st_no_v_prefix", "st_only_unknown")
SODA = {"soda_a": "a", "soda_c": "c", "soda_d": "d"}


@cache
def meteor() -> MeteorScorer:
    """These files share nearly all pairs, so one METEOR serves all of them."""
    return MeteorScorer(cache=False)


def scores(name: str, part: str) -> Any:
    predictions, settings = read_predictions(prediction_path(name)), Settings(metrics=(part,))
    evaluation = evaluate_files(predictions, references("small"), settings, meteor())
    return evaluation.to_dict()[part]


def golden(name: str, kind: str) -> dict[str, Any] | None:
    """The official numbers, or None where the official code crashed, never came back or shifted every caption."""
    entry = load("singles_small.json")[name][kind]
    if entry["status"] != "ok" or (name in LINE_BREAKS and kind not in ("para", "soda_d")):
        return None
    return entry["result"].get("average", entry["result"])


def fails_with(name: str, part: str, message: str) -> None:
    with pytest.raises(InputError, match=r": video v_\S+: event \d+: ") as error:
        scores(name, part)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", SINGLES)
def test_captioning_of_odd_input_equals_the_official_evaluator_or_is_defined(name: str) -> None:
    if name in UNREADABLE:
        with pytest.raises(InputError, match=UNREADABLE[name]):
            scores(name, "captioning")
    elif name in BAD_TIMES | BAD_SENTENCES:
        fails_with(name, "captioning", (BAD_TIMES | BAD_SENTENCES)[name])
    else:
        fallback = {"st_empty_list_all": dict.fromkeys(["METEOR", "Recall", "Precision", "F1", "CIDEr", "Bleu_1"], 0.0)}
        clean = golden("small_clean", "e2018")
        assert_close(scores(name, "captioning")["average"], golden(name, "e2018") or fallback.get(name) or clean)


@pytest.mark.parametrize("name", [name for name in SINGLES if name not in UNREADABLE])
def test_soda_of_odd_input_equals_the_official_evaluator_or_is_defined(name: str) -> None:
    if name in BAD_TIMES | BAD_SENTENCES:
        fails_with(name, "soda", (BAD_TIMES | BAD_SENTENCES)[name])
        return
    ours = scores(name, "soda")
    for kind, letter in SODA.items():
        expected = golden(name, kind)
        values = ours[letter]["merged"]
        if name in NO_COMMON_VIDEO or name == "st_empty_list_all":
            assert values == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
        elif expected:
            assert_close(values, expected)
        elif name in LINE_BREAKS or name == "ev_threetime":
            assert_close(values, golden("small_clean", kind))
        else:  # an empty list scores 0 and counts, over 1,000 events give a number
            assert name.startswith("st_empty_list") or name == "st_over_1000"
            assert 0 < values["f1"] < golden("small_clean", kind)["f1"]


@pytest.mark.parametrize("name", [name for name in SINGLES if name not in UNREADABLE])
def test_paragraphs_of_odd_input_equal_the_official_evaluator_or_are_defined(name: str) -> None:
    if name in BAD_SENTENCES:
        fails_with(name, "paragraph", BAD_SENTENCES[name])
    elif name == "st_over_1000":
        assert 0 < scores(name, "paragraph")["METEOR"] < 1
    else:
        assert_close(scores(name, "paragraph"), golden(name, "para"))


@pytest.mark.parametrize("name", [name for name in SINGLES if name not in UNREADABLE])
def test_proposals_of_odd_input_equal_the_official_evaluator_or_are_defined(name: str) -> None:
    entry = load("singles_small_prop.json")[name]
    if name in BAD_TIMES | BAD_SCORES:
        fails_with(name, "proposals", (BAD_TIMES | BAD_SCORES)[name])
        return
    ours = scores(name, "proposals")["first"]
    if entry["status"] != "ok" and not name.startswith("top_"):
        assert ours["AUC"] == ours["AR@100"] == 0.0
        return
    expected = (entry if entry["status"] == "ok" else load("singles_small_prop.json")["small_clean"])["result"][
        "max100"
    ]
    assert ours["AUC"] == pytest.approx(expected["area"] / 100, abs=CLOSE)
    assert ours["AR@100"] == pytest.approx(expected["AR_at_last"], abs=CLOSE)
    assert list(ours["recall"].values()) == pytest.approx(expected["recall_at_last_per_tiou"], abs=CLOSE)


@pytest.mark.parametrize("name", ["top_no_version", "top_no_external_data"])
def test_a_missing_head_field_is_a_warning(name: str) -> None:
    assert "is missing" in read_predictions(prediction_path(name)).warnings[0]


def test_events_without_scores_leave_proposals_out_with_a_note() -> None:
    parts, skipped = parts_of(read_predictions(prediction_path("ev_noscore")), references("small"), Settings())
    assert parts == ("captioning", "soda", "paragraph")
    assert "proposal_score" in skipped[0]
