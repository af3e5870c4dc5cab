"""The wire format of protocol buffers, as far as profiles use it, for messages that are few.

A message is a row of fields: a tag, which holds the field's number and its wire type, and a value. Messages that are
many are read side by side in `loaders.xplane.lockstep`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

from tracelens_graph.errors import DamagedBytesError
from tracelens_graph.loaders.sources import Source

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; the two others, groups, are written by nothing."""

_MOST_BYTES = 10
"""Bytes of the longest number."""
_WINDOW = 1 << 16
"""Bytes that are read at least: fields of a message stand side by side."""


class Buffer(Protocol):
    """Bytes that give slices: `bytes`, or a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> bytes: ...


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


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The number at a place, and the place behind it.

    Raises:
        DamagedBytesError: it does not end before `end`, or is longer than any.
    """
    value = shift = 0
    for byte in data[at : min(end, at + _MOST_BYTES)]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise DamagedBytesError


def fields(data: Buffer, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message.

    Yields:
        Number of the field, wire type, then the value and the place behind it; of `BYTES` the place where they begin
        and the one where they end.

    Raises:
        DamagedBytesError: a field reaches beyond the message; those before it were yielded.
    """
    while at < end:
        tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = varint(data, at, end)
        elif wire == BYTES:
            size, value = varint(data, at, end)
            at = value + size
        elif wire == FIXED64:
            value, at = at, at + 8
        elif wire == FIXED32:
            value, at = at, at + 4
        else:
            raise DamagedBytesError
        if at > end or not number:
            raise DamagedBytesError
        yield number, wire, value, at


def text(data: Buffer, begin: int, end: int) -> str:
    """Bytes as text; what is no UTF-8 is replaced."""
    return data[begin:end].decode("utf-8", "replace")


def double(data: Buffer, at: int) -> float:
    """A number of eight bytes; 0 for fewer."""
    packed = data[at : at + 8]
    found: float = struct.unpack("<d", packed)[0] if len(packed) == 8 else 0.0
    return found


def signed(value: int) -> int:
    """A number of 64 bits as a signed one."""
    return value - (1 << 64) if value >> 63 else value


def numbers(data: Buffer, wire: int, value: int, end: int) -> list[int]:
    """One occurrence of a repeated number: alone, or many of them packed.

    Raises:
        DamagedBytesError: the last of them is cut.
    """
    if wire == VARINT:
        return [signed(value)]
    found = []
    while wire == BYTES and value < end:
        one, value = varint(data, value, end)
        found.append(signed(one))
    return found
