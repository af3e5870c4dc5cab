"""Columns of a saved graph, which are verified when they are first read.

A checksum says that bytes are as they were written, but not that what was written is a graph. So the numbers of a
column are held against what they stand for: rows lie in the graph, codes in their tables, callers before those they
call. What two columns say of the same thing is compared as soon as both are read. Each check is one pass over a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracelens_graph.schema import STORED, Flag, Kind, OwnerRule
from tracelens_graph.stores.sections import Sections
from tracelens_graph.utils.arrays import Rows

_TABLES = {"kind": len(Kind), "owner_rule": len(OwnerRule)}
"""Lengths of the tables that codes point into, of those that are the same in all graphs."""

_ROWS = ("parent", "last", "owner")
"""Columns of rows."""

_ANY = (-math.inf, math.inf)
_DTYPES = {prop.name: prop.dtype for prop in STORED}


def _unique(uid: np.ndarray) -> bool:
    if not len(uid):
        return True
    highest = int(uid.max())
    if highest < 8 * len(uid) + 4096:
        there = np.zeros(highest + 1, bool)
        there[uid] = True
        return np.count_nonzero(there) == len(uid)
    ascending = np.sort(uid)
    return not (ascending[1:] == ascending[:-1]).any()


def _callers_come_first(parent: Rows) -> bool:
    return bool((parent < np.arange(len(parent), dtype=np.int32)).all())


def _descendants_come_after(last: Rows) -> bool:
    return bool((last >= np.arange(len(last), dtype=np.int32)).all())


def _one_deeper_than_caller(parent: Rows, depth: np.ndarray) -> bool:
    # Row -1, no caller, is that of the appended entry: one above the roots.
    return bool((depth == np.append(depth, depth.dtype.type(-1))[parent] + 1).all())


def _spans_around(last: Rows) -> np.ndarray:
    """For each row how many rows before it reach as far as it, or further."""
    ended = np.cumsum(np.bincount(last, minlength=len(last)), dtype=np.int32)
    count = np.arange(len(last), dtype=np.int32)
    count[1:] -= ended[:-1]
    return count


def _innermost_span_is_caller(parent: Rows, last: Rows) -> bool:
    # All callers above a row span it, and there are as many of them as ranges that do: so these nest, and are those.
    inside = bool((last <= np.append(last, last.dtype.type(len(last)))[parent]).all())
    return inside and _one_deeper_than_caller(parent, _spans_around(last))


def _as_deep_as_spans_around(last: Rows, depth: np.ndarray) -> bool:
    return np.array_equal(depth, _spans_around(last))


class _Rule(NamedTuple):
    """What holds of columns of every graph; of a graph that lacks one of them nothing is asked."""

    columns: tuple[str, ...]
    holds: Callable[..., bool]


_RULES = (
    _Rule(("uid",), _unique),
    _Rule(("parent",), _callers_come_first),
    _Rule(("last",), _descendants_come_after),
    _Rule(("parent", "last"), _innermost_span_is_caller),
    _Rule(("parent", "depth"), _one_deeper_than_caller),
    _Rule(("last", "depth"), _as_deep_as_spans_around),
)


class CheckedColumns(Mapping[str, np.ndarray]):
    """The columns of a saved graph by name.

    Attributes:
        rows: length of every column.

    Args:
        sections: the file.
        names: those that the graph has, in the order of `schema.STORED`.
        tables: name of a table that codes of columns point into, as in `schema.STORED` -> its length.

    Raises:
        TraceError: a column is not there, or of another length or type; when one is looked up: it is damaged.
    """

    def __init__(self, sections: Sections, names: Sequence[str], tables: Mapping[str, int]) -> None:
        self._sections, self._names = sections, names
        self._read: dict[str, np.ndarray] = {}
        self._damaged = ""
        layouts = {name: sections.layout(f"columns.{name}") for name in self._names}
        shape = layouts["uid"][1]
        for name, layout in layouts.items():
            if len(shape) != 1 or layout[1] != shape or not np.can_cast(layout[0], _DTYPES[name]):
                raise sections.damaged(f"columns.{name}")
        self.rows = shape[0]
        self._limits = _limits({**_TABLES, **tables}, self.rows)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        if self._damaged:
            raise self._sections.damaged(self._damaged)
        if name not in self._read:
            column = self._sections.array(f"columns.{name}")
            low, high = self._limits.get(name, _ANY)
            if len(column) and not low <= column.min() <= column.max() < high:
                self._fail(f"columns.{name}")
            self._read[name] = column
            for rule in _RULES:
                both = name in rule.columns and self._read.keys() >= set(rule.columns)
                if both and not rule.holds(*(self._read[one] for one in rule.columns)):
                    self._fail(" and ".join(f"columns.{one}" for one in rule.columns))
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _fail(self, what: str) -> None:
        self._damaged = what
        raise self._sections.damaged(what)


def _limits(tables: Mapping[str, int], rows: int) -> dict[str, tuple[float, float]]:
    """Of each column of codes, rows or counts the least number that it may hold, and the first that is too large."""
    limits = {prop.name: (-1 if prop.absent == -1 else 0, tables[prop.code_of]) for prop in STORED if prop.code_of}
    limits |= {prop.name: (-1 if prop.absent == -1 else 0, rows) for prop in STORED if prop.name in _ROWS}
    return {**limits, "uid": (0, math.inf), "depth": (0, rows), "flags": (0, 2 * max(Flag))}
