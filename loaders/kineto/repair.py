"""Saving what can be saved of a trace whose JSON is broken.

Events are taken one by one, each as it stands if that decodes. One that does not is read tolerantly
(`repair_text`); one that cannot be read is lost, and reading goes on where the next event begins. Whatever was
mended or lost is counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tracelens_graph.loaders.kineto.repair_text import EVENT_BEGIN, EVENT_KEYS, QUOTED, TAIL_KEY, Reader, Reading

_GAP = re.compile(rb"[\s,]*+")
_SEPARATOR = re.compile(rb'\}[\s,]*+\{\s*+"[A-Za-z]')
_FIRST_KEY = rb'(\{)\s*+"(?:%s)"\s*+:' % "|".join(sorted(EVENT_KEYS)).encode()
_EVENT_START = re.compile(_FIRST_KEY)
_SEPARATED_START = re.compile(rb"\}[\s,]*+" + _FIRST_KEY)
# An element of the list that is not an object.
_OTHER_ELEMENT = re.compile(
    rb'(?:true|false|null|-?\d[\d.eE+-]*+|%s|\[[^\[\]{}"]*+\])(?=\s*+[,\]])' % QUOTED.encode(), re.DOTALL
)
# The bracket that ends the list, where nothing is lost before it and where the last event is.
_END = re.compile(rb'\](?:[\s,]*+(?:\}|\Z)|\s*+,[\s,]*+"[^"\\]*+(?:"\s*+:|"?\s*+\Z))')
_END_BEHIND_LOST = re.compile(
    rb'\}[\s,]*+(\])\s*+(?:,\s*+"[^"\\]*+"\s*+:|\}?\s*+\Z)'
    rb"|(\])\s*+(?:\}\s*+\Z|,\s*+%s)" % TAIL_KEY
)
_KEY = re.compile(rb"([\s,]*+)(%s\s*+:)\s*+" % QUOTED.encode(), re.DOTALL)
_VALUE_ENDS = re.compile(rb"\s*+(?:[,}]|\Z)")
_ENDINGS = {
    opening: re.compile(rb'%s(?=\s*+,\s*+"[^"\\]*+"\s*+:)' % closing)
    for opening, closing in {b"{": rb"\}", b"[": rb"\]", b'"': b'"'}.items()
}
_BARE_ENDING = re.compile(rb'(?=,\s*+"[^"\\]*+"\s*+:)')
_MAX_ENDS = 16
_FOLLOWED = re.compile(rb"\s*+(?:[,\]{]|\Z)")
_FOLLOWED_BY_EVENT = re.compile(rb'[\s,]*+(?:\{\s*+"|\]|\Z)')
"""What stands behind an event; more is asked of one that had to be mended."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_WRITTEN_OVER = re.compile(rb"\xff{8}|[\x00-\x08]{8}")
_ALWAYS = ("name", "pid", "tid", "ts")
_ONCE = ("ph", "ts")
_ATTEMPT = 1024
"""Fuel for a try that leads to no event."""
_DECODED_FOR_ONE = 16
"""Bytes handed to a decoder in vain for one unit of fuel."""


@dataclass
class Repaired:
    """The events of a stretch of a trace's event list.

    Attributes:
        events: JSON objects that decode, in file order.
        positions: number of each kept event among all of the stretch; lost events leave holes.
        pieces: events kept and lost.
        counts: kind of repair -> number of events it was applied to.
        lost_events: events that could not be read, as many as what is left of them shows.
        lost_bytes: bytes of them, and of text between events that is not an event.
        doubtful_from: position from which on all may be too small, because more events may be lost before it than
            were counted; None where no text was unreadable.
        tail: what stands behind the `]` that ends the list; None if the list does not end here.
    """

    events: list[bytes] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    pieces: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lost_events: int = 0
    lost_bytes: int = 0
    doubtful_from: int | None = None
    tail: bytes | None = None


def repair_events(text: bytes, *, last: bool) -> Repaired:
    """Read the events of a stretch of the event list that does not decode.

    Args:
        text: begins at an event. It ends behind an event, or anywhere if it runs to the end of the file.
        last: whether it runs to the end of the file.
    """
    stretch = _Stretch(text, last)
    stretch.read()
    return stretch.out


