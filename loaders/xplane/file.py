"""The bytes of a profile, read where they are asked for.

Of a plain file no more than a window is held, so that reading a profile takes the memory of what is made of it. (A file
that is mapped into memory would end the process if somebody cut it meanwhile.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tracelens_graph.loaders.sources import Source
from tracelens_graph.loaders.xplane.wire import Buffer

_WINDOW = 1 << 16
"""Bytes that are read at least: fields of a message stand side by side."""


class FileBytes:
    """A file as a sequence of bytes that gives slices; what lies behind its end is not there.

    Args:
        file: the file, which is to stay open.
        size: its size.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._begin, self._held = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, where: slice) -> bytes:
        begin, end, _ = where.indices(self._size)
        if end <= begin:
            return b""
        at = begin - self._begin
        if not 0 <= at <= at + end - begin <= len(self._held):
            if end - begin > _WINDOW:
                return self._read(begin, end - begin)
            self._begin, self._held, at = begin, self._read(begin, _WINDOW), 0
        return self._held[at : at + end - begin]

    def _read(self, begin: int, size: int) -> bytes:
        self._file.seek(begin)
        parts = []
        while size and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@contextmanager
def opened_bytes(source: Source) -> Iterator[Buffer]:
    """The bytes of a source: those of a plain file are read where they are asked for, all others held in memory."""
    with source.open() as stream:
        yield FileBytes(stream, source.stored_size) if source.packing == "plain" else stream.read()
