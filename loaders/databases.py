"""SQLite files of other profilers, which nobody vouches for: opened for reading, tables and columns as they are.

Versions of a profiler differ in tables and columns, so that nothing is read that `sqlite_master` does not list. Views
are no tables: a view may be a program that never ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_LONGEST = 64 << 20
"""Bytes of the longest value that is read."""


class Database:
    """Tables of an SQLite file.

    Attributes:
        name: name of the file.
        rank: the rank that is read alone; None for all.
        columns: table -> names of its columns; tables without rows are left out.
    """

    def __init__(self, connection: sqlite3.Connection, name: str, rank: int | None = None) -> None:
        self.connection = connection
        self.name, self.rank = name, rank
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        for setting in ("trusted_schema=OFF", "cell_size_check=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        self.columns: dict[str, set[str]] = {}
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in sorted(names):
            if connection.execute(f"SELECT 1 FROM {quoted(table)} LIMIT 1").fetchone():
                self.columns[table] = {row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})")}

    def texts(self, statement: str) -> Iterator[str]:
        """The first column of the rows of a statement."""
        return (row[0] for row in self.rows(statement))

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a statement, as they are read."""
        return iter(self.connection.execute(statement))

    def array(self, statement: str) -> np.ndarray:
        """Rows of a statement whose values are integers, as they are."""
        cursor = self.connection.execute(statement)
        row = np.dtype((np.int64, len(cursor.description)))
        found: np.ndarray = np.fromiter(cursor, row)
        return found

    def has(self, table: str, *columns: str) -> bool:
        """Whether there are rows in a table, and columns of some names."""
        return table in self.columns and self.columns[table].issuperset(columns)


def event_rows(
    source: str, *, category: str, name: str, pid: str, tid: str, arguments: Mapping[str, str],
    start: str = "start", end: str = '"end"',
) -> str:  # fmt: skip
    """A statement each of whose rows is an event as JSON.

    Args:
        source: what stands behind FROM.
        category: SQL for its category; so are name, process and thread.
        arguments: key -> SQL of its value.
        start: SQL for its begin in nanoseconds; of what is no time the event has none, and counts as lost.
        end: SQL for its end in nanoseconds.
    """
    time = time_in(start)
    pairs = ", ".join(f"'{key}', {value}" for key, value in arguments.items())
    return (
        f"SELECT json_object('ph', 'X', 'cat', {category}, 'name', {name}, 'pid', {pid}, 'tid', {tid}, "
        f"'ts', {time} / 1000.0, 'dur', ({end} - {start}) / 1000.0, 'args', json_object({pairs})) FROM {source}"
    )


def time_in(sql: str) -> str:
    """SQL for a time; NULL for a text, which SQLite would read as 0, and for what is negative."""
    return f"CASE WHEN typeof({sql}) IN ('integer', 'real') AND {sql} >= 0 THEN {sql} END"


def case(column: str, words: Mapping[Any, Any], otherwise: str) -> str:
    """SQL for the word, or number, that stands for a value; `otherwise` is SQL."""
    whens = " ".join(f"WHEN {key!r} THEN {word!r}" for key, word in words.items())
    return f"CASE {column} {whens} ELSE {otherwise} END"


def quoted(name: str) -> str:
    """The name of a table or column as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'
