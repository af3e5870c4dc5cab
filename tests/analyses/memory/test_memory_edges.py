"""Allocations in the graph with all that is known: the call, the module, the release."""

from __future__ import annotations

from handmade import span
from memory_traces import instant, training

from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import CONTEXT_EDGES


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
