"""Which videos are shown."""

from __future__ import annotations

from research.paper_tables.qualitative import spread_out


def test_pages_show_the_best_the_middle_and_the_worst() -> None:
    scores = {f"v{number:02d}": number / 100 for number in range(50)}
    chosen = spread_out(scores)
    assert [place for place, _, _ in chosen] == ["best"] * 3 + ["median"] * 4 + ["worst"] * 3
    assert [video for _, video, _ in chosen][:3] == ["v49", "v48", "v47"]
    assert [video for _, video, _ in chosen][3:7] == ["v26", "v25", "v24", "v23"]
    assert [video for _, video, _ in chosen][7:] == ["v02", "v01", "v00"]
    assert len(spread_out({"a": 1.0, "b": 0.5})) == 2
