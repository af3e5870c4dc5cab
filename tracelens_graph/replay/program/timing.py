"""Time and profile of one call, on whatever device a program runs on."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

import torch

from tracelens_graph.replay.program.values import device

# What stands below goes into programs.

BETWEEN_CALLS: list[Callable[[], Any]] = []


def restored(value: torch.Tensor) -> torch.Tensor:
    """A tensor that the call writes: it gets contents, sizes and strides back between calls."""
    storage, place = value.untyped_storage(), (value.storage_offset(), value.size(), value.stride())
    contents = storage.clone()

    def restore() -> None:
        storage.resize_(contents.nbytes())
        storage.copy_(contents)
        value.set_(storage, *place)

    BETWEEN_CALLS.append(restore)
    return value


def times_us(call: Callable[[], Any], calls: int, seconds: float = math.inf) -> list[float]:
    """Microseconds of each call: between two events on the device; on a CPU by the clock, and for so long at most."""
    runtime, marks = getattr(torch, device("device").type), []

    def now() -> Any:
        if runtime is torch.cpu:
            return time.perf_counter_ns()
        event = runtime.Event(enable_timing=True)
        event.record()
        return event

    getattr(runtime, "_sleep", int)(20_000_000)  # the host gets ahead of the device, so that its launches do not count
    until = time.perf_counter() + seconds
    for _ in range(calls):
        for do in BETWEEN_CALLS:
            do()
        begin = now()
        call()
        marks.append((begin, now()))
        if runtime is torch.cpu and time.perf_counter() > until:
            break
    runtime.synchronize()
    if runtime is torch.cpu:
        return [(end - begin) / 1000 for begin, end in marks]
    return [begin.elapsed_time(end) * 1000 for begin, end in marks]


def write(file: str, save: Callable[[str], Any]) -> None:
    """Save a file whole or not at all."""
    part = os.path.join(os.path.dirname(file), ".part." + os.path.basename(file))
    save(part)
    os.replace(part, file)


def profiled(call: Callable[[], Any], trace: str = "", execution_trace: str = "") -> list[tuple[str, float]]:
    """Names and microseconds of the GPU work of one call, in order. Files get what was recorded, if they are given."""
    also = {}
    if execution_trace:
        also["execution_trace_observer"] = torch.profiler.ExecutionTraceObserver().register_callback(execution_trace)
    for do in BETWEEN_CALLS:
        do()
    with torch.profiler.profile(record_shapes=True, **also) as session:
        call()
        getattr(torch, device("device").type).synchronize()
    if trace:
        write(trace, session.export_chrome_trace)
    work = [event for event in session.events() if event.device_type != torch.autograd.DeviceType.CPU]
    return [(event.name, event.time_range.elapsed_us()) for event in sorted(work, key=lambda one: one.time_range.start)]
