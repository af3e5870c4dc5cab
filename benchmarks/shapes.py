"""Traces that are hard by their shape: deep, wide, all at one instant, all different.

Each function makes a trace of about n events of its shape; `SHAPES` lists them all. Tests count the work on them at
small n, `hard_shapes.py` takes the seconds at large n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

Event = dict[str, Any]


def _span(cat: str, name: str, ts: float, dur: float, pid: Any = 100, tid: Any = 100, **args: Any) -> Event:
    named = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": named}


def _kernel(name: str, ts: float, dur: float, correlation: int, stream: int = 7, device: int = 0, **args: Any) -> Event:
    return _span(
        "kernel", name, ts, dur, device, stream, device=device, stream=stream, correlation=correlation, **args
    )  # fmt: skip


def _call(ts: float, correlation: int, tid: int = 100, dur: float = 1.0) -> Event:
    return _span("cuda_runtime", "cudaLaunchKernel", ts, dur, tid=tid, correlation=correlation)


def _work(i: int, ts: float, op: str = "aten::mm", kernel: str = "gemm", tid: int = 100, **more: Any) -> list[Event]:
    """An op of 8 us, its launch, and a kernel 20 us later."""
    return [
        _span("cpu_op", op, ts, 8.0, tid=tid, External_id=i, Input_Dims=[[8, 8], [8, 8]], Input_type=["float"] * 2),
        _call(ts + 1, i, tid, 2.0),
        _kernel(kernel, ts + 20, 5.0, i, **more),
    ]


def nested_ops(n: int) -> Iterator[Event]:
    """Ops within one another, the innermost with a kernel."""
    for i in range(n):
        yield _span("cpu_op", f"aten::op{i % 7}", 1000.0 + i, 4.0 * n - 2 * i, External_id=i + 1)
    yield from (_call(1000.0 + n, 1), _kernel("gemm", 1000.0 + 5 * n, 5.0, 1))


def nested_launches(n: int) -> Iterator[Event]:
    """Ops within one another, each with a kernel of its own."""
    for i in range(n):
        yield _span("cpu_op", f"aten::op{i % 7}", 1000.0 + 2 * i, 8.0 * n - 4 * i, External_id=i + 1)
        yield _call(1000.5 + 2 * i, i + 1, dur=0.5)
        yield _kernel("gemm", 1002.0 + 2 * i, 1.5, i + 1)


def nested_concurrent(n: int) -> Iterator[Event]:
    """Ops within one another, each with a kernel that runs until the last has ended."""
    for i in range(n):
        yield _span("cpu_op", f"aten::op{i % 7}", 1000.0 + 2 * i, 8.0 * n - 4 * i, External_id=i + 1)
        yield _call(1000.5 + 2 * i, i + 1, dur=0.5)
        yield _kernel("gemm", 1002.0 + 2 * i, 4.0 * n - i, i + 1, stream=7 + i % 3)


def nested_frames(n: int) -> Iterator[Event]:
    """Python functions within one another, an op and its kernel in the innermost, one line of each."""
    for i in range(n):
        yield _span("python_function", f"model.py({i % 50}): f{i % 50}", 1000.0 + i, 40.0 + 4.0 * n - 2 * i)
    yield from _work(1, 1000.0 + n)


def nested_annotations(n: int) -> Iterator[Event]:
    """Annotations within one another, with ops below."""
    for i in range(n):
        yield _span("user_annotation", f"range {i % 5}", 1000.0 + i, 40.0 + 20.0 * n - 2 * i)
        yield from _work(i + 1, 1000.0 + 12 * n / 10 + 10 * i)


def nested_batches(n: int) -> Iterator[Event]:
    """Annotations within one another that are all called differently, with an op of a serving engine in each."""
    for i in range(n):
        yield _span("user_annotation", f"range {i}", 1000.0 + 10 * i, 40.0 + 20.0 * n - 20 * i)
        yield from _work(i + 1, 1000.5 + 10 * i, op="vllm::unified_attention_with_output")


def overlapping_annotations(n: int) -> Iterator[Event]:
    """Annotations that each end after the next has begun, with ops below."""
    for i in range(n):
        yield _span("user_annotation", f"range {i % 5}", 1000.0 + 10 * i, 19.0)
        yield from _work(i + 1, 1000.0 + 10 * i)


def overlapping_ops(n: int) -> Iterator[Event]:
    """Ops of one thread that each end after the next has begun."""
    for i in range(n):
        yield _span("cpu_op", f"aten::op{i % 7}", 1000.0 + 10 * i, 19.0, External_id=i + 1)
        yield from (_call(1001.0 + 10 * i, i + 1), _kernel("gemm", 1003.0 + 10 * i, 5.0, i + 1))


def long_overlapping_ops(n: int) -> Iterator[Event]:
    """Ops of one thread that all run at one time and end in the order of their starts."""
    for i in range(n):
        yield _span("cpu_op", f"aten::op{i % 7}", 1000.0 + 10 * i, 20.0 * n, External_id=i + 1)
        yield from (_call(1001.0 + 10 * i, i + 1), _kernel("gemm", 1003.0 + 10 * i, 5.0, i + 1))


def unravelling_ops(n: int) -> Iterator[Event]:
    """Nested ops, and behind them as many that each outlive some of them."""
    for i in range(n):
        yield _span("cpu_op", f"aten::op{i % 7}", 1000.0 + i, 10.0 * n - 2 * i, External_id=i + 1)
    for i in range(n):
        yield _span("cpu_op", "aten::late", 1000.0 + n + i, 7.0 * n + i, External_id=n + i + 1)
    yield from (_call(1001.0, 1), _kernel("gemm", 1003.0, 5.0, 1))


def one_instant(n: int) -> Iterator[Event]:
    """Kernels at one time on one stream, each of an op of its own, whose names repeat in the smallest size, too."""
    for i in range(n):
        op, call, _ = _work(i + 1, 1000.0 + 10 * i, op=f"aten::op{i % 25}")
        yield from (op, call, _kernel(f"k{i % 25}", 1000.0 + 20 * n, 50.0, i + 1))


def streams(n: int) -> Iterator[Event]:
    """Kernels at one time, each on a stream of its own."""
    for i in range(n):
        op, call, _ = _work(i + 1, 1000.0 + 10 * i, op=f"aten::op{i % 25}")
        yield from (op, call, _kernel(f"k{i % 25}", 1000.0 + 20 * n, 50.0, i + 1, stream=7 + i))


def concurrent(n: int) -> Iterator[Event]:
    """Kernels of five streams that all run at one time, from ops of one name."""
    for i in range(n):
        op, call, _ = _work(i + 1, 1000.0 + 10 * i)
        yield from (op, call, _kernel("gemm", 1000.0 + 20 * n + i, 2.0 * n + i, i + 1, stream=7 + i % 5))


def devices(n: int) -> Iterator[Event]:
    """Kernels, each on a device of its own."""
    for i in range(n):
        yield from _work(i + 1, 1000.0 + 10 * i, device=i)


def threads(n: int) -> Iterator[Event]:
    """Threads with an annotation and an op each."""
    for i in range(n):
        yield _span("user_annotation", "iteration", 1000.0 + 10 * i, 9.0, tid=i)
        yield from _work(i + 1, 1000.0 + 10 * i, tid=i)


def processes(n: int) -> Iterator[Event]:
    """Processes with a step each."""
    for i in range(n):
        yield _span("user_annotation", "ProfilerStep#1", 1000.0 + 10 * i, 9.0, pid=1000 + i)
        for event in _work(i + 1, 1000.0 + 10 * i):
            yield event | ({"pid": 1000 + i} if event["cat"] != "kernel" else {})


def names(n: int) -> Iterator[Event]:
    """Ops and kernels that are all called differently."""
    for i in range(n):
        yield from _work(i + 1, 1000.0 + 10 * i, op=f"my::op_{i}", kernel=f"kernel_of_{i}_things<{i}>")


def argument_sets(n: int) -> Iterator[Event]:
    """Calls of one op that each have shapes of their own."""
    for i in range(n):
        op, call, kernel = _work(i + 1, 1000.0 + 10 * i)
        op["args"]["Input Dims"] = [[8, i + 1], [i + 1, 8]]
        yield from (op, call, kernel)


def steps(n: int) -> Iterator[Event]:
    """Steps with an op each."""
    for i in range(n):
        yield _span("user_annotation", f"ProfilerStep#{i}", 1000.0 + 10 * i, 10.0)
        yield from _work(i + 1, 1000.0 + 10 * i)


def nested_steps(n: int) -> Iterator[Event]:
    """Steps within one another."""
    for i in range(n):
        yield _span("user_annotation", f"ProfilerStep#{i}", 1000.0 + i, 40.0 + 20.0 * n - 2 * i)
        yield from _work(i + 1, 1000.0 + 12 * n / 10 + 10 * i)


def device_annotations(n: int) -> Iterator[Event]:
    """Device annotations within one another over kernels without a launch, on streams of their own."""
    for i in range(n):
        yield _span("user_annotation", f"range {i % 5}", 1000.0 + 10 * i, 9.0, External_id=i + 1)
        yield _span("gpu_user_annotation", f"range {i % 5}", 1000.0 + i, 9.0 * n - 2 * i, 0, 7, stream=7, device=0)
        yield _span("gpu_user_annotation", f"range {i % 5}", 1000.0 + i, 90.0, 0, 8 + i, stream=8 + i, device=0)
        yield _kernel("gemm", 1000.0 + 2 * n + i, 1.0, 10**6 + i, stream=7 + (i % 2) * (i + 1))


def children(n: int) -> Iterator[Event]:
    """One op that calls all others."""
    yield _span("cpu_op", "my::everything", 1000.0, 10.0 * n + 100)
    for i in range(n):
        yield from _work(i + 1, 1001.0 + 10 * i)


def siblings(n: int) -> Iterator[Event]:
    """One function that calls ops in turn, A B A B, and another that calls none twice."""
    yield _span("python_function", "train.py(1): turns", 1000.0, 10.0 * n + 5)
    for i in range(n):
        yield from _work(i + 1, 1001.0 + 10 * i, op=f"my::{'AB'[i % 2]}")
    yield _span("python_function", "train.py(2): once", 1010.0 + 10 * n, 10.0 * n + 5)
    for i in range(n):
        yield from _work(n + i + 1, 1011.0 + 10 * (n + i), op=f"my::op_{i}")


def process_groups(n: int) -> Iterator[Event]:
    """Collectives, each of a process group of its own; the job's metadata lists all groups."""
    for i in range(n):
        args = {"Collective_name": "allreduce", "Process_Group_Name": str(i), "Seq": 1, "dtype": "Float"}
        args |= {"In_msg_nelems": i + 1, "Out_msg_nelems": i + 1, "Group_size": 2}
        op, call, _ = _work(i + 1, 1000.0 + 10 * i, "record_param_comms")
        yield from (op, call)
        yield _kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1020.0 + 10 * i, 5.0, i + 1, **args)


