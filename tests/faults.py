"""Damage as it is met in practice, done to sound traces at places drawn at random.

A fault is a list of edits of the trace's text. An edit that only spoils the spelling also gives the sound
spelling of the same content, so that the damaged trace must load as that trace does. All other edits may cost
the events that they touch, and no others.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_TOKEN = re.compile(rb'"(?P<text>[ !#-\[\]-~]{2,})"(?!\s*:)|"(?:[^"\\]|\\.)*"|(?P<number>-?\d+(?:\.\d+)?)')


class Edit(NamedTuple):
    """Bytes begin..end become `broken`; `meant` spells the same soundly, None where content is lost."""

    begin: int
    end: int
    broken: bytes
    meant: bytes | None = None


class Trace:
    """The text of a sound trace and where its events stand.

    Attributes:
        data: the JSON text.
        spans: begin and end of each event.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        found = _EVENTS.search(data)
        assert found is not None
        events = msgspec.json.decode(data, type=dict[str, msgspec.Raw])["traceEvents"]
        at, self.spans = found.end(), list[tuple[int, int]]()
        for event in msgspec.json.decode(events, type=list[msgspec.Raw]):
            begin = data.index(event, at)
            at = begin + len(bytes(event))
            self.spans.append((begin, at))

    def place(self, rng: random.Random) -> int:
        """Any place in the event list."""
        return rng.randint(self.spans[0][0], self.spans[-1][1])

    def between(self, rng: random.Random) -> int:
        """The end of any event but the last."""
        return rng.choice(self.spans[:-1])[1]

    def tokens(self, rng: random.Random, kind: str) -> re.Match[bytes]:
        """Any `text` (a string value of plain letters) or `number` in an event."""
        while True:
            begin, end = rng.choice(self.spans)
            found = [match for match in _TOKEN.finditer(self.data, begin, end) if match[kind] is not None]
            if found:
                return rng.choice(found)

    def touched(self, edits: Sequence[Edit]) -> set[int]:
        """Numbers of the events that edits overlap or stand in."""
        return {
            number
            for number, (begin, end) in enumerate(self.spans)
            if any(edit.begin < end and edit.end > begin for edit in edits)
        }


def apply(data: bytes, edits: Sequence[Edit], *, meant: bool = False) -> bytes:
    """The text after the edits, which do not overlap, or after what was meant by them."""
    parts, at = [], 0
    for edit in sorted(edits):
        replacement = edit.meant if meant else edit.broken
        assert at <= edit.begin
        assert replacement is not None
        parts += (data[at : edit.begin], replacement)
        at = edit.end
    return b"".join((*parts, data[at:]))


def _in_text(trace: Trace, rng: random.Random, broken: bytes, meant: bytes) -> list[Edit]:
    text = trace.tokens(rng, "text")
    at = rng.randint(text.start("text"), text.end("text"))
    return [Edit(at, at, broken, meant)]


def bad_utf8(trace: Trace, rng: random.Random) -> list[Edit]:
    """A byte that is no UTF-8 in a string."""
    return _in_text(trace, rng, rng.choice((b"\xff", b"\xe9", b"\x80")), "\ufffd".encode())


def backslash(trace: Trace, rng: random.Random) -> list[Edit]:
    """A backslash that was meant literally."""
    letter = rng.choice((b"c", b"x", b"_", b"u12_", b" "))
    return _in_text(trace, rng, b"\\" + letter, b"\\\\" + letter)


def quote(trace: Trace, rng: random.Random) -> list[Edit]:
    """Quotes in a string, as in names of code made by a compiler."""
    inner = rng.choice(('{"device": "cpu", "dtype": "float32"}(12): run', 'Library("a", "b")', '"', 'say "so"'))
    return _in_text(trace, rng, inner.encode(), inner.replace('"', '\\"').encode())


def control(trace: Trace, rng: random.Random) -> list[Edit]:
    """A control character in a string."""
    char = rng.choice(("\n", "\t", "\0", "\x01", "\x1f"))
    return _in_text(trace, rng, char.encode(), f"\\u{ord(char):04x}".encode())


