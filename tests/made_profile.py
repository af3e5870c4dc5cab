"""A JAX profile with GPU work, made by hand: `profile(*MIXED)`."""

from __future__ import annotations

import plain_xplane as plain
from made_hlo import F32, computation, dot_dims, instruction, program, shape
from plain_xplane import Plane, block

US = 1_000_000
"""Picoseconds in a microsecond."""
PRED = 1

Work = tuple[str, int, int, str]
"""A kernel or copy: name, duration in us, number of its GPU, what launched it ("" for what no launch is there of)."""


def programs() -> Plane:
    """A product that XLA writes itself, a choice by truth values and a scalar, a copy, and a product with splits."""
    plane = Plane("/host:metadata")
    proto = program(
        "jit_f", 2,
        computation(
            1, "fused_dot", 13,
            instruction(11, "p0", "parameter", shape(F32, 4, 8)),
            instruction(12, "p1", "parameter", shape(F32, 8, 16)),
            instruction(13, "dot.1", "dot", shape(F32, 4, 16), [11, 12], more=dot_dims([1], [0])),
        ),
        computation(
            2, "main", 27,
            instruction(21, "x", "parameter", shape(F32, 4, 8)),
            instruction(22, "w", "parameter", shape(F32, 8, 16)),
            instruction(23, "gemm_fusion_dot.1", "fusion", shape(F32, 4, 16), [21, 22], calls=[1],
                        op_name="jit(f)/mlp/dot_general", more=block(11, "kCustom")),
            instruction(24, "scale", "parameter", shape(F32)),
            instruction(25, "mask", "parameter", shape(PRED, 4, 16)),
            instruction(26, "select.2", "select", shape(F32, 4, 16), [25, 24, 23]),
            instruction(27, "copy.5", "copy", shape(F32, 4, 16), [26]),
        ),
    )  # fmt: skip
    plane.program(3, "jit_f(3)", proto)
    return plane


def profile(*work: tuple[Work, str]) -> bytes:
    """The bytes of a profile with some work, one after the other, each with its instruction ("" for none)."""
    gpus, host = [Plane("/device:GPU:0"), Plane("/device:GPU:1")], Plane("/host:CPU")
    lines: list[list[bytes]] = [[], []]
    launches = []
    for at, ((name, dur, gpu, launch), hlo) in enumerate(work, 1):
        told: dict[str, int | str] = {"hlo_op": f"&{hlo}", "program_id": 3} if hlo else {}
        if name.startswith("Mem"):
            told[f"{name[:6].lower()}_details"] = "kind:Unknown size:64 dest:2"
        lines[gpu].append(gpus[gpu].event(name, (100 + 50 * at) * US, dur * US, correlation_id=at, **told))
        if launch:
            launches.append(host.event(launch, 10 * at * US, 2 * US, correlation_id=at))
    for gpu, events in zip(gpus, lines, strict=True):
        gpu.line(7, "Stream #7(Kernel)", 1000, *events)
    host.line(11, "python", 1000, host.event("PjitFunction(f)", 0, 140 * US), *launches)
    return plain.written(programs(), *gpus, host)


LAUNCH = "hipLaunchKernel"
MIXED = (
    (("gemm_fusion_dot_1", 20, 0, LAUNCH), "gemm_fusion_dot.1"),
    (("splitk_reduce", 5, 0, LAUNCH), "gemm_fusion_dot.1"),
    (("select_2", 4, 0, LAUNCH), "select.2"),
    (("copy_5", 3, 0, LAUNCH), "copy.5"),
    (("MemsetD8", 2, 0, "hipMemsetD8Async"), ""),
    (("__amd_rocclr_fillBufferAligned.kd", 1, 0, "hipMemsetAsync"), "select.2"),
    (("MemcpyD2D", 6, 1, "hipMemcpyDtoDAsync"), ""),
    (("lonely", 7, 1, ""), ""),
)
"""Kernels, copies and fills on two GPUs."""
