"""What tells a compiled program from all others: a hash of what it computes and of how that was compiled.

Two programs are equal, in whatever profiles they are, if they have

* the same name, without a number at its end,
* the same computations in the same order, each of the same instructions in the same order: opcode, shape and layout of
  the result, operands, computations that they call, values of constants, and every other attribute, among them what the
  compiler noted for its code generator (such as the algorithm of a product, which can be another one in each
  compilation of a program),
* as many replicas and partitions, and the same parameters that results may take the memory of.

What does not count are names of instructions and computations, ids and channels, because they only number; where an
instruction comes from in the Python program; the devices that the program was compiled for; the order in which its
instructions run; shardings, which partitioning has used up and which tell source lines, too; and what front ends noted,
which stands in any order. References to instructions and computations count by place.

Fields are those of XLA's `hlo.proto`, and are hashed as they are written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from tracelens_graph.loaders.xplane.wire import BYTES, VARINT, Buffer, Damaged, fields, numbers, signed, text

_DIGEST_BYTES = 8

_OPERANDS, _AFTER, _CALLED, _ID = 36, 37, 38, 35
_PLACES = (_OPERANDS, _AFTER, _CALLED)
"""Fields of an instruction that name others: operands, what has to be over before it runs, and computations."""

_LEFT_OUT = frozenset((1, 7, 26, _ID, 40, 45, 54, 55, 68, 82, 88))
"""Fields of an instruction that do not count: name, origin, channel, id, sharding, channel as it was called before,
shardings on both sides of a domain, what front ends noted, statistics for viewers, original value."""

_OF_MODULE = (8, 11, 18)
"""Fields of a program that count as they are: results that take the memory of parameters, whether it has dynamic
shapes, parameters that may be overwritten."""

_NUMBER = re.compile(r"(?:\.\d+)+$")


def fingerprint(data: Buffer, begin: int, end: int, replicas: int, partitions: int) -> str:
    """The fingerprint of the program between two places: 16 hexadecimal digits; of a damaged one, of what can be read.

    Args:
        data: the file.
        begin, end: where its `HloProto` stands.
        replicas, partitions: their numbers.
    """
    data = data[begin:end]
    name, own = "", b""
    computations = []
    for number, wire, value, after in _sound(data, 0, len(data)):
        if number != 1 or wire != BYTES:
            continue
        at = value
        for inner, kind, first, stop in _sound(data, value, after):
            if inner == 1 and kind == BYTES:
                name = _NUMBER.sub("", text(data, first, stop))
            elif inner == 3 and kind == BYTES:
                computations.append((first, stop))
            elif inner in _OF_MODULE:
                own += data[at:stop]
            at = stop
    whole = blake2b(digest_size=_DIGEST_BYTES)
    _add(whole, name.encode("utf-8", "surrogatepass"), own, _packed(replicas, partitions, len(computations)))
    place_of_computation: dict[int, int] = {}
    for place, span in enumerate(computations):
        id, tail = _computation(whole, data, *span, place_of_computation)
        place_of_computation[id] = place
        _add(whole, tail)
    return whole.hexdigest()


def _computation(whole: Any, data: bytes, begin: int, end: int, computations: dict[int, int]) -> tuple[int, bytes]:
    """Add the instructions of a computation; its id, and what else counts: the place of its root, and its thread."""
    places: dict[int, int] = {}
    id = root = 0
    thread = b""
    for number, wire, value, after in _sound(data, begin, end):
        if number == 2 and wire == BYTES:
            one = _instruction(whole, data, value, after, places, computations)
            places[one] = len(places)
        elif number == 5 and wire == VARINT:
            id = signed(value)
        elif number == 6 and wire == VARINT:
            root = signed(value)
        elif number == 8 and wire == BYTES:
            thread = data[value:after]
    return id, _packed(len(places), places.get(root, -1)) + thread


def _instruction(
    whole: Any, data: bytes, begin: int, end: int, places: dict[int, int], computations: dict[int, int]
) -> int:
    """Add an instruction; its id."""
    id, at = 0, begin
    own: list[bytes] = []
    named: dict[int, list[int]] = {}
    for number, wire, value, after in _sound(data, begin, end):
        if number in _PLACES:
            named.setdefault(number, []).extend(_listed(data, wire, value, after))
        elif number == _ID:
            id = signed(value)
        elif number not in _LEFT_OUT:
            own.append(data[at:after])
        at = after
    links: list[int] = []
    for number in _PLACES:
        of = computations if number == _CALLED else places
        found = [of.get(one, -1) for one in named.get(number, ())]
        links += [len(found), *found]
    _add(whole, b"".join(own), _packed(*links))
    return id


def _listed(data: bytes, wire: int, value: int, after: int) -> list[int]:
    try:
        return numbers(data, wire, value, after)
    except Damaged:
        return []


def _packed(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _add(whole: Any, *parts: bytes) -> None:
    """Add texts, each with its length, so that no two rows of texts are one."""
    for part in parts:
        whole.update(_packed(len(part)))
        whole.update(part)


def _sound(data: Buffer, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message up to damage."""
    try:
        yield from fields(data, begin, end)
    except Damaged:
        return
