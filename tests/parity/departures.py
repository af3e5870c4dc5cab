"""The list of departures held against what really differs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from parity.comparing import CUMULATIVE, ORDER, ROW, Comparison, Row

from tracelens_graph.compat.PerfModel.torch_op_mapping import TRACELENS_MODELS
from tracelens_graph.perf.registry import model_named

FILE = Path(__file__).with_name("departures.toml")


_RATES = ("TB/s_", "TFLOPS/s_", "Pct Roofline_")
FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "GFLOPS": ("FLOPS/Byte", "TFLOPS/s_", "Roofline ", "Pct Roofline_"),
    "Data Moved (MB)": ("FLOPS/Byte", "TB/s_", "Roofline ", "Pct Roofline_"),
    "Compute Spec": ("Roofline ", "Pct Roofline_"),
    "name_count": ("Kernel Time (µs)_", "kernel_details", "trunc_kernel_details", *_RATES),
}
"""Column -> beginnings of the columns that are computed from it, and differ where it does."""


@dataclass(frozen=True)
class Departure:
    """Cells that differ for a known reason; see the head of departures.toml."""

    table: str | Sequence[str]
    columns: Sequence[str]
    reason: str
    test: str
    traces: Sequence[str] = ("*",)
    when: str = ""
    where: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    modelled_here_alone: bool = False

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables."""
        return [self.table] if isinstance(self.table, str) else self.table

    def of(self, trace: str) -> bool:
        """Whether the departure is about this trace."""
        return any(fnmatchcase(trace, pattern) for pattern in self.traces)

    def covers(self, theirs: Row, ours: Row) -> bool:
        """Whether the departure is about this pair of rows."""
        if self.modelled_here_alone and not modelled_here_alone((ours or theirs)["name"]):
            return False
        return all(
            any(_fits(text, value) for text in ([texts] if isinstance(texts, str) else texts) for value in values)
            for column, texts in self.where.items()
            for values in [(_text(theirs, column), _text(ours, column))]
        )


def modelled_here_alone(op: str) -> bool:
    """Whether an op has a model, and none that TraceLens has."""
    return model_named(op) is not None and model_named(op, TRACELENS_MODELS) is None


@dataclass(frozen=True)
class MoreLinked:
    """A trace in which correlation ids link more GPU events than flow arrows do."""

    trace: str
    events: int
    test: str


@dataclass(frozen=True)
class Elsewhere:
    """A cause that no trace here shows: ops, when, columns, and a test on a trace made by hand."""

    ops: Sequence[str]
    when: str
    columns: Sequence[str]
    reason: str
    test: str


def elsewhere() -> list[Elsewhere]:
    """The causes that no trace here shows."""
    return [Elsewhere(**entry) for entry in tomllib.loads(FILE.read_text())["elsewhere"]]


def departures() -> list[Departure]:
    """The known departures."""
    return [Departure(**entry) for entry in tomllib.loads(FILE.read_text())["departure"]]


def more_linked() -> dict[str, MoreLinked]:
    """By trace, those where we link more."""
    entries = [MoreLinked(**entry) for entry in tomllib.loads(FILE.read_text())["more_linked"]]
    return {entry.trace: entry for entry in entries}


@dataclass
class Account:
    """What the departures explain.

    Attributes:
        unexplained: differences that no departure covers, in words.
        wide: cells that a departure covers although they are equal, in words.
        covered: for each departure the number of cells that it explains.
        cells: table -> cells compared.
        departed: table -> cells that differ, and rows that only we have.
    """

    covered: list[int]
    unexplained: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)
    cells: dict[str, int] = field(default_factory=dict)
    departed: dict[str, int] = field(default_factory=dict)


def account(known: Sequence[Departure], compared: Iterable[tuple[str, Comparison]]) -> Account:
    """Explain the differences in tables of traces by the known departures."""
    found = Account([0] * len(known))
    for trace, comparison in compared:
        table = comparison.table
        found.cells[table] = found.cells.get(table, 0) + comparison.cells
        found.departed[table] = found.departed.get(table, 0) + len(comparison.differences)
        differing = {(difference.pair, difference.column) for difference in comparison.differences}
        explained = set()
        for number, departure in enumerate(known):
            if table not in departure.tables or not departure.of(trace):
                continue
            cells = _cells(departure, comparison)
            following = _following(cells, comparison) & differing
            found.covered[number] += len(cells & differing | following)
            explained |= cells | following
            found.wide += [
                f"{trace} {table}: {column} of row {pair} is covered by {departure.test} and equal"
                for pair, column in sorted(cells - differing)
            ]
        if any(
            difference.column == ROW and (difference.pair, ROW) in explained for difference in comparison.differences
        ):
            # Shares are added up in the order of the rows, and so differ below a row that only one side has.
            explained |= {(pair, CUMULATIVE) for pair in range(len(comparison.pairs))}
        found.unexplained += [
            f"{trace} {table}: {difference.column}: {difference.said}"
            for difference in comparison.differences
            if (difference.pair, difference.column) not in explained
        ]
    return found


def _cells(departure: Departure, comparison: Comparison) -> set[tuple[int, str]]:
    """Cells that a departure covers; a row that only one side has is one cell."""
    cells = {(-1, ORDER)} if ORDER in departure.columns else set()
    columns = [column for column in comparison.columns if _plain(column) in departure.columns]
    for pair, (theirs, ours) in enumerate(comparison.pairs):
        if departure.covers(theirs, ours):
            if theirs and ours:
                cells |= {(pair, column) for column in columns}
            if ROW in departure.columns:
                cells.add((pair, ROW))
    return cells


def _following(cells: Iterable[tuple[int, str]], comparison: Comparison) -> set[tuple[int, str]]:
    """Cells that are computed from some cells."""
    return {
        (pair, column)
        for pair, cause in cells
        for column in comparison.columns
        if column.startswith(FOLLOWS.get(_plain(cause), ())) and column not in FOLLOWS
    }


def _fits(text: str, value: str) -> bool:
    if text.startswith("~"):
        return re.search(text[1:], value) is not None
    return value.endswith(text[1:]) if text.startswith("…") else value == text


def _text(row: Row, column: str) -> str:
    return str(row.get(column, row.get(f"{column}_first")))


def _plain(column: str) -> str:
    """Name of a column whether it is that of the first call or of all; `GFLOPS_first` and `GFLOPS` are the same."""
    return column.removesuffix("_first")
