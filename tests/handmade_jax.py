"""A training step of JAX on one GPU, recorded by hand: steps, Python frames, scopes, both passes, a fill and a copy."""

from __future__ import annotations

import plain_xplane as plain
from made_hlo import F32, S32, computation, dot_dims, instruction, mlp, program, shape
from plain_xplane import Plane, block, number

US = 1_000_000
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
