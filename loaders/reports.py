"""Reports of other profilers, opened as the text of the trace that says the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec

from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.loaders.databases import Database
from tracelens_graph.loaders.memory_snapshot import snapshot
from tracelens_graph.loaders.nsys import columns, report
from tracelens_graph.loaders.parts import rank_of
from tracelens_graph.loaders.rocprof import results, rocpd, rpd
from tracelens_graph.loaders.unpacking import Stream

if TYPE_CHECKING:
    from tracelens_graph.loaders.kineto.collect import Collector

_AT_ONCE = 1 << 20
_Piece = TypeVar("_Piece")


def open_database(where: Path | bytes, name: str) -> BinaryIO:
    """The trace that says what a database of another profiler says, as a stream of its text.

    Raises:
        NotATraceError: it is the database of something else.
        TraceError: it is damaged, cut short or encrypted; also while the stream is read.
    """
    pieces = checked(_pieces, where, name)
    return Pieces(pieces, next(pieces, b""))


def collect_database(where: Path | bytes, name: str, collector: Collector) -> dict[str, Any] | None:
    """Collect the events of a report of Nsight Systems without their text; what stands beside them.

    None of another database, and where a row holds what columns do not: then its text is to be read.

    Raises:
        TraceError: it is damaged, cut short or encrypted.
    """
    with _opened(where, name) as (one, database):
        try:
            return columns.collected(database, collector) if one is report else None
        except (TypeError, ValueError, OverflowError, LookupError):
            return None


def database_blocks(where: Path | bytes, name: str) -> Generator[bytes]:
    """The events of a report that was collected so, as lists in JSON: one for each of the collected chunks."""
    with _opened(where, name) as (_, database):
        yield from columns.blocks(database)


def links_to_ranks(where: Path, name: str, folder: Path) -> tuple[dict[int, Path], int]:
    """Links in a folder, each of which is opened as one rank of a report; and how many calls and ranges have no rank.

    None where a database is of another profiler, or holds one rank.

    Raises:
        TraceError: as `open_database`.
    """
    with _opened(where, name) as (one, database):
        ranks = sorted(report.ranks_in(database).values()) if one is report else []
        links = {rank: folder / f"{where.stem}-rank{rank}.sqlite" for rank in ranks}
        for link in links.values():
            link.symlink_to(where.absolute())
        return links, report.nowhere(database) if links else 0


def _pieces(where: Path | bytes, name: str) -> Iterator[bytes]:
    with _opened(where, name) as (one, database):
        yield from one.translated(database)


@contextmanager
def _opened(where: Path | bytes, name: str) -> Iterator[tuple[Any, Database]]:
    """The tables of a database, and the module that reads them."""
    connection = None
    try:
        connection = _connection(where)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        database = Database(connection, name, None if isinstance(where, bytes) else rank_of(where))
        for one in (report, rocpd, rpd):
            if one.is_report(database):
                yield one, database
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


def open_result(stream: BinaryIO, name: str) -> BinaryIO:
    """The trace that says what a JSON result of rocprofv3 says, as a stream of its text; closes the given one.

    Raises:
        TraceError: it is cut short, or is not built as rocprofv3 builds it.
    """
    with stream:
        return Pieces(checked(results.translated, _all(stream), name))


def open_snapshot(stream: BinaryIO, name: str) -> BinaryIO:
    """The trace that says what a snapshot of PyTorch's CUDA allocator says, as a stream; closes the given one.

    Raises:
        NotATraceError: it is another pickle, or one that does more than hold plain values.
        TraceError: it is damaged.
    """
    with stream:
        return Pieces(checked(snapshot.translated, _all(stream), name))


def checked(translated: Callable[[Any, str], Iterator[_Piece]], source: Any, name: str) -> Iterator[_Piece]:
    """The pieces of a translation; what no profiler writes, such as a text for a time, is an error in one line."""
    try:
        yield from translated(source, name)
    except msgspec.ValidationError as error:
        raise TraceError(f"{name}: is not built as its profiler builds it: {error}") from None
    except (TypeError, ValueError, OverflowError, LookupError, AttributeError) as error:
        raise TraceError(f"{name}: is not built as its profiler builds it: {error!r}") from None


def _all(stream: BinaryIO) -> bytes:
    return b"".join(iter(lambda: stream.read(_AT_ONCE), b""))


class Pieces(Stream):
    """The pieces of a text as a stream of bytes."""

    def __init__(self, pieces: Iterator[bytes], first: bytes = b"") -> None:
        super().__init__(pieces)
        self._pieces, self._rest = pieces, memoryview(first)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the present piece goes; the number of bytes."""
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
