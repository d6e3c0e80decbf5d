"""The paper's tables as data: `tables/` has what a table shows, `rows/` the settings of a model, `datasets/` its data.

Data sets of one family share `families/`. A row is a few settings on top of the presets of a data set; rows that share
a model have `model_of`. Everything is read from files beside this module and checked once: a table that names an
unknown row is a bug, found by a test. A `--set` flag holds for every row, also for one that is about that very setting
(`replaced`, `require_differences`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from densevid.config import Config
from densevid.errors import InputError

SECTIONS = ("model", "features", "training", "inference")
Settings = Mapping[str, Mapping[str, Any]]
Learn = Literal["dense", "proposals", "captions"]
TASKS: dict[str, Settings] = {
    "dense": {},
    "proposals": {"training": {"task": "proposals"}},
    "captions": {"training": {"task": "captions"}, "model": {"mask": "discrete"}},
}
WORDLESS = {"max_words": 1, "beam": 1}  # the shortest sentences
SCORED_PROPOSALS = 100  # a video, where proposals are scored


@dataclass(frozen=True)
class Dataset:
    """What rows are trained and scored on; `family`, timelines or paper, is what rows have exceptions for."""

    name: str
    title: str
    about: str
    family: str
    tables: tuple[int, ...]
    soda: str
    summary_events: int
    presets: Mapping[str, tuple[str, ...]]
    splits: Mapping[str, str]
    videos: Mapping[str, int]
    annotations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A model by its settings: which part of it is trained, from which row's weights it starts or whose model it is."""

    name: str
    title: str
    learn: Learn
    settings: Settings
    exceptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model_of: str | None = None
    start_from: str | None = None
    fixed_set: bool = False
    streams: int | None = None
    gradient: bool = False
    wordless: bool = False

    def title_on(self, dataset: Dataset) -> str:
        """The title of the row on a data set; some depend on the family."""
        return str(self.exceptions.get(dataset.family, {}).get("title", self.title))

    def note_on(self, dataset: Dataset) -> str:
        """A note for this family of data sets."""
        return str(self.exceptions.get(dataset.family, {}).get("note", ""))

    def settings_on(self, dataset: Dataset) -> list[Settings]:
        """The settings of the row, then those for this family of data sets only."""
        return [self.settings, _sections(self.exceptions.get(dataset.family, {}))]


@dataclass(frozen=True)
class Column:
    """One number of a row: `of` is the kind of predictions it is a score of."""

    head: str
    of: str
    score: str


@dataclass(frozen=True)
class TableRow:
    """A line of a table: the rows whose learned proposals and given segments it shows, and the paper's numbers."""

    learned: str | None = None
    segments: str | None = None
    title: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    oracle: bool = False
    paper: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def source(self, column: Column) -> tuple[str, str] | None:
        """The row and the kind of predictions that a column of this line scores, if there are any."""
        row = self.segments if column.of == "segments" and self.segments else self.learned
        if column.of == "segments" and self.segments is None:
            return None
        return None if row is None else (row, self.kinds.get(column.of, column.of))

    @property
    def rows(self) -> list[str]:
        """The rows that it needs."""
        return [row for row in (self.learned, self.segments) if row is not None]


@dataclass(frozen=True)
class Published:
    """A line of the paper that is not rerun."""

    title: str
    note: str = ""
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """What a table shows, over how many seeds, and the paper's data set; `headline` is the column of its picture."""

    number: int
    caption: str
    paper_data: str
    seeds: int
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    published: tuple[Published, ...] = ()
    shuffled: Mapping[str, str] = field(default_factory=dict)
    headline: str = ""
    curve: bool = False
    submission: str | None = None
    ranking: Mapping[str, Any] = field(default_factory=dict)


@cache
def datasets() -> dict[str, Dataset]:
    """All data sets by name: the family's entries, then their own."""
    families = _read("families")
    return {
        name: Dataset(name=name, **_tupled({**families[content["family"]], **content}))
        for name, content in _read("datasets").items()
    }


