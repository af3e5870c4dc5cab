"""A profile as it is written: planes (a device, the host, programs), their lines (a stream, a thread) and events.

Fields are those of XLA's `xplane.proto`. Names of events and statistics stand once per plane, behind its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracelens_graph.errors import DamagedBytesError
from tracelens_graph.loaders.xplane.lockstep import EVENT_TAG, Block, blocks
from tracelens_graph.loaders.xplane.wire import BYTES, VARINT, Buffer, double, fields, signed, text, varint

_PLANE = 1 << 3 | BYTES
_EVENT = bytes((EVENT_TAG,))

Span = tuple[int, int]
"""Where a message begins and ends in the file."""


@dataclass(frozen=True)
class Metadata:
    """What events of one name share.

    Attributes:
        name: their name.
        display: what viewers show instead; "" for the name.
        stats: statistics of all of them, where these stand in the file.
    """

    name: str
    display: str = ""
    stats: tuple[Span, ...] = ()


@dataclass
class Plane:
    """A plane.

    Attributes:
        name: such as `/device:GPU:0` or `/host:CPU`.
        lines: where its lines stand.
        events: number of a name -> the metadata of events of that name.
        stat_names: number -> name of a statistic, or the text that one refers to.
        stats: statistics of the plane.
        is_cut: whether the file ends within it, so that names lack.
        lost_bytes: bytes behind damage in it, or of no plane.
    """

    name: str = ""
    lines: list[Span] = field(default_factory=list)
    events: dict[int, Metadata] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: list[Span] = field(default_factory=list)
    is_cut: bool = False
    lost_bytes: int = 0


@dataclass
class Line:
    """A line: what is known of it once its events have been read.

    Attributes:
        id: its number: of a device the stream.
        name: its name; what viewers show, where that is given.
        start_ns: what its events' offsets count from, ns since the profile's start.
        lost_bytes: bytes at its end that could not be read.
    """

    id: int = 0
    name: str = ""
    start_ns: int = 0
    lost_bytes: int = 0


def planes(data: Buffer) -> Iterator[Plane]:
    """The planes of a file, one after the other; the last one may be cut.

    Raises:
        DamagedBytesError: the file ends within a plane, or damage hides where the next one begins.
    """
    at, end = 0, len(data)
    while at < end:
        try:
            number, wire, value, following = next(fields(data, at, end))
        except DamagedBytesError:
            if (cut := _cut_plane(data, at, end)) is not None:
                cut.is_cut = True
                yield cut
            raise
        if number == 1 and wire == BYTES:
            yield _plane(data, value, following)
        at = following


def _cut_plane(data: Buffer, at: int, end: int) -> Plane | None:
    """The beginning of a plane whose end is missing."""
    try:
        tag, begin = varint(data, at, end)
        _, begin = varint(data, begin, end)
    except DamagedBytesError:
        return None
    return _plane(data, begin, end) if tag == _PLANE else None


def _plane(data: Buffer, begin: int, end: int) -> Plane:
    plane, at = Plane(), begin
    try:
        for number, wire, value, after in fields(data, begin, end):
            at = after
            if wire != BYTES:
                continue
            if number == 2:
                plane.name = text(data, value, after)
            elif number == 3:
                plane.lines.append((value, after))
            elif number in (4, 5):
                _add_entry(data, plane, number, (value, after))
            elif number == 6:
                plane.stats.append((value, after))
    except DamagedBytesError:
        plane.lost_bytes += end - at
    return plane


def _add_entry(data: Buffer, plane: Plane, number: int, where: Span) -> None:
    """Add metadata of events, or the name of a statistic; of what is damaged, its bytes are counted."""
    try:
        key, span = _entry(data, *where)
        if number == 4:
            plane.events[key] = _metadata(data, *span)
        else:
            plane.stat_names[key] = _stat_name(data, *span)
    except DamagedBytesError:
        plane.lost_bytes += where[1] - where[0]


def _entry(data: Buffer, begin: int, end: int) -> tuple[int, Span]:
    key, span = 0, (begin, begin)
    for number, wire, value, after in fields(data, begin, end):
        if number == 1 and wire == VARINT:
            key = signed(value)
        elif number == 2 and wire == BYTES:
            span = value, after
    return key, span


def _metadata(data: Buffer, begin: int, end: int) -> Metadata:
    name = display = ""
    stats = []
    for number, wire, value, after in fields(data, begin, end):
        if wire != BYTES:
            continue
        if number == 2:
            name = text(data, value, after)
        elif number == 4:
            display = text(data, value, after)
        elif number == 5:
            stats.append((value, after))
    return Metadata(name, display, tuple(stats))


def _stat_name(data: Buffer, begin: int, end: int) -> str:
    found = (text(data, value, after) for number, _, value, after in fields(data, begin, end) if number == 2)
    return next(found, "")


def line_events(data: Buffer, begin: int, end: int, wanted: np.ndarray, found: Line) -> Iterator[Block]:
    """The events of a line, block by block; of a damaged one those before the damage.

    Args:
        data: the file.
        begin, end: where it stands.
        wanted: numbers of the names of statistics of its events that are read.
        found: filled with what is known of the line when the last block was given.
    """
    display, at = "", begin
    try:
        while at < end:
            if data[at : at + 1] == _EVENT:
                before = at
                for block in blocks(data, at, end, wanted):
                    yield block
                    at = block.stop
                if at == before:
                    raise DamagedBytesError
                continue
            number, wire, value, at = next(fields(data, at, end))
            if number == 1 and wire == VARINT:
                found.id = signed(value)
            elif number == 2 and wire == BYTES:
                found.name = text(data, value, at)
            elif number == 3 and wire == VARINT:
                found.start_ns = signed(value)
            elif number == 11 and wire == BYTES:
                display = text(data, value, at)
    except DamagedBytesError:
        found.lost_bytes = end - at
    found.name = display or found.name


def stat(data: Buffer, span: Span, names: Mapping[int, str]) -> tuple[str, Any]:
    """Name and value of one statistic; bytes as their place in the file."""
    key, found = 0, 0
    value: Any = 0
    for number, wire, found, after in fields(data, *span):
        if number == 1 and wire == VARINT:
            key = found
        elif number == 2:
            value = double(data, found)
        elif number in (3, 4) and wire == VARINT:
            value = found if number == 3 else signed(found)
        elif number == 5 and wire == BYTES:
            value = text(data, found, after)
        elif number == 6 and wire == BYTES:
            value = (found, after)
        elif number == 7 and wire == VARINT:
            value = names.get(found, "")
    return names.get(key, ""), value


def stats_of(data: Buffer, spans: Iterable[Span], names: Mapping[int, str]) -> dict[str, Any]:
    """Statistics by name; damaged ones are left out."""
    found = {}
    for span in spans:
        try:
            name, value = stat(data, span, names)
        except DamagedBytesError:
            continue
        found[name] = value
    return found
