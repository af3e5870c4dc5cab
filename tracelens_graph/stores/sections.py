"""A file of named arrays that can be mapped into memory.

    header   magic, version, size of the file, place and checksum of the index, checksum of the header
    sections arrays of numbers, each from a multiple of 64 bytes on; texts are arrays of bytes
    index    JSON: facts, and for each section its offset, type, shape and checksum

The header is written last, so that a file that was left half-way is no such file. All numbers are little-endian.

Every section has a checksum, which is compared when the section is first read; what is never read costs nothing. The
checksum covers name, type and shape as well as the bytes, so an index that names the wrong place is noticed, too.
Checksums are CRC-32 by isal, which runs at the speed of memory.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from mmap import mmap
from typing import Any, BinaryIO, TypeVar

import msgspec
import numpy as np
from isal.isal_zlib import crc32

from tracelens_graph.errors import TraceError
from tracelens_graph.output.files import GRAPH_MAGIC
from tracelens_graph.schema import SCHEMA_VERSION

VERSION = SCHEMA_VERSION + 3
"""Version of saved graphs: that of the schema, and one each for what came without a change of the schema: checksums of
sections, and values of collectives that stand once."""

_ALIGNMENT = 64
_HEADER = struct.Struct("<8sIIQQQ")
"""Magic, version, checksum of the index, size of the file, offset and size of the index."""
_CHECKSUM = struct.Struct("<I")
_ITEM_SIZES = {"|u1": 1, "<i4": 4, "<i8": 8}
"""Types of sections, and the bytes of one number."""

_VALUES = msgspec.json.Decoder(msgspec.Raw)

_Place = tuple[int, str, tuple[int, ...], int]
"""Of a section: offset, type, shape, checksum."""

_T = TypeVar("_T")


class SectionWriter:
    """Writes sections one after the other to a new file; `finish` makes it whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._index: dict[str, _Place] = {}
        # The header comes last: a file that was not finished has no magic, and is not taken for whole.
        file.write(bytes(_HEADER.size + _CHECKSUM.size))

    def array(self, name: str, array: np.ndarray) -> None:
        """An array of numbers."""
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        dtype, shape = array.dtype.str, array.shape
        self._index[name] = (self._align(), dtype, shape, crc32(array.data, _seed(name, dtype, shape)))
        self._file.write(array.data)

    def json(self, name: str, value: Any) -> None:
        """A JSON value, read as a whole."""
        self._text(name, json.dumps(value, separators=(",", ":")).encode())

    def strings(self, name: str, strings: Sequence[str]) -> None:
        """Strings, which may hold lone surrogates."""
        self._text(name, "".join(strings).encode("utf-8", "surrogatepass"))
        self.array(f"{name}.lengths", np.fromiter(map(len, strings), np.int64, len(strings)))

    def blobs(self, name: str, blobs: Iterable[bytes]) -> None:
        """Byte strings that are read one at a time, each with a checksum of its own."""
        begin = self._align()
        ends: list[int] = []
        sums: list[int] = []
        for blob in blobs:
            # The place is the seed, so that blocks which changed places are found.
            sums.append(crc32(blob, len(ends)))
            self._file.write(blob)
            ends.append(self._file.tell() - begin)
        size = self._file.tell() - begin
        self._index[name] = (begin, "|u1", (size,), _seed(name, "|u1", (size,)))
        self.array(f"{name}.ends", np.array(ends, np.int64))
        self.array(f"{name}.sums", np.array(sums, np.int64))

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the index with these facts, then the header."""
        text = json.dumps({"facts": facts, "sections": self._index}, separators=(",", ":")).encode()
        offset = self._align()
        self._file.write(text)
        size = self._file.tell()
        header = _HEADER.pack(GRAPH_MAGIC, VERSION, crc32(text), size, offset, len(text))
        self._file.seek(0)
        self._file.write(header + _CHECKSUM.pack(crc32(header)))

    def _text(self, name: str, text: bytes) -> None:
        self.array(name, np.frombuffer(text, np.uint8))

    def _align(self) -> int:
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        return self._file.tell()


def _seed(name: str, dtype: str, shape: tuple[int, ...]) -> int:
    """Where the checksum of a section starts, so that it is that of no other section."""
    return crc32(f"{name} {dtype} {shape}".encode())


@dataclass(frozen=True)
class Blobs:
    """Byte strings, each compared with its checksum whenever it is read: TraceError if it is not as it was written.

    Attributes:
        data: all of them in a row.
        ends: where in `data` each of them ends.
        sums: their checksums.
        file, section: names for messages.
    """

    data: np.ndarray
    ends: np.ndarray
    sums: np.ndarray
    file: str
    section: str

    def __getitem__(self, at: int) -> bytes:
        blob = self.data[self.ends[at - 1] if at else 0 : self.ends[at]].tobytes()
        if crc32(blob, at) != self.sums[at]:
            raise damaged(self.file, f"block {at} of {self.section}")
        return blob


def damaged(name: str, what: str) -> TraceError:
    """The error that says that something in a saved graph is not as it was written."""
    return TraceError(f"{name}: the saved graph is damaged ({what}); save it again from the trace")


class Sections:
    """Reads sections from a buffer, which may be a mapped file; arrays share its memory and are read-only.

    Raises:
        TraceError: the buffer is no whole file of this version, or, when it is read, a section is not there or not as
            it was written; the message says what is wrong with it.
    """

    def __init__(self, buffer: Any, name: str) -> None:
        self._file, self._buffer, self._name = buffer, memoryview(buffer), name
        size, start = len(self._buffer), _HEADER.size + _CHECKSUM.size
        if size < start:
            raise TraceError(
                f"{name}: is only the beginning of a saved graph: {size:,} bytes; save it again from the trace"
            )
        header = bytes(self._buffer[: _HEADER.size])
        magic, version, checksum, whole, offset, length = _HEADER.unpack(header)
        (written,) = _CHECKSUM.unpack(self._buffer[_HEADER.size : start])
        if magic != GRAPH_MAGIC or crc32(header) != written:
            raise self.damaged("header")
        if version != VERSION:
            newer = version > VERSION
            raise TraceError(
                f"{name}: was saved by {'a newer' if newer else 'an older'} tracelens_graph (version {version} of "
                f"saved graphs, this one reads {VERSION}): "
                + ("update tracelens_graph" if newer else "load the trace and save it again")
            )
        if size < whole:
            raise TraceError(
                f"{name}: the saved graph was cut short: {size:,} of {whole:,} bytes are left; "
                "save it again from the trace"
            )
        index = bytes(self._buffer[offset : offset + length])
        if size > whole or len(index) != length or crc32(index) != checksum:
            raise self.damaged("index")
        self._end = offset
        found = self._decoded(index, dict[str, dict[str, Any]], "index")
        try:
            self._facts: Any = found["facts"]
            self._index = msgspec.convert(found["sections"], dict[str, _Place])
        except (KeyError, msgspec.ValidationError):
            raise self.damaged("index") from None

    def verify(self) -> None:
        """Compare all arrays with their checksums; byte strings are compared when they are read."""
        for name in self._index.keys() - {name.removesuffix(".sums") for name in self._index if name.endswith(".sums")}:
            self.array(name)

    def take_facts(self) -> Any:
        """What the index holds beside the sections, as JSON values. They are given away and not kept."""
        facts, self._facts = self._facts, None
        return facts

    def damaged(self, what: str) -> TraceError:
        """The error that says that something in the file is not as it was written."""
        return damaged(self._name, what)

    def layout(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Type and shape of an array, without reading it."""
        try:
            offset, dtype, shape, _ = self._index[name]
            fits = min((offset, *shape)) >= 0 and offset + math.prod(shape) * _ITEM_SIZES[dtype] <= self._end
        except KeyError:
            fits = False
        if not fits:
            raise self.damaged(name)
        return dtype, shape

    def array(self, name: str) -> np.ndarray:
        """An array, in the type and shape in which it was written."""
        array = self._unchecked(name)
        _, dtype, shape, checksum = self._index[name]
        if crc32(array.data, _seed(name, dtype, shape)) != checksum:
            raise self.damaged(name)
        return array

    def json(self, name: str, form: type[_T]) -> _T:
        """A JSON value of a given type."""
        return self._decoded(self.array(name).tobytes(), form, name)

    def strings(self, name: str) -> list[str]:
        """Strings."""
        lengths = self.array(f"{name}.lengths")
        try:
            text = self.array(name).tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.damaged(name) from None
        if lengths.ndim != 1 or (lengths < 0).any() or (lengths > len(text)).any() or lengths.sum() != len(text):
            raise self.damaged(f"{name}.lengths")
        return [text[begin:end] for begin, end in pairwise([0, *np.cumsum(lengths).tolist()])]

    def json_strings(self, name: str) -> list[str]:
        """Strings that are each empty or a JSON value, which stays text."""
        texts = self.strings(name)
        self.check_json(name, [text.encode("utf-8", "surrogatepass") for text in texts])
        return texts

    def check_json(self, name: str, texts: Iterable[bytes]) -> None:
        """Raise TraceError if one of some texts is neither empty nor a JSON value."""
        filled = list(filter(None, texts))
        try:
            count = len(_VALUES.decode_lines(b"\n".join(filled)))
        except (msgspec.DecodeError, RecursionError):
            count = -1
        if count != len(filled):
            raise self.damaged(name)

    def blobs(self, name: str) -> Blobs:
        """Byte strings, each verified when it is read."""
        data, ends, sums = self._unchecked(name), self.array(f"{name}.ends"), self.array(f"{name}.sums")
        _, dtype, shape, checksum = self._index[name]
        fits = dtype == "|u1" and data.ndim == 1 and checksum == _seed(name, dtype, shape)
        if not fits or ends.ndim != 1 or ends.shape != sums.shape or not _partition(ends, len(data)):
            raise self.damaged(f"{name}.ends")
        return Blobs(data, ends, sums, self._name, name)

    def _unchecked(self, name: str) -> np.ndarray:
        dtype, shape = self.layout(name)
        if isinstance(self._file, mmap) and self._file.size() < len(self._file):
            # To read what is mapped beyond the end of a file would end the process.
            raise TraceError(f"{self._name}: the saved graph was overwritten while it was open; open it again")
        try:
            return np.frombuffer(self._buffer, dtype, math.prod(shape), self._index[name][0]).reshape(shape)
        except ValueError:  # more dimensions, or longer ones, than arrays have
            raise self.damaged(name) from None

    def _decoded(self, text: bytes, form: type[_T], what: str) -> _T:
        # msgspec reads neither lone surrogates nor whole numbers of any size, which traces have.
        try:
            return msgspec.convert(json.loads(text), form)
        except (ValueError, RecursionError):
            raise self.damaged(what) from None


def _partition(ends: np.ndarray, size: int) -> bool:
    """Whether parts that end there make up the whole of a size."""
    return (ends[-1] == size and ends[0] >= 0 and bool((np.diff(ends) >= 0).all())) if len(ends) else not size
