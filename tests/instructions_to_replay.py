"""Profiles of single instructions of XLA, each with a kernel, and their plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handmade_jax import BF16, F32, S32, U8, computation, instruction, packed, program, shape, tuple_of
from plain_xplane import Plane, block, number, written

from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.instruction import InstructionPlan, plan_instruction

US = 1_000_000


def profile_of(opcode: str, of: bytes, operands: Sequence[bytes], more: bytes = b"", name: str = "op.1") -> Core:
    """A profile of one instruction, with a kernel."""
    given = [instruction(i, f"p{i}", "parameter", one) for i, one in enumerate(operands, 1)]
    body = computation(
        1, "body", 93, instruction(91, "a", "parameter", shape(F32)), instruction(92, "b", "parameter", shape(F32)),
        instruction(93, "sum", "add", shape(F32), [91, 92]),
    )  # fmt: skip
    last = instruction(50, name, opcode, of, range(1, len(operands) + 1), calls=[1] * (opcode == "reduce"), more=more)
    programs, device, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    programs.program(3, "jit_f(3)", program("jit_f", 2, body, computation(2, "main", 50, *given, last)))
    told = {"hlo_op": f"&{name}", "program_id": 3}
    device.line(7, "Stream #7", 0, device.event("kernel", 50 * US, 7 * US, correlation_id=1, **told))
    host.line(1, "python", 0, host.event("launch", 0, US, correlation_id=1))
    return load_core(written(programs, device, host))


def plan(core: Core) -> InstructionPlan:
    (op,) = core.find("Op")
    return plan_instruction(core, core.row(op.uid))


CONVOLUTION = block(15, b"".join(block(1, number(1, 3) + number(2, 2) + number(3, 1) + number(4, 1)) for _ in "hw")) + (
    block(
        16,
        number(3, 2) + number(4, 3) + packed(6, [0, 1]) + number(7, 0) + number(8, 3) + packed(11, [1, 2])
        + number(9, 0) + number(10, 3) + packed(12, [1, 2]),
    )
)  # fmt: skip
"""Three by three with stride 2, padded by one: batch, height, width, channels."""

X, W, Y = shape(F32, 2, 9, 9, 4), shape(F32, 3, 3, 4, 8), shape(F32, 2, 5, 5, 8)
SQUARE = shape(F32, 6, 5)

CASES: dict[str, tuple[Any, ...]] = {
    "dot": ("dot", shape(F32, 3, 4, 6), [shape(BF16, 3, 5, 4), shape(BF16, 3, 5, 6)],
            block(30, packed(1, [1]) + packed(2, [1]) + packed(3, [0]) + packed(4, [0]))),
    "convolution": ("convolution", Y, [X, W], CONVOLUTION),
    "library convolution": ("custom-call", tuple_of(Y, shape(U8, 99)), [X, W],
                            CONVOLUTION + block(28, "__cudnn$convForward")),
    "reduce": ("reduce", shape(F32, 6), [SQUARE, shape(F32)], packed(14, [1])),
    "tanh": ("tanh", SQUARE, [SQUARE]),
    "select": ("select", SQUARE, [shape(1, 6, 5), SQUARE, SQUARE]),
    "convert": ("convert", shape(S32, 6, 5), [SQUARE]),
    "transpose": ("transpose", shape(F32, 5, 6), [SQUARE], packed(14, [1, 0])),
    "broadcast": ("broadcast", shape(F32, 4, 6, 5), [SQUARE], packed(14, [1, 2])),
    "concatenate": ("concatenate", shape(F32, 6, 10), [SQUARE, SQUARE], packed(14, [1])),
}  # fmt: skip
