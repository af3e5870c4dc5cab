"""Calls that make the host wait for the device. Each yields the work that it waits for, and goes on when that ended."""

from __future__ import annotations

from collections.abc import Iterator

from tracelens_graph.simulate.events import GpuEvent, SyncEvent
from tracelens_graph.simulate.host import COMPUTE_STREAM, Thread
from tracelens_graph.simulate.tensors import Tensor

Waits = Iterator[tuple[GpuEvent, ...]]
"""What a program yields: the GPU work that its host waits for."""


def _wait(t: Thread, call: str, kind: str, stream: int, awaited: tuple[GpuEvent, ...]) -> Waits:
    with t.runtime(call) as event:
        asked = t.now
        yield awaited
        wake = t.wait_until(max((gpu.end for gpu in awaited), default=0))
    t.process.syncs.append(SyncEvent(kind, event, stream, awaited=awaited, asked=asked, wake=wake))


def synchronize(t: Thread) -> Waits:
    """Wait for all work of the device."""
    yield from _wait(t, "cudaDeviceSynchronize", "Context Sync", -1, t.process.last_work())


def synchronize_stream(t: Thread, work: GpuEvent) -> Waits:
    """Wait for the stream whose last work is `work`."""
    yield from _wait(t, "cudaStreamSynchronize", "Stream Sync", work.stream, (work,))


def synchronize_event(t: Thread) -> Waits:
    """Record an event behind the work of the compute stream, and wait for it."""
    with t.runtime("cudaEventRecord") as mark:
        work = t.process.last_on(COMPUTE_STREAM)
    awaited = () if work is None else (work,)
    yield from _wait(t, "cudaEventSynchronize", "Event Sync", -1, awaited)
    t.process.syncs[-1].waits_on_stream, t.process.syncs[-1].record = COMPUTE_STREAM, mark


def read(t: Thread, scalar: Tensor) -> Waits:
    """Wait for a number and copy it to the host."""
    with (
        t.frame("<built-in method item of Tensor object at 0x7f3f0c64f5c0>"),
        t.op("aten::item", scalar),
        t.op("aten::_local_scalar_dense", scalar),
    ):
        copy = t.memcpy("DtoH (Device -> Pageable)", 2)
        yield from synchronize_stream(t, copy)
