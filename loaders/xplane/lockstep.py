"""Events of a line, read side by side: the first fields of thousands of events at once, then their second ones.

An event is a message of a few numbers and of statistics, which are messages themselves. Where events begin is found by
a loop over their sizes; what stands in them, by numpy.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tracelens_graph.errors import DamagedBytesError
from tracelens_graph.loaders.xplane.wire import BYTES, Buffer, varint
from tracelens_graph.utils.arrays import Codes, Mask

BLOCK = 1 << 22
"""Bytes that are read at a time: about as many events as arrays of numpy pay for and caches hold."""

MARKED = 1024
"""Of so many events that follow one another the place of the first is kept."""

EVENT_TAG = 4 << 3 | BYTES
"""What stands before each event of a line."""
_SLACK = 16
"""Zero bytes behind a block, so that reading beyond its last event finds something."""

_MOST_SHIFT = 63

ID, OFFSET, DURATION, STAT, COUNT = 1, 2, 3, 4, 5
"""Fields of an event."""


@dataclass(frozen=True)
class Stats:
    """Statistics of one name.

    Attributes:
        event: position of the event of each among the events of the block.
        field: which field of the message holds the value: 2 a double, 3 and 4 whole numbers, 5 a text, 6 bytes, 7 the
            number of a name that is the text; 0 where there is none, which means zero.
        value: the number; of a text, bytes or double the place in the file where it begins.
        end: of a text or bytes the place where it ends.
    """

    event: np.ndarray
    field: np.ndarray
    value: np.ndarray
    end: np.ndarray


@dataclass(frozen=True)
class Block:
    """Events that follow one another.

    Attributes:
        name: number of the metadata of each, which holds its name.
        offset_ps: start since the line's, ps.
        duration_ps: duration, ps.
        tags: places in the file of the tags of every `MARKED`-th event.
        sound: whether it could be read.
        stop: place in the file behind the last of them.
        stats: number of the name of a statistic -> those of that name.
    """

    name: Codes
    offset_ps: np.ndarray
    duration_ps: np.ndarray
    tags: np.ndarray
    sound: Mask
    stop: int
    stats: Mapping[int, Stats]


def blocks(data: Buffer, begin: int, end: int, wanted: np.ndarray) -> Iterator[Block]:
    """The events from a place on that follow one another with nothing between them.

    Args:
        data: the file.
        begin: where the first one begins, with its tag.
        end: where the line ends.
        wanted: numbers of the names of statistics that are read.
    """
    at, size = begin, BLOCK
    while at < end:
        piece = data[at : min(at + size, end)]
        if not piece:
            return
        tags, stop = _bounds(piece)
        if not len(tags):
            if stop or at + len(piece) == end:
                return
            size *= 2  # an event that is larger than a block
            continue
        yield _read(piece, tags, stop, at, wanted)
        if at + len(piece) == end or (stop < len(piece) and piece[stop] != EVENT_TAG):
            return
        at, size = at + stop, BLOCK


def _bounds(piece: bytes) -> tuple[np.ndarray, int]:
    """Where tags of events stand that follow one another, and the place behind the last whole one."""
    tags = array("i")
    add = tags.append
    at, end = 0, len(piece)
    # Sizes alone are followed, which is quicker; where they led to something else is seen afterwards.
    try:
        while True:
            size = piece[at + 1]
            add(at)
            if size > 127:
                size, at = varint(piece, at + 1, end)
                at += size
            else:
                at += size + 2
    except (IndexError, DamagedBytesError):
        # The piece ends here, or within a tag or a size.
        if tags and at == tags[-1]:
            tags.pop()
    if at > end:
        # The piece ends within the last event: the next block begins with it.
        at = tags.pop()
    places = np.array(tags, np.int32)
    other = np.flatnonzero(np.frombuffer(piece, np.uint8)[places] != EVENT_TAG)
    if len(other):
        at, places = int(places[other[0]]), places[: other[0]]
    return places, at


class _Piece:
    """Bytes in which many numbers are read at once."""

    def __init__(self, piece: bytes) -> None:
        self.bytes = np.frombuffer(piece + bytes(_SLACK), np.uint8)

    def varints(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers at some places, and the places behind them; of one that does not end, a place far behind."""
        byte = self.bytes[at]
        value = (byte & 127).astype(np.uint64)
        after = at + 1
        going = np.flatnonzero(byte > 127)
        shift = 7
        while len(going):
            if shift > _MOST_SHIFT:
                after[going] = np.iinfo(np.int32).max // 2
                break
            place = after[going]
            # The last byte is zero, and so ends a number that runs off the piece.
            byte = self.bytes[np.minimum(place, len(self.bytes) - 1)]
            value[going] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            after[going] = place + 1
            going = going[byte > 127]
            shift += 7
        return value, after


