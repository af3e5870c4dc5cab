"""What can be had of a gzip file that does not decompress: all data before a fault, and which fault it is."""

from __future__ import annotations

import zlib
from typing import BinaryIO

GZIP_MAGIC = b"\x1f\x8b"
CHECKSUM, BEHIND = "checksum", "behind_packed"
"""Faults of the file: its data are not those that were packed; something else follows the packed data."""

_BITE = 16384
"""Bytes inflated at a time, and one by one where they hold a fault: zlib keeps back the output of a call that fails."""
_TRAILER_FAULTS = ("incorrect data check", "incorrect length check")
_TRAILER = 8


def salvage(raw: BinaryIO, out: BinaryIO, most: float) -> tuple[bool, set[str]]:
    """Write what a gzip file holds, up to the first fault.

    Args:
        raw: the file, from its beginning.
        out: takes the decompressed bytes.
        most: bytes after which it is enough.

    Returns:
        Whether decompressed bytes are missing at the end, and the faults that were found.
    """
    engine, is_inside = zlib.decompressobj(wbits=31), False
    while out.tell() <= most:
        data = raw.read(_BITE)
        if not data:
            return is_inside, set()
        while data := data if is_inside else data.lstrip(b"\0"):  # tapes and block devices pad with zeros
            if not is_inside and not data.startswith(GZIP_MAGIC[: len(data)]):
                return False, {BEHIND}
            before, is_inside = engine.copy(), True
            try:
                out.write(engine.decompress(data))
            except zlib.error:
                return _up_to_fault(before, data, out), {CHECKSUM}
            data = engine.unused_data
            if engine.eof:
                engine, is_inside = zlib.decompressobj(wbits=31), False
    return False, set()


def _up_to_fault(engine: zlib._Decompress, data: bytes, out: BinaryIO) -> bool:
    """Write the output of a bite in which the decompressor fails; whether more was packed than that."""
    for at in range(len(data)):
        try:
            out.write(engine.decompress(data[at : at + 1]))
        except zlib.error as error:
            return not any(fault in str(error) for fault in _TRAILER_FAULTS) or at + _TRAILER < len(data)
    return True
