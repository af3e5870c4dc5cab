"""Tables of several runs joined on keys: one row per key, whoever has it.

Instructions of JAX have numbers, which each program counts for itself: where programs differ, names count without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.report.report_tables import Tables
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, count_column
from tracelens_graph.tables.table import Table

Key = tuple[Any, ...]

_UNKNOWN = Column("")


def canonical(value: Any) -> Any:
    """A cell as it is compared: spelling of lists and numbers does not matter, nothing is None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return tuple(_inner(part) for part in value) or None
    return _inner(value)


def _inner(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_inner(part) for part in value)
    if isinstance(value, dict):
        return tuple(sorted((str(key), _inner(part)) for key, part in value.items()))
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return value if value != "" else None


def united(values: Sequence[Any]) -> Any:
    """Several cells in one: the union of lists, different texts side by side."""
    present = [value for value in values if canonical(value) is not None]
    if any(isinstance(value, list) for value in present):
        return sorted({part for value in present for part in value})
    return " | ".join(dict.fromkeys(map(str, present)))


def fold(table: Table, keys: Sequence[str]) -> tuple[list[Key], Table]:
    """A table with one row per key, in order of first appearance: sums are summed, means weighted by the count.

    Medians and deviations of rows that become one are not known from theirs: they become None, as does all else
    that the rows do not agree on.

    Raises:
        AnalysisError: a key column is missing.
    """
    missing = [key for key in keys if key not in table.columns]
    if missing and len(table):
        raise AnalysisError(f"table {table.name} has no column {missing[0]!r}")
    cells = [map(canonical, table.columns.get(key, ())) for key in keys]
    number: dict[Key, int] = {}
    group = np.array([number.setdefault(key, len(number)) for key in zip(*cells, strict=True)], np.int64)
    if len(number) == len(group):
        return list(number), table
    folded = {name: _fold_column(name, table, group, len(number)) for name in table.columns}
    return list(number), Table(table.name, folded, table.about, table.title, table.notes)


def _fold_column(name: str, table: Table, group: np.ndarray, groups: int) -> np.ndarray | list[Any]:
    values, fold = table[name], table.about.get(name, _UNKNOWN).fold
    numbers = _numbers(values)
    if numbers is not None:
        if fold == "add":
            return _summed(numbers, group, groups)
        if fold in ("smallest", "greatest"):
            return _like(values, _reduced(np.fmin if fold == "smallest" else np.fmax, numbers, group, groups))
        if fold == "weigh" and (weight := _weight(table)) is not None:
            # A mean that is not known has no weight either, else it would draw the others towards 0.
            known = np.where(np.isnan(numbers), 0, weight)
            with np.errstate(invalid="ignore"):
                return _summed(np.nan_to_num(numbers) * known, group, groups) / _summed(known, group, groups)
    members: list[list[Any]] = [[] for _ in range(groups)]
    for place, value in zip(group.tolist(), values, strict=True):
        members[place].append(value)
    if fold == "unite" or (name not in table.about and all(isinstance(value, str) for value in values)):
        return [united(cells) for cells in members]
    if fold == "forget":
        return [cells[0] if len(cells) == 1 else None for cells in members]
    return [_agreed(cells) for cells in members]


def _weight(table: Table) -> np.ndarray | None:
    """What the means of a table are means over."""
    there = {name: column for name, column in table.about.items() if name in table.columns}
    name = count_column(there)
    return _numbers(table[name]) if name else None


def _numbers(values: np.ndarray | Sequence[Any]) -> np.ndarray | None:
    """A column as an array of numbers, whole ones if it holds no other; None if it holds anything else."""
    if isinstance(values, np.ndarray):
        return values if values.dtype.kind in "iuf" else None
    kinds = {type(value) for value in values}
    if not kinds <= {int, float, type(None)} or kinds <= {type(None)}:
        return None
    return np.array(values, np.int64 if kinds == {int} else float)


def _like(values: np.ndarray | Sequence[Any], numbers: np.ndarray) -> np.ndarray | list[Any]:
    """Numbers as the column they came from has them: in a list whole ones stay whole, and None is none."""
    if isinstance(values, np.ndarray) or any(isinstance(value, float) for value in values):
        return numbers
    return [None if number != number else int(number) for number in numbers.tolist()]


