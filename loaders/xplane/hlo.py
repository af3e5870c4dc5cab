"""Reading a program (`HloProto`) out of a profile. Fields are those of XLA's `hlo.proto` and `xla_data.proto`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracelens_graph.errors import DamagedBytesError
from tracelens_graph.hlo.program import (
    Computation,
    ConvolutionDims,
    DotDims,
    Instruction,
    Program,
    WindowDimension,
)
from tracelens_graph.hlo.shapes import Shape, ShortGroups
from tracelens_graph.loaders.xplane.wire import BYTES, VARINT, Buffer, fields, numbers, signed, text

_DEEPEST = 16
"""Tuples within tuples that are read; real programs have two or three."""

_MOST_FRAMES = 64
"""Frames that are followed upwards to one with a file."""

_FINGERPRINT = "fingerprint_before_lhs"
"""What XLA notes of a program for GPUs before it schedules it: "lhs" is its scheduler, which hides latencies."""

_OF_PROGRAM = frozenset((8, 11, 18))
"""Fields of a program that separate it from others as they are written: results that take parameters' memory, whether
it has dynamic shapes, parameters that may be overwritten."""

_MOST_DEVICES = 1 << 17
"""Devices of a job that are listed; what names more is damaged."""


def read_program(data: Buffer, begin: int, end: int, id: int) -> Program:
    """The program between two places; of a damaged one what can be read.

    Args:
        data: the file.
        begin, end: where the `HloProto` stands.
        id: number by which events name the program.
    """
    program = Program(id)
    data, begin, end = data[begin:end], 0, end - begin
    places: dict[int, tuple[str, int]] = {}
    computations = []
    for number, span in _messages(data, begin, end):
        if number != 1:
            continue
        at, _ = span
        for inner, wire, value, after in _sound(data, *span):
            if inner in _OF_PROGRAM:
                program.written += data[at:after]
            at = after
            if inner == 1 and wire == BYTES:
                program.name = text(data, value, after)
            elif inner == 3 and wire == BYTES:
                computations.append((value, after))
            elif inner == 6 and wire == VARINT:
                program.entry = signed(value)
            elif inner == 15 and wire == BYTES:
                program.devices = _devices(data, value, after)
                program.replicas, program.partitions = _counts(data, value, after)
            elif inner == 17 and wire == BYTES:
                places = _frames(data, value, after)
            elif inner == 19 and wire == BYTES:
                program.compiler_fingerprint = _attributes(data, value, after).get(_FINGERPRINT, "")
    for span in computations:
        found = _computation(data, *span, places)
        program.computations[found.id] = found
    return program


def _sound(data: Buffer, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message up to damage."""
    try:
        yield from fields(data, begin, end)
    except DamagedBytesError:
        return


