"""What analyses add to the graph as nodes and edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade import span
from hypothesis import given
from made_traces import traces
from memory_traces import instant, training

import tracelens_graph as tlg
from corpus import chosen_traces, parametrize
from tracelens_graph.analyses.idle.idle import idle_parts
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import CONTEXT_EDGES, CONTEXT_KINDS

NVJET = "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT"


@pytest.fixture(scope="module")
def full() -> Any:
    shapes = {"Input_Dims": [[8, 16], [16, 4]], "Input_type": ["c10::BFloat16", "c10::BFloat16"]}
    return tlg.load(
        [
            span("cpu_op", "aten::linear", 0, 20),
            span("cpu_op", "aten::mm", 1, 10, **shapes),
            span("cuda_runtime", "cudaLaunchKernel", 2, 1, correlation=1),
            span("kernel", NVJET, 50, 5, pid=0, tid=7, device=0, stream=7, correlation=1),
            span("cpu_op", "aten::mm", 30, 10),
            span("cuda_runtime", "cudaLaunchKernel", 31, 1, correlation=2),
            span("kernel", "gemm", 60, 5, pid=0, tid=7, device=0, stream=7, correlation=2),
        ]
    ).full


def test_categories(full: Any) -> None:
    assert full.has_edge(1, "category:op:GEMM", "IN_CATEGORY")
    assert not full.has_edge(0, "category:op:GEMM", "IN_CATEGORY")
    (name,) = [end for _, end, kind in full.out_edges(3, keys=True) if kind == "NAMED"]
    assert full.has_edge(name, "category:kernel:GEMM", "IN_CATEGORY")
    assert full.nodes[name]["tile_m"] == 320


def test_costs_stand_on_signatures(full: Any) -> None:
    of = {op: end for op in (1, 4) for _, end, kind in full.out_edges(op, keys=True) if kind == "HAS_SIGNATURE"}
    known, unknown = full.nodes[of[1]], full.nodes[of[4]]
    assert (known["flops"], known["moved_bytes"], known["compute_spec"]) == (
        2 * 8 * 16 * 4,
        2 * (128 + 64 + 32),
        "matrix_bf16",
    )
    assert "flops" not in unknown
    assert "not recorded" in unknown["no_model"]


def test_each_event_is_modelled_by_one_op(full: Any) -> None:
    pairs = {(event, op) for event, op, kind in full.edges(keys=True) if kind == "MODELLED_BY"}
    assert pairs == {(3, 1), (6, 4)}


def check(graph: Any) -> None:
    full = graph.full
    ends = {edge.name: edge for edge in CONTEXT_EDGES}
    modelled = [event for event, _, kind in full.edges(keys=True) if kind == "MODELLED_BY"]
    assert len(modelled) == len(set(modelled))
    for _, end, kind in full.edges(keys=True):
        if kind in ("IN_CATEGORY", "MODELLED_BY"):
            assert full.nodes[end]["kind"] == ends[kind].target
    assert {data["kind"] for node, data in full.nodes(data=True) if isinstance(node, str)} <= CONTEXT_KINDS.keys()


@given(traces())
def test_made_traces(trace: dict[str, object]) -> None:
    check(tlg.TraceGraph(load_core(trace)))


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    check(tlg.load(path))


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


def test_allocations_lead_to_calls_modules_and_from_releases() -> None:
    g = TraceGraph(load_core(training()))
    full, at = g.full, {node.uid: node.start_ns // 1000 for node in g.find(kind="MemoryEvent")}
    found: dict[str, set[tuple[int, object]]] = {"ALLOCATED_IN": set(), "IN_MODULE": set(), "RELEASES": set()}
    for source, target, kind in full.edges(keys=True):
        if source in at and kind in found:
            found[kind].add((at[source], at.get(target, full.nodes[target]["name"])))
    autograd = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert found == {
        "ALLOCATED_IN": {
            (40, "aten::addmm"), (45, "aten::addmm"), (50, "aten::addmm"), (310, "AddmmBackward0"), (415, autograd),
            (520, "aten::zeros_like"),
        },
        "IN_MODULE": {
            *((time, "nn.Module: Linear_0") for time in (40, 45, 50, 310)), (520, "Optimizer.step#SGD.step"),
        },
        "RELEASES": {(95, 50), (390, 40), (800, 310)},
    }  # fmt: skip


def test_edges_are_those_of_the_schema() -> None:
    ends = {edge.name: edge for edge in CONTEXT_EDGES}
    g = TraceGraph(load_core(training()))
    for source, target, kind in g.full.edges(keys=True):
        if g.full.nodes[source].get("kind") == "MemoryEvent" and kind in ("ALLOCATED_IN", "IN_MODULE", "RELEASES"):
            assert "MemoryEvent" in ends[kind].source.split("|")
            assert g.full.nodes[target]["kind"] in ends[kind].target.split("|")


def test_an_allocation_outside_of_all_calls_leads_nowhere() -> None:
    g = TraceGraph(load_core([span("cpu_op", "aten::mm", 1, 2), instant(9, 8, 1, 8)]))
    kinds = {kind for _, _, kind in g.full.edges(keys=True)}
    assert not kinds & {"ALLOCATED_IN", "IN_MODULE", "RELEASES"}
