"""Support on events small enough to work out by hand, and its curve against a plain count."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.cli import main
from densevid.errors import InputError
from densevid.evaluation.compare import samples
from densevid.evaluation.evaluate import evaluate
from densevid.evaluation.files import read_predictions, read_references
from densevid.evaluation.protocols.support import SupportGroup, score_support

GUITAR = ["a man plays a guitar", "a boy is playing the guitar", "a man with a guitar on stage", "a man on a stage"]
KITCHEN = ["a woman cooks", "a lady is cooking pasta in the kitchen", "she cooked in her kitchen", "pasta"]
CLIPS = {
    "a": {"split": "val", "seconds": 10, "captions": GUITAR, "source": "x"},
    "b": {"split": "val", "seconds": 20, "captions": KITCHEN, "source": "y"},
    "c": {"split": "train", "seconds": 5, "captions": ["a dog"], "source": "z"},
}


def row(sentence: str, start: float = 0, end: float = 10, **more: Any) -> dict[str, Any]:
    return {"sentence": sentence, "timestamp": [start, end], "proposal_score": 0.5, **more}


def predicted(**events: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": "", "external_data": {}, "results": events}


def scores_of(predictions: dict[str, Any], confidence: str = "sentence_score") -> dict[str, Any]:
    files = read_predictions(predictions), [read_references(CLIPS)]
    return score_support(*files, confidence).to_dict()


@pytest.mark.parametrize(
    ("sentence", "shortened", "supported", "words"),
    [
        ("a man is playing a guitar", False, 1, 1.0),
        ("a man is playing a guitar on stage", False, 1, 1.0),
        ("someone is playing", False, 0, 1.0),  # no object
        ("someone is playing", True, 1, 1.0),
        ("a guitar on a stage", True, 0, 1.0),  # no verb
        ("a boy is playing a guitar", False, 0, 2 / 3),  # one annotator alone wrote "boy"
        ("a person is doing something", True, 0, None),  # nothing to agree with
    ],
)
def test_a_sentence_needs_agreement_and_form(
    sentence: str, shortened: bool, supported: int, words: float | None
) -> None:
    found = scores_of(predicted(a=[row(sentence, shortened=shortened)]))
    own = found["shortened" if shortened else "full"]
    assert own["support"] == supported
    assert own["word_support"] == words
    assert found["shown"]["support"] == supported
    assert found["full" if shortened else "shortened"]["coverage"] == 0


def test_abstentions_lower_the_coverage_and_full_sentences_are_counted_beside() -> None:
    events = [row("", full_sentence="a dog is running on a beach"), row("a man is playing a guitar")]
    found = scores_of(predicted(a=events, b=[row(" ", full_sentence="someone is cooking pasta")]))
    assert found["events"] == 3
    assert found["shown"]["coverage"] == pytest.approx(1 / 3)
    assert found["shown"]["support"] == 1
    assert found["guesses"]["coverage"] == 1
    assert found["guesses"]["support"] == pytest.approx(2 / 3)
    assert found["shown"]["at_coverage"]["0.5"]["support"] is None
    assert found["segments"] == {"segments": 3, "few_annotators": 3, "annotators": 3, "described": 1}


def test_an_event_is_compared_with_the_segment_that_it_overlaps_most() -> None:
    times = [[0, 10]] * 4 + [[8, 30]] * 4
    references = read_references({"v": {"timestamps": times, "sentences": GUITAR + KITCHEN}})
    events = [row("someone is cooking pasta", *span) for span in ((0, 10), (9, 30), (40, 50))]
    scores = score_support(read_predictions(predicted(v=events)), [references])
    assert scores.groups["shown"].supported_E.tolist() == [False, True, False]
    assert scores.without_segment == 1


def test_an_annotator_a_file_is_the_same_as_all_in_one_file() -> None:
    predictions = predicted(a=[row("a man is playing a guitar"), row("a boy is on a stage")])
    files = [{"a": {"timestamps": [[0, 10]], "sentences": [text]}} for text in GUITAR]
    apart = score_support(read_predictions(predictions), [read_references(file) for file in files])
    together = score_support(read_predictions(predictions), [read_references({"a": CLIPS["a"]})])
    assert apart.to_dict() == together.to_dict()


def test_the_most_confident_sentences_come_first() -> None:
    good, bad = "a man is playing a guitar", "a dog is playing a piano"
    events = [row(text, sentence_score=score) for text, score in ((bad, 0.1), (good, 0.9), (good, 0.8), (bad, 0.7))]
    shown = scores_of(predicted(a=events))["shown"]
    assert shown["at_coverage"]["0.5"]["support"] == 1
    assert shown["at_coverage"]["0.9"]["support"] == pytest.approx(2 / 3.6)
    assert shown["at_coverage"]["1"]["support"] == 0.5
    assert shown["calibration"]["error"] == pytest.approx((0.1 + 0.1 + 0.2 + 0.7) / 4)
    assert shown["frequent"]["sentences"] == [{"sentence": bad, "count": 2}, {"sentence": good, "count": 2}]


def test_without_confidences_every_coverage_has_the_same_support() -> None:
    events = [row("a man is playing a guitar"), row("x"), row("y"), row("a man is on a stage")]
    shown = scores_of(predicted(a=events))["shown"]
    assert {each["support"] for each in shown["at_coverage"].values()} == {0.5}
    assert shown["calibration"] is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.2, 0.5, 0.9])), min_size=1, max_size=12))
def test_support_at_a_coverage_is_the_mean_over_orders_of_equal_confidences(
    events: list[tuple[bool, bool, float]],
) -> None:
    shown_E, supported_E = (np.array([event[0] for event in events]), np.array([all(event[:2]) for event in events]))
    confidence_E = np.array([event[2] for event in events])
    nothing = np.zeros((len(events), 2))
    video_E = np.zeros(len(events), dtype=np.int64)
    group = SupportGroup(video_E, shown_E, supported_E, shown_E, nothing, confidence_E, [], 1)
    for count in range(1, len(events) + 1):
        found = group.support_at([count / len(events)])[0]
        if count > shown_E.sum():
            assert math.isnan(found)
            continue
        random = np.random.default_rng(0)
        drawn = []
        for _ in range(400):
            order = random.permutation(np.flatnonzero(shown_E))
            best = sorted(order, key=lambda event: -confidence_E[event])[:count]
            drawn.append(supported_E[best].mean())
        assert found == pytest.approx(np.mean(drawn), abs=0.15)


def test_a_split_of_a_clip_collection_is_read(tmp_path: Path) -> None:
    path = tmp_path / "clips.json"
    path.write_text(json.dumps(CLIPS))
    assert read_references(f"{path}:val").videos == ["a", "b"]
    assert read_references(path).videos == ["a", "b", "c"]
    still = {name: {key: value for key, value in clip.items() if key != "seconds"} for name, clip in CLIPS.items()}
    assert read_references(still).intervals_E2[0].tolist() == [0, 1]
    with pytest.raises(InputError, match="no clip in split 'test'"):
        read_references(f"{path}:test")
    (tmp_path / "r.json").write_text(json.dumps({"v": {"timestamps": [[0, 1]], "sentences": ["x"]}}))
    with pytest.raises(InputError, match=r"only the clips\.json of a clip collection has splits"):
        read_references(f"{tmp_path / 'r.json'}:val")


def test_other_protocols_score_the_full_sentence() -> None:
    full = predicted(a=[row("a man is playing a guitar")])
    short = predicted(a=[row("someone is playing", full_sentence="a man is playing a guitar", shortened=True)])
    silent = predicted(a=[row("", full_sentence="a man is playing a guitar")])
    metrics = ["captioning", "soda", "paragraph", "segments"]
    found = [evaluate(file, CLIPS, metrics=metrics, cache=False) for file in (full, short, silent)]
    assert found[0].headlines() == found[1].headlines() == found[2].headlines()


def test_support_is_scored_only_where_it_is_named_and_can_be_compared() -> None:
    predictions = predicted(a=[row("a man is playing a guitar")], b=[row("")])
    assert "support" not in evaluate(predictions, CLIPS, cache=False).parts
    evaluation = evaluate(predictions, CLIPS, metrics=["support"])
    assert evaluation.headlines() == {"support": 1.0}
    values = {s.name: s.score(s.table_VK.sum(axis=0, keepdims=True))[0] for s in samples(evaluation)}
    assert values == {"support": 1.0, "support coverage": 0.5}
    assert any("fewer than 5 sentences" in note for note in evaluation.coverage.warnings)
    header, rows = evaluation.per_video()
    assert header == ["video", "support_events", "support_shown", "support_supported"]
    assert rows[0] == ["a", 1, 1, 1]


def test_any_field_can_be_the_confidence() -> None:
    events = [row("a man is playing a guitar", sure=0.9), row("a dog", sure=0.2)]
    support = evaluate(predicted(a=events), CLIPS, metrics=["support"], confidence="sure").to_dict()["support"]
    assert support["confidence"] == "sure"
    assert support["shown"]["at_coverage"]["0.5"]["support"] == 1


def test_a_confidence_that_is_no_number_is_an_error() -> None:
    with pytest.raises(InputError, match='event 0: "sentence_score" must be a number'):
        scores_of(predicted(a=[row("x", sentence_score="high")]))


def test_the_command_prints_and_writes_support(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clips.json").write_text(json.dumps(CLIPS))
    (tmp_path / "p.json").write_text(json.dumps(predicted(a=[row("a man is playing a guitar")], b=[row("x")])))
    words = ["evaluate", str(tmp_path / "p.json"), "--references", f"{tmp_path / 'clips.json'}:val"]
    words += ["--metrics", "support", "--confidence", "proposal_score", "--json", str(tmp_path / "o.json")]
    assert main(words) == 0
    assert "support, by proposal_score" in capsys.readouterr().out
    content = json.loads((tmp_path / "o.json").read_text())
    assert content["support"]["shown"]["calibration"]["error"] == 0
    assert content["provenance"]["inputs"].keys() == {"p.json", "clips.json"}