def _messages(data: Buffer, begin: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
    for number, wire, value, after in _sound(data, begin, end):
        if wire == BYTES:
            yield number, (value, after)


def _frames(data: Buffer, begin: int, end: int) -> dict[int, tuple[str, int]]:
    """Number of a stack frame -> file and line of the innermost frame that has them."""
    files: list[str] = []
    places: list[tuple[int, int]] = []
    frames: list[tuple[int, int]] = []
    for number, (at, stop) in _messages(data, begin, end):
        if number == 1:
            files.append(text(data, at, stop))
        elif number in (3, 4):
            known = {key: value for key, wire, value, _ in _sound(data, at, stop) if wire == VARINT}
            if number == 3:
                places.append((known.get(1, 0), known.get(3, 0)))
            else:
                frames.append((known.get(1, 0), known.get(2, 0)))
    found = {}
    for number in range(1, len(frames) + 1):
        frame = number
        for _ in range(_MOST_FRAMES):
            if not 0 < frame <= len(frames):
                break
            place, frame = frames[frame - 1]
            if 0 < place <= len(places) and 0 < places[place - 1][0] <= len(files):
                file, line = places[place - 1]
                found[number] = files[file - 1], line
                break
    return found


def _computation(data: Buffer, begin: int, end: int, places: dict[int, tuple[str, int]]) -> Computation:
    id = root = 0
    name, thread = "", b""
    instructions = []
    for number, wire, value, after in _sound(data, begin, end):
        if number == 1 and wire == BYTES:
            name = text(data, value, after)
        elif number == 2 and wire == BYTES:
            instructions.append(_instruction(data, value, after, places))
        elif number == 5 and wire == VARINT:
            id = signed(value)
        elif number == 6 and wire == VARINT:
            root = signed(value)
        elif number == 8 and wire == BYTES:
            thread = data[value:after]
    return Computation(id, name, tuple(instructions), root, thread)


_TEXTS = {1: "name", 2: "opcode", 11: "fusion_kind", 28: "target", 43: "backend_config"}
_NUMBERS = {9: "parameter", 26: "channel", 35: "id", 50: "groups", 58: "batch_groups"}
_LISTS = {14: "dimensions", 36: "operands", 37: "after", 38: "called"}
_NOT_WRITTEN = frozenset((1, 7, 26, 35, 36, 37, 38, 40, 45, 54, 55, 68, 82, 88))
"""Fields of an instruction that do not separate programs as they are written: name, origin, channel, id, references,
sharding, channel as it was called before, shardings on both sides of a domain, what front ends noted, statistics for
viewers, original value."""


def _instruction(data: Buffer, begin: int, end: int, places: dict[int, tuple[str, int]]) -> Instruction:
    known: dict[str, Any] = {"id": 0, "name": "", "opcode": "", "shape": Shape()}
    lists: dict[str, list[Any]] = {}
    at, written = begin, []
    for number, wire, value, after in _sound(data, begin, end):
        if number not in _NOT_WRITTEN:
            written.append(data[at:after])
        at = after
        if number in _LISTS:
            lists.setdefault(_LISTS[number], []).extend(_listed(data, wire, value, after))
        elif wire == VARINT and number in _NUMBERS:
            known[_NUMBERS[number]] = signed(value)
        elif wire != BYTES:
            continue
        elif number in _TEXTS:
            known[_TEXTS[number]] = text(data, value, after)
        elif number == 3:
            known["shape"] = _shape(data, value, after)
        elif number == 7:
            known |= _origin(data, value, after, places)
        elif number == 15:
            known["window"] = tuple(_window(data, *span) for key, span in _messages(data, value, after) if key == 1)
        elif number == 16:
            known["convolution"] = _convolution(data, value, after)
        elif number == 30:
            known["dot"] = _dot(data, value, after)
        elif number in (49, 87):
            groups, short = _groups(data, number, value, after)
            lists.setdefault("replica_groups", []).extend(groups)
            known["short_groups"] = short or known.get("short_groups")
        elif number == 52:
            pair = _by_number(data, value, after)
            lists.setdefault("pairs", []).append((_last(pair, 1), _last(pair, 2)))
    known |= {name: tuple(values) for name, values in lists.items()}
    return Instruction(**known, written=b"".join(written))


def _listed(data: Buffer, wire: int, value: int, after: int) -> list[int]:
    try:
        return numbers(data, wire, value, after)
    except DamagedBytesError:
        return []


def _shape(data: Buffer, begin: int, end: int, depth: int = 0) -> Shape:
    type = 0
    dims: list[int] = []
    order: list[int] = []
    parts: list[Shape] = []
    for number, wire, value, after in _sound(data, begin, end):
        if number == 2 and wire == VARINT:
            type = value
        elif number == 3:
            dims += _listed(data, wire, value, after)
        elif number == 4 and wire == BYTES and depth < _DEEPEST:
            parts.append(_shape(data, value, after, depth + 1))
        elif number == 5 and wire == BYTES:
            for inner, kind, one, stop in _sound(data, value, after):
                if inner == 1:
                    order += _listed(data, kind, one, stop)
    return Shape(type, tuple(max(size, 0) for size in dims), tuple(order), tuple(parts))


def _origin(data: Buffer, begin: int, end: int, places: dict[int, tuple[str, int]]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    frame = 0
    for number, wire, value, after in _sound(data, begin, end):
        if number == 2 and wire == BYTES:
            known["op_name"] = text(data, value, after)
        elif number == 3 and wire == BYTES:
            known["file"] = text(data, value, after)
        elif number == 4 and wire == VARINT:
            known["line"] = signed(value)
        elif number == 15 and wire == VARINT:
            frame = value
    if not known.get("file") and frame in places:
        known["file"], known["line"] = places[frame]
    return known


def _window(data: Buffer, begin: int, end: int) -> WindowDimension:
    known = {key: signed(value) for key, wire, value, _ in _sound(data, begin, end) if wire == VARINT}
    # A dilation or stride of zero is none that XLA knows: what is not written is 1.
    return WindowDimension(
        known.get(1, 0), max(known.get(2, 1), 1), known.get(3, 0), known.get(4, 0), max(known.get(5, 1), 1),
        max(known.get(6, 1), 1),
    )  # fmt: skip


def _by_number(data: Buffer, begin: int, end: int) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for number, wire, value, after in _sound(data, begin, end):
        found.setdefault(number, []).extend(_listed(data, wire, value, after))
    return {number: tuple(values) for number, values in found.items() if values}


def _convolution(data: Buffer, begin: int, end: int) -> ConvolutionDims:
    known = _by_number(data, begin, end)
    return ConvolutionDims(
        _last(known, 3), _last(known, 4), known.get(6, ()), _last(known, 7), _last(known, 8), known.get(11, ()),
        _last(known, 9), _last(known, 10), known.get(12, ()),
    )  # fmt: skip


def _last(known: Mapping[int, tuple[int, ...]], number: int) -> int:
    """A field that occurs once; zero is not written."""
    return known.get(number, (0,))[-1]


def _dot(data: Buffer, begin: int, end: int) -> DotDims:
    known = _by_number(data, begin, end)
    return DotDims(*(known.get(number, ()) for number in (1, 2, 3, 4)))


def _groups(data: Buffer, number: int, begin: int, end: int) -> tuple[list[tuple[int, ...]], ShortGroups | None]:
    """Replica groups: field 49 holds one of them, field 87 a message that lists them, or writes them in short."""
    if number == 49:
        return [_by_number(data, begin, end).get(1, ())], None
    found, short = [], None
    for key, span in _messages(data, begin, end):
        known = _by_number(data, *span)
        if key == 1:
            found.append(known.get(1, ()))
        elif key == 2:
            short = ShortGroups(_last(known, 1), _last(known, 2), known.get(3, ()), known.get(4, ()))
    return found, short


def _attributes(data: Buffer, begin: int, end: int) -> dict[str, str]:
    """What a front end, or the compiler, noted of a program."""
    found = {}
    for _, span in _messages(data, begin, end):
        known = {key: text(data, *place) for key, place in _messages(data, *span)}
        found[known.get(1, "")] = known.get(2, "")
    return found


def _counts(data: Buffer, begin: int, end: int) -> tuple[int, int]:
    """The numbers of replicas and of partitions of a program."""
    known = {key: value for key, wire, value, _ in _sound(data, begin, end) if wire == VARINT}
    replicas, partitions = (min(max(known.get(key, 1), 1), _MOST_DEVICES) for key in (1, 2))
    return replicas, partitions


def _devices(data: Buffer, begin: int, end: int) -> tuple[int, ...]:
    """The devices of a program: replica by replica those of its partitions."""
    of_partition = [_by_number(data, *span).get(1, ()) for key, span in _messages(data, begin, end) if key == 3]
    if len({len(one) for one in of_partition}) != 1 or sum(map(len, of_partition)) > _MOST_DEVICES:
        return ()
    return tuple(device for replica in zip(*of_partition, strict=True) for device in replica)
