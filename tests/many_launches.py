"""A pair in which GPU work comes about in every way: copies, fills, graph launches, two threads, no launch, no op."""

from __future__ import annotations

from typing import Any

from handmade import span
from mm_pair import node

STEP, COPY, FILL, GRAPH, BACKWARD = 3, 4, 5, 6, 8
NAMES = {STEP: "step", COPY: "aten::copy_", FILL: "aten::zero_", GRAPH: "replay", BACKWARD: "AddBackward0"}
EPOCH = 5_000_000.0


def kineto() -> dict[str, Any]:
    """The profiler's trace: uids are positions in this list."""
    gpu = {"device": 0, "stream": 7}

    def on_gpu(cat: str, name: str, ts: float, dur: float, correlation: int, **args: Any) -> dict[str, Any]:
        return span(cat, name, EPOCH + ts, dur, 0, 7, **gpu, correlation=correlation, **args)

    def host(cat: str, name: str, ts: float, dur: float, tid: int = 100, **args: Any) -> dict[str, Any]:
        return span(cat, name, EPOCH + ts, dur, 100, tid, **args)

    return {
        "schemaVersion": 1,
        "traceEvents": [
            host("user_annotation", "step", 0, 900, External_id=1, Record_function_id=31),
            host("cpu_op", "aten::copy_", 10, 50, External_id=2, Record_function_id=32),
            host("cuda_runtime", "cudaMemcpyAsync", 20, 10, External_id=2, correlation=1),
            host("cpu_op", "aten::zero_", 100, 50, External_id=3, Record_function_id=33),
            host("cuda_runtime", "cudaMemsetAsync", 110, 10, External_id=3, correlation=2),
            host("cpu_op", "replay", 200, 100, External_id=4, Record_function_id=34),
            host("cuda_runtime", "cudaGraphLaunch", 210, 30, External_id=4, correlation=3),
            host("cuda_driver", "cuGraphLaunch", 215, 20, External_id=4, correlation=30),
            host("cuda_runtime", "cudaLaunchKernel", 500, 10, correlation=4),
            # 1,400 us without an op lie between the two on the second thread
            host("cpu_op", "aten::detach", 20, 10, 200, External_id=5),
            host("cpu_op", "AddBackward0", 1430, 100, 200, External_id=6, Record_function_id=36),
            host("cuda_runtime", "cudaLaunchKernel", 1440, 10, 200, External_id=6, correlation=5),
            on_gpu("gpu_memcpy", "Memcpy HtoD", 40, 5, 1, External_id=2, bytes=4096),
            on_gpu("gpu_memset", "Memset", 130, 2, 2, External_id=3, bytes=64),
            on_gpu("kernel", "first of graph", 300, 10, 3, External_id=4),
            on_gpu("kernel", "second of graph", 310, 10, 3, External_id=4),
            on_gpu("gpu_memset", "fill of graph", 320, 1, 3, External_id=4, bytes=8),
            on_gpu("kernel", "launched in the range", 520, 10, 4),
            on_gpu("kernel", "backward", 1460, 40, 5, External_id=6),
            on_gpu("kernel", "launched before the trace", 1, 3, 99),
            on_gpu("kernel", "known by its External id", 5, 3, 98, External_id=3),
            span("cuda_runtime", "cudaLaunchKernel", EPOCH + 2000, 10, 100, 300, correlation=6),
            on_gpu("kernel", "launched by nobody", 2020, 10, 6),
        ],
    }  # fmt: skip


def execution_trace() -> dict[str, Any]:
    """The execution trace. `aten::detach` is not in it; `aten::only_here` is in it alone."""
    thread = "[pytorch|profiler|execution_trace|thread]"
    return {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 100,
        "time": "",
        "start_ts": 0,
        "finish_ts": 1,
        "nodes": [
            node(COPY, STEP, NAMES[COPY], 32, 0),
            node(FILL, STEP, NAMES[FILL], 33, 0),
            node(GRAPH, STEP, NAMES[GRAPH], 34, 0),
            node(9, STEP, "aten::only_here", 40, 0),
            node(STEP, 2, NAMES[STEP], 31, 7),
            node(BACKWARD, 7, NAMES[BACKWARD], 36, 1, tid=2),
            node(7, 1, thread, 0, 7, tid=2),
            node(2, 1, thread, 0, 7),
            node(1, 1, "[pytorch|profiler|execution_trace|process]", 0, 7, tid=0),
        ],
    }
