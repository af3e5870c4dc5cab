"""Protocol buffers as they are written: fields of a message one after the other."""

from __future__ import annotations

import struct
from collections.abc import Iterable


def varint(value: int) -> bytes:
    """A whole number of 64 bits; a negative one as its complement."""
    value &= 2**64 - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """A field of a whole number; zero is not written."""
    return varint(field << 3) + varint(value) if value else b""


def double(field: int, value: float) -> bytes:
    """A field of a floating-point number."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def block(field: int, content: bytes | str) -> bytes:
    """A field of a message, of bytes or of a text; written also if it is empty."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field of whole numbers; nothing for none."""
    content = b"".join(map(varint, values))
    return block(field, content) if content else b""
