"""The top n events of models and baselines are chosen by one rule."""

from __future__ import annotations

from densevid.events import Event
from research.baselines.spans import top_n


def test_events_that_hardly_overlap_are_chosen_the_best_together() -> None:
    twins = [
        Event(0.0, 10.0, "a", 0.9),
        Event(0.5, 10.0, "b", 0.8),
        Event(20.0, 30.0, "c", 0.3),
        Event(9.0, 19.0, "d", 0.2),
    ]
    assert [event.sentence for event in top_n(twins, 2)] == ["a", "c"], "not the twin, which scores better"
    assert [event.sentence for event in top_n(twins, 9)] == ["a", "c", "d"]
    assert [event.sentence for event in top_n(twins, 1)] == ["a"] and top_n([], 3) == []
