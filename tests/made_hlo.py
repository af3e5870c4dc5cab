"""Programs of XLA as profiles hold them, written by hand: `instruction`, `computation` and `program`."""

from __future__ import annotations

from collections.abc import Sequence

from plain_xplane import block, number, varint

F32, BF16, S32, U8, TUPLE = 11, 16, 4, 6, 13


def packed(field: int, values: Sequence[int]) -> bytes:
    return block(field, b"".join(map(varint, values))) if values else b""


def shape(type: int, *dims: int) -> bytes:
    order = list(range(len(dims)))[::-1]
    return number(2, type) + packed(3, dims) + block(5, packed(1, order))


def tuple_of(*parts: bytes) -> bytes:
    return number(2, TUPLE) + b"".join(block(4, part) for part in parts)


def instruction(
    id: int, name: str, opcode: str, of: bytes, operands: Sequence[int] = (), *, calls: Sequence[int] = (),
    op_name: str = "", file: str = "", line: int = 0, more: bytes = b"",
) -> bytes:  # fmt: skip
    origin = block(2, op_name) + block(3, file) + number(4, line)
    return (
        block(1, name) + block(2, opcode) + block(3, of) + block(7, origin) + more + number(35, id)
        + packed(36, operands) + packed(38, calls)
    )  # fmt: skip


def dot_dims(left: Sequence[int], right: Sequence[int]) -> bytes:
    return block(30, packed(1, left) + packed(2, right))


def computation(id: int, name: str, root: int, *instructions: bytes) -> bytes:
    return block(1, name) + b"".join(block(2, one) for one in instructions) + number(5, id) + number(6, root)


def program(name: str, entry: int, *computations: bytes) -> bytes:
    """An `HloProto`."""
    module = block(1, name) + b"".join(block(3, one) for one in computations) + number(6, entry)
    return block(1, module)


def mlp() -> bytes:
    """A product, and a fusion that adds one to it and takes the exponential; `jit_f`, ids from 1."""
    return program(
        "jit_f", 2,
        computation(
            1, "fused", 13,
            instruction(11, "p0", "parameter", shape(F32, 4, 16)),
            instruction(12, "add.1", "add", shape(F32, 4, 16), [11, 11], op_name="jit(f)/jvp(mlp)/add"),
            instruction(13, "exp.1", "exponential", shape(F32, 4, 16), [12], op_name="jit(f)/jvp(mlp)/exp"),
        ),
        computation(
            2, "main", 24,
            instruction(21, "x", "parameter", shape(F32, 4, 8)),
            instruction(22, "w", "parameter", shape(F32, 8, 16)),
            instruction(23, "dot.3", "dot", shape(F32, 4, 16), [21, 22], op_name="jit(f)/jvp(mlp)/dot_general",
                        file="model.py", line=7, more=dot_dims([1], [0])),
            instruction(24, "fusion.4", "fusion", shape(F32, 4, 16), [23], calls=[1], more=block(11, "kLoop")),
            instruction(25, "dot.5", "dot", shape(F32, 4, 8), [24, 22],
                        op_name="jit(f)/transpose(jvp(mlp))/dot_general", more=dot_dims([1], [1])),
        ),
    )  # fmt: skip
