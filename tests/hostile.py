"""A trace by somebody who means no good."""

from __future__ import annotations

import json

from handmade import HOSTILE, small_trace, span

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
