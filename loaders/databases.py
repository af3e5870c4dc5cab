"""SQLite files of other profilers, which nobody vouches for: opened for reading, tables and columns as they are.

Versions of a profiler differ in tables and columns, so that nothing is read that `sqlite_master` does not list. Views
are no tables: a view may be a program that never ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.loaders.translated import TranslatedStream

_LONGEST = 64 << 20
"""Bytes of the longest value that is read."""


class Database:
    """Tables of an SQLite file.

    Attributes:
        name: name of the file.
        columns: table -> names of its columns; tables without rows are left out.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection = connection
        self.name = name
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
        start: SQL for its begin in nanoseconds.
        end: SQL for its end in nanoseconds.
    """
    pairs = ", ".join(f"'{key}', {value}" for key, value in arguments.items())
    return (
        f"SELECT json_object('ph', 'X', 'cat', {category}, 'name', {name}, 'pid', {pid}, 'tid', {tid}, "
        f"'ts', {start} / 1000.0, 'dur', ({end} - {start}) / 1000.0, 'args', json_object({pairs})) FROM {source}"
    )


def case(column: str, words: Mapping[Any, Any], otherwise: str) -> str:
    """SQL for the word, or number, that stands for a value; `otherwise` is SQL."""
    whens = " ".join(f"WHEN {key!r} THEN {word!r}" for key, word in words.items())
    return f"CASE {column} {whens} ELSE {otherwise} END"


def quoted(name: str) -> str:
    """The name of a table or column as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def open_database(where: Path | bytes, name: str) -> BinaryIO:
    """The trace that says what a database of another profiler says, as a stream of its text.

    Raises:
        NotATraceError: it is the database of something else.
        TraceError: it is damaged, cut short or encrypted; also while the stream is read.
    """
    from tracelens_graph.loaders.nsys import report
    from tracelens_graph.loaders.rocprof import rocpd, rpd

    pieces = _pieces(where, name, (report, rocpd, rpd))
    return TranslatedStream(pieces, next(pieces, b""))


def _pieces(where: Path | bytes, name: str, formats: tuple[Any, ...]) -> Iterator[bytes]:
    connection = None
    try:
        connection = _connection(where)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        database = Database(connection, name)
        for one in formats:
            if one.is_report(database):
                yield from one.translated(database)
                return
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the second where a message names what is damaged
        raise TraceError(f"{name}: the SQLite database cannot be read: {error}") from None
    finally:
        if connection is not None:
            connection.close()
    shown = ", ".join(sorted(database.columns)[:5]) or "none"
    raise NotATraceError(f"{name}: is an SQLite database of another program (tables with rows: {shown}), not a trace")


def _connection(where: Path | bytes) -> sqlite3.Connection:
    # Streams are opened by one thread and may be read by another, never by two at a time.
    if isinstance(where, bytes):
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.deserialize(where)
        return connection
    # `immutable`: nothing is written beside the file, and a journal there is not applied.
    address = f"{where.absolute().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, check_same_thread=False)