def _read(piece: bytes, tags: np.ndarray, stop: int, origin: int, wanted: np.ndarray) -> Block:
    count = len(tags)
    source = _Piece(piece)
    first = source.varints(tags + 1)[1]
    last = np.append(tags[1:], np.int32(stop))  # an event's tag stands where the one before ends
    may_have = _with_pattern(source.bytes, tags, wanted)
    found = np.zeros((6, count), np.uint64)
    sound = np.ones(count, bool)
    of, begins, ends = [], [], []
    events = np.flatnonzero(last > first)
    at, end = first[events], last[events]
    while len(events):
        tag = source.bytes[at]
        number, wire = tag >> 3, tag & 7
        value, after = source.varints(at + 1)
        is_bytes = wire == BYTES
        if is_bytes.any():
            room = end - after
            fits = value <= np.maximum(room, 0).astype(np.uint64)
            begin = after
            after = after + np.where(is_bytes & fits, value, 0).astype(np.int32)
            stat = np.flatnonzero(is_bytes & fits & (number == STAT))
            of.append(events[stat])
            begins.append(begin[stat])
            ends.append(after[stat])
            bad = (is_bytes & ~fits) | (after > end) | ~(is_bytes | (wire == 0)) | (tag > 127)
        else:
            bad = (after > end) | (wire != 0) | (tag > 127)
        numeric = ~is_bytes & (number <= COUNT)
        if numeric.all():
            found[number, events] = value
        else:
            picked = np.flatnonzero(numeric)
            found[number[picked], events[picked]] = value[picked]
        if bad.any():
            sound[events[bad]] = False
            after = np.where(bad, end, after)
        # Behind the duration nothing but statistics stands; those of most events are not wanted.
        going = (after < end) & (may_have[events] | (number < DURATION))
        if not going.all():
            events, after, end = events[going], after[going], end[going]
        at = after
    # A count stands in place of a start: such an event sums up several, and lies nowhere in time.
    sound &= found[COUNT] == 0
    none = np.zeros(0, np.int32)
    where = [np.concatenate((none, *parts)) for parts in (of, begins, ends)]
    stats = _stats(source, where[0], where[1], where[2], origin, wanted)
    numbers, marked = found.view(np.int64), tags[::MARKED] + np.int64(origin)
    return Block(numbers[ID], numbers[OFFSET], numbers[DURATION], marked, sound, origin + stop, stats)


def _with_pattern(data: np.ndarray, tags: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which events may have a statistic that is wanted: those in which bytes stand as at the beginning of one.

    That is a tag, a size, a tag, the number of the name. Other bytes can look alike, so this says no more than "may".
    """
    if not len(wanted):
        return np.zeros(len(tags), bool)
    low = np.zeros(256, bool)
    # Only the first byte of a number is compared; of a longer one its high bit is set.
    low[np.where(wanted < 128, wanted, wanted & 127 | 128)] = True
    found = np.zeros(len(tags), bool)
    # A statistic of 128 bytes and more has a size of two bytes or more.
    for size in (1, 2):
        places = np.flatnonzero((data[: -2 - size] == EVENT_TAG) & (data[1 + size : -1] == 8))
        places = places[low[data[places + 2 + size]]]
        found[np.searchsorted(tags, places, "right") - 1] = True
    return found


def _stats(
    source: _Piece, event: np.ndarray, begin: np.ndarray, end: np.ndarray, origin: int, wanted: np.ndarray
) -> dict[int, Stats]:
    """Those statistics whose name is wanted; their name stands first in them, as every writer writes it."""
    if not len(event) or not len(wanted):
        return {}
    name, after = source.varints(np.minimum(begin + 1, end))
    is_wanted = np.zeros(int(wanted.max()) + 2, bool)
    is_wanted[wanted] = True
    known = is_wanted[np.minimum(name, len(is_wanted) - 1).astype(np.int64)]
    picked = np.flatnonzero(known & (source.bytes[begin] == 8) & (after <= end))
    event, name, after, end = event[picked], name[picked], after[picked], end[picked]
    tag = np.where(after < end, source.bytes[after], 0)
    value, behind = source.varints(np.minimum(after + 1, end))
    value = value.view(np.int64)
    field, wire = tag >> 3, tag & 7
    stop = np.zeros(len(event), np.int64)
    texts = np.flatnonzero(wire == BYTES)
    if len(texts):
        size = np.minimum(value[texts].view(np.uint64), (end - behind)[texts].clip(0).astype(np.uint64))
        value[texts] = behind[texts] + np.int64(origin)
        stop[texts] = value[texts] + size.astype(np.int64)
    doubles = wire == 1
    value[doubles] = after[doubles] + np.int64(1 + origin)
    odd = (
        ((wire == 0) & (behind > end) & (after < end))
        | ((wire != 0) & ~doubles & (wire != BYTES))
        | (doubles & (end - after < 9))
    )
    value[tag == 0] = 0
    found = {}
    for one in np.unique(name[~odd]).tolist():
        at = np.flatnonzero((name == one) & ~odd)
        found[int(one)] = Stats(event[at], field[at], value[at], stop[at])
    return found