def non_finite(trace: Trace, rng: random.Random) -> list[Edit]:
    """A number that C++ wrote as infinite or undefined."""
    number = trace.tokens(rng, "number")
    spelling = rng.choice((b"inf", b"-inf", b"nan", b"-nan", b"NaN", b"Infinity", b"-Infinity", b"-nan(ind)"))
    return [Edit(number.start(), number.end(), spelling, b"null")]


def missing_value(trace: Trace, rng: random.Random) -> list[Edit]:
    """A key without a value."""
    while True:
        number = trace.tokens(rng, "number")
        if trace.data[: number.start()].rstrip().endswith(b":"):
            return [Edit(number.start(), number.end(), b"", b"null")]


def trailing_comma(trace: Trace, rng: random.Random) -> list[Edit]:
    """A comma before a bracket."""
    _, end = rng.choice(trace.spans)
    return [Edit(end - 1, end - 1, rng.choice((b",", b", ", b" ,\n")), b"")]


def doubled_comma(trace: Trace, rng: random.Random) -> list[Edit]:
    """An event too few between two commas."""
    at = trace.between(rng)
    return [Edit(at, at, b",", b"")]


def log_line(trace: Trace, rng: random.Random) -> list[Edit]:
    """Words of another writer between two events."""
    lines = (
        b",\n[W1103 12:00:03 CuptiActivityProfiler.cpp:1145] 3 records dropped\n",
        b'\nWARNING: device {0} says "what?"\n',
        b"\0" * 600,
        b"]}",
    )
    at = trace.between(rng)
    return [Edit(at, at, rng.choice(lines), b"")]


def cut(trace: Trace, rng: random.Random) -> list[Edit]:
    """The end is missing."""
    return [Edit(trace.place(rng), len(trace.data), b"")]


def hole(trace: Trace, rng: random.Random) -> list[Edit]:
    """A stretch is missing."""
    begin = trace.place(rng)
    return [Edit(begin, min(begin + rng.choice((1, 2, 10, 100, 1000, 5000)), trace.spans[-1][1]), b"")]


def zeros(trace: Trace, rng: random.Random) -> list[Edit]:
    """A stretch was never written."""
    [(begin, end, _, _)] = hole(trace, rng)
    return [Edit(begin, end, b"\0" * (end - begin))]


def noise(trace: Trace, rng: random.Random) -> list[Edit]:
    """A stretch was overwritten."""
    [(begin, end, _, _)] = hole(trace, rng)
    return [Edit(begin, end, bytes(rng.choices(b'{}[]":,\\ \n0aph\xc3', k=end - begin)))]


def insertion(trace: Trace, rng: random.Random) -> list[Edit]:
    """A few characters too many."""
    at = trace.place(rng)
    return [Edit(at, at, bytes(rng.choices(b'{}[]":,\\ \n0aph\xc3', k=rng.randint(1, 9))))]


Fault = Callable[[Trace, random.Random], list[Edit]]

SPELLING: tuple[Fault, ...] = (
    bad_utf8, backslash, quote, control, non_finite, missing_value, trailing_comma, doubled_comma, log_line,
)  # fmt: skip
"""Faults that cost nothing."""

LOSSES: tuple[Fault, ...] = (cut, hole, zeros, noise, insertion)
"""Faults that may cost what they touch."""


def several(faults: Sequence[Fault], trace: Trace, rng: random.Random, count: int) -> list[Edit]:
    """Edits of several faults, no two of them in the same event or in neighbours."""
    edits: list[Edit] = []
    taken: set[int] = set()
    while len(edits) < count:
        [edit] = rng.choice(faults)(trace, rng)
        # An edit between events is near to both.
        near = trace.touched([Edit(edit.begin - 32, edit.end + 32, b"")])
        if not near & taken:
            taken |= {number + step for number in near for step in (-1, 0, 1)}
            edits.append(edit)
    return edits
