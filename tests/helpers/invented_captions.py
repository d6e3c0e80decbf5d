"""An invented evaluation set: 48 videos, two annotators, predictions, with sentences from a small grammar of ours.

Everything is drawn from one seed. Events overlap, touch, repeat, and a few are reversed, empty or beyond the video;
sentences have inflections, synonyms, clitics, hyphens, brackets, unicode, upper case, numbers; some are empty or odd.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

SEED = 20
VIDEOS = 48

WHO = """a man|the man|a woman|the young lady|a guy|two children|some kids|people|the chef's helper|he|she|they|one dog
an old sailor in a raincoat|a group of dancers|the players of both teams|nobody"""
DOES = """run runs is running ran|walk walks is walking walked|play plays is playing played|cut cuts is cutting cut
begin begins is beginning began|start starts is starting started|hold holds is holding held
talk talks is talking talked|carry carries is carrying carried|try tries is trying tried"""
WHAT = """a ball|the ball|a t-shirt|his bike|her bicycle|the sea-side bench|three eggs|1/2 cup of water|a lot of apples
many apples|the dogs' bowl|a car|the vehicle|a so-called 'expert'|12 plates|the drum-kit"""
WHERE = """in the park|on the stage|at home|in a kitchen|near the café|with friends|in front of a crowd|quickly
very slowly|again and again|until 10:30|for $5.50|(close-up)|[off screen]||"""
SUBJECTS, VERBS, OBJECTS, CIRCUMSTANCES = (text.replace("\n", "|").split("|") for text in (WHO, DOES, WHAT, WHERE))
ENDS = [".", ".", ".", "", "!", "?", " .", "...", ";", " -- really.", ", isn't it?", " :-)"]
LINKS = [" and then ", ", then ", " while ", "; ", ", but ", ' shouting "hello" and ', " - "]
ODD = ["", "   ", "...", "!?", "He takes vitamin A.", "She smiles :-)", "The U.S. flag, e.g. one of Mr. Smith's"]
ODD += ["a ||| b", "a man\twalks", "a man\nwalks on", "日本語", "don’t — stop", "THE MAN CAN'T STOP", "gonna, gotta"]
ODD += ["abc123!@#", "(a) [b] {c}", "x", "the the the the", "naïve café 100% AT&T", " ".join(["round and round"] * 25)]
EXTRA = ["the", "a", "very", "blue", "man", "n't", "then", ",", "again"]


@dataclass(frozen=True)
class InventedSet:
    """References of two annotators, `{video: {timestamps, sentences}}`, and predictions in the submission format."""

    references: list[dict[str, Any]]
    predictions: dict[str, Any]
    on_segments: dict[str, Any]

    @property
    def results(self) -> dict[str, list[dict[str, Any]]]:
        return self.predictions["results"]


def invented_set(seed: int = SEED, videos: int = VIDEOS) -> InventedSet:
    """The same set for the same seed."""
    draw = random.Random(seed)
    names = [f"v_invented{number:03d}" for number in range(videos)]
    lengths = {name: draw.uniform(20, 200) for name in names}
    first = {name: _entry(draw, lengths[name], draw.randint(1, 6)) for name in names if draw.random() < 0.95}
    second = {name: _second_opinion(draw, lengths[name], first.get(name)) for name in names if draw.random() < 0.9}
    references = [first, second]
    scores = iter(draw.sample(range(100_000), 2_000))
    results = {name: _predicted(draw, references, name, lengths[name], scores) for name in names if draw.random() < 0.9}
    results[names[3]] = []
    results["v_unknown"] = [_event(sentence(draw), [0, 5], scores)]
    on_segments = {name: _captions_of_segments(draw, references, name, scores) for name in results}
    return InventedSet(references, _submission(results), _submission(on_segments))


def sentence(draw: random.Random) -> str:
    """One sentence of the grammar, or, one time in fifteen, an odd one."""
    if draw.random() < 1 / 15:
        return draw.choice(ODD)
    text = draw.choice(LINKS).join(_clause(draw) for _ in range(draw.choice([1, 1, 1, 2, 3])))
    if draw.random() < 0.7:
        text = text[:1].upper() + text[1:]
    return text + draw.choice(ENDS)


