"""Instants of memory for traces made by hand."""

from __future__ import annotations

from typing import Any

from handmade import span


def instant(ts: float, change: int, address: int, allocated: int | None = None, **more: Any) -> dict[str, Any]:
    """An allocation or release, as PyTorch writes it.

    Args:
        ts: its time, us.
        change: bytes; negative for a release.
        address: of the block.
        allocated: what is in use behind it; None where that is not recorded.
        more: further fields: `reserved`, `kind` and `device` (default CUDA 0), `tid`, `name`.
    """
    args: dict[str, Any] = {"Bytes": change, "Addr": address}
    args |= {"Device Type": more.get("kind", 1), "Device Id": more.get("device", 0)}
    if allocated is not None:
        args |= {"Total Allocated": allocated, "Total Reserved": more.get("reserved", 0)}
    name = more.get("name", "[memory]")
    where = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "pid": 100, "tid": more.get("tid", 100)}
    return {**where, "name": name, "ts": ts, "args": args}


def training() -> list[dict[str, Any]]:
    """A step with a module forward and backward, and an optimizer; 1,000 bytes are there before.

    Linear_0 allocates 400 bytes for its result, kept until backward, and 100 for a while; backward 300 for a gradient
    of it, and 50 that autograd accumulates; the optimizer 200 that stay. A block of 600 bytes from before is released.
    """
    link = {"id": 1, "pid": 100}
    return [
        span("user_annotation", "ProfilerStep#7", 0, 1000),
        span("python_function", "train.py(5): main", 1, 990),
        span("python_function", "nn.Module: Net_0", 10, 200),
        span("python_function", "nn.Module: Linear_0", 20, 100),
        span("python_function", "net.py(8): forward", 21, 98),
        span("cpu_op", "aten::linear", 30, 60, Sequence_number=4),
        span("cpu_op", "aten::addmm", 35, 50, Sequence_number=4),
        instant(40, 400, 0xA, 1400, reserved=4096),
        instant(50, 100, 0xB, 1500, reserved=4096),
        instant(95, -100, 0xB, 1400, reserved=4096),
        span("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 300, 100, tid=200, Sequence_number=4,
             Fwd_thread_id=1),
        span("cpu_op", "AddmmBackward0", 305, 80, tid=200, Sequence_number=4, Fwd_thread_id=1),
        instant(310, 300, 0xB, 1700, reserved=4096, tid=200),
        instant(390, -400, 0xA, 1300, reserved=4096, tid=200),
        span("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 410, 20, tid=200),
        instant(415, 50, 0xC, 1350, reserved=4096, tid=200),
        span("user_annotation", "Optimizer.step#SGD.step", 500, 100),
        span("cpu_op", "aten::zeros_like", 510, 50),
        instant(520, 200, 0xD, 1550, reserved=4096),
        instant(700, -600, 0xE, 950, reserved=4096),
        instant(800, -300, 0xB, 650, reserved=2048),
        instant(45, 16, 0xA, 16, kind=0, device=-1),
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "tid": 100, "ts": 30, **link},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "tid": 200, "ts": 305, "bp": "e", **link},
    ]  # fmt: skip
