"""Where a host spends its time outside of operators: it waits for the device and for data, or is late by plan.

Calls that wait for the device yield the work that they wait for, and go on when that ended."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from tracelens_graph.simulate.events import GpuEvent, Storage, SyncEvent, Tensor, host_tensor
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.options import LateReason

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
    with t.runtime("cudaEventRecord") as recorded:
        work = t.process.last_on(COMPUTE_STREAM)
    awaited = () if work is None else (work,)
    yield from _wait(t, "cudaEventSynchronize", "Event Sync", -1, awaited)
    t.process.syncs[-1].waits_on_stream, t.process.syncs[-1].record = COMPUTE_STREAM, recorded


def read(t: Thread, scalar: Tensor) -> Waits:
    """Wait for a number and copy it to the host."""
    with (
        t.frame("<built-in method item of Tensor object at 0x7f3f0c64f5c0>"),
        t.op("aten::item", scalar),
        t.op("aten::_local_scalar_dense", scalar),
    ):
        copy = t.memcpy("DtoH (Device -> Pageable)", 2)
        yield from synchronize_stream(t, copy)


FIRST_STEP = 3
"""Number of the first recorded step: wait and warm-up steps came before."""


def late_steps(process: Process) -> list[int]:
    """The steps in which the rank is late."""
    options = process.options
    if options.late_rank != process.rank:
        return []
    return list(range(FIRST_STEP, FIRST_STEP + options.steps, options.late_every))


def late_us(process: Process, reason: LateReason) -> float:
    """How much time the rank loses in this step for a reason."""
    options = process.options
    is_late = options.late_reason == reason and process.step in late_steps(process)
    return options.late_us if is_late else 0.0


def lose_time(t: Thread) -> None:
    """The reasons other than the data loader, right before the forward pass."""
    with t.process.aside():
        if python := late_us(t.process, "python"):
            with t.frame("train.py(52): augment"):
                t.now += round(1000 * python)
        if op := late_us(t.process, "op"):
            x = Tensor((1 << 20,), (1,), "float", Storage(4 << 20), device="cpu")
            with t.frame("train.py(56): rank_samples"), t.op("aten::sort", x, -1, True) as event:
                t.now += round(1000 * op)
                event.outputs = (x,)
        if allocation := late_us(t.process, "allocation"):
            with (
                t.frame("train.py(48): make_buffer"),
                t.op("aten::empty", [1 << 30], 0, 0, None, False, None),
                t.runtime("cudaMalloc"),
            ):
                t.now += round(1000 * allocation)


USUAL_WAIT_US = 60.0
PINNED, PAGEABLE = "HtoD (Pinned -> Device)", "HtoD (Pageable -> Device)"


def next_batch(t: Thread) -> list[Tensor]:
    """Wait for the data loader; gives tokens, targets and what else is to be copied."""
    options = t.process.options
    late = options.dataloader_rank in (None, t.process.rank)
    wait_us = options.dataloader_us if late else USUAL_WAIT_US
    with (
        t.frame("torch/utils/data/dataloader.py(733): __next__"),
        t.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        t.frame("torch/utils/data/dataloader.py(1482): _next_data"),
        t.frame("multiprocessing/queues.py(113): get"),
    ):
        t.now += round(1000 * (wait_us + late_us(t.process, "data_loader")))
        t.spend(1_000, 9_000)
    batch = [host_tensor((options.batch, options.tokens), "long int") for _ in range(2)]
    if options.copy_mb:
        batch.append(host_tensor((round(options.copy_mb * 1e6 / 8),), "long int"))
    return batch


def to_device(t: Thread, x: Tensor) -> Generator[tuple[GpuEvent, ...], None, Tensor]:
    """`x.to("cuda")`."""
    options = t.process.options
    with (
        t.frame("<built-in method to of Tensor object at 0x7f3f0c64f5c0>"),
        t.op("aten::to", x, 4, 0, "cuda:0", False, not options.pageable, False, None) as op,
    ):
        with t.op("aten::_to_copy", x, 4, 0, "cuda:0", False, not options.pageable, None) as inner:
            with t.op("aten::empty_strided", list(x.shape), list(x.strides), 4, 0, "cuda:0", False) as made:
                out = t.new(x.shape, x.dtype)
                made.outputs = (out,)
            with t.op("aten::copy_", out, x, not options.pageable) as copied:
                copy = t.memcpy(PAGEABLE if options.pageable else PINNED, x.bytes)
                if options.pageable:
                    yield from synchronize_stream(t, copy)
                copied.outputs = (out,)
            inner.outputs = (out,)
        return op.gives(out)
