"""Jobs of a few ranks that run by simple rules, so that who comes late to a collective, and why, is known by heart.

A program is a list of steps; times in us:

    op(us), python(us), loader(us), malloc(us)   the host does this
    kernel(name, us)                             launched on the compute stream: call 4, earliest start 2 after it began
    reduce()                                     an all-reduce of all ranks on a stream of its own, behind what was
                                                 launched before; with block=True what is launched later waits for it
    pair(0, 1)                                   the same among these ranks, on a third stream
    device_sync()                                the host waits for all it launched, and WAKE longer

An all-reduce takes TRANSFER from the last arrival on. All programs have the same collectives in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from handmade import span
from two_ranks import call, gpu, sync, trace

from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core

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