@cache
def rows() -> dict[str, Row]:
    """All rows by name."""
    return {name: _row(name, content) for name, content in _read("rows").items()}


@cache
def tables() -> dict[int, Table]:
    """All tables by number."""
    return {table.number: table for table in map(_table, _read("tables").values())}


def chosen_tables(text: str, dataset: Dataset) -> list[Table]:
    """`all`, or a number, or several with commas."""
    if text == "all":
        return [tables()[number] for number in dataset.tables]
    known = ", ".join(map(str, tables()))
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) not in tables():
            raise InputError(f"there is no table {part.strip()!r}; choose all or from {known}")
    return [tables()[int(part)] for part in text.split(",")]


@dataclass(frozen=True)
class Circumstances:
    """What decides the settings of a row besides itself: streams of the features, `--quick`, `--set` flags."""

    dataset: Dataset
    streams: tuple[tuple[str, int], ...]
    quick: bool = False
    flags: tuple[str, ...] = ()


def resolved(row: Row, given: Circumstances) -> Config:
    """The settings of a row: defaults < presets < the data set's own < quick < task < row < flags."""
    dataset = given.dataset
    config = Config()
    for preset in dataset.presets[row.learn]:
        config = config.with_values(_preset(preset))
    shown = given.streams[: row.streams]
    width = {"features": {"streams": [name for name, _ in shown], "widths": [size for _, size in shown]}}
    quick = _sections(dataset.quick) if given.quick else {}
    for layer in (dataset.settings, width, quick, TASKS[row.learn], *row.settings_on(dataset)):
        config = config.with_values(layer)
    config = config.with_settings(given.flags)
    if row.learn == "proposals" or row.wordless:
        most = config.inference.max_proposals if given.quick else max(config.inference.max_proposals, SCORED_PROPOSALS)
        fewest = min(most, SCORED_PROPOSALS)
        config = config.with_values({"inference": {**WORDLESS, "min_proposals": fewest, "max_proposals": most}})
    return config


def replaced(row: Row, dataset: Dataset, flags: Iterable[str]) -> list[str]:
    """The flags that replace a row's own settings."""
    own = _own(row, dataset)
    return [flag for flag in flags if _key(flag) in own]


def require_differences(
    tables: Iterable[Table], dataset: Dataset, flags: Sequence[str], only_rows: Sequence[str] = ()
) -> None:
    """Raise `InputError` on a flag that replaces all that distinguishes a wanted row, before anything is trained."""
    wanted = {name for table in tables for entry in table.rows for name in entry.rows}
    for name in sorted(wanted):
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


def _read(kind: str) -> dict[str, dict[str, Any]]:
    folder = files("research.paper_tables") / kind
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".toml")), key=lambda item: item.name)
    return {item.name.removesuffix(".toml"): tomllib.loads(item.read_text(encoding="utf-8")) for item in found}


@cache
def _preset(name: str) -> dict[str, Any]:
    return tomllib.loads((files("densevid.config") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))


def _row(name: str, content: dict[str, Any]) -> Row:
    plain = {key: value for key, value in content.items() if key not in (*SECTIONS, "on")}
    return Row(name=name, settings=_sections(content), exceptions=content.get("on", {}), **plain)


def _table(content: dict[str, Any]) -> Table:
    parts = {
        "columns": tuple(Column(**entry) for entry in content["columns"]),
        "rows": tuple(TableRow(**entry) for entry in content["rows"]),
        "published": tuple(Published(**entry) for entry in content.get("published", ())),
    }
    return Table(**{**content, **parts})


def _sections(content: Mapping[str, Any]) -> Settings:
    return {name: content[name] for name in SECTIONS if name in content}


def _tupled(content: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples, also one level down."""

    def tidy(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(value)
        return (
            {key: tuple(v) if isinstance(v, list) else v for key, v in value.items()}
            if isinstance(value, dict)
            else value
        )

    return {key: value if key == "quick" else tidy(value) for key, value in content.items()}
