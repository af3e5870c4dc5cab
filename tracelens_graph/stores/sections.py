"""A file of named arrays that can be mapped into memory.

    header   magic, version, size of the file, place and checksum of the index, checksum of the header
    sections arrays of numbers, each from a multiple of 64 bytes on; texts are arrays of bytes
    index    JSON: facts, and for each section its offset, type, shape and, of small ones, checksum

The header is written last, so that a file that was left half-way is no such file. All numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from tracelens_graph.errors import TraceError
from tracelens_graph.marks import GRAPH_MAGIC
from tracelens_graph.schema import SCHEMA_VERSION

_ALIGNMENT = 64
_HEADER = struct.Struct("<8sIIQQQ")
"""Magic, version, checksum of the index, size of the file, offset and size of the index."""
_CHECKSUM = struct.Struct("<I")
_DTYPES = {"|b1", "|u1", "<i4", "<i8"}


class SectionWriter:
    """Writes sections one after the other to a new file; `finish` makes it whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._index: dict[str, tuple[int, str, tuple[int, ...], int | None]] = {}
        file.write(bytes(_HEADER.size + _CHECKSUM.size))

    def column(self, name: str, array: np.ndarray) -> None:
        """A large array, without a checksum: to verify it would be to read it."""
        self._put(name, _plain(array), None)

    def array(self, name: str, array: np.ndarray) -> None:
        """A small array, which is verified when it is read."""
        array = _plain(array)
        self._put(name, array, zlib.crc32(array.data))

    def json(self, name: str, value: Any) -> None:
        """A JSON value, read whole when it is asked for."""
        self._text(name, json.dumps(value, separators=(",", ":")).encode())

    def strings(self, name: str, strings: Sequence[str]) -> None:
        """Strings, which may hold lone surrogates."""
        self._text(name, "".join(strings).encode("utf-8", "surrogatepass"))
        self.array(f"{name}.lengths", np.fromiter(map(len, strings), np.int64, len(strings)))

    def blobs(self, name: str, blobs: Iterable[bytes]) -> None:
        """Byte strings of which one is read at a time."""
        begin = self._align()
        ends = []
        for blob in blobs:
            self._file.write(blob)
            ends.append(self._file.tell() - begin)
        self._index[name] = (begin, "|u1", (self._file.tell() - begin,), None)
        self.array(f"{name}.ends", np.array(ends, np.int64))

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the index with these facts, then the header."""
        text = json.dumps({"facts": facts, "sections": self._index}, separators=(",", ":")).encode()
        offset = self._align()
        self._file.write(text)
        size = self._file.tell()
        header = _HEADER.pack(GRAPH_MAGIC, SCHEMA_VERSION, zlib.crc32(text), size, offset, len(text))
        self._file.seek(0)
        self._file.write(header + _CHECKSUM.pack(zlib.crc32(header)))

    def _text(self, name: str, text: bytes) -> None:
        self.array(name, np.frombuffer(text, np.uint8))

    def _put(self, name: str, array: np.ndarray, checksum: int | None) -> None:
        self._index[name] = (self._align(), array.dtype.str, array.shape, checksum)
        self._file.write(array.data)

    def _align(self) -> int:
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        return self._file.tell()


def _plain(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


class Sections:
    """Reads sections from a buffer, which may be a mapped file; arrays share its memory and are read-only.

    Raises:
        TraceError: the buffer is no whole file of this version; the message says what is wrong with it.
    """

    def __init__(self, buffer: Any, name: str) -> None:
        self._buffer, self._name = memoryview(buffer), name
        size, start = len(self._buffer), _HEADER.size + _CHECKSUM.size
        if size < start:
            raise TraceError(f"{name}: is only the beginning of a saved graph: {size:,} bytes")
        header = bytes(self._buffer[: _HEADER.size])
        magic, version, checksum, whole, offset, length = _HEADER.unpack(header)
        (written,) = _CHECKSUM.unpack(self._buffer[_HEADER.size : start])
        if magic != GRAPH_MAGIC or zlib.crc32(header) != written:
            raise self.damaged("header")
        if version != SCHEMA_VERSION:
            newer = version > SCHEMA_VERSION
            raise TraceError(
                f"{name}: was saved by {'a newer' if newer else 'an older'} tracelens_graph (version {version} of "
                f"saved graphs, this one reads {SCHEMA_VERSION}): "
                + ("update tracelens_graph" if newer else "load the trace and save it again")
            )
        if size < whole:
            raise TraceError(f"{name}: the saved graph was cut short: {size:,} of {whole:,} bytes are left")
        index = bytes(self._buffer[offset : offset + length])
        if size > whole or len(index) != length or zlib.crc32(index) != checksum:
            raise self.damaged("index")
        self._end = offset
        try:
            found = json.loads(index)
            self.facts: dict[str, Any] = dict(found["facts"])
            self._index: dict[str, list[Any]] = dict(found["sections"])
        except (KeyError, TypeError, ValueError):
            raise self.damaged("index") from None

    def damaged(self, what: str) -> TraceError:
        """The error that says that something in the file is not as it was written."""
        return TraceError(f"{self._name}: the saved graph is damaged ({what}); save it again from the trace")

    def array(self, name: str) -> np.ndarray:
        """An array, in the type and shape in which it was written."""
        try:
            offset, dtype, shape, checksum = self._index[name]
            count = int(np.prod(shape, dtype=np.int64))
            size = count * np.dtype(dtype).itemsize
            if dtype not in _DTYPES or min(offset, *shape) < 0 or offset + size > self._end:
                raise self.damaged(name)
        except (KeyError, TypeError, ValueError):
            raise self.damaged(name) from None
        if checksum is not None and checksum != zlib.crc32(self._buffer[offset : offset + size]):
            raise self.damaged(name)
        return np.frombuffer(self._buffer, dtype, count, offset).reshape(shape)

    def json(self, name: str) -> Any:
        """A JSON value."""
        return json.loads(self.array(name).tobytes())

    def strings(self, name: str) -> list[str]:
        """Strings."""
        text = self.array(name).tobytes().decode("utf-8", "surrogatepass")
        ends = np.cumsum(self.array(f"{name}.lengths")).tolist()
        return [text[begin:end] for begin, end in pairwise([0, *ends])]
