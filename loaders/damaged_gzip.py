"""What can be had of a gzip file that does not decompress: all data before a fault, and which fault it is.

A decompressor that checks the checksum keeps back what it has not proven, and cannot say why it stopped. So the
members' headers and trailers are read here, and only the data between them is inflated.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import BinaryIO

from tracelens_graph.errors import DamagedBytesError

GZIP_MAGIC = b"\x1f\x8b"
CHECKSUM, BEHIND = "checksum", "behind_packed"
"""Faults of the file: its data are not those that were packed; something else follows the packed data."""

_BITE = 16384
"""Bytes inflated at a time, and taken back and inflated one by one where they hold a fault."""
_FIXED, _TRAILER = 10, 8
_DEFLATE = 8
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
_UNKNOWN_FLAGS = 0xE0


def salvage(raw: BinaryIO, out: BinaryIO, most: float) -> tuple[bool, set[str]]:
    """Write what a gzip file holds, up to the first fault that nothing can be read behind.

    Args:
        raw: the file, from its beginning.
        out: takes the decompressed bytes.
        most: bytes after which it is enough.

    Returns:
        Whether decompressed bytes are missing at the end, and the faults that were found.
    """
    faults: set[str] = set()
    source = _Bytes(raw)
    try:
        while out.tell() <= most:
            _pass_header(source)
            if not _copy_member(source, out, most):
                faults.add(CHECKSUM)
            if not source.pass_zeros():  # tapes and block devices pad with them
                return False, faults
            if source.peek(len(GZIP_MAGIC)) != GZIP_MAGIC:
                faults.add(BEHIND)
                return False, faults
    except EOFError:
        return True, faults
    except DamagedBytesError:
        return True, faults | {CHECKSUM}
    return False, faults


class _Bytes:
    """A file read in pieces of any size, some of which are given back."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._held = b""

    def peek(self, count: int) -> bytes:
        """The next bytes, fewer only where the file ends."""
        while len(self._held) < count and (more := self._raw.read(io.DEFAULT_BUFFER_SIZE)):
            self._held += more
        return self._held[:count]

    def take(self, count: int) -> bytes:
        """The next bytes; raises EOFError where there are fewer."""
        taken = self.peek(count)
        if len(taken) < count:
            raise EOFError
        self._held = self._held[count:]
        return taken

    def some(self) -> bytes:
        """The next bytes, about as many as are inflated at a time; raises EOFError where there are none."""
        return self.take(len(self.peek(_BITE)) or 1)

    def give_back(self, data: bytes) -> None:
        """Have bytes come again that were taken last."""
        self._held = data + self._held

    def pass_text(self) -> None:
        """Pass over a text up to the zero that ends it."""
        while (end := (held := self.some()).find(0)) < 0:
            pass
        self.give_back(held[end + 1 :])

    def pass_zeros(self) -> bool:
        """Pass over zeros; whether anything follows."""
        while held := self.peek(_BITE):
            rest = held.lstrip(b"\0")
            self.take(len(held) - len(rest))
            if rest:
                return True
        return False


def _pass_header(source: _Bytes) -> None:
    magic, method, flags = struct.unpack("<2sBB", source.take(_FIXED)[:4])
    if magic != GZIP_MAGIC or method != _DEFLATE or flags & _UNKNOWN_FLAGS:
        raise DamagedBytesError
    if flags & _EXTRA:
        source.take(struct.unpack("<H", source.take(2))[0])
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            source.pass_text()
    if flags & _HEADER_CHECKSUM:
        source.take(2)


def _copy_member(source: _Bytes, out: BinaryIO, most: float) -> bool:
    """Inflate one member's data; whether they are what its trailer says."""
    engine = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    checksum = size = 0
    while not engine.eof:
        if out.tell() > most:
            return True  # whoever reads it stops there
        data, before, fault = source.some(), engine.copy(), False
        try:
            text = engine.decompress(data)
        except zlib.error:
            text, fault = _inflated_before_fault(before, data), True
        out.write(text)
        checksum, size = zlib.crc32(text, checksum), size + len(text)
        if fault:
            raise DamagedBytesError
    source.give_back(engine.unused_data)
    trailer: tuple[int, int] = struct.unpack("<II", source.take(_TRAILER))
    return trailer == (checksum, size & 0xFFFFFFFF)


def _inflated_before_fault(engine: zlib._Decompress, data: bytes) -> bytes:
    """The output of a bite in which the decompressor fails; it would take all of that with it."""
    out = bytearray()
    try:
        for byte in data:
            out += engine.decompress(bytes((byte,)))
    except zlib.error:
        pass
    return bytes(out)
