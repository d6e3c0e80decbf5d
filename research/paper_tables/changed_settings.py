"""`--set` against the rows' own differences: a flag holds for every row, also for one that is about that very setting.

A row that has some of its settings left says in a note which were replaced. One that has none left would be another
row under its own name: that is refused before anything is trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from densevid.errors import InputError
from research.paper_tables.definitions import Dataset, Row, Table, rows


def replaced(row: Row, dataset: Dataset, flags: Iterable[str]) -> list[str]:
    """The flags that take the place of a row's own settings."""
    own = _own(row, dataset)
    return [flag for flag in flags if _key(flag) in own]


def require_differences(
    tables: Iterable[Table], dataset: Dataset, flags: Sequence[str], only_rows: Sequence[str] = ()
) -> None:
    """Raise on a flag that leaves nothing of a row that is asked for."""
    asked = {name for table in tables for entry in table.rows for name in entry.rows}
    for name in sorted(asked):
        row = rows()[name]
        if only_rows and not {name, row.model_of} & set(only_rows):
            continue
        own, flagged = _own(row, dataset), replaced(row, dataset, flags)
        if own and not row.start_from and own == {_key(flag) for flag in flagged}:
            raise InputError(
                f"--set {flagged[0]}: this is all that row {name} is about; choose another setting, or rows with --rows"
            )


def _own(row: Row, dataset: Dataset) -> set[str]:
    layers = row.settings_on(dataset)
    return {f"{section}.{key}" for layer in layers for section, values in layer.items() for key in values}


def _key(flag: str) -> str:
    return flag.partition("=")[0].strip()
