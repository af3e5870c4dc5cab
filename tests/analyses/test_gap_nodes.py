"""Idle time as nodes: between which GPU events each gap lies, and what caused it."""

from __future__ import annotations

from typing import Any

from handmade import span
from hypothesis import given
from made_traces import traces

from tracelens_graph.analyses.idle.idle import idle_parts
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph


def gpu(name: str, ts: float, dur: float, stream: int, correlation: int) -> dict[str, Any]:
    return span("kernel", name, ts, dur, 0, stream, device=0, stream=stream, correlation=correlation)


def call(ts: float, dur: float, correlation: int) -> dict[str, Any]:
    return span("cuda_runtime", "cudaLaunchKernel", ts, dur, correlation=correlation)


def overlapping() -> Core:
    """All-reduce runs on when a short copy beside it is over; what follows is launched late, then early."""
    return load_core([
        call(0, 5, 1), call(10, 5, 2),
        gpu("all_reduce", 20, 80, 8, 1),  # until 100
        gpu("copy", 40, 10, 7, 2),
        span("python_function", "train.py(3): step", 90, 60),
        span("cpu_op", "aten::mm", 130, 20),
        call(140, 5, 3), call(146, 2, 4),
        gpu("mm", 150, 10, 7, 3),
        gpu("add", 163, 2, 7, 4),
    ])  # fmt: skip


def test_a_gap_lies_between_what_ended_last_and_what_starts_next() -> None:
    g = TraceGraph(overlapping())
    gaps = {key: data for key, data in g.full.nodes(data=True) if data.get("kind") == "Gap"}
    assert [(data["number"], data["dur_ns"], data["cause"]) for data in gaps.values()] == [
        (1, 50_000, "python"), (2, 3_000, "queued"),
    ]  # fmt: skip
    for gap, (before, after, causes) in zip(
        gaps,
        [("all_reduce", "mm", {"train.py(3): step", "aten::mm", "cudaLaunchKernel"}), ("mm", "add", set())],
        strict=True,
    ):
        into = {edge: g.full.nodes[one]["name"] for one, _, edge in g.full.in_edges(gap, keys=True)}
        assert into == {"BEFORE": before, "AFTER": after}
        assert {g.full.nodes[one]["name"] for _, one in g.full.out_edges(gap)} == causes


@given(traces())
def test_gaps_begin_where_an_event_ends(trace: dict[str, Any]) -> None:
    core = load_core(trace)
    idle, c = idle_parts(core), core.columns
    assert c.end_ns[idle.ended].tolist() == idle.start.tolist()
    assert c.start_ns[idle.row].tolist() == idle.end.tolist()
    assert c.device[idle.ended].tolist() == c.device[idle.row].tolist()