def steps_of_a_rank(n: int) -> Iterator[Event]:
    """Steps of a rank, each with a collective of another size and a kernel without a launch, called differently."""
    for i in range(n):
        yield _span("user_annotation", f"ProfilerStep#{i}", 1000.0 + 10 * i, 10.0)
        args = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Seq": i, "dtype": "Float"}
        args |= {"In_msg_nelems": i + 1, "Out_msg_nelems": i + 1, "Process_Group_Ranks": "[0, 1]", "Group_size": 2}
        op, call, _ = _work(i + 1, 1000.0 + 10 * i, "record_param_comms")
        yield from (op, call)
        yield _kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1020.0 + 10 * i, 5.0, i + 1, **args)
        yield _kernel(f"kernel_of_{i}_things<{i}>", 1025.0 + 10 * i, 5.0, 10**6 + i)


def modules(n: int) -> Iterator[Event]:
    """Modules within one another, each with an op."""
    for i in range(n):
        yield _span("python_function", f"nn.Module: Layer{i % 3}_{i}", 1000.0 + 10 * i, 20.0 * n - 11 * i)
        yield from _work(i + 1, 1001.0 + 10 * i)


def one_correlation(n: int) -> Iterator[Event]:
    """Launches and kernels that all have one correlation id."""
    for i in range(n):
        op, call, kernel = _work(i + 1, 1000.0 + 10 * i)
        for event in (call, kernel):
            event["args"]["correlation"] = 5
        yield from (op, call, kernel)


