"""What stands for the sentence of an event wherever events are shown, and how sure the model is of it.

A captioner that is not sure enough of a sentence leaves it empty. Such an event is shown as "scene 2", its number in
order of time; the file formats for programs keep the empty sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from densevid.events import Event

UNSURE = "no sentence is sure enough"


def printable(text: str) -> str:
    """One line without anything that a terminal, a player or a parser would act upon."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shown_sentences(events: Sequence[Event]) -> list[str]:
    """The sentence of each event, or "scene N" where it is empty: its number among these events, in order of time."""
    order = sorted(range(len(events)), key=lambda index: events[index].place)
    number = {index: place for place, index in enumerate(order, start=1)}
    return [
        event.sentence if printable(event.sentence) else f"scene {number[index]}" for index, event in enumerate(events)
    ]


def as_shown(events: Sequence[Event]) -> list[Event]:
    """The events in order of time, each with the sentence that is shown."""
    shown = (replace(event, sentence=text) for event, text in zip(events, shown_sentences(events), strict=True))
    return sorted(shown, key=lambda event: event.place)


def abstains(event: Event) -> bool:
    """Whether the captioner was not sure enough of any sentence, which is not the same as having none."""
    return not printable(event.sentence) and (event.sentence_score is not None or bool(guess(event)))


def guess(event: Event) -> str:
    """The full sentence where something else is shown, else nothing."""
    full = event.full_sentence or ""
    return full if printable(full) != printable(event.sentence) else ""


def has_two_confidences(events: Iterable[Event]) -> bool:
    """Whether the model that made the events has a confidence for sentences."""
    return any(event.sentence_score is not None for event in events)


def percent(share: float) -> int:
    """A confidence as it is shown."""
    return round(100 * min(1.0, max(0.0, share)))


def sentence_percent(event: Event) -> int | None:
    """The confidence in the sentence that is shown; None where there is none, or no sentence."""
    return None if event.sentence_score is None or not printable(event.sentence) else percent(event.sentence_score)


def confidences_text(event: Event, span: int | None) -> str:
    """Both confidences in a few words, `span` being that of the event in percent; "" where no more than it is known."""
    if event.sentence_score is None and not abstains(event):
        return ""
    sure = sentence_percent(event)
    words = UNSURE if sure is None else f"sentence {sure}%"
    return words if span is None else f"event {span}% · {words}"


def whose_sentences(events: Iterable[Event], model: str = "") -> str:
    """One line on who wrote the sentences and that they can be wrong; "" for models without a confidence for them.

    Args:
        events: The events of a model.
        model: Its name; sentences without a `sentence_model` are its own, too.
    """
    known = [event for event in events if event.sentence_score is not None or event.sentence_model]
    if not known:
        return ""
    writers_of = (event.sentence_model if event.sentence_model != model else None for event in known)
    names = {name and printable(name) for name in writers_of}
    writers = [f"by {name}" for name in sorted(filter(None, names))]
    if len(writers) < len(names):
        writers.insert(0, "a small model's")
    return f"The sentences are {' or '.join(writers)} and can be wrong."
