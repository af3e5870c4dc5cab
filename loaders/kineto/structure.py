"""Where the brackets, commas and colons of a JSON text are, told while it passes by in pieces.

Nothing of the text is held but what is asked for, and depth costs nothing: this serves the parts of a file that are too
large or too deep for a decoder, the keys beside the event list above all.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.loaders.kineto.repair_text import LARGEST_OBJECT

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _OPEN, _CLOSE, _OTHER = 1, 2, 3, 4
_KINDS = np.zeros(256, np.uint8)
for _kind, _characters in ((_QUOTE, b'"'), (_OPEN, b"{["), (_CLOSE, b"}]"), (_OTHER, b",:")):
    _KINDS[list(_characters)] = _kind

_LONGEST_NAME = 256
_MOST_NAMES = 4096


class Structure:
    """Follows brackets and strings through a text.

    Attributes:
        depth: brackets open at the end of the last piece; those that were open before the first one do not count.
    """

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, piece: bytes, deepest: int) -> list[tuple[int, int, int]]:
        """Take the next piece of the text.

        Returns:
            (place in the piece, character, depth) of brackets, commas and colons outside of strings that stand within
            at most `deepest` brackets. A bracket does not stand within itself.
        """
        if self._escaped:
            piece = b"_" + piece[1:]
        self._escaped = False
        if b"\\" in piece:
            piece = _ESCAPE.sub(b"__", piece)
            self._escaped = piece.endswith(b"\\")
        codes = np.frombuffer(piece, np.uint8)
        kinds = _KINDS[codes]
        places = np.flatnonzero(kinds)
        kinds = kinds[places]
        in_string = ((np.cumsum(kinds == _QUOTE) + self._in_string) & 1).astype(bool)
        if len(in_string):
            self._in_string = bool(in_string[-1])
        outside = ~in_string & (kinds != _QUOTE)
        places, kinds = places[outside], kinds[outside]
        opens = kinds == _OPEN
        depths = self.depth + np.cumsum(opens.astype(np.int64) - (kinds == _CLOSE))
        if len(depths):
            self.depth = int(depths[-1])
        depths -= opens
        shallow = depths <= deepest
        places, depths = places[shallow], depths[shallow]
        return list(zip(places.tolist(), codes[places].tolist(), depths.tolist(), strict=True))


class Members:
    """The top-level keys of a trace, with the values of those that are kept.

    Args:
        list_key: key of the list of events or nodes.
        wanted: keys whose values are kept.
        behind_list: whether the text begins behind that list.

    Attributes:
        found: key -> value, None where the value is not kept.
        ended: whether the object was closed.
        faults: kept keys whose value could not be read.
    """

    def __init__(self, list_key: str, wanted: frozenset[str], *, behind_list: bool = False) -> None:
        self._list_key, self._wanted = list_key, wanted
        self.found: dict[str, Any] = {}
        self.ended = False
        self.faults = 0
        self._structure = Structure()
        self._structure.depth = int(behind_list)
        self._text = bytearray()  # of the key or value that is not complete yet
        self._longest = _LONGEST_NAME
        self._key: str | None = None

    def feed(self, piece: bytes) -> int:
        """Take the next piece; the place in it behind the `[` of the list, -1 where that has not come yet."""
        begin = 0
        for at, code, depth in self._structure.feed(piece, 1):
            char = chr(code)
            if depth == 0 and char == "{":
                self._text.clear()
                begin = at + 1
            elif depth == 1 and char == ":" and self._key is None:
                self._hold(piece[begin:at])
                self._take_key()
                begin = at + 1
            elif depth == 1 and char == "[" and self._key == self._list_key:
                return at + 1
            elif (depth == 1 and char == ",") or (depth == 0 and char == "}"):
                self._hold(piece[begin:at])
                self._take_value()
                begin = at + 1
                self.ended |= depth == 0
        self._hold(piece[begin:])
        return -1

    def _hold(self, text: bytes) -> None:
        """Keep text up to one byte more than may be held, which says that it is too long."""
        self._text += text[: max(self._longest + 1 - len(self._text), 0)]

    def _take_key(self) -> None:
        text = bytes(self._text)
        self._text.clear()
        try:
            self._key = msgspec.json.decode(text, type=str) if len(text) <= _LONGEST_NAME else ""
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._key = ""
        self._longest = LARGEST_OBJECT if self._key in self._wanted else _LONGEST_NAME

    def _take_value(self) -> None:
        key, text = self._key, bytes(self._text)
        self._text.clear()
        self._key, self._longest = None, _LONGEST_NAME
        if not key or (len(self.found) >= _MOST_NAMES and key not in self._wanted):
            return
        if key not in self._wanted:
            self.found[key] = None
        elif len(text) <= LARGEST_OBJECT:
            try:
                self.found[key] = msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.faults += 1
