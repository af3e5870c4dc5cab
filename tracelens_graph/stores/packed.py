"""What a saved graph gives on request only: columns, original events, and lists that few questions touch.

A checksum says that bytes are as they were written, but not that what was written is a graph. So the numbers of a
column are held against what they stand for when it is first read: rows lie in the graph, codes in their tables, callers
before those they call. Each check is one pass over a column.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import msgspec
import numpy as np

from tracelens_graph.graph.details import Details
from tracelens_graph.schema import STORED, Flag, Kind, OwnerRule
from tracelens_graph.stores.sections import Sections, damaged

_EVENTS = msgspec.json.Decoder(list[msgspec.Raw])


class Blocks(Protocol):
    """Compressed texts by their number."""

    def __getitem__(self, at: int, /) -> bytes: ...


class PackedDetails(Details):
    """Original events in compressed blocks, each unpacked when one of its events is looked at."""

    def __init__(self, first: np.ndarray, count: np.ndarray, blocks: Blocks, trace_id: str, name: str) -> None:
        super().__init__(first, count)
        self._blocks = blocks
        self._trace_id, self._name = trace_id, name

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """Texts of blocks.

        Raises:
            TraceError: the saved graph is damaged there.
        """
        for block in blocks:
            try:
                text = zlib.decompress(self._blocks[block])
                str(text, "utf-8")  # msgspec does not look into what it skips
                whole = len(_EVENTS.decode(text)) == self.count[block]
            except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                whole = False
            if not whole:
                raise damaged(self._name, f"block {block} of events")
            yield text

    def each(self, uids: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """uid and original event of those that stand in the file.

        Raises:
            TraceError: the saved graph is damaged there.
        """
        try:
            yield from super().each(uids)
        except msgspec.DecodeError:  # of a number beyond all floats, which is not looked into before
            raise damaged(self._name, "events") from None

    def identity(self) -> str:
        """The id that the trace had when the graph was saved."""
        return self._trace_id


class _Deferred:
    """What is read as a whole on first use."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    @cached_property
    def _items(self) -> Any:
        return self._read()

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self._items), (self._items,)


class DeferredList(_Deferred, Sequence[Any]):
    """A list that is read as a whole on first use."""


class DeferredDict(_Deferred, Mapping[Any, Any]):
    """A dictionary that is read as a whole on first use."""


# --- columns --------------------------------------------------------------------------------------------------------


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


_CHECKS: dict[str, Callable[[np.ndarray], bool]] = {
    "uid": _unique,
    # Callers come first, so that walks from callee to caller end, and descendants behind them.
    "parent": lambda parent: bool((parent < np.arange(len(parent), dtype=np.int32)).all()),
    "last": lambda last: bool((last >= np.arange(len(last), dtype=np.int32)).all()),
}
"""What holds of a column of every graph, beside its limits."""


class CheckedColumns(Mapping[str, np.ndarray]):
    """The columns of a saved graph by name.

    Attributes:
        rows: length of every column.

    Args:
        names: those that the graph has, in the order of `schema.STORED`.
        tables: name of a table that codes of columns point into, as in `schema.STORED` -> its length.

    Raises:
        TraceError: a column is not there, or of another length or type; when one is looked up: it is damaged.
    """

    def __init__(self, sections: Sections, names: Sequence[str], tables: Mapping[str, int]) -> None:
        self._sections, self._names = sections, names
        self._read: dict[str, np.ndarray] = {}
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
        if name not in self._read:
            column = self._sections.array(f"columns.{name}")
            low, high = self._limits.get(name, _ANY)
            if len(column) and not low <= column.min() <= column.max() < high:
                raise self._sections.damaged(f"columns.{name}")
            if name in _CHECKS and not _CHECKS[name](column):
                raise self._sections.damaged(f"columns.{name}")
            self._read[name] = column
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _limits(tables: Mapping[str, int], rows: int) -> dict[str, tuple[float, float]]:
    """Of each column of codes, rows or counts the least number that it may hold, and the first that is too large."""
    limits = {prop.name: (-1 if prop.absent == -1 else 0, tables[prop.code_of]) for prop in STORED if prop.code_of}
    limits |= {prop.name: (-1 if prop.absent == -1 else 0, rows) for prop in STORED if prop.name in _ROWS}
    # Times lie where a reader of traces leaves them, so that sums and differences stay in 64 bits.
    times = {"start_ns": (0, 2**62 - 2**59), "dur_ns": (0, 2**59)}
    return {**limits, **times, "uid": (0, math.inf), "depth": (0, rows), "flags": (0, 2 * max(Flag))}
