"""A tolerant reader of JSON values, for the faults that profilers write.

It walks a value token by token and notes edits to its text: only what is broken changes. Where a string ends is
the one question without a sure answer, because names were written without escaping their quotes. A quote ends
a string if JSON goes on behind it; of several such quotes the best is one followed by a key of trace events, or
one that leaves the brackets inside the string balanced, as in the name `{"device": "cpu", "dtype": "float"}(1): f`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EVENT_KEYS = frozenset(
    (
        *("ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "id2", "bp", "s", "tts", "tdur", "scope"),
        *("local", "sf", "esf", "stack", "estack", "cname", "bind_id", "flow_in", "flow_out"),
    )
)
"""Keys of an event in the Chrome trace format."""

_LARGEST = 4 << 20
"""Bytes of an event that is mended."""
_MAX_DEPTH = 256
_MAX_STRING = 1 << 16
_MOST_EDITS = 1 << 17

# The engine remembers about 120 bytes for each round of a group, so that no group may go round without end.
_SOME = "{0,1024}"
_PLAIN = r'"[^"\\\x00-\x1f]*+"'
# Groups are made atomic by (?>...), not by a possessive quantifier: early releases of Python 3.11 get those wrong.
_NUMBER = r"-?(?:0|[1-9]\d{0,17}+)(?>(?:\.\d{1,40}+)?)(?>(?:[eE][+-]?\d{1,2})?)"
_SCALAR = rf"(?:{_PLAIN}|{_NUMBER}|true|false|null)"
_LIST = rf"\[\s*+(?>(?:{_SCALAR}(?>(?:\s*+,\s*+{_SCALAR}){_SOME}))?)\s*+\]"
_LISTS = rf"\[\s*+(?>(?:{_LIST}(?>(?:\s*+,\s*+{_LIST}){_SOME}))?)\s*+\]"
_ITEM_START = r'(?:["{\[\d.+-]|true|false|null|(?i:nan|inf))'
QUOTED = rf'"[^"\\]*+(?>(?:\\.[^"\\]*+){_SOME})"'
"""A string; one with more escapes than any key has does not match."""
_KEY = rf"{QUOTED}\s*+:"


def _compile(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.DOTALL)


# Members and items without fault, each with its comma and what must follow that: taken in one step.
_MEMBERS = _compile(rf"(?>(?:\s*+{_PLAIN}\s*+:\s*+(?:{_SCALAR}|{_LIST}|{_LISTS})\s*+,(?=\s*+{_KEY})){{1,1024}})")
_ITEMS = _compile(rf"(?>(?:\s*+{_SCALAR}\s*+,(?=\s*+{_ITEM_START})){{1,1024}})")
_SOUND = {"key": _MEMBERS, "item": _ITEMS}
_TOKEN = _compile(r"""\s*+(?:([{\[])|([}\]])|(,)|(:)|(")|([^\s"{}\[\],:]++))""")
_OPEN, _CLOSE, _COMMA, _COLON, _QUOTE, _WORD = range(1, 7)

_MARK = re.compile(rb'["{}()\[\]]')
_BRACKETS = {0x28: 0x29, 0x5B: 0x5D, 0x7B: 0x7D}
_COLON_AHEAD = _compile(r"\s*+:")
_KEY_AHEAD = _compile(_KEY)

# What follows a string value where nothing is wrong, and what must follow a quote that stands for its end.
_AFTER = {
    "key": _COLON_AHEAD,
    "value": _compile(rf"\s*+(?:,[\s,]*+(?:{_KEY}|\}})|\}})"),
    "item": _compile(rf"\s*+(?:,[\s,]*+(?:{_ITEM_START}|\])|\])"),
}
_SURELY_AFTER = {
    "key": _compile(r"\s*+()(?=:)"),
    "value": _compile(r'(?:\s*+,[\s,]*+"([^"\\]*+)"\s*+:|[\s,]*+\}\s*+(?:[,}\]]|\Z))'),
    "item": _compile(rf"()(?:\s*+,[\s,]*+{_ITEM_START}|[\s,]*+\]\s*+(?:[,}}\]]|\Z))"),
}

_FIRST_MEMBERS = rf'\{{(?:\s*+"[^"\\]*+"\s*+:\s*+(?:{QUOTED}|[-+.\w]++)\s*+,){{0,64}}?\s*+'
EVENT_BEGIN = _compile(rf'{_FIRST_MEMBERS}"ph"\s*+:')
"""An object that is a trace event, by the key that every event has."""
TAIL_KEY = rb'"(?:traceName|displayTimeUnit|baseTimeNanoseconds|distributedInfo|schemaVersion|INFO|ERROR|WARNING)"\s*+:'
"""A key that writers put behind the event list."""
# The next event, or what follows the last one: all strings of this event have ended before it.
_FRONTIER = _compile(rf'{_FIRST_MEMBERS}(?:"ph"\s*+:|"args"\s*+:\s*+\{{)|\]\s*+,\s*+{TAIL_KEY.decode()}')

_UNSAFE = re.compile(rb'["\\\x00-\x1f]')
_ESCAPE = _compile(
    r'(\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})'
    r'|(\\u[0-9a-fA-F]{4})|(\\)|(")|([\x00-\x1f])'
)
_LONE_SURROGATE, _BACKSLASH, _RAW_QUOTE, _CONTROL = 2, 3, 4, 5

_FULL_NUMBER = _compile(r"-?(?:0|[1-9]\d*+)(?>(?:\.\d++)?)(?>(?:[eE][+-]?\d++)?)")
_NON_FINITE = re.compile(rb"[+-]?(?:inf(?:inity)?|s?nan(?:\([^()]*\))?|1\.#\w+)", re.IGNORECASE)
_LITERALS = (b"true", b"false", b"null")
_BACKSLASH_BYTE = 0x5C


@dataclass(frozen=True)
class Reading:
    """A value that was read: where it ends in the text, the JSON made of it, and the faults mended for that."""

    end: int
    json: bytes
    faults: frozenset[str]


def string_end(text: bytes, begin: int) -> int:
    """Where the string ends whose quote is at `begin`; -1 if it does not."""
    at = begin + 1
    while (quote := text.find(b'"', at)) >= 0:
        if text[quote - 1] != _BACKSLASH_BYTE:
            return quote + 1
        piece = text[at:quote]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 0:
            return quote + 1
        at = quote + 1
    return -1


class Reader:
    """Reads values of a text that holds faults.

    Attributes:
        keys: names known as keys of events; more may be added.
        fuel: bytes that may still be looked at. Every attempt to read takes some, so that a text in which
            attempt after attempt fails costs no more than one that reads well.
        cut_short: whether the last value read was still sound where the text ended.
    """

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.keys: set[str] = set(EVENT_KEYS)
        self.fuel = 2 * len(text) + (1 << 16)
        self.cut_short = False
        self._edits: list[tuple[int, int, bytes]] = []
        self._faults: set[str] = set()
        self._inside = (0, 0)  # a stretch known to hold no frontier
        self._limit = len(text)
        self._third_last_quote = len(text)
        for _ in range(3):
            self._third_last_quote = text.rfind(b'"', 0, max(self._third_last_quote, 0))

    def read(self, start: int) -> Reading | None:
        """The value at `start` (no white space before it); None if it is not clear where it ends or what it says."""
        self._edits, self._faults, self.cut_short = [], set(), False
        if self.fuel <= 0:
            return None
        self.fuel -= 64
        self._limit = start + _LARGEST
        end, reach = self._walk(start)
        self.fuel -= reach - start
        if end < 0:
            return None
        parts: list[bytes] = []
        at = start
        for begin, stop, replacement in self._edits:
            parts += (self.text[at:begin], replacement)
            at = stop
        json = b"".join((*parts, self.text[at:end]))
        try:
            str(json, "utf-8")
        except UnicodeDecodeError:
            json = json.decode(errors="replace").encode()
            self._faults.add("bad_utf8")
        return Reading(end, json, frozenset(self._faults))

    def _walk(self, start: int) -> tuple[int, int]:
        """End of the value at `start` or -1, and how far it was looked at."""
        text = self.text
        open_brackets: list[int] = []
        expected, comma, at = "value", -1, start
        while token := _TOKEN.match(text, at):
            if token.end() > self._limit or len(self._edits) > _MOST_EDITS:
                return -1, token.end()
            kind, where, at = token.lastindex, token.start(token.lastindex or 0), token.end()
            inside = open_brackets[-1] if open_brackets else 0
            if kind == _QUOTE:
                if expected == "more" and inside == 0x7B and _KEY_AHEAD.match(text, where):
                    self._edit(where, where, b",", "missing_comma")
                    expected = "key"
                if expected == "more":
                    return -1, at
                at, reach = self._string(where, expected, len(open_brackets))
                if at < 0:
                    return -1, reach
                if expected == "key":
                    colon = _COLON_AHEAD.match(text, at)
                    assert colon is not None  # it is what ended the string
                    at = colon.end()
                expected = "value" if expected == "key" else "more"
            elif kind == _WORD:
                if expected not in ("value", "item"):
                    return -1, at
                self._word(where, at)
                expected = "more"
            elif kind == _OPEN:
                if expected not in ("value", "item") or len(open_brackets) == _MAX_DEPTH:
                    return -1, at
                if expected == "item" and EVENT_BEGIN.match(text, where):
                    return -1, at  # the list lost its end, and this is the next event
                open_brackets.append(text[where])
                expected, comma = ("key", -1) if text[where] == 0x7B else ("item", -1)
            elif kind == _COLON or not open_brackets:
                return -1, at
            else:
                if expected == "value":
                    self._edit(where, where, b"null", "missing_value")
                if kind == _COMMA and expected in ("key", "item"):
                    self._edit(where, at, b"", "trailing_comma")
                elif kind == _COMMA:
                    comma, expected = where, "key" if inside == 0x7B else "item"
                elif _BRACKETS[inside] != text[where]:
                    return -1, at
                else:
                    if expected in ("key", "item") and comma >= 0:
                        self._edit(comma, comma + 1, b"", "trailing_comma")
                    open_brackets.pop()
                    expected = "more"
            if expected == "more" and not open_brackets:
                return at, at
            sound = _SOUND.get(expected)
            if sound and (run := sound.match(text, at)):
                at = run.end()
                comma = at - 1
        self.cut_short = True
        return -1, len(text)

    def _edit(self, begin: int, end: int, replacement: bytes, fault: str) -> None:
        self._edits.append((begin, end, replacement))
        self._faults.add(fault)

    def _word(self, begin: int, end: int) -> None:
        """A bare word as a value: a number, a literal, or nothing that JSON knows."""
        word = self.text[begin:end]
        if word in _LITERALS:
            return
        if _FULL_NUMBER.fullmatch(word) and len(word) < 300:
            if abs(float(word)) == float("inf"):
                self._edit(begin, end, b"null", "non_finite")
        else:
            self._edit(begin, end, b"null", "non_finite" if _NON_FINITE.fullmatch(word) else "bad_value")

    def _string(self, begin: int, role: str, depth: int) -> tuple[int, int]:
        """End of the string that begins with the quote at `begin` or -1, and how far it was looked at."""
        simple = string_end(self.text, begin)
        if simple > 0 and _AFTER[role].match(self.text, simple):
            end = reach = simple
        else:
            end, reach = self._quoted_end(begin, role, depth)
            if end < 0:
                # Two quotes more are at most the begin of a key.
                self.cut_short = simple < 0 or simple > self._third_last_quote
                return end, reach
        if end > self._limit:
            return -1, end
        content = self.text[begin + 1 : end - 1]
        if _UNSAFE.search(content) and (sound := self._sound(content)) != content:
            self._edits.append((begin + 1, end - 1, sound))
        return end, reach

    def _quoted_end(self, begin: int, role: str, depth: int) -> tuple[int, int]:
        """The same for a string that holds quotes."""
        after, keys = _SURELY_AFTER[role], self.keys if depth == 1 else ()
        limit = min(self._frontier(begin), begin + _MAX_STRING, begin + self.fuel)
        open_brackets: list[int] = []
        balance_decides, first, reach = True, -1, limit
        for mark in _MARK.finditer(self.text, begin + 1, limit):
            char = mark.group()[0]
            if char in _BRACKETS:
                open_brackets.append(_BRACKETS[char])
            elif char != 0x22:
                balance_decides &= bool(open_brackets) and open_brackets.pop() == char
            elif follower := after.match(self.text, mark.end()):
                key = follower.group(1)
                sure = not (balance_decides and open_brackets) or (key and key.decode(errors="replace") in keys)
                if sure or (first < 0 and self.text[mark.start() - 1] != 0x5C):
                    first = mark.end()
                balance_decides &= not sure
            if first >= 0 and not balance_decides:
                reach = mark.end()
                break
        self.fuel -= reach - begin
        return first, reach

    def _frontier(self, at: int) -> int:
        """Where the event around `at` must have ended."""
        begin, end = self._inside
        if not begin <= at < end:
            found = _FRONTIER.search(self.text, at + 1)
            end = found.start() + 1 if found else len(self.text)
            self.fuel -= (end - at) // 8
            self._inside = at, end
        return end

    def _sound(self, content: bytes) -> bytes:
        """What stands in a string, with everything escaped that has to be."""
        out, at = bytearray(), 0
        for match in _ESCAPE.finditer(content):  # `sub` would hold all pieces at once
            out += content[at : match.start()]
            out += self._escaped(match)
            at = match.end()
        return bytes(out + content[at:])

    def _escaped(self, match: re.Match[bytes]) -> bytes:
        kind = match.lastindex
        if kind == _LONE_SURROGATE:
            self._faults.add("bad_utf8")
            return b"\\ufffd"
        if kind == _BACKSLASH:
            self._faults.add("backslash")
            return b"\\\\"
        if kind == _RAW_QUOTE:
            self._faults.add("quote")
            return b'\\"'
        if kind == _CONTROL:
            self._faults.add("control")
            return b"\\u%04x" % match.group()[0]
        return match.group()
