"""A training step of JAX on one GPU, recorded by hand: steps, Python frames, scopes, both passes, a fill and a copy."""

from __future__ import annotations

import plain_xplane as plain
from made_hlo import mlp
from plain_xplane import Plane

US = 1_000_000
"""Picoseconds in a microsecond."""

KERNELS = (("gemm_a", "dot.3", 20), ("fusion_4", "fusion.4", 5), ("gemm_b", "dot.5", 30), ("split_k", "dot.5", 3))
"""Kernels of a step: name, instruction, duration in us."""


def training_profile(steps: int = 2, mark: str = "load batch") -> bytes:
    """A profile; graphs with different `mark` have different ids."""
    programs, device, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    programs.program(3, "jit_f(3)", mlp())
    calls, work, number = [], [], 0
    for step in range(steps):
        begin = 200 * US * step
        calls += [
            host.event("train", begin, 190 * US, step_num=step),
            host.event("$train.py:3 main", begin + US, 150 * US),
            host.event(mark, begin + 2 * US, US),
            host.event("hipMemcpyAsync", begin + 4 * US, US, correlation_id=number + 1),
            host.event("hipMemsetAsync", begin + 6 * US, US, correlation_id=number + 2),
            host.event("PjitFunction(f)", begin + 8 * US, 60 * US),
        ]
        work += [
            device.event("CopyH2D", begin + 10 * US, 2 * US, correlation_id=number + 1,
                         memcpy_details="kind:Unknown size:4096 dest:2"),
            device.event("fillBuffer", begin + 13 * US, US, correlation_id=number + 2),
        ]  # fmt: skip
        number, start = number + 2, begin + 30 * US
        for place, (name, instruction, duration) in enumerate(KERNELS):
            number += 1
            calls.append(host.event("hipLaunch", begin + (10 + 5 * place) * US, US, correlation_id=number))
            told = {"hlo_op": f"&{instruction}", "program_id": 3}
            work.append(device.event(name, start, duration * US, correlation_id=number, **told))
            start += (duration + 2) * US
    device.line(7, "Stream #7", 1000, *work)
    host.line(11, "python", 1000, *calls)
    return plain.written(programs, device, host)
