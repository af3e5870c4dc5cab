"""JAX profiles read and written the plain way: varint by varint, message by message. Nothing of the loader is used."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


def varint(value: int) -> bytes:
    out, value = bytearray(), value & (2**64 - 1)
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0

    def read() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = read()
        if tag & 7 == 0:
            yield tag >> 3, read()
        else:
            size = read() if tag & 7 == 2 else {1: 8, 5: 4}[tag & 7]
            yield tag >> 3, data[at : at + size]
            at += size


def message(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for field, value in fields(data):
        found[field].append(value)
    return found


def first(found: dict[int, list[Any]], field: int, default: Any = 0) -> Any:
    return found[field][0] if found[field] else default


def signed(value: int) -> int:
    return value - 2**64 if value >> 63 else value


class Event(NamedTuple):
    plane: str
    line: str
    line_id: int
    name: str
    start_ps: int
    duration_ps: int
    stats: dict[str, Any]


def table(entries: list[bytes]) -> dict[int, dict[int, list[Any]]]:
    pairs = [message(entry) for entry in entries]
    return {first(pair, 1): message(first(pair, 2, b"")) for pair in pairs}


def value_of(stat: dict[int, list[Any]], names: dict[int, str]) -> Any:
    if stat[2]:
        return struct.unpack("<d", stat[2][0])[0]
    if stat[7]:
        return names[stat[7][0]]
    if stat[5]:
        return stat[5][0].decode("utf-8", "replace")
    return first(stat, 3) or signed(first(stat, 4))


def events(data: bytes) -> list[Event]:
    """All events of a profile, in file order."""
    found = []
    for plane in map(message, message(data)[1]):
        names = {key: first(one, 2, b"").decode() for key, one in table(plane[5]).items()}
        known = {key: first(one, 2, b"").decode("utf-8", "replace") for key, one in table(plane[4]).items()}
        for line in map(message, plane[3]):
            lane = (first(line, 11, b"") or first(line, 2, b"")).decode()
            for event in map(message, line[4]):
                stats = {names[first(one, 1)]: value_of(one, names) for one in map(message, event[4])}
                start = first(line, 3) * 1000 + first(event, 2)
                found.append(
                    Event(first(plane, 2).decode(), lane, first(line, 1), known[first(event, 1)], start,
                          first(event, 3), stats)
                )  # fmt: skip
    return found


def read(path: Path) -> list[Event]:
    return events(path.read_bytes())


class Plane:
    """A plane that is being written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[bytes] = []
        self._events: dict[str, int] = {}
        self._stats: dict[str, int] = {}
        self._metadata: list[bytes] = []
        self.stats: list[bytes] = []

    def _code(self, codes: dict[str, int], text: str) -> int:
        return codes.setdefault(text, len(codes) + 1)

    def stat(self, name: str, value: int | str | bytes | float) -> bytes:
        """A statistic; a text that begins with & is a reference to a name."""
        head = number(1, self._code(self._stats, name))
        if isinstance(value, float):
            return head + varint(2 << 3 | 1) + struct.pack("<d", value)
        if isinstance(value, int):
            return head + (number(3, value) if value else b"")
        if isinstance(value, bytes):
            return head + block(6, value)
        return head + (number(7, self._code(self._stats, value[1:])) if value[:1] == "&" else block(5, value))

    def event(self, name: str, start_ps: int, duration_ps: int, **stats: int | str | bytes | float) -> bytes:
        told = b"".join(block(4, self.stat(key, value)) for key, value in stats.items())
        return number(1, self._code(self._events, name)) + number(2, start_ps) + number(3, duration_ps) + told

    def line(self, id: int, name: str, start_ns: int, *events: bytes) -> None:
        head = number(1, id) + block(2, name) + number(3, start_ns)
        self.lines.append(head + b"".join(block(4, event) for event in events))

    def program(self, number_: int, name: str, proto: bytes) -> None:
        told = number(1, number_) + block(2, name) + block(5, self.stat("Hlo Proto", proto))
        self._metadata.append(block(4, number(1, number_) + block(2, told)))

    def written(self) -> bytes:
        metadata = [
            block(4, number(1, i) + block(2, number(1, i) + block(2, name))) for name, i in self._events.items()
        ]
        names = [block(5, number(1, i) + block(2, number(1, i) + block(2, name))) for name, i in self._stats.items()]
        lines = [block(3, line) for line in self.lines]
        stats = [block(6, stat) for stat in self.stats]
        return block(1, b"".join((block(2, self.name), *lines, *metadata, *self._metadata, *names, *stats)))


def written(*planes: Plane) -> bytes:
    return b"".join(plane.written() for plane in planes) + block(4, "a-host-name")
