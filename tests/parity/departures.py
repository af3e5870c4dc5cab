"""The list of departures held against what really differs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parity.comparing import ORDER, ROW, Comparison, Row

FILE = Path(__file__).with_name("departures.toml")


@dataclass(frozen=True)
class Departure:
    """Cells that differ for a known reason; see the head of departures.toml."""

    table: str
    columns: Sequence[str]
    traces: Sequence[str]
    reason: str
    test: str
    where: Mapping[str, str] = field(default_factory=dict)

    def covers(self, theirs: Row, ours: Row) -> bool:
        """Whether the departure is about this pair of rows."""
        return all(text in (str(theirs.get(column)), str(ours.get(column))) for column, text in self.where.items())


@dataclass(frozen=True)
class MoreLinked:
    """A trace in which correlation ids link more GPU events than flow arrows do."""

    trace: str
    events: int
    test: str


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
            if departure.table != table or trace not in departure.traces:
                continue
            cells = _cells(departure, comparison)
            found.covered[number] += len(cells & differing)
            explained |= cells
            found.wide += [
                f"{trace} {table}: {column} of row {pair} is covered by {departure.test} and equal"
                for pair, column in sorted(cells - differing)
            ]
        found.unexplained += [
            f"{trace} {table}: {difference.column}: {difference.said}"
            for difference in comparison.differences
            if (difference.pair, difference.column) not in explained
        ]
    return found


def _cells(departure: Departure, comparison: Comparison) -> set[tuple[int, str]]:
    """Cells that a departure covers; a row that only one side has is one cell."""
    cells = {(-1, ORDER)} if ORDER in departure.columns else set()
    for pair, (theirs, ours) in enumerate(comparison.pairs):
        if departure.covers(theirs, ours):
            both = bool(theirs and ours)
            cells |= {(pair, column) for column in departure.columns if column != ORDER and (both or column == ROW)}
    return cells
