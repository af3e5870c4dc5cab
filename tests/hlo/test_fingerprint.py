"""Which compiled programs are one, and which are not: programs written by hand that differ in one thing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from handmade_jax import BF16, F32, computation, dot_dims, instruction, packed, program, shape
from plain_xplane import block, number

from tracelens_graph.hlo.program import fingerprint
from tracelens_graph.loaders.xplane.hlo import read_program

ONE, TWO = b"\x00\x00\x80\x3f", b"\x00\x00\x00\x40"


def constant(value: bytes = ONE) -> bytes:
    """A literal of one float."""
    return block(8, block(1, shape(F32)) + block(2, value))


def module(
    name: str = "jit_f", *, first: int = 10, prefix: str = "", op_name: str = "jit(f)/mul", line: int = 3,
    opcode: str = "multiply", dims: Sequence[int] = (4, 8), type: int = F32, operands: Sequence[int] = (2, 4),
    more: bytes = b"", value: bytes = ONE, inner: str = "add", after: Sequence[int] = (), root: int = 5,
    end: bytes = b"",
) -> bytes:  # fmt: skip
    """A sum by rows of a product with a constant; ids count from `first`, names begin with `prefix`."""

    def id(at: int) -> int:
        return first + at

    more += packed(37, [id(at) for at in after])
    return block(
        1,
        block(1, name)
        + block(
            3,
            computation(
                1 + first, f"{prefix}body", id(9),
                instruction(id(7), f"{prefix}a", "parameter", shape(F32)),
                instruction(id(8), f"{prefix}b", "parameter", shape(F32), more=number(9, 1)),
                instruction(id(9), f"{prefix}sum", inner, shape(F32), [id(7), id(8)]),
            ),
        )
        + block(
            3,
            computation(
                2 + first, f"{prefix}main", id(root),
                instruction(id(1), f"{prefix}x", "parameter", shape(type, *dims)),
                instruction(id(2), f"{prefix}y", "parameter", shape(type, *dims), more=number(9, 1)),
                instruction(id(3), f"{prefix}c", "constant", shape(F32), more=constant(value)),
                instruction(id(4), f"{prefix}dot", "dot", shape(type, *dims), [id(1), id(2)], more=dot_dims([1], [1])),
                instruction(id(5), f"{prefix}mul", opcode, shape(type, *dims), [id(at) for at in operands],
                            op_name=op_name, file="model.py", line=line, more=more),
                instruction(id(6), f"{prefix}reduce", "reduce", shape(F32, 4), [id(5), id(3)], calls=[1 + first]),
            ),
        )
        + number(6, 2 + first)
        + end,
    )  # fmt: skip


def told(data: bytes, replicas: int = 1, partitions: int = 1) -> str:
    found = read_program(b"before" + data + b"behind", 6, 6 + len(data), 1)
    found.replicas, found.partitions = replicas, partitions
    return fingerprint(found)


SAME = {
    "the name with a number": module("jit_f.12"),
    "other ids": module(first=700),
    "ids of newer versions": module(first=(5 << 32) + 3),
    "other names of instructions and computations": module(prefix="other_"),
    "another place in the Python program": module(op_name="jit(f)/jit(g)/mul", line=99),
    "a channel": module(more=number(26, 5)),
    "a sharding": module(more=block(40, b"\x08\x01")),
    "what a front end noted": module(more=block(68, block(1, block(1, "k") + block(2, "v")))),
    "what the compiler noted of the whole": module(end=block(19, block(1, block(1, "k") + block(2, "v")))),
    "a number of the module, and a schedule": module(end=number(5, 12) + block(7, b"\x0a\x00")),
}
OTHERS = {
    "the name": module("jit_g"),
    "an opcode": module(opcode="divide"),
    "a size": module(dims=(4, 9)),
    "a type": module(type=BF16),
    "operands in another order": module(operands=(4, 2)),
    "another operand": module(operands=(1, 4)),
    "the same operand once less": module(operands=(2,)),
    "the value of a constant": module(value=TWO),
    "what is noted for the code generator": module(more=block(43, '{"algorithm":3}')),
    "an attribute that nobody here knows": module(more=number(200, 1)),
    "the body of a reduction": module(inner="maximum"),
    "what must be over before": module(after=[3]),
    "the result": module(root=6),
    "results that take the memory of parameters": module(end=block(8, block(1, number(2, 1)))),
}


@pytest.mark.parametrize("what", SAME)
def test_what_only_numbers_or_names_does_not_count(what: str) -> None:
    assert told(SAME[what]) == told(module())


def test_everything_that_is_computed_counts() -> None:
    found = {what: told(data) for what, data in OTHERS.items()} | {
        "nothing": told(module()), "replicas": told(module(), 2), "partitions": told(module(), 1, 2),
    }  # fmt: skip
    assert len(set(found.values())) == len(found)
    assert all(len(one) == 16 and int(one, 16) >= 0 for one in found.values())


def test_two_computations_are_not_one() -> None:
    """A call of the one is not a call of the other, although both are of the same instructions."""
    halves = [
        computation(id, f"c{id}", 10 * id + 1, instruction(10 * id + 1, f"p{id}", "parameter", shape(F32)))
        for id in (1, 2)
    ]
    calls = [
        program(
            "jit_f", 3, *halves,
            computation(3, "main", 32, instruction(31, "x", "parameter", shape(F32)),
                        instruction(32, "call.1", "call", shape(F32), [31], calls=[called])),
        )
        for called in (1, 2)
    ]  # fmt: skip
    assert len({*map(told, calls)}) == 2


def test_a_program_that_is_cut_is_no_whole_one() -> None:
    data = module()
    whole = told(data)
    assert all(told(data[:end]) != whole for end in range(len(data)))


def test_any_bytes_have_a_fingerprint() -> None:
    data = module()
    for at in range(0, len(data), 3):
        for value in (0, 0x7F, 0xFF):
            assert len(told(data[:at] + bytes([value]) + data[at + 1 :])) == 16
