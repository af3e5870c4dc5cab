"""How much of a trace is held at one time, whatever the trace says.

Objects made of JSON take up to 30 times the room of its text, and mending takes more, so both are done to short texts
only. Long ones are read through their own text.
"""

from __future__ import annotations

import codecs

LARGEST_EVENT = 64 * 1024 * 1024
"""Bytes of one event, or of what stands between two events; what is larger is lost."""

LARGEST_OBJECT = 4 * 1024 * 1024
"""Bytes of JSON that are made into objects or mended. A larger event is kept if nothing is wrong with it."""

_PIECE = 1 << 20


def check_utf8(text: bytes | memoryview) -> None:
    """Raise UnicodeDecodeError where a text is no UTF-8, without making a string four times its size of it."""
    if len(text) <= _PIECE:
        str(text, "utf-8")
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(text), _PIECE):
        decoder.decode(text[begin : begin + _PIECE])
    decoder.decode(b"", final=True)