def _summed(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    sums = np.zeros(groups, values.dtype)
    np.add.at(sums, group, values)
    return sums


def _reduced(choose: np.ufunc, values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    order = np.argsort(group, kind="stable")
    # No group is empty, as every number was given for a row; of an empty one reduceat would take the next value.
    begin = np.searchsorted(group[order], np.arange(groups))
    chosen: np.ndarray = choose.reduceat(values[order], begin)
    return chosen


def _agreed(cells: Sequence[Any]) -> Any:
    first = canonical(cells[0])
    return cells[0] if all(canonical(cell) == first for cell in cells[1:]) else None


@dataclass
class Joined:
    """Rows of several runs side by side.

    Attributes:
        keys: what separates the rows, in canonical form.
        tables: run -> its table with one row per key.
        place: run -> for every joined row its row in that table, -1 where the run has none.
    """

    keys: list[Key]
    tables: Mapping[str, Table]
    place: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, tables: Mapping[str, Table], keys: Sequence[str]) -> Joined:
        """Join on key columns; rows that share a key within one run are summed first.

        Raises:
            AnalysisError: see `fold`; the message names the run.
        """
        found: dict[str, list[Key]] = {}
        folded: dict[str, Table] = {}
        for tag, table in tables.items():
            try:
                found[tag], folded[tag] = fold(table, keys)
            except AnalysisError as error:
                raise AnalysisError(f"{tag}: {error}") from None
        union = list(dict.fromkeys(key for of_run in found.values() for key in of_run))
        place = {}
        for tag, of_run in found.items():
            row = {key: number for number, key in enumerate(of_run)}
            place[tag] = np.array([row.get(key, -1) for key in union], np.int64)
        return cls(union, folded, place)

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: np.ndarray) -> Joined:
        """Only these rows, in this order."""
        keys = [self.keys[row] for row in rows.tolist()]
        return Joined(keys, self.tables, {tag: place[rows] for tag, place in self.place.items()})

    def has(self, tag: str) -> np.ndarray:
        """Which rows a run has."""
        return self.place[tag] >= 0

    def cells(self, tag: str, column: str) -> np.ndarray | list[Any]:
        """A column of a run, NaN or None where the run has no such row."""
        place, values = self.place[tag], self.tables[tag].columns.get(column)
        if values is None:
            return [None] * len(place)
        if not isinstance(values, np.ndarray):
            return [values[row] if row >= 0 else None for row in place.tolist()]
        if (place >= 0).all():
            return values[place]
        if values.dtype.kind == "f":
            return np.where(place >= 0, values[place] if len(values) else np.nan, np.nan)
        return [values[row].item() if row >= 0 else None for row in place.tolist()]

    def numbers(self, tag: str, column: str) -> np.ndarray:
        """A column of a run as numbers; where the run has no such row 0 if the column adds up, else NaN."""
        values = self.tables[tag].columns.get(column, ())
        adds_up = any(table.about.get(column, _UNKNOWN).adds_up for table in self.tables.values())
        nothing = 0 if adds_up else np.nan
        if not len(values):
            return np.full(len(self), nothing)
        numbers = _numbers(values)
        if numbers is None:
            return np.full(len(self), np.nan)
        return np.where(self.has(tag), numbers[self.place[tag]], nothing)

    def combined(self, column: str) -> list[Any]:
        """One cell per row, made of those of the runs that have it."""
        cells = [self.cells(tag, column) for tag in self.tables]
        return [united(row) for row in zip(*cells, strict=True)]


# --- profiles of JAX that ran other programs ---------------------------------------------------------------------

NOTE = "different compiled programs: instructions go by their names without numbers"


def are_compiled_apart(cores: Iterable[Core]) -> bool:
    """Whether all graphs are of JAX, and not all of them ran the same programs."""
    found = set()
    for core in cores:
        if core.programs is None:
            return False
        found.add(frozenset(one.fingerprint for one in core.programs.listed))
    return len(found) > 1


INSTRUCTIONS = ("name", "op", "cpu_op", "Parent cpu_op")
"""Columns that name instructions."""


def of_other_programs(runs: Mapping[str, Mapping[str, Table]]) -> bool:
    """Whether the runs are profiles of JAX that did not run the same programs; a folder of tables does not show it."""
    made = [run for run in runs.values() if isinstance(run, Tables)]
    return len(made) == len(runs) and are_compiled_apart(run.window.core for run in made)


class Unnumbered(Mapping[str, Table]):
    """The tables of a profile, in which `cublas-gemm.8` is `cublas-gemm`.

    Args:
        tables: the tables by name.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def __getitem__(self, name: str) -> Table:
        table = self._tables[name]
        named = [column for column in INSTRUCTIONS if column in table.columns]
        if not named:
            return table
        columns = {
            column: [normal_name(Kind.Op, cell) if isinstance(cell, str) else cell for cell in cells]
            if column in named
            else cells
            for column, cells in table.columns.items()
        }
        return replace(table, columns=columns)

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