def one_launch(n: int) -> Iterator[Event]:
    """Kernels of one launch."""
    op, call, _ = _work(1, 1000.0)
    yield from (op, call)
    for i in range(n):
        yield _kernel(f"k{i % 50}", 1020.0 + 10 * i, 5.0, 1)


def flows(n: int) -> Iterator[Event]:
    """Kernels that only arrows join to their launches, all at one time, and arrows between devices."""
    for i in range(n):
        call, kernel = _call(1000.0 + 10 * i, 0), _kernel("gemm", 1000.0 + 20 * n, 5.0, 0)
        yield from (call, kernel)
        for key in (i + 1, 2**40 + i):
            at = {"cat": "ac2g", "name": "ac2g", "id": key}
            start = {"pid": 100, "tid": 100, "ts": call["ts"]} if key < 2**40 else {"pid": 0, "tid": 7}
            yield {"ph": "s", "ts": kernel["ts"] + 2.0} | at | start
            yield {"ph": "f", "bp": "e", "pid": 0, "tid": 7, "ts": kernel["ts"]} | at


def collectives(n: int) -> Iterator[Event]:
    """Collectives that say nothing of themselves but one name."""
    for i in range(n):
        yield from _work(i + 1, 1000.0 + 10 * i, "c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL")


def one_collective(n: int) -> Iterator[Event]:
    """Kernels of one collective with one sequence number."""
    args = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Process_Group_Ranks": "[0, 1]", "Seq": 1}
    for i in range(n):
        op, call, _ = _work(i + 1, 1000.0 + 10 * i, "record_param_comms")
        yield from (op, call)
        yield _kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1020.0 + 10 * i, 5.0, i + 1, **args)


