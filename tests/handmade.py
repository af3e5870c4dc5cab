"""Traces by hand: one small enough to know by heart, one by somebody who means no good."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., tuple[int, str, str]]
"""Runs a command: exit code, standard output, standard error."""

HOSTILE = "evil\x1b[31m|`<b>\n=1+1"
"""A name that would colour a terminal, break a Markdown table, and be a formula in a spreadsheet."""


def span(cat: str, name: str, ts: float, dur: float, pid: Any = 100, tid: Any = 100, **args: Any) -> dict[str, Any]:
    """A complete event; underscores in the names of arguments become blanks."""
    named = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": named}


def gpu(
    ts: float, dur: float, correlation: int, name: str = "gemm", cat: str = "kernel", **args: Any
) -> dict[str, Any]:
    """Work on a GPU: of device 0 and stream 7, unless others are named."""
    place = {"device": 0, "stream": 7} | args
    return span(cat, name, ts, dur, place["device"], place["stream"], **place, correlation=correlation)


def call(ts: float, correlation: int, name: str = "cudaLaunchKernel", dur: float = 2, **where: Any) -> dict[str, Any]:
    """A runtime call, which launches the work of its correlation id."""
    return span("cuda_runtime", name, ts, dur, **where, correlation=correlation)


def small_trace() -> dict[str, Any]:
    """The trace, as parsed JSON. Positions in the list are the uids."""
    gpu = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": "GPU of tests", "totalGlobalMem": 2**34, "numSms": 80}],
        "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"},
        "cuda_runtime_version": 12040,
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
            {"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": "main"}},
            span("user_annotation", "ProfilerStep#5", 1000.0, 900.0, External_id=9),
            span("python_function", "train.py(3): step", 1010.0, 800.0),
            span("python_function", "nn.Module: Linear_0", 1020.0, 500.0),
            span(
                "cpu_op", "aten::linear", 1030.0, 400.0, External_id=1, Input_Dims=[[8, 16], [32, 16]],
                Input_type=["float", "float"],
            ),
            span("cpu_op", "aten::addmm", 1040.0, 300.0, External_id=2, Sequence_number=4),
            span("cuda_runtime", "cudaLaunchKernel", 1050.0, 10.5, External_id=2, correlation=77),
            span("cuda_runtime", "cudaMemcpyAsync", 1070.0, 10.0, External_id=2, correlation=78),
            span("kernel", "gemm", 1100.0, 50.25, **gpu, External_id=2, correlation=77),
            span("gpu_memcpy", "Memcpy DtoH", 1140.0, 20.0, 0, 8, device=0, stream=8, External_id=2, correlation=78,
                 bytes=4096),
            span("cpu_op", "aten::empty", 1500.0, 5.0, External_id=3),
            span("cpu_op", "aten::relu", 1010.0, 100.0, tid=200, External_id=4),
            span("kernel", HOSTILE, 1001.0, 30.0, **gpu, correlation=5),
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 100, "ts": 1041.0,
             "args": {"Bytes": 1024, "Device Id": 0}},
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 77, "pid": 100, "tid": 100, "ts": 1050.0},
            {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 77, "pid": 0, "tid": 7, "ts": 1100.0, "bp": "e"},
            span("Trace", "PyTorch Profiler (0)", 1000.0, 900.0),
        ],
    }  # fmt: skip


LONG = "x" * 1_000_000
NAMES = (
    "'; MATCH (n) DETACH DELETE n //", 'a"b`c\\', "line\nbreak\r\t", "nul\x00", "half \ud800", "`}) SET n:Admin", "",
    LONG, HOSTILE,
)  # fmt: skip


def hostile_trace() -> bytes:
    """Odd names of everything that has one, numbers beyond 64 bits, metadata of the wrong types."""
    trace = small_trace()
    trace["distributedInfo"]["rank"] = 2**70
    trace["deviceProperties"] = [
        {"id": 0, "device": 9, "key": "k", "self": 1, "kind": "Trace", "name": NAMES[0], "architecture": ["x"],
         "memory_bandwidth_gbps": "much"},
        {"id": [1]},
    ]  # fmt: skip
    for i, name in enumerate(NAMES):
        ts, lane = 2000 + 100 * i, {"pid": f"{name}p", "tid": f"{name}t"}
        shapes = {"Input_Dims": [[2**70, i]], "Input_type": [name]}
        group = {"Process_Group_Name": name, "Collective_name": "allreduce", "In_msg_nelems": 2**70, "dtype": name}
        gpu = {"device": 0, "stream": 7, "correlation": 1000 + i}
        trace["traceEvents"] += [
            span("cpu_op", name, ts, 50, **lane, External_id=2**70 + i, Sequence_number=2**65, **shapes),
            span("cuda_runtime", "cudaLaunchKernel", ts + 5, 5, **lane, correlation=1000 + i),
            span("kernel", f"ncclDevKernel_AllReduce {name}", ts + 20, 5, 0, 7, **gpu, **group),
        ]
    return json.dumps(trace).encode()
