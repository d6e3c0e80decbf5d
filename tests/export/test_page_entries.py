"""Lanes and colours, against brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from densevid.events import Event
from densevid.export.document import ShownEvent, references
from densevid.export.page_entries import NO_HUE, lay_out

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.booleans()), max_size=25)


def shown(start: float, end: float, *, reference: bool = False, group: str = "") -> ShownEvent:
    return ShownEvent(Event(start, end, "words"), reference=reference, group=group)


@given(SPANS)
def test_lanes_hold_no_overlap_and_are_as_few_as_possible(spans: list[tuple[int, int, bool]]) -> None:
    events = [shown(start, start + length, reference=reference) for start, length, reference in spans]
    layout = lay_out(events)
    for group in range(len(layout.groups)):
        members = [index for index in range(len(events)) if layout.group[index] == group]
        for second in range(60):
            here = [index for index in members if events[index].event.start <= second < events[index].event.end]
            assert len({layout.lane[index] for index in here}) == len(here)
        crowd = max(
            sum(events[i].event.start <= events[j].event.start < events[i].event.end for i in members) for j in members
        )
        assert 1 + max(layout.lane[index] for index in members) == crowd


@given(SPANS)
def test_the_list_is_in_order_of_time(spans: list[tuple[int, int, bool]]) -> None:
    events = [shown(start, start + length, reference=reference) for start, length, reference in spans]
    starts = [events[index].event.start for index in lay_out(events).order]
    assert starts == sorted(starts) and len(starts) == len(events)


def test_a_prediction_has_the_colour_of_the_reference_it_overlaps_most() -> None:
    truth = references([Event(0, 10, "one"), Event(10, 20, "two")])
    layout = lay_out([shown(9, 21), shown(1, 9), shown(0, 100), *truth])
    one, two = layout.hue[3:]
    assert one != two
    assert layout.hue[:3] == (two, one, NO_HUE)


def test_groups_of_references_come_first_and_names_are_kept() -> None:
    layout = lay_out([shown(0, 1, group="ours"), shown(0, 1), shown(0, 1, reference=True, group="annotator 2")])
    assert layout.groups == ("annotator 2", "ours", "Predicted")


def test_a_timeline_without_events_has_no_groups() -> None:
    assert lay_out([]).groups == ()