def recomputation(n: int) -> Iterator[Event]:
    """Forward ops that are recomputed within one backward op of theirs."""
    for i in range(n):
        yield from _work(i + 1, 1000.0 + 10 * i, "aten::linear")
        yield {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": i, "pid": 100, "tid": 100, "ts": 1000.0 + 10 * i}
    yield _span("cpu_op", "CheckpointFunctionBackward", 1000.0 + 20 * n, 20.0 * n + 50, tid=200, Sequence_number=1)
    for i in range(n):
        at = 1010.0 + 20 * n + 10 * i
        yield from _work(n + i + 1, at, "aten::linear", tid=200)
        yield {"ph": "f", "bp": "e", "cat": "fwdbwd", "name": "fwdbwd", "id": i, "pid": 100, "tid": 200, "ts": at}


def sequence_numbers(n: int) -> Iterator[Event]:
    """Forward and backward ops of one sequence number."""
    for i in range(n):
        forward = _work(i + 1, 1000.0 + 10 * i, "aten::linear")
        backward = _work(
            n + i + 1, 1000.0 + 10 * (n + i), "autograd::engine::evaluate_function: AddmmBackward0", tid=200
        )
        forward[0]["args"] |= {"Sequence number": 5}
        backward[0]["args"] |= {"Sequence number": 5, "Fwd thread id": 1}
        yield from chain(forward, backward)


def synchronisations(n: int) -> Iterator[Event]:
    """Calls that wait for the GPU, all at once, and short kernels between them."""
    for i in range(n):
        yield _span("cuda_runtime", "cudaDeviceSynchronize", 1000.0 + 10 * i, 10.0 * n, tid=i % 50)
        yield _span("cuda_sync", "Context Sync", 1000.0 + 10 * i, 10.0 * n, 0, 7, stream=7, device=0)
        yield from _work(i + 1, 1000.0 + 10 * i)


def idle(n: int) -> Iterator[Event]:
    """Gaps between kernels under deep stacks that begin and end within each."""
    for i in range(n):
        yield from _work(i + 1, 1000.0 + 100 * i)
        yield _span("python_function", f"data.py({i % 9}): load", 1030.0 + 100 * i, 60.0)
        yield _span("cpu_op", "aten::item", 1031.0 + 100 * i, 50.0)


SHAPES: dict[str, Callable[[int], Iterator[Event]]] = {
    shape.__name__: shape
    for shape in (
        nested_ops, nested_launches, nested_concurrent, nested_frames, nested_annotations, nested_batches, nested_steps,
        overlapping_annotations, overlapping_ops, long_overlapping_ops, unravelling_ops, one_instant, streams,
        concurrent, devices, threads, processes, names, argument_sets, steps, device_annotations, children, siblings,
        process_groups, steps_of_a_rank, modules, one_correlation, one_launch, flows, collectives, one_collective,
        recomputation, sequence_numbers,
        synchronisations, idle,
    )
}  # fmt: skip
"""Name -> maker of the events of a trace of about n events."""


def trace(shape: str, n: int) -> dict[str, Any]:
    """A trace of a shape, as parsed JSON."""
    properties = [{"id": 0, "name": "GPU of tests", "totalGlobalMem": 2**34, "numSms": 80}]
    found = {"schemaVersion": 1, "deviceProperties": properties, "traceEvents": list(SHAPES[shape](n))}
    if shape == "steps_of_a_rank":
        found["distributedInfo"] = {"rank": 0, "world_size": 2, "backend": "nccl"}
    if shape == "process_groups":
        groups = [{"pg_name": str(i), "pg_desc": "g", "ranks": [0, 1], "backend_config": "nccl"} for i in range(n)]
        found["distributedInfo"] = {"rank": 0, "world_size": 2, "backend": "nccl", "pg_config": groups}
    return found
