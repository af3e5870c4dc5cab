"""Traces of which several are asked at once: made by hand, simulated, and real."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from handmade import HOSTILE, span

from corpus import CHECKOUT, CORPUS
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceMember
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

Call = tuple[str, list[Any], list[tuple[str, float]]]
"""Name of an op, dims of its inputs, and the kernels that it launches with their durations in us."""

OLD: list[Call] = [
    ("aten::mm", [[8, 16]], [("gemm_a", 10.0), ("reduce_a", 2.0)]),
    ("aten::mm", [[8, 16]], [("gemm_a", 20.0)]),
    ("aten::mm", [[4, 4]], [("gemm_a", 5.0)]),
    ("aten::relu", [[8]], [("void relu<4>(int)", 3.0)]),
    ("aten::gone", [[8]], [("gone", 7.0)]),
    ("aten::gone", [[9]], [("gone", 1.0)]),
    ("aten::view", [[8]], []),
    (HOSTILE, [[8]], [(HOSTILE, 1.0)]),
]
NEW: list[Call] = [
    ("aten::mm", [[8, 16]], [("gemm_b", 10.0)]),
    ("aten::mm", [[8, 16]], [("gemm_b", 11.0)]),
    ("aten::mm", [[8, 16]], []),
    ("aten::mm", [[4, 4]], [("gemm_a", 4.0)]),
    ("aten::relu", [[8]], [("void relu<8>(int)", 1.0)]),
    ("aten::fresh", [[8]], []),
    ("aten::view", [[8]], []),
    (HOSTILE, [[8]], [(HOSTILE, 2.0)]),
]


def graph_of(calls: list[Call], **more: Any) -> Any:
    """Calls one after another, each two ops deep below the op it is about; the innermost launches the kernels."""
    events, at, correlation = [], 0.0, 0
    for name, dims, kernels in calls:
        events += [
            span("cpu_op", "outer", at, 90.0),
            span("cpu_op", "middle", at + 1, 80.0),
            span("cpu_op", name, at + 2, 70.0, Input_Dims=dims),
        ]
        for place, (kernel, dur) in enumerate(kernels):
            correlation += 1
            events.append(span("cuda_runtime", "cudaLaunchKernel", at + 3 + place, 0.5, correlation=correlation))
            where = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
            events.append(span("kernel", kernel, at + 10 + 30 * place, dur, **where, correlation=correlation))
        at += 100
    return load_core({"traceEvents": events, **more})


def placed(core: Core, run: str, name: str, labels: tuple[str, ...] = ()) -> TraceMember:
    """A trace as it stands in a run."""
    return TraceMember(core, name, run, labels)


def chain(*names: str) -> Any:
    """Ops each below the one before; the innermost launches a kernel of 4 us."""
    where = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    return load_core(
        [
            *(span("cpu_op", name, depth, 90.0 - 2 * depth) for depth, name in enumerate(names)),
            span("cuda_runtime", "cudaLaunchKernel", 10.0, 1.0, correlation=1),
            span("kernel", "gemm", 20.0, 4.0, **where, correlation=1),
        ]
    )


@cache
def two() -> tuple[TraceMember, TraceMember]:
    return (
        placed(graph_of(OLD), "across", "old", ("commit=b1", "size=10", "empty=")),
        placed(graph_of(NEW), "across", "new", ("commit=a2", "size=9")),
    )


def marked(path: Path, mark: str = "across") -> Any:
    """A trace under an id of its own: a trace stands once in a database, and others place it elsewhere."""
    text = path.read_bytes()
    return load_core({**json.loads(gzip.decompress(text) if path.suffix == ".gz" else text), "placed by": mark})


@cache
def dlrm() -> tuple[TraceMember, ...]:
    assert CORPUS
    folder = CORPUS / "dlrm-8-ranks" / "kineto"
    return tuple(placed(marked(folder / f"rank{n}.json.gz"), "across dlrm", f"rank{n}") for n in range(8))


@cache
def on_host() -> tuple[TraceMember, ...]:
    """Four ranks that communicated over gloo, the last of them late in every step."""
    folder = CHECKOUT / "examples/traces/gloo-4-ranks"
    return tuple(placed(marked(folder / f"rank{n}.json.gz"), "across gloo", f"rank{n}") for n in range(4))


@cache
def simulated() -> tuple[tuple[TraceMember, ...], dict[str, Any]]:
    """Two ranks, of which the second waits for its data; and the truth."""
    run = simulate(steps=2, layers=1, seed=11, problem="late_rank")
    ranks = tuple(placed(load_core(one.trace), "across simulated", f"rank{one.rank}") for one in run.ranks)
    return ranks, run.ranks[0].truth


def ranks_of(
    *starts: tuple[float, float], epoch_ns: tuple[int, ...] = (), run: str = "across ranks", **more: Any
) -> list[TraceMember]:
    """Ranks that take part in one collective each: its start and duration, in us; and more arguments of its kernels."""
    ranks = []
    for rank, (start, dur) in enumerate(starts):
        collective = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Seq": 7, "dtype": "Float", **more}
        kernel = span("kernel", "ncclDevKernel_AllReduce", start, dur, 0, 7, device=0, stream=7, **collective)
        first = span("cpu_op", "aten::empty", 0.0, 1.0)
        base = epoch_ns[rank] if epoch_ns else 0
        trace = {
            "traceEvents": [first, kernel],
            "baseTimeNanoseconds": base,
            "distributedInfo": {"rank": rank},
            "run": run,
        }
        ranks.append(placed(load_core(trace), run, f"rank{rank}"))
    return ranks
