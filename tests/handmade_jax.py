"""Programs and profiles of JAX written by hand: instructions, GPU work of every kind, a training step."""

from __future__ import annotations

from collections.abc import Sequence

import plain_xplane as plain
from plain_xplane import Plane, block, number, varint

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


"""Picoseconds in a microsecond."""

KERNELS = (("gemm_a", "dot.3", 20), ("fusion_4", "fusion.4", 5), ("gemm_b", "dot.5", 30), ("split_k", "dot.5", 3))
"""Kernels of a step: name, instruction, duration in us."""


def training_profile(steps: int = 2, mark: str = "load batch") -> bytes:
    """A profile; graphs with different `mark` have different ids."""
    programs, device, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    programs.program(3, "jit_f(3)", mlp())
    calls, work, count = [], [], 0
    for step in range(steps):
        begin = 200 * US * step
        calls += [
            host.event("train", begin, 190 * US, step_num=step),
            host.event("$train.py:3 main", begin + US, 150 * US),
            host.event(mark, begin + 2 * US, US),
            host.event("hipMemcpyAsync", begin + 4 * US, US, correlation_id=count + 1),
            host.event("hipMemsetAsync", begin + 6 * US, US, correlation_id=count + 2),
            host.event("PjitFunction(f)", begin + 8 * US, 60 * US),
        ]
        work += [
            device.event("CopyH2D", begin + 10 * US, 2 * US, correlation_id=count + 1,
                         memcpy_details="kind:Unknown size:4096 dest:2"),
            device.event("fillBuffer", begin + 13 * US, US, correlation_id=count + 2),
        ]  # fmt: skip
        count, start = count + 2, begin + 30 * US
        for place, (name, hlo_op, duration) in enumerate(KERNELS):
            count += 1
            calls.append(host.event("hipLaunch", begin + (10 + 5 * place) * US, US, correlation_id=count))
            told = {"hlo_op": f"&{hlo_op}", "program_id": 3}
            work.append(device.event(name, start, duration * US, correlation_id=count, **told))
            start += (duration + 2) * US
    device.line(7, "Stream #7", 1000, *work)
    host.line(11, "python", 1000, *calls)
    return plain.written(programs, device, host)


TRIPS = 3


def looped() -> bytes:
    """A loop over a product that runs three times, then a fusion that takes two of 100 rows, and a library's call."""
    trips = block(43, f'{{"known_trip_count":{{"n":"{TRIPS}"}}}}')
    rows = shape(S32, 2, 1)
    return program(
        "jit_loop", 4,
        computation(
            1, "body", 13,
            instruction(11, "p", "parameter", shape(F32, 8, 8)),
            instruction(13, "dot.1", "dot", shape(F32, 8, 8), [11, 11], more=dot_dims([1], [0])),
        ),
        computation(
            2, "until", 22,
            instruction(21, "q", "parameter", shape(F32, 8, 8)),
            instruction(22, "less.1", "compare", shape(F32), []),
        ),
        computation(
            3, "rows", 33,
            instruction(31, "table", "parameter", shape(F32, 100, 8)),
            instruction(32, "which", "parameter", rows, more=number(9, 1)),
            instruction(33, "gather.1", "gather", shape(F32, 2, 8), [31, 32]),
        ),
        computation(
            4, "main", 46,
            instruction(41, "x", "parameter", shape(F32, 8, 8)),
            instruction(42, "t", "parameter", shape(F32, 100, 8), more=number(9, 1)),
            instruction(43, "i", "parameter", rows, more=number(9, 2)),
            instruction(44, "while.1", "while", shape(F32, 8, 8), [41], calls=[1, 2], more=trips),
            instruction(45, "fusion.2", "fusion", shape(F32, 2, 8), [42, 43], calls=[3]),
            instruction(46, "top_k.3", "custom-call", shape(F32, 2, 3), [45], more=block(28, "TopK")),
        ),
    )  # fmt: skip


def looping_profile(steps: int = 2) -> bytes:
    """A GPU that runs `looped`: ranges of the loop's instructions lie in the loop's, and launch a kernel each."""
    programs, device, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    programs.program(5, "jit_loop(5)", looped())
    calls, work, count = [], [], 0
    for step in range(steps):
        begin = 200 * US * step
        calls.append(host.event("train", begin, 190 * US, step_num=step))
        calls.append(host.event("while.1", begin + US, 50 * US, hlo_op="&while.1", program_id=5))
        run = [("dot.1", begin + (5 + 10 * trip) * US) for trip in range(TRIPS)]
        for name, start in (*run, ("fusion.2", begin + 60 * US), ("top_k.3", begin + 70 * US)):
            count += 1
            told = {"hlo_op": f"&{name}", "program_id": 5}
            calls.append(host.event(name, start, 8 * US, **told))
            calls.append(host.event("hipLaunch", start + US, US, correlation_id=count))
            work.append(device.event(f"kernel of {name}", start + 20 * US, 4 * US, correlation_id=count, **told))
    device.line(7, "Stream #7", 1000, *work)
    host.line(11, "python", 1000, *calls)
    return plain.written(programs, device, host)