def repair_object(text: bytes) -> tuple[dict[str, Any], dict[str, int]] | None:
    """The keys that can be read of a JSON object, and the repairs that took; None if it is no object at all."""
    begin = len(text) - len(text.lstrip())
    if text[begin : begin + 1] != b"{":
        return None
    if (whole := _decoded(text)) is not None:
        return whole, {}
    members: dict[str, Any] = {}
    faults: list[str] = []
    reader, at = Reader(text), begin + 1
    while key := _KEY.match(text, at):
        if key.group(1).count(b",") != (at > begin + 1):
            faults.append("trailing_comma" if key.group(1).count(b",") else "missing_comma")
        reading, member = reader.read(key.end()), None
        if reading and _VALUE_ENDS.match(text, reading.end):
            member = _decoded(b"{" + key.group(2) + reading.json + b"}")
        if reading and member is not None:
            members.update(member)
            faults += reading.faults
            at = reading.end
        else:
            faults.append("metadata")
            # It goes on behind the next bracket or quote that can end the value and has a key behind it.
            ending = _ENDINGS.get(text[key.end() : key.end() + 1], _BARE_ENDING).search(text, key.end() + 1)
            at = ending.end() if ending else len(text)
    rest = text[at:].strip()
    if rest != b"}":
        faults.append("trailing_comma" if rest.lstrip(b", \t\r\n") == b"}" else "metadata" if rest else "truncated")
    return members, dict(Counter(faults))


class _Event(NamedTuple):
    """An event that was read.

    Attributes:
        end: where it ends in the text.
        json: what it says.
        value: what that holds.
        faults: what was mended.
        doubtful: whether it is perhaps made of two events, so that what stood between them is gone.
    """

    end: int
    json: bytes
    value: dict[str, Any]
    faults: frozenset[str] = frozenset()
    doubtful: bool = False


class _Stretch:
    """One stretch of the event list while it is read."""

    def __init__(self, text: bytes, last: bool) -> None:
        self.out = Repaired()
        self._text = text
        self._last = last
        self._view = memoryview(text)
        self._reader = Reader(text)
        self._last_brace = text.rfind(b"}") + 1
        self._separator = (0, 0)  # from where it was searched, and the end of the event before it
        self._next_begin = -1  # of the first event behind the last place that this was asked of
        self._no_start_from = len(text)  # behind it no event starts

    def read(self) -> None:
        """Take events up to the end of the list or of the text."""
        text, at, sure = self._text, 0, True
        behind = 0  # the end of the event that was kept last
        unread, others = False, 0  # what stands between that and `at`
        while True:
            at = _GAP.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            closed = at < len(text) and bool(_END.match(text, at)) and not self._begins_behind(at)
            event = None
            if not closed and at < len(text):
                begin, event = at, self._event(at, sure)
                if event is None and (other := _OTHER_ELEMENT.match(text, at)):
                    at, others = other.end(), others + 1
                    continue
                if event is None:
                    at, event = self._next_event(at)
                    unread = True
                    at = at if event else max(at, begin + 1)
            if event is None and not closed and at < len(text):
                continue
            if unread or others:
                self._lose(behind, at, 0 if unread else others, closed)
            elif behind and (commas := text.count(b",", behind, at)) != (0 if closed else 1) and (event or closed):
                self.out.counts["trailing_comma" if commas else "missing_comma"] += 1
                if event:  # perhaps one stood between the commas, or its end here
                    self._doubt()
            if event is None:
                break
            self._keep(event)
            behind = at = event.end
            unread, others, sure = False, 0, not event.faults
        if closed:
            self.out.tail = text[at + 1 :]
        elif self._last:
            self.out.counts["truncated"] = 1

    def _event(self, begin: int, sure: bool) -> _Event | None:
        """The object at `begin`, as it stands or mended.

        It must look like an event unless it is sure that it begins one and nothing in it was mended.
        """
        if self._text[begin] != 0x7B:
            return None
        end = self._event_end(begin)
        fuel, value = self._reader.fuel, _decoded(self._view[begin:end])
        if value is not None and (sure or _is_event(value)):
            whole = sure or _FOLLOWED.match(self._text, end) or _is_complete(value)
            two = holds_two_events(self._text[begin:end])
            return _Event(end, self._text[begin:end], value) if whole and not two else None
        self._reader.fuel -= (end - begin) // _DECODED_FOR_ONE  # restored where the event can be mended
        reading = self._reader.read(begin)
        if reading is None or (value := _decoded(reading.json)) is None:
            return None
        if not _is_event(value) and (reading.faults or not sure):
            return None
        followed = _FOLLOWED_BY_EVENT if reading.faults else _FOLLOWED
        if not (followed.match(self._text, reading.end) or _is_complete(value)):
            return None
        if holds_two_events(reading.json, EVENT_KEYS):
            return None
        self._reader.fuel = fuel
        doubtful = _is_doubtful(value, reading, self._view[begin : reading.end])
        return _Event(reading.end, reading.json, value, reading.faults, doubtful)

    def _begins_behind(self, at: int) -> bool:
        """Whether an event begins somewhere behind a place."""
        if self._next_begin < at:
            begin = EVENT_BEGIN.search(self._text, at)
            self._next_begin = begin.start() if begin else len(self._text)
        return self._next_begin < len(self._text)

    def _event_end(self, begin: int) -> int:
        """End of the event at `begin` if nothing is wrong with it: the brace before the next separator."""
        searched, end = self._separator
        if not searched <= begin < end:
            separator = _SEPARATOR.search(self._text, begin)
            end = separator.start() + 1 if separator else len(self._text)
            self._separator = begin, end
        return self._last_brace if begin < self._last_brace < end else end

    def _next_event(self, begin: int) -> tuple[int, _Event | None]:
        """Where reading can go on after the unreadable text at `begin`, and the event there if it is one."""
        at, cut_short = begin + 1, self._text[begin] == 0x7B and self._reader.cut_short
        while at < self._no_start_from:
            start = (_EVENT_START if self._reader.fuel > 0 else _SEPARATED_START).search(self._text, at)
            if start is None:
                self._no_start_from = at
                break
            at = start.end(1)
            event = self._event(at - 1, sure=False)
            if event is not None:
                return at - 1, event
            cut_short |= self._reader.cut_short
            self._reader.fuel -= _ATTEMPT
        return (len(self._text) if cut_short else self._list_end(begin)), None

    def _list_end(self, begin: int) -> int:
        """The bracket behind the last event, which could not be read; the end of the text if there is none."""
        ends = [
            max(end.span(1), end.span(2)) for end in islice(_END_BEHIND_LOST.finditer(self._text, begin), _MAX_ENDS)
        ]
        for bracket, behind in ends:
            if self._reader.fuel <= 0:
                break
            if _decoded(b'{"":0' + self._text[behind:]) is not None:
                return bracket
            self._reader.fuel -= (len(self._text) - behind) // _DECODED_FOR_ONE
        return ends[0][0] if ends else len(self._text)

    def _keep(self, event: _Event) -> None:
        self._reader.keys.update(event.value)
        self.out.events.append(event.json)
        self.out.positions.append(self.out.pieces)
        self.out.pieces += 1
        self.out.counts.update(event.faults)
        if event.doubtful:
            self._doubt()

    def _lose(self, begin: int, end: int, others: int, closed: bool) -> None:
        """Count what stands between two kept events: `others` elements that are not events, or unreadable text."""
        text = self._text[begin:end].strip(b" \t\r\n,")
        events = others or _count_of_events(text)
        if not events:
            self.out.counts["damage"] += 1
        self.out.pieces += events
        self.out.lost_events += events
        self.out.lost_bytes += len(text)
        is_cut_off = end == len(self._text) and self._last and not closed
        if not (others or is_cut_off):
            self._doubt()

    def _doubt(self) -> None:
        if self.out.doubtful_from is None:
            self.out.doubtful_from = self.out.pieces


