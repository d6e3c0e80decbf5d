"""A table for a paper: a float with caption and label, a rule where the kind of line changes, its notes below.

Needs the packages booktabs and graphicx. A table that is wider than a page is scaled to its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from densevid.evaluation.report import Table, latex_text

ONE_COLUMN, ONE_PAGE = 5, 9  # columns that fit beside another column of text, and on a page


@dataclass(frozen=True)
class LatexTable:
    """A table as text; `groups` has the kind of every row."""

    table: Table
    label: str
    groups: Sequence[str] = ()
    notes: Sequence[str] = ()

    def text(self) -> str:
        """The whole float."""
        float_name = "table" if len(self.table.header) <= ONE_COLUMN else "table*"
        lines = [
            "% needs \\usepackage{booktabs,graphicx}",
            f"\\begin{{{float_name}}}[t]",
            "\\centering",
            f"\\caption{{{latex_text(self.table.title)}}}",
            f"\\label{{{self.label}}}",
            *self._sized(self._tabular()),
            *self._below(),
            f"\\end{{{float_name}}}",
        ]
        return "\n".join(lines) + "\n"

    def _tabular(self) -> list[str]:
        columns = "l" + "r" * (len(self.table.header) - 1)
        body = [_row(row) for row in self.table.rows]
        for place in reversed(self._changes()):
            body.insert(place, "\\midrule")
        head = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", _row(self.table.header), "\\midrule"]
        return [*head, *body, "\\bottomrule", "\\end{tabular}"]

    def _changes(self) -> list[int]:
        """The rows before which the kind changes."""
        pairs = zip(self.groups, self.groups[1:], strict=False)
        return [place for place, (before, after) in enumerate(pairs, start=1) if before != after]

    def _sized(self, tabular: list[str]) -> list[str]:
        if len(self.table.header) <= ONE_PAGE:
            return ["{\\small", *tabular, "}"]
        return ["\\resizebox{\\textwidth}{!}{%", *tabular, "}"]

    def _below(self) -> list[str]:
        if not self.notes:
            return []
        told = [f"{latex_text(note)}\\par" for note in self.notes]
        return ["\\smallskip", "\\begin{minipage}{\\linewidth}\\footnotesize", *told, "\\end{minipage}"]


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"
