"""Arguments of single events, read from the trace's file again, and ids of record functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct, field

from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import Details, source_id
from tracelens_graph.loaders.kineto.collect import Chunk
from tracelens_graph.loaders.sources import Source
from tracelens_graph.utils.arrays import Rows

_SKIP = 1 << 20


class FileDetails(Details):
    """Events in the file a graph was loaded from; the file must still be as it was."""

    def __init__(self, source: Source, chunks: Sequence[Chunk]) -> None:
        super().__init__([chunk.first for chunk in chunks], [chunk.count for chunk in chunks])
        self.source = source
        self._chunks = chunks

    @classmethod
    def at(cls, source: Source, first: np.ndarray, count: np.ndarray, places: Rows) -> FileDetails:
        """Events whose places are known from an earlier reading of the same file."""
        source.is_loaded = True
        rows = zip(first.tolist(), count.tolist(), places.tolist(), strict=True)
        return cls(source, [Chunk(offset, length, f, n, bool(mended)) for f, n, (offset, length, mended) in rows])

    def places(self) -> np.ndarray | None:
        """Where the blocks stand in the file; None for bytes in memory and for a spool."""
        if not self.source.lasting:
            return None
        return np.array([(c.offset, c.length, c.repaired) for c in self._chunks], np.int64).reshape(-1, 3)

    @property
    def end(self) -> int:
        """Where the last event ends in the decompressed bytes; 0 without events."""
        return max((chunk.offset + chunk.length for chunk in self._chunks), default=0)

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """Texts of blocks, in one pass over the file from the first to the last of them."""
        wanted = list(blocks)
        if not wanted:
            return
        if self.source.packing == "sqlite" and not self._chunks[0].length:
            from tracelens_graph.loaders.reports import database_blocks

            self.source.check_unchanged()
            with closing(database_blocks(self.source.database, self.source.name)) as found:
                chosen = set(wanted)
                yield from (block for at, block in enumerate(islice(found, wanted[-1] + 1)) if at in chosen)
            return
        with self.source.open() as stream:
            position = 0
            for number in wanted:
                chunk = self._chunks[number]
                if stream.seekable():
                    stream.seek(chunk.offset)
                else:
                    while position < chunk.offset:
                        position += len(stream.read(min(_SKIP, chunk.offset - position)) or b" " * _SKIP)
                text = bytearray()
                while len(text) < chunk.length and (more := stream.read(chunk.length - len(text))):
                    text += more
                self.source.check_unchanged()  # what was read of another file is not passed on
                position = chunk.offset + chunk.length
                yield _repaired(bytes(text), chunk) if chunk.repaired else b"[" + bytes(text) + b"]"

    def each(self, uids: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """uid and original event of those that stand in the file.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
            TraceError: events are not at the places that the cache names.
        """
        try:
            yield from super().each(uids)
        except (msgspec.DecodeError, UnicodeDecodeError, IndexError):
            name = self.source.name
            raise TraceError(f"{name}: its events are not where its graph in the cache says; empty the cache") from None

    def identity(self) -> str:
        """Hash of the decompressed bytes, as read: a repaired file keeps the id of the broken one."""
        return source_id(self.source)


def _repaired(text: bytes, chunk: Chunk) -> bytes:
    """The list that repair makes of a chunk, with null for what was lost."""
    from tracelens_graph.loaders.kineto.repair import repair_events

    repaired = repair_events(text, last=True)
    events = [b"null"] * chunk.count
    for position, event in zip(repaired.positions, repaired.events, strict=True):
        if position < chunk.count:
            events[position] = event
    return b"[" + b",".join(events) + b"]"


class _Arguments(Struct, gc=False, rename={"record": "Record function id"}):
    record: int = 0


class _Event(Struct, gc=False):
    args: _Arguments = field(default_factory=_Arguments)


_EVENTS = msgspec.json.Decoder(list[_Event])
_EVENT = msgspec.json.Decoder(_Event)
_RAW_LIST = msgspec.json.Decoder(list[Raw])
_MOST = 2**63


def record_ids(core: Core) -> np.ndarray:
    """Per row the `Record function id` of its event, 0 for none.

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    details = core.details
    of_uid = np.zeros(max(core.info.events, int(core.columns.uid.max(initial=-1)) + 1), np.int64)
    for first, text in zip(details.first.tolist(), details.texts(range(len(details.first))), strict=True):
        found = np.fromiter(_of_block(text), np.int64)[: len(of_uid) - first]
        of_uid[first : first + len(found)] = found
    return of_uid[core.columns.uid]


def _of_block(text: bytes) -> Iterator[int]:
    try:
        events = _EVENTS.decode(text)
    except (msgspec.ValidationError, RecursionError):
        events = [_odd(raw) for raw in _RAW_LIST.decode(text)]
    return (event.args.record if 0 < event.args.record < _MOST else 0 for event in events)


def _odd(raw: Raw) -> _Event:
    """An event of a block in which something fits no record."""
    try:
        return _EVENT.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        return _Event()