def holds_two_events(event: bytes, keys: Collection[str] = _ONCE) -> bool:
    """Whether an object is what is left of two events: it has one of the keys twice."""
    if keys is _ONCE and event.count(b'"ph"') < 2 and event.count(b'"ts"') < 2:
        return False
    found: list[str] = []

    def note(members: list[tuple[str, Any]]) -> None:
        found[:] = [key for key, _ in members if key in keys]  # of the outermost object in the end

    try:
        json.loads(event, object_pairs_hook=note, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return len(set(found)) < len(found)


def _count_of_events(text: bytes) -> int:
    """How many events unreadable text held at least: each has one phase and one time."""
    return max(text.count(b'"ph"'), text.count(b'"ts"')) or int(text.startswith(b"{"))


def _is_doubtful(value: dict[str, Any], reading: Reading, text: memoryview) -> bool:
    if value.get("ph") == "X" and not _is_complete(value):
        return True
    if "missing_comma" in reading.faults:  # behind it another event may go on
        return True
    return bool(_WRITTEN_OVER.search(text)) or ("quote" in reading.faults and _spans_events(reading.json))


def _spans_events(event: bytes) -> bool:
    """Whether a string that quotes were escaped in may span the end of one event and the begin of another.

    Brackets in names are closed there.
    """
    strings = (found.group() for found in _STRING.finditer(event))
    quoted = [one for one in strings if b'\\"' in one]
    return any(one.count(opening) != one.count(closing) for one in quoted for opening, closing in (b"()", b"[]", b"{}"))


def _is_complete(value: dict[str, Any]) -> bool:
    """Whether an event has what nobody writes an event that lasts without."""
    return all(value.get(key) is not None for key in _ALWAYS)


def _is_event(value: dict[str, Any]) -> bool:
    phase = value.get("ph")
    return isinstance(phase, str) and len(phase) == 1


def _decoded(text: bytes | memoryview) -> dict[str, Any] | None:
    """The object that a text is; None if it is none."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
