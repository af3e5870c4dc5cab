"""What unreadable text still says of the events it held: how many they were, and when they began.

Nobody can know what was destroyed. Events are counted by what is left of them, and never too many: each of their
keys occurs once in an event, so where one comes again, or where an object with such a key opens behind another, the
next event has begun. Text without any of these keys, but between two commas, stands for one event.

The count is exact only where the damage shows how far it reaches: bytes that no JSON holds, and all of them so close
together that no event fits between. Where text is merely broken, events may have been cut out at the break.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

from tracelens_graph.loaders.kineto.repair_text import EVENT_BEGIN

_KEY = re.compile(rb'(\}[\s,]++)?(\{\s*+)?(?<!\\)"(ph|cat|name|pid|tid|ts|dur|args)"\s*+:')
_NESTED = (b"name", b"args")
"""Keys that objects inside an event may have, too."""
_PHASE = re.compile(rb'\s*+"([A-Za-z])"')
_TIME = re.compile(rb'\s*+"?(-?\d{1,30}(?:\.\d{0,30})?)"?\s*+[,}]')

_SHORT = 16
"""Bytes in which no event fits."""
_FOREIGN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
"""What JSON never holds, zeros above all. Bytes that are no UTF-8 have been replaced."""
_UNPRINTED = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]")
_MOST_TIMES = 1024
"""Times that are kept of one stretch of unreadable text."""

_ANY_KEY = re.compile(rb'"[^"\\]{2,}+"\s*+:')
_STRUCTURE = re.compile(rb"[{}\[\],]")

_STRING = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_MARK = re.compile(rb'([()\[\]{}]|(?<=\\)")(\s*+[,:]\s*+\\")?')
_CLOSING = {b"(": b")", b"[": b"]", b"{": b"}"}

_ONES = re.compile(rb"\xff{%d}" % _SHORT)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class LostTime(NamedTuple):
    """When an event began that is lost: its phase (None if it cannot be read), whether it lasted, the digits."""

    phase: str | None
    lasts: bool
    digits: bytes


class Remains(NamedTuple):
    """What is left of events.

    Attributes:
        events: how many they were at least.
        exact: whether they were no more.
        times: when they began, where that can be read.
    """

    events: int
    exact: bool
    times: list[LostTime]


def remains(text: bytes, *, begins: bool, ends: bool, cut: bool) -> Remains:
    """What is known of unreadable text.

    Args:
        text: begins behind one event that could be read and ends where the next one begins.
        begins, ends: whether the list begins or another event ends just before the text, and the same behind it,
            so that a comma is not needed to separate it from its neighbours.
        cut: whether the file ends with the text.
    """
    content = text.strip(b" \t\r\n,")
    at = text.index(content)
    behind = text[at + len(content) :]
    begins |= b"," in text[:at]
    ends |= b"," in behind
    found = _Fragments(text)
    if found.count:
        before = text[at : found.first].rstrip() if found.first > at else b""
        more = begins and before.endswith(b",") and _is_event(before.rstrip(b" \t\r\n,"))
        return Remains(found.count + more, _is_small(text), found.times)
    is_rest = content.startswith(b"{") or content.endswith(b"}")
    if not is_rest and behind.lstrip(b" \t\r").startswith(b"\n") and not _UNPRINTED.search(content):
        # Lines of a log.
        return Remains(0, True, [])
    if begins and ((ends and _is_event(content)) or (cut and content.startswith(b"{"))):
        return Remains(1, _is_small(text), [])
    return Remains(0, not is_rest and len(content) < _SHORT, [])


def joined(event: bytes) -> bool:
    """Whether a string that quotes were escaped in rather spans the end of one event and the begin of another.

    Names hold quotes in pairs or within brackets; what stands between two values or behind a bracket is no name.
    """
    return any(_spans_values(match.group(1)) for match in _STRING.finditer(event) if b'\\"' in match.group(1))


def written_over(event: bytes | memoryview) -> bool:
    """Whether more of an event was written over than a few letters, so that there is room for another event."""
    return bool(_ONES.search(event)) or any(islice(_CONTROL.finditer(event), _SHORT // 2, None))


def _spans_values(string: bytes) -> bool:
    inside: list[bytes] = []
    quotes = 0
    for match in _MARK.finditer(string):
        mark = match.group(1)
        if mark in _CLOSING:
            inside.append(_CLOSING[mark])
        elif mark != b'"':
            if not inside or inside.pop() != mark:
                return True
        elif not inside:
            quotes += 1
            if match.group(2):
                return True
    return bool(inside) or quotes % 2 == 1


def _is_event(content: bytes) -> bool:
    """Whether text between two commas, without any key of events, stands for one: no log line, and no noise."""
    if not _STRUCTURE.search(content.rstrip(b"} \t\r\n")):
        return True
    return content.endswith(b"}") and (content.startswith(b"{") or bool(_ANY_KEY.search(content)))


class _Fragments:
    """Pieces of events, separated by their keys.

    Attributes:
        count: how many events they are of.
        first: where the first of them begins; 0 if its begin is lost.
        times: when they began.
    """

    def __init__(self, text: bytes) -> None:
        self.count = self.first = 0
        self.times: list[LostTime] = []
        seen: set[bytes] = set()
        phase, digits = None, b""
        for match in _KEY.finditer(text):
            key = match.group(3)
            if self._begins_event(text, match, seen):
                self._end(seen, phase, digits)
                seen, phase, digits = set(), None, b""
                if not self.count:
                    self.first = match.start(2) if match.group(2) else 0
                self.count += 1
            seen.add(key)
            if key == b"ph" and (value := _PHASE.match(text, match.end())):
                phase = value.group(1).decode()
            elif key == b"ts" and (value := _TIME.match(text, match.end())):
                digits = value.group(1)
        self._end(seen, phase, digits)

    def _begins_event(self, text: bytes, match: re.Match[bytes], seen: set[bytes]) -> bool:
        behind, opens, key = match.groups()
        if not self.count or (key in seen and key not in _NESTED):
            return True
        if not opens:
            return False
        if key in _NESTED or not behind:
            return EVENT_BEGIN.match(text, match.start(2)) is not None
        return b"," in behind

    def _end(self, seen: set[bytes], phase: str | None, digits: bytes) -> None:
        if digits and len(self.times) < _MOST_TIMES:
            self.times.append(LostTime(phase, b"dur" in seen, digits))


def _is_small(text: bytes) -> bool:
    """Whether damage shows, and is smaller than any event."""
    read = text.decode(errors="replace")
    first = _FOREIGN.search(read)
    return first is not None and not _FOREIGN.search(read, first.start() + _SHORT)
