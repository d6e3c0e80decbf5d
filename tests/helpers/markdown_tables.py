"""Reads the tables of a Markdown page."""

from __future__ import annotations


def tables_of(text: str) -> list[list[dict[str, str]]]:
    """Every table of a page: a row is its cells by the heads of their columns."""
    found: list[list[dict[str, str]]] = []
    heads: list[str] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            heads = None
        elif heads is None:
            heads = cells
            found.append([])
        elif set(cells[0]) - set("-: "):
            found[-1].append(dict(zip(heads, cells, strict=True)))
    return [rows for rows in found if rows]
