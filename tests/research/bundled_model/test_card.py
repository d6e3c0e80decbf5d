"""The bundled model's card: what `bundled_model card` writes today is the README that comes with the model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import densevid
from densevid.checkpoint import load_model
from densevid.io import read_json
from helpers.markdown_tables import tables_of
from research.bundled_model.card import card_text, plain_scores

FOLDER = Path(densevid.__file__).parent / "pretrained" / "msrvtt-two-stream"
NUMBER = r"(\d+(?:\.\d+)?)"


def numbers_of(rows: list[dict[str, str]]) -> dict[str, dict[str, float]]:
    """A table by its first column: {row: {column: number}}."""
    return {row[""]: {head: float(cell) for head, cell in row.items() if head} for row in rows}


def events_of(text: str) -> list[dict[str, Any]]:
    rows = re.findall(rf'^- {NUMBER} to {NUMBER} s, {NUMBER}: "(.*)"$', text, flags=re.MULTILINE)
    return [
        {"start": float(start), "end": float(end), "confidence": float(confidence), "sentence": sentence}
        for start, end, confidence, sentence in rows
    ]


def scores_of(card: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `bundled_model score` measured, as far as the card shows it: of dev and of val."""
    tables, flat = list(map(numbers_of, tables_of(card))), " ".join(card.split())
    clips = re.findall(r"(\d+) single clips of", flat)
    sets = re.findall(rf"(\d+) timelines of .*? at most (\d+) events .*? which has {NUMBER} events on average", flat)
    val, dev = (
        {
            "clip count": int(clips[place]),
            "clips": tables[2 * place],
            "timelines": tables[2 * place + 1],
            "timeline set": {
                "videos": int(sets[place][0]),
                "top n": int(sets[place][1]),
                "events in a summary": float(sets[place][2]),
            },
        }
        for place in (0, 1)
    )
    val["training clips"] = int(re.findall(r"(\d+) training clips", flat)[0])
    val["training hours"] = float(re.findall(rf"\({NUMBER} hours\)", flat)[0])
    val["provenance"] = {"densevid": re.findall(r"of densevid (\d+\.\d+\.\d+)\.", flat)[0]}
    val["no-event videos"] = {kind: {**row, "sentences": []} for kind, row in tables[4].items()}
    whole = card.partition("## Whole videos")[2].partition("## Limits")[0]
    videos = {
        name: {"seconds": float(seconds), "events": events_of(text)}
        for name, seconds, text in re.findall(
            rf"\*\*(.*?)\*\*, {NUMBER} s(.*?)(?=\n\*\*|\n`|\Z)", whole, flags=re.DOTALL
        )
    }
    scores = {
        name: {key: float(value) for key, value in re.findall(rf"([A-Za-z][\w ]*?) {NUMBER}(?=,|\.$)", text)}
        for name, text in re.findall(r"`(\w+)` is of .*? references: (.*?\.)(?= `| ##|$)", " ".join(whole.split()))
    }
    val["whole videos"] = {"videos": videos, "refused": [], "scores": scores}
    return dev, val


def test_the_card_of_the_package_is_the_one_that_is_generated() -> None:
    """Its figures are read back and rendered; whoever changes a text of `card.py` writes the README again."""
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    dev, val = scores_of(card)
    assert len(val["whole videos"]["videos"]) == 13 and len(val["whole videos"]["scores"]) == 2
    assert card_text(load_model(FOLDER), FOLDER, dev, val) == card


def test_the_scores_of_the_package_are_those_of_the_card() -> None:
    _, val = scores_of((FOLDER / "README.md").read_text(encoding="utf-8"))
    stored, shown = read_json(FOLDER / "scores.json"), plain_scores(val)
    for table, numbers in shown.items():
        assert stored[table].keys() == numbers.keys()
        assert all(abs(stored[table][name] - value) < 0.006 for name, value in numbers.items())
