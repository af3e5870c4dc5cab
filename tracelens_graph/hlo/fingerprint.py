"""What separates a compiled program from all others: a hash of what it computes and of how that was compiled.

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
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from tracelens_graph.hlo.program import Program

_DIGEST_BYTES = 8

_NUMBER = re.compile(r"(?:\d+\.)+")
"""The number at the end of a name, read backwards: from any other place, a search takes the square of the length."""


def fingerprint(program: Program) -> str:
    """The fingerprint of a program: 16 hexadecimal digits; of a damaged one, of what could be read."""
    parts = [
        _without_number(program.name).encode("utf-8", "surrogatepass"),
        program.written,
        _packed(program.replicas, program.partitions, len(program.computations)),
    ]
    computations: dict[int, int] = {}
    for computation in program.computations.values():
        places: dict[int, int] = {}
        for one in computation.instructions:
            operands, after = _places(one.operands, places), _places(one.after, places)
            called = _places(one.called, computations)
            parts += one.written, _packed(len(operands), len(after), *operands, *after, *called)
            places[one.id] = len(places)
        parts += computation.written, _packed(len(places), places.get(computation.root, -1))
        computations[computation.id] = len(computations)
    lengths = _packed(*map(len, parts))  # so that no two rows of parts are one
    return blake2b(b"".join((*parts, lengths)), digest_size=_DIGEST_BYTES).hexdigest()


def _without_number(name: str) -> str:
    number = _NUMBER.match(name[::-1])
    return name[: len(name) - number.end()] if number else name


def _places(ids: Iterable[int], places: Mapping[int, int]) -> list[int]:
    return [places.get(id, -1) for id in ids]


def _packed(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)
