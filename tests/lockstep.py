"""Jobs of a few ranks that run by simple rules: their critical path, who is late, and why, is known by heart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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


TRANSFER, CALL, LATENCY, WAKE = 20.0, 4.0, 2.0, 5.0
COMPUTE, REDUCE, PAIR = 7, 20, 24


class Step(NamedTuple):
    """A step of a program."""

    what: str
    name: str = ""
    us: float = 0.0
    ranks: tuple[int, ...] = ()
    block: bool = False
    dims: str = "[[8, 8]]"


def op(us: float, name: str = "aten::sort") -> Step:
    return Step("cpu_op", name, us)


def python(us: float, name: str = "train.py(7): augment") -> Step:
    return Step("python_function", name, us)


def loader(us: float) -> Step:
    return Step("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", us)


def malloc(us: float) -> Step:
    return Step("cuda_runtime", "cudaMalloc", us)


def kernel(us: float, name: str = "gemm", dims: str = "[[8, 8]]") -> Step:
    return Step("kernel", name, us, dims=dims)


def reduce(block: bool = False) -> Step:
    return Step("reduce", block=block)


def pair(*ranks: int) -> Step:
    return Step("reduce", ranks=ranks, block=True)


def device_sync() -> Step:
    return Step("sync")


class _Rank:
    """A rank as it runs."""

    def __init__(self, number: int, program: Sequence[Step], begin: float) -> None:
        self.number, self.left, self.now = number, list(program), begin
        self.begin, self.free = begin, {COMPUTE: 0.0, REDUCE: 0.0, PAIR: 0.0}
        self.events: list[dict[str, Any]] = []
        self.correlation, self.recorded = 100, 0
        self.numbers: dict[tuple[int, ...], int] = {}

    def run(self) -> Step | None:
        """Go on to the next collective, which is returned; None at the end."""
        while self.left:
            step = self.left.pop(0)
            if step.what == "reduce":
                return step
            if step.what == "kernel":
                self._launch(step)
            elif step.what == "sync":
                done = max(self.now, *self.free.values()) + WAKE
                self.correlation += 1
                self.events += [
                    call("cudaDeviceSynchronize", self.now, done, self.correlation),
                    sync("Context Sync", self.now, self.correlation),
                ]
                self.now = done
            else:
                extra = {"correlation": 0} if step.what == "cuda_runtime" else {}
                self.events.append(span(step.what, step.name, self.now, step.us, **extra))
                self.now += step.us
        return None

    def _launch(self, step: Step) -> None:
        self.correlation += 1
        begun = self.now
        start = max(begun + LATENCY, self.free[COMPUTE])
        self.free[COMPUTE] = start + step.us
        owner = span("cpu_op", f"aten::{step.name}", begun, CALL)
        owner["args"]["Input Dims"] = step.dims
        self.events += [
            owner,
            call("cudaLaunchKernel", begun, begun + CALL, self.correlation),
            gpu(step.name, start, start + step.us, COMPUTE, self.correlation),
        ]
        self.now += CALL

    def arrive(self, stream: int) -> float:
        """Launch a part of a collective; when it could start."""
        self._wait(stream, COMPUTE)
        self.correlation += 1
        self.launched = self.now
        self.events.append(call("cudaLaunchKernel", self.now, self.now + CALL, self.correlation))
        self.now += CALL
        return max(self.launched + LATENCY, self.free[stream])

    def _wait(self, stream: int, other: int) -> None:
        """Make a stream wait for what another one was given."""
        self.correlation += 2
        record, wait = self.correlation - 1, self.correlation
        self.events += [
            call("cudaEventRecord", self.now, self.now + 0.5, record),
            call("cudaStreamWaitEvent", self.now + 0.5, self.now + 1, wait),
            sync("Stream Wait Event", self.now + 0.5, wait, stream, wait_on_stream=other,
                 wait_on_cuda_event_record_corr_id=record),
        ]  # fmt: skip
        self.now += 1
        self.free[stream] = max(self.free[stream], self.free[other])

    def leave(self, step: Step, ranks: tuple[int, ...], stream: int, start: float, end: float) -> None:
        number = self.numbers[ranks] = self.numbers.get(ranks, 0) + 1
        told = {
            "Collective name": "allreduce", "Process Group Name": str(ranks), "Process Group Ranks": str(list(ranks)),
            "Group size": len(ranks), "dtype": "Float", "In msg nelems": 1024, "Out msg nelems": 1024, "Seq": number,
        }  # fmt: skip
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        self.events.append(gpu(name, start, end, stream, self.correlation, **told))
        self.free[stream] = end
        if step.block:
            self._wait(COMPUTE, stream)


def job(*programs: Sequence[Step], begin: Sequence[float] = (), recorded_from: float | None = None) -> TraceSet:
    """The ranks of a job, each with its program.

    Args:
        programs: what each rank does.
        begin: when their steps begin.
        recorded_from: when the recording of all begins; by default with their steps.
    """
    ranks = [_Rank(at, program, begin[at] if begin else 0.0) for at, program in enumerate(programs)]
    waiting = {rank.number: rank.run() for rank in ranks}
    while step := next((one for one in waiting.values() if one and _is_met(one, waiting)), None):
        ready = step.ranks or tuple(waiting)
        stream = PAIR if step.ranks else REDUCE
        starts = [ranks[one].arrive(stream) for one in ready]
        for one, start in zip(ready, starts, strict=True):
            ranks[one].leave(step, ready, stream, start, max(starts) + TRANSFER)
            waiting[one] = ranks[one].run()
    assert not any(waiting.values()), "the ranks wait for each other"
    return TraceSet.of({f"rank{rank.number}": load_core(_trace(rank, len(ranks), recorded_from)) for rank in ranks})


def _is_met(step: Step, waiting: dict[int, Step | None]) -> bool:
    """Whether all have come that a collective is of."""
    return all(waiting[one] == step for one in step.ranks or waiting)


def _trace(rank: _Rank, ranks: int, recorded_from: float | None) -> dict[str, Any]:
    end = max(event["ts"] + event["dur"] for event in rank.events)
    step = span("user_annotation", "ProfilerStep#1", rank.begin, end - rank.begin)
    first = [] if recorded_from is None else [span("user_annotation", "warm-up", recorded_from, 1.0)]
    return trace([*first, step, *rank.events], rank.number, ranks)
