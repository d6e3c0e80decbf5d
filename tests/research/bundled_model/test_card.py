"""The bundled model's card: a card holds every measured figure, and that of the package is the one generated today."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import densevid
from densevid.checkpoint import LoadedModel, load_model, save_model
from densevid.inference.fitting.sentence_confidence import fit_sentence_confidence
from densevid.io import read_json
from densevid.pipeline.model_registry import DEFAULT
from helpers.made_sentences import made_events
from helpers.markdown_tables import tables_of
from helpers.random_models import random_model
from research.bundled_model.card import card_text, plain_scores
from research.bundled_model.sentence_scores import PLAIN, SHOWN

MODELS = Path(densevid.__file__).parent / "pretrained"
FOLDER = MODELS / (MODELS / DEFAULT).read_text(encoding="utf-8").strip()
NUMBER = r"(-?\d+(?:\.\d+)?)"
Row = dict[str, str]


def numbers_of(rows: list[Row]) -> dict[str, dict[str, float]]:
    """A table by its first column: {row: {column: number}}."""
    return {row[""]: {head: float(cell) for head, cell in row.items() if head} for row in rows}


def share(cell: str) -> float | None:
    return None if cell == "-" else float(cell.rstrip("%")) / 100


def support_of(rows: list[Row]) -> dict[str, Any]:
    return {
        row[""]: {
            "shown": {"coverage": share(row["shown"]), "support": share(row["support"])}
            | {"at_coverage": {at: {"support": share(row[f"at {float(at):.0%}"])} for at in ("0.5", "0.9")}},
            "full": {"coverage": share(row["full sentences"]), "support": share(row["their support"])},
        }
        for row in rows
    }


def events_of(text: str) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """The events of one video, and the verdicts on them."""
    line = (
        rf"^- {NUMBER} to {NUMBER} s, {NUMBER}(?:, {NUMBER})?: "
        r'(?:"(.*?)"|\(no sentence\))(?: \(guess: "(.*?)"\))?(?:: (right|vague|wrong))?$'
    )
    events, judged = [], []
    for start, end, confidence, sure, sentence, full, verdict in re.findall(line, text, flags=re.MULTILINE):
        event = {"start": float(start), "end": float(end), "sentence": sentence, "confidence": float(confidence)}
        more = {"sentence_confidence": float(sure) if sure else None, "full_sentence": full or None}
        events.append(event | more)
        judged += [[sentence, verdict]] if verdict else []
    return events, judged


def whole_videos_of(card: str) -> tuple[dict[str, Any], dict[str, Any]]:
    whole = card.partition("## Whole videos")[2].partition("## Limits")[0]
    videos, judged = {}, {}
    found = re.findall(
        r"\*\*(.*?)\*\*(?:, ([\d.]+) s)?(?:; it shows (.*?))?\n(.*?)(?=\n\*\*|\n`|\n- ref|\Z)", whole, re.S
    )
    for name, seconds, shows, text in found:
        events, verdicts = events_of(text)
        failed = re.findall("^- failed: (.*)$", text, re.MULTILINE)
        videos[name] = {"failed": failed[0]} if failed else {"seconds": float(seconds), "events": events}
        if shows:
            judged[name] = {"shows": shows, "events": verdicts}
    flat = " ".join(whole.split())
    scores = {
        name: {key: float(value) for key, value in re.findall(rf"([A-Za-z][\w ]*?) {NUMBER}(?=,|\.$)", text)}
        for name, text in re.findall(r"`(\w+)` is of .*? references: (.*?\.)(?= `| ##|$)", flat)
    }
    refused = re.findall("^- refused: (.*)$", whole, re.MULTILINE)
    return {"videos": videos, "refused": refused, "scores": scores}, judged


def clips_of(part: str, tables: list[list[Row]]) -> dict[str, Any]:
    """Scores of clips and of timelines, from the part of the card about one split."""
    flat = " ".join(part.split())
    (about,) = re.findall(
        rf"(\d+) timelines of .*? at most (\d+) events .*? which has {NUMBER} events on average", flat
    )
    compared = re.findall(rf"^(.*), model less plain captioner: {NUMBER}, 95% {NUMBER} to {NUMBER}$", part, re.M)
    pictures = re.findall(r"^(\d+) held-out pictures of (\S+), in its own style: (.*)$", part, re.M)
    content: dict[str, Any] = {
        "clip count": int(re.findall(r"(\d+) single clips of", flat)[0]),
        "clips": {"scores": numbers_of(tables[0])},
        "timelines": numbers_of(tables[1]),
        "timeline set": {"videos": int(about[0]), "top n": int(about[1]), "events in a summary": float(about[2])},
    }
    if compared:
        content["clips"]["beside the plain captioner"] = {
            name: {"difference": float(value), "interval": [float(low), float(high)]}
            for name, value, low, high in compared
        }
    if pictures:
        content["pictures"] = {
            name: {"pictures": int(number)}
            | {metric: float(value) for metric, value in re.findall(rf"(\w+) {NUMBER}", text)}
            for number, name, text in pictures
        }
    return content


def scores_of(card: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What `bundled_model score` measured, as far as the card shows it: of fold0 and of val; and the verdicts."""
    tables, flat = tables_of(card), " ".join(card.split())
    val_part, _, fold_part = card.partition("## Support")[0].partition("single clips of train-fold0")
    last = val_part.rindex("\n") + 1
    val, fold = (
        clips_of(val_part[:last], tables[:2]),
        clips_of(val_part[last:] + "single clips of" + fold_part, tables[2:4]),
    )
    val["clips"]["support"] = support_of(tables[4])
    calibration = rf"what is shown: {NUMBER} \(95% {NUMBER} to {NUMBER}\), with a mean confidence of {NUMBER}\."
    for error, low, high, mean in re.findall(calibration, flat):
        val["clips"]["support"][SHOWN]["shown"]["calibration"] = {
            "error": float(error),
            "interval": [float(low), float(high)],
            "bins": [{"confidence": float(mean), "sentences": 1}],
        }
    val["training clips"] = int(re.findall(r"CVPR 2016\): (\d+) clips", flat)[0])
    val["training hours"] = float(re.findall(rf"\({NUMBER} hours\)", flat)[0])
    val["provenance"] = {"densevid": re.findall(r"of densevid (\S+)\. `python", flat)[0]}
    sentences = re.findall(r'Its sentences: (".*?")\. ##', flat)
    val["no-event videos"] = {kind: {**row, "sentences": []} for kind, row in numbers_of(tables[-1]).items()}
    first = next(iter(val["no-event videos"].values()))
    first["sentences"] = sentences[0][1:-1].split('"; "') if sentences else []
    val["whole videos"], judged = whole_videos_of(card)
    return fold, val, judged


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedModel, Path]:
    """A random model with a sentence confidence, and its folder."""
    confidence = fit_sentence_confidence(made_events(60, 0), ("dog",), folds=5)
    loaded = replace(random_model(), sentence_confidence=confidence.as_table())
    folder = tmp_path_factory.mktemp("models") / "made-model"
    save_model(folder, loaded, {})
    return loaded, folder


