"""What each choice is worth, on numbers that can be checked by hand."""

from __future__ import annotations

from helpers.filled_tables import filled, line
from research.paper_tables.ranking import choices, ranking_table


def test_choices_are_ranked_by_gain_per_cost() -> None:
    table = filled(
        line("ours", 8.0, 10, 10),
        line("cheap", 6.0, 8, 10),  # ours is 2 better and takes 25 % more training: .08 a percent
        line("dear", 4.0, 5, 10),  # 4 better, 100 %: .04
        line("slow words", 9.0, 10, 15),  # this is 1 better and takes 50 % more prediction: .02
        line("free", 7.5, 11, 12),  # ours is better and faster
        line("unknown", None, 1, 1),
    )
    found = choices(table)
    assert [choice.title for choice in found] == ["free", "cheap", "dear", "slow words"]
    assert [choice.reference_wins for choice in found] == [True, True, True, False]
    assert [round(choice.per_cost, 3) for choice in found[1:]] == [0.08, 0.04, 0.02]
    assert found[1].differences == (0.0, -2.0)


def test_a_choice_that_changes_nothing_has_no_price() -> None:
    table = filled(line("ours", 8.0, 10, 10), line("same, and twice as fast", 8.0, 5, 5))
    assert ranking_table(table).rows == [["same, and twice as fast", "+0.00", "+0.00", "–", "–", "–"]]
