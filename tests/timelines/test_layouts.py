"""Layouts: real figures, closed slack, shrunk as a whole, families as brute force finds them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.errors import InputError
from densevid.timelines.layouts import Layout, LayoutTable, close_slack, fit


def test_edges_closer_than_the_slack_meet_and_others_stay() -> None:
    spans = close_slack(np.array([[0.4, 20.0], [20.8, 50.0], [55.0, 79.5]]), 80.0)
    assert spans is not None
    np.testing.assert_allclose(spans, [[0, 20.4], [20.4, 50], [55, 80]])


def test_a_layout_that_loses_an_event_or_is_too_deep_is_refused() -> None:
    assert close_slack(np.array([[0, 30], [40, 41.0]]), 60.0) is None
    assert close_slack(np.array([[0, 30], [10, 40], [20, 50]], dtype=float), 60.0) is None


def test_shrinking_keeps_all_proportions() -> None:
    layout = fit(200.0, np.array([[0.0, 0.5], [0.5, 1.0]]), longest=50.0, tick=0.5)
    assert layout is not None
    assert layout.ticks == 200
    assert layout.spans_E2.tolist() == [[0, 100], [100, 200]]
    assert fit(200.0, np.array([[0.0, 0.3]]), longest=50.0, tick=0.5) is None, "most of it shows no event"


def test_segments_and_neighbours() -> None:
    layout = Layout(100, np.array([[0, 50], [10, 20], [50, 70], [80, 100]]))
    assert layout.segments == [
        (0, 10, (0,)),
        (10, 20, (0, 1)),
        (20, 50, (0,)),
        (50, 70, (2,)),
        (70, 80, ()),
        (80, 100, (3,)),
    ]
    assert layout.neighbours == [{1, 2}, {0}, {0, 3}, {2}]
    families = {tuple((m.event, m.parent, m.inside) for m in family) for family in layout.families}
    assert families == {((0, 0, False), (1, 0, True)), ((2, 2, False),), ((3, 3, False),)}


@given(st.lists(st.tuples(st.floats(0, 0.99), st.floats(0.005, 1)), min_size=1, max_size=8), st.floats(20, 300))
def test_whatever_is_fitted_can_be_composed(raw: list[tuple[float, float]], seconds: float) -> None:
    spans = np.array([[start, min(1.0, start + length)] for start, length in raw])
    layout = fit(seconds, spans, longest=40.0, tick=0.5)
    if layout is None:
        return
    assert len(layout.spans_E2) == len(spans)
    assert (np.diff(layout.spans_E2) >= 2).all()
    assert all(len(seen) <= 2 for _, _, seen in layout.segments)
    members = [member for family in layout.families for member in family]
    assert sorted(member.event for member in members) == list(range(len(spans)))
    for member in members:
        (a, b), (c, d) = layout.spans_E2[member.event], layout.spans_E2[member.parent]
        assert a < d and c < b
        assert member.inside == (member.event != member.parent and c <= a and b <= d)
        assert member.event == member.parent or not (a <= c and d <= b and (a, b) != (c, d)), "contains its parent"
    together = {frozenset(seen) for _, _, seen in layout.segments if len(seen) == 2}
    assert together == {frozenset((m.event, m.parent)) for m in members if m.event != m.parent}
    alone = [sum(end - start for start, end, seen in layout.segments if seen == (e,)) for e in range(len(spans))]
    assert max(alone) <= 80 + 4
    assert max((end - start for start, end, seen in layout.segments if len(seen) == 2), default=0) <= 40 + 4


def test_annotations_become_layouts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    good = {"duration": 10, "timestamps": [[0, 4], [4, 10.05]], "sentences": ["", ""]}
    bad = [{"duration": 10, "timestamps": [[5, 4]]}, {"duration": 0, "timestamps": [[0, 1]]}, {"timestamps": []}, 3]
    path.write_text(json.dumps({"good": good, **{f"bad{n}": entry for n, entry in enumerate(bad)}}))
    table = LayoutTable.from_annotations(path)
    assert table.seconds_V.tolist() == [10.0]
    np.testing.assert_allclose(table.spans_V[0], [[0, 0.4], [0.4, 1.0]])
    path.write_text(json.dumps({"bad": bad[0]}))
    with pytest.raises(InputError, match="no video has a valid duration"):
        LayoutTable.from_annotations(path)


def test_a_saved_table_is_read_back(tmp_path: Path) -> None:
    table = LayoutTable(np.array([10.0, 99.5]), [np.array([[0.0, 0.5]]), np.array([[0.25, 0.75], [0.5, 1.0]])])
    table.save(tmp_path / "table.npz")
    content = np.load(tmp_path / "table.npz", allow_pickle=False)
    assert content["seconds"].tolist() == [10.0, 99.5]
    assert content["events"].tolist() == [1, 2]
    np.testing.assert_allclose(content["spans"] / 65535, np.concatenate(table.spans_V), atol=1 / 65535)


def test_the_package_carries_layouts() -> None:
    table = LayoutTable.shipped()
    assert len(table) == 5000
    assert len(table.part(training=True)) == 4000
    assert len(table.part(training=False)) == 1000
    spans = np.concatenate(table.spans_V)
    assert (spans >= 0).all() and (spans <= 1).all() and (np.diff(spans) > 0).all()


def test_the_shipped_layouts_are_drawn_from_activitynet(shared: Path) -> None:
    drawn = LayoutTable.from_annotations(shared / "data" / "activitynet" / "train.json").sampled(5000, seed=2018)
    shipped = LayoutTable.shipped()
    np.testing.assert_allclose(shipped.seconds_V, drawn.seconds_V, atol=1e-4)
    assert [len(spans) for spans in shipped.spans_V] == [len(spans) for spans in drawn.spans_V]
    np.testing.assert_allclose(np.concatenate(shipped.spans_V), np.concatenate(drawn.spans_V), atol=1 / 65535)
