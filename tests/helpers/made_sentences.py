"""Made events with sentences whose truth is known: captioners that are sometimes wrong, and annotators who are not.

Who does what, to what and where is drawn for each event. A captioner gets each part right with a chance of its own, the
event's clearness; it says several sentences, and knows how clear the event is only roughly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from densevid.inference.fitting.held_out_sentences import Annotators, HeldOutSentence, NoAnnotators
from densevid.inference.sentence_evidence import NamedLabel, SentenceEvidence
from densevid.language.stemmer import stem
from densevid.language.words import content_words

WHO = ("man", "woman", "boy", "girl")
DOES = ("riding", "holding", "washing", "painting", "carrying", "kicking")
WHAT = ("horse", "bike", "guitar", "ball", "car", "bowl")
WHERE = ("in a kitchen", "on a stage", "in the park", "near a house")
PARTS = (WHO, DOES, WHAT, WHERE)
Choice = tuple[int, int, int, int]


@dataclass(frozen=True)
class MadeAnnotators:
    """Ten annotators, so many of whom used each word."""

    counts: dict[str, int]
    annotators: int = 10

    def users(self, word: str) -> int:
        """By the stem of the word."""
        return self.counts.get(stem(word), 0)


def sentence(choice: Choice) -> str:
    """What a captioner says."""
    who, does, what, where = (part[number] for part, number in zip(PARTS, choice, strict=True))
    return f"a {who} is {does} a {what} {where}"


def annotators(choice: Choice) -> MadeAnnotators:
    """All of them say what is so, and one says something else."""
    counts = {stem(word): 9 for word in content_words(sentence(choice))}
    wrong = tuple((number + 1) % len(part) for number, part in zip(choice, PARTS, strict=True))
    for word in content_words(sentence(wrong)):  # type: ignore[arg-type]
        counts.setdefault(stem(word), 1)
    return MadeAnnotators(counts)


def made_event(rng: np.random.Generator, source: str) -> HeldOutSentence:
    """One of eight is none: its captions look like those of the others."""
    truth = tuple(int(rng.integers(len(part))) for part in PARTS)
    clear = rng.beta(2, 1.2)
    seen = tuple(_seen(rng, number, len(part), clear) for number, part in zip(truth, PARTS, strict=True))
    beam: dict[str, float] = {}
    while len(beam) < 4:
        doubt = tuple(_seen(rng, number, len(part), clear**0.5) for number, part in zip(seen, PARTS, strict=True))
        beam.setdefault(sentence(doubt), 0.0)  # type: ignore[arg-type]
    logs = np.sort(rng.gumbel(size=4) * 3 * clear)[::-1] - 12
    value = float(np.clip(clear + rng.normal() * 0.2, 0.01, 0.99))
    action = f"{DOES[seen[1]]} a {WHAT[seen[2]]}"
    none = rng.random() < 1 / 8
    evidence = SentenceEvidence(
        next(iter(beam)),
        tuple(beam),
        tuple(logs.tolist()),
        {},
        (NamedLabel(action, action, value),),
        float(np.clip(rng.beta(2, 3) if none else rng.beta(3, 2), 0.01, 0.99)),
    )
    owner: Annotators = NoAnnotators() if none else annotators(truth)  # type: ignore[arg-type]
    return HeldOutSentence(evidence, source, owner)


def made_events(count: int, seed: int) -> list[HeldOutSentence]:
    """Events, two of each source."""
    rng = np.random.default_rng(seed)
    return [made_event(rng, f"{seed}-{number // 2}") for number in range(count)]


def is_right(text: str, owner: Annotators) -> bool:
    """Whether two annotators used each content word."""
    return all(owner.users(word) >= 2 for word in content_words(text))


def _seen(rng: np.random.Generator, truth: int, count: int, clear: float) -> int:
    return truth if rng.random() < clear else int(rng.integers(count))
