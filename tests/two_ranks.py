"""Two ranks of which the second comes late to an all-reduce, small enough to know their critical path by heart.

Times in us, of rank 0 and of rank 1:

    host      call of the matrix product at 10 and 80, of the all-reduce at 20 and 90, then a wait until 152
    stream 7  the matrix product: 20 to 60, and 90 to 100
    stream 20 the all-reduce: from 62 and 102, to 150 on both; it waits for the matrix product
"""

from __future__ import annotations

from typing import Any

from handmade import span

from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core

PRODUCT, ALL_REDUCE = "gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def gpu(name: str, start: float, end: float, stream: int, correlation: int, **args: Any) -> dict[str, Any]:
    """A kernel, or a copy if it is called so."""
    cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    event = span(cat, name, start, end - start, 0, stream, device=0, stream=stream, correlation=correlation)
    event["args"] |= args
    return event


def call(name: str, start: float, end: float, correlation: int, tid: int = 100) -> dict[str, Any]:
    """A call of the runtime."""
    return span("cuda_runtime", name, start, end - start, tid=tid, correlation=correlation)


def sync(kind: str, start: float, correlation: int, stream: int = -1, **args: Any) -> dict[str, Any]:
    """What the profiler says of a call that waits, or makes a stream wait."""
    event = span("cuda_sync", kind, start, 1.0, 0, stream, device=0, stream=stream, correlation=correlation)
    event["args"] |= {"cuda_sync_kind": kind, **args}
    return event


def trace(events: list[dict[str, Any]], rank: int = 0, ranks: int = 1) -> dict[str, Any]:
    """A trace of some events; all ranks are of one host and one clock."""
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "distributedInfo": {"rank": rank, "world_size": ranks, "backend": "nccl"},
        "deviceProperties": [{"id": device, "name": "GPU of tests"} for device in range(8)],
        "traceEvents": events,
    }


def rank_events(rank: int, step: str = "ProfilerStep#1", cuda_sync: bool = True) -> list[dict[str, Any]]:
    """The events of one of the two ranks."""
    at = (10.0, 80.0)[rank]
    product, reduced = ((20.0, 60.0), (62.0, 150.0)) if rank == 0 else ((90.0, 100.0), (102.0, 150.0))
    collective = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2,
        "dtype": "Float", "In msg nelems": 1024, "Out msg nelems": 1024, "Seq": 1,
    }  # fmt: skip
    told = [
        sync("Stream Wait Event", at + 8, 3, 20, wait_on_stream=7, wait_on_cuda_event_record_corr_id=2),
        sync("Context Sync", at + 30, 5),
    ]
    return [
        span("user_annotation", step, 0.0, 160.0),
        span("python_function", "data.py(1): next_batch", 0.0, at - 1),
        span("cpu_op", "aten::mm", at, 6.0, External_id=1),
        call("cudaLaunchKernel", at, at + 5, 1),
        call("cudaEventRecord", at + 7, at + 7.5, 2),
        call("cudaStreamWaitEvent", at + 8, at + 8.5, 3),
        call("cudaLaunchKernel", at + 10, at + 15, 4),
        call("cudaDeviceSynchronize", at + 30, 152.0, 5),
        gpu(PRODUCT, *product, 7, 1),
        gpu(ALL_REDUCE, *reduced, 20, 4, **collective),
        *(told if cuda_sync else ()),
    ]


def two_ranks(**settings: Any) -> TraceSet:
    """Both ranks."""
    return TraceSet.of({f"rank{rank}": load_core(trace(rank_events(rank, **settings), rank, 2)) for rank in (0, 1)})