def _clause(draw: random.Random) -> str:
    base, third, auxiliary, participle, past = draw.choice(VERBS).split()
    verb = draw.choice([base, third, f"{auxiliary} {participle}", past, f"isn't {participle}", f"'s {participle}"])
    return f"{draw.choice(SUBJECTS)} {verb} {draw.choice(OBJECTS)} {draw.choice(CIRCUMSTANCES)}".rstrip()


def _entry(draw: random.Random, length: float, events: int) -> dict[str, Any]:
    times = [_interval(draw, length) for _ in range(events)]
    sentences = [sentence(draw) for _ in times]
    sentences[0] = _clause(draw) + "."  # a corpus without any word crashes the official scorers
    return {"duration": round(length, 2), "timestamps": times, "sentences": sentences}


def _second_opinion(draw: random.Random, length: float, other: dict[str, Any] | None) -> dict[str, Any]:
    """Own events, and some of the other annotator's with other words."""
    entry = _entry(draw, length, draw.randint(1, 4))
    for times, text in zip(*(other[key] for key in ("timestamps", "sentences")), strict=True) if other else ():
        if draw.random() < 0.4:
            entry["timestamps"].append(list(times))
            entry["sentences"].append(_reworded(draw, text))
    return entry


def _interval(draw: random.Random, length: float) -> list[float]:
    start = draw.uniform(0, length * 0.8)
    end = min(length, start + draw.uniform(1, length * 0.6))
    return [round(start), round(end) + 1] if draw.random() < 0.3 else [round(start, 2), round(end, 2)]


def _predicted(draw: random.Random, references: list[Any], video: str, length: float, scores: Any) -> list[Any]:
    """The references' events, moved and reworded, and false ones."""
    events = [
        _event(_reworded(draw, text), _moved(draw, times), scores)
        for file in references
        if video in file
        for times, text in zip(file[video]["timestamps"], file[video]["sentences"], strict=True)
        if draw.random() < 0.7
    ]
    events += [_event(sentence(draw), _interval(draw, length), scores) for _ in range(draw.randint(0, 3))]
    if draw.random() < 0.15:
        events.append(_event(sentence(draw), draw.choice([[30, 10], [7, 7], [-5, 12.5], [length, 2 * length]]), scores))
    if events and draw.random() < 0.15:
        events.append(_event(events[0]["sentence"], events[0]["timestamp"], scores))
    draw.shuffle(events)
    return events


def _captions_of_segments(draw: random.Random, references: list[Any], video: str, scores: Any) -> list[Any]:
    entries = [file[video] for file in references if video in file]
    pairs = [pair for entry in entries for pair in zip(entry["timestamps"], entry["sentences"], strict=True)]
    return [_event(_reworded(draw, text), list(times), scores) for times, text in pairs if draw.random() < 0.8]


def _event(text: str, times: list[float], scores: Any) -> dict[str, Any]:
    return {"sentence": text, "timestamp": times, "proposal_score": next(scores) / 100_000}


def _moved(draw: random.Random, times: list[float]) -> list[float]:
    if draw.random() < 0.25:
        return list(times)
    spread = 0.3 * (times[1] - times[0])
    return [
        round(max(0, times[0] + draw.uniform(-spread, spread)), 2),
        round(times[1] + draw.uniform(-spread, spread), 2),
    ]


def _reworded(draw: random.Random, text: str) -> str:
    """The sentence, or one with words dropped, exchanged and added, or another."""
    chance = draw.random()
    if chance < 0.2:
        return text
    if chance < 0.35:
        return sentence(draw)
    words = text.split(" ")
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(words))
        words[place : place + draw.randint(0, 1)] = [draw.choice(EXTRA)] * draw.randint(0, 1)
        words = words or [""]
    return " ".join(words)


def _submission(results: dict[str, Any]) -> dict[str, Any]:
    return {"version": "VERSION 1.0", "external_data": {}, "results": results}
