"""What stays in the file: the full original event behind a node, found again when someone looks at it; the trace's id.

The id is a hash of the bytes, the same wherever and however often a trace is loaded: of the hashes of 1 MiB blocks, so
that blocks can be hashed side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b
from io import BufferedReader
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.programs import CompiledPrograms
from tracelens_graph.schema import STORED

_BLOCK = 1 << 20
_DIGEST_BYTES = 16


def source_id(source: Any) -> str:
    """The id of a trace by the decompressed bytes of its source: 32 hexadecimal digits.

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    # A raw stream may give less than was asked for; the id must not depend on how its bytes arrive.
    with BufferedReader(source.open(), _BLOCK) as reader:
        found = _hash_of_hashes(iter(lambda: reader.read(_BLOCK), b""))
    source.check_unchanged()
    return found


def content_id(columns: Columns, tables: list[Any], programs: CompiledPrograms | None) -> str:
    """The id of a graph that comes from no file: of its columns, of the tables they point into, and of its programs."""
    return _hash_of_hashes(_content(columns, tables, programs))


def _content(columns: Columns, tables: list[Any], programs: CompiledPrograms | None) -> Iterator[Any]:
    for prop in STORED:  # in the declared types: columns may be held in narrower ones
        yield getattr(columns, prop.name).astype(prop.dtype).tobytes()
    yield json.dumps(tables).encode()
    if programs is not None:
        yield json.dumps([asdict(one) for one in programs.listed]).encode()
        yield programs.code.astype(np.int32).tobytes()
        if programs.sources:
            yield json.dumps(programs.sources).encode()
            yield programs.source_place.tobytes()


def _hash_of_hashes(blocks: Iterable[Any]) -> str:
    whole = blake2b(digest_size=_DIGEST_BYTES)
    for block in blocks:
        whole.update(blake2b(block, digest_size=_DIGEST_BYTES).digest())
    return whole.hexdigest()


_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_CACHED = 4

NO_TEXT = -1
"""In the place of `repaired` in `Details.places`: the file is there, but its format is not text."""


class Details:
    """Events of a trace as JSON, in blocks that are lists of consecutive events.

    Attributes:
        first: uid of the first event of each block, ascending.
        count: number of events in each block.
    """

    def __init__(self, first: Sequence[int] | np.ndarray, count: Sequence[int] | np.ndarray) -> None:
        self.first = np.asarray(first, np.int64)
        self.count = np.asarray(count, np.int64)
        self._recent: dict[int, list[msgspec.Raw]] = {}

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """The JSON text `[event, ...]` of each of the blocks, which are in ascending order."""
        raise NotImplementedError

    def identity(self) -> str | None:
        """The id of the trace that the events stand in; None if they stand in none.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
        """
        raise NotImplementedError

    def places(self) -> np.ndarray | None:
        """Where the blocks stand in the trace's file: (offset, length, whether repaired or `NO_TEXT`) each.

        None if they stand in no file that outlives this process.
        """
        return None

    def each(self, uids: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """uid and original event of those that stand in the file, by uid, in one pass: a few blocks are held at a time.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
        """
        wanted = np.unique(np.fromiter(uids, np.int64))
        block = np.searchsorted(self.first, wanted, "right") - 1
        known = block >= 0
        known[known] &= wanted[known] < self.first[block[known]] + self.count[block[known]]
        wanted, block = wanted[known], block[known]
        needed, begins = np.unique(block, return_index=True)
        held = {b: self._recent[b] for b in needed.tolist() if b in self._recent}
        texts = iter(self.texts([b for b in needed.tolist() if b not in held]))
        for b, some in zip(needed.tolist(), np.split(wanted, begins[1:]), strict=False):
            events = held[b] if b in held else _RAW_LIST.decode(next(texts))
            self._recent = dict([*self._recent.items(), (b, events)][-_CACHED:])
            for uid in some.tolist():
                event = msgspec.json.decode(events[uid - int(self.first[b])])
                if isinstance(event, dict):
                    yield uid, event
        next(texts, None)  # ends the reading

    def events(self, uids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """All of `each` at once: uid -> the original event."""
        return dict(self.each(uids))


class NoDetails(Details):
    """For graphs that come from no file."""

    def __init__(self) -> None:
        super().__init__([], [])

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """Nothing."""
        return iter(())

    def identity(self) -> None:
        """None: there is no trace."""