def split_scores(clips: int, *rows: str) -> dict[str, Any]:
    columns = ("AR@10", "F1", "SODA_c", "METEOR 2018", "METEOR 2018 of the top n")
    return {
        "clip count": clips,
        "clips": {
            "scores": {
                row: {"METEOR": 28.5 - n, "CIDEr": 47.25 - n, "Bleu_4": 30.0, "ROUGE_L": 50.0}
                for n, row in enumerate(rows)
            }
        },
        "timelines": {
            row: dict(zip(columns, (0.7 - n / 10, 0.4, 12.5, 8.0, 9.0), strict=True))
            for n, row in enumerate(("model", "prior grid"))
        },
        "timeline set": {"videos": clips // 2, "top n": 4, "events in a summary": 3.05},
    }


def support_row(shown: float, full: float, half: float | None) -> dict[str, Any]:
    at = {"0.5": {"support": half}, "0.9": {"support": None}}
    return {
        "shown": {"coverage": shown, "support": 0.75, "at_coverage": at},
        "full": {"coverage": full, "support": 0.625},
    }


def measured() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What `bundled_model score` writes for a fold and for val, and verdicts."""
    fold, val = split_scores(40, "model"), split_scores(102, "model", PLAIN)
    val["clips"]["beside the plain captioner"] = {
        "segments micro METEOR": {"difference": 1.25, "interval": [-0.5, 3.0], "p": 0.1}
    }
    val["clips"]["support"] = {"model": support_row(1.0, 1.0, 0.5), SHOWN: support_row(0.9, 0.25, 0.875)}
    bins = [{"confidence": 0.625, "sentences": 1}]
    val["clips"]["support"][SHOWN]["shown"]["calibration"] = {"error": 0.125, "interval": [0.0, 0.25], "bins": bins}
    val["pictures"] = {"coco": {"pictures": 1000, "METEOR": 25.5, "CIDEr": 80.25}}
    val |= {"training clips": 568, "training hours": 2.3, "provenance": {"densevid": "0.2.0"}}
    counts = {"videos": 10, "videos with events": 1, "events": 2, "highest confidence": 0.25}
    val["no-event videos"] = {
        "black": {**counts, "sentences": ["a dog runs", "a man is talking"]},
        "still": {**counts, "sentences": []},
    }
    row = {"start": 0.0, "end": 4.5, "confidence": 0.8, "sentence_confidence": 0.6, "full_sentence": None}
    talking = {**row, "sentence": "a man is talking"}
    guess = {**row, "sentence": "", "full_sentence": "a dog is running in a park", "sentence_confidence": 0.1}
    val["whole videos"] = {
        "videos": {
            "film": {"seconds": 60.5, "events": [talking, {**talking, "start": 10.0, "end": 20.0}, guess]},
            "other": {"seconds": 9.0, "events": [{**talking, "sentence_confidence": None}]},
            "empty": {"seconds": 5.0, "events": []},
            "broken": {"failed": "broken.mp4: no video"},
        },
        "refused": ["notes.txt: no video"],
        "scores": {"film": {"events": 3, "F1": 0.25, "SODA_c": 8.5}},
    }
    events = [["a man is talking", "right"], ["a man is talking", "wrong"], ["", "vague"]]
    return fold, val, {"film": {"shows": "a man who talks, then a dog", "events": events}}


def test_every_figure_can_be_read_back_from_a_card(model: tuple[LoadedModel, Path]) -> None:
    """So that the card of the package can be compared with what is generated today."""
    fold, val, judged = measured()
    card = card_text(*model, fold, val, judged)
    again = scores_of(card)
    assert card_text(*model, *again) == card
    del val["clips"]["beside the plain captioner"]["segments micro METEOR"]["p"]
    assert again == (fold, val, judged)
    assert all(len(line) <= 120 for line in card.splitlines() if line[:1] not in ("|", "#"))


def test_targets_are_reached_or_missed(model: tuple[LoadedModel, Path]) -> None:
    card = card_text(*model, *measured())
    for line in (
        "- METEOR of single clips: at least 28.00, measured 28.50: reached",
        "- CIDEr of single clips: at least 46.00, measured 47.25: reached",
        "- AR@10 on timelines: at least 0.650, measured 0.700: reached",
        "- SODA_c on timelines: at least 18.00, measured 12.50: missed",
    ):
        assert line in card.splitlines()


def test_verdicts_stand_beside_their_sentences(model: tuple[LoadedModel, Path]) -> None:
    """Two events with the same sentence have verdicts of their own; without verdicts there is none."""
    fold, val, judged = measured()
    card = card_text(*model, fold, val, judged)
    assert "of 3 captions 1 right, 1 vague, 1 wrong" in " ".join(card.split())
    lines = card.partition("**film**")[2].splitlines()
    assert lines[2] == '- 0 to 4.5 s, 0.80, 0.60: "a man is talking": right'
    assert lines[3] == '- 10 to 20 s, 0.80, 0.60: "a man is talking": wrong'
    assert lines[4] == '- 0 to 4.5 s, 0.80, 0.10: (no sentence) (guess: "a dog is running in a park"): vague'
    assert '- 0 to 4.5 s, 0.80: "a man is talking"' in card.partition("**other**")[2].splitlines()
    assert ": right" not in card_text(*model, fold, val)


def test_confidence_is_there_if_the_model_has_it(model: tuple[LoadedModel, Path]) -> None:
    loaded, folder = model
    assert loaded.sentence_confidence is not None
    card, bins = card_text(*model, *measured()), loaded.sentence_confidence["fitted"]["bins"]
    rows = next(table for table in tables_of(card) if "supported" in table[0])
    assert [float(row["confidence"]) for row in rows] == pytest.approx(bins["confidence"], abs=0.00501)
    assert [float(row["sentences"]) for row in rows] == bins["sentences"]
    assert "## Confidence" not in card_text(replace(loaded, sentence_confidence=None), folder, *measured())


def packaged() -> str:
    return (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_card_of_the_package_is_the_one_that_is_generated() -> None:
    """Its figures are read back and rendered; whoever changes a text of `card.py` writes the README again."""
    card = packaged()
    fold, val, judged = scores_of(card)
    assert val["whole videos"]["videos"] and val["whole videos"]["scores"]
    assert card_text(load_model(FOLDER), FOLDER, fold, val, judged) == card


def test_the_scores_of_the_package_are_those_of_the_card() -> None:
    _, val, _ = scores_of(packaged())
    stored, shown = read_json(FOLDER / "scores.json"), plain_scores(val)
    for table, numbers in shown.items():
        assert stored[table].keys() == numbers.keys()
        assert all(abs(stored[table][name] - value) < 0.006 for name, value in numbers.items())
