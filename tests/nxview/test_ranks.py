"""All ranks of a job as one networkx graph: their nodes, what joins them, and algorithms of networkx on it."""

from __future__ import annotations

import json
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from handmade import span

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, critical_path, step_paths
from tracelens_graph.analyses.critical_path.job_causes import job_causes
from tracelens_graph.api import load, load_set
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph.trace_set import NODES_PER_TRACE, TraceMember, TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.ranks import RanksGraph, TraceGraphSet
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.simulate import simulate

RANKS = 3


@cache
def job() -> tuple[TraceGraphSet, list[dict[str, Any]]]:
    """A simulated job whose clocks are apart by 20 ms from rank to rank, and the truth of each rank."""
    ran = simulate(ranks=RANKS, steps=2, clock_offset_us=20_000.0, memory=False, python_stacks=False)
    return TraceGraphSet.of([load(one.trace) for one in ran.ranks]), [one.truth for one in ran.ranks]


@cache
def dlrm() -> TraceGraphSet:
    assert CORPUS is not None
    return load_set(CORPUS / "dlrm-8-ranks/kineto")


def paths_of(traces: TraceSet) -> list[CriticalPath]:
    """The path through everything, then those of the steps."""
    known = job_causes(traces)
    return [critical_path(known), *step_paths(known)]


def transfer(rank: int, kind: str, start: float, end: float, known: bool = True) -> dict[str, Any]:
    """A trace of a pipeline of two ranks in which rank 0 sends to rank 1."""
    ends = {"Src Rank": 0, "Dst Rank": 1} if known else {}
    args = {
        "Collective name": kind, "dtype": "Float", "In msg nelems": 256, "Out msg nelems": 256, "Group size": 2,
        "Process Group Name": "pp", "Process Group Ranks": "[0, 1]", "Seq": 1, **ends,
    }  # fmt: skip
    kernel = span("kernel", "ncclDevKernel_SendRecv", start, end - start, 0, 9, device=rank, stream=9, correlation=1)
    kernel["args"] |= args
    launch = span("cuda_runtime", "cudaLaunchKernelExC", start - 5, 2, correlation=1)
    job = {"rank": rank, "world_size": 2}
    return {
        "baseTimeNanoseconds": 10**18, "distributedInfo": job, "host_name": "h", "traceEvents": [launch, kernel],
    }  # fmt: skip


def test_nodes_are_those_of_the_traces_with_rank_and_trace() -> None:
    traces, _ = job()
    graph = traces.graph
    assert isinstance(graph, nx.MultiDiGraph)
    assert graph is traces.graph
    seen = 0
    for ordinal, trace in enumerate(traces):
        own = trace.graph
        assert isinstance(own, TraceGraph)
        starts = graph.matched.clock_ns(ordinal, own.columns.start_ns.astype(np.int64))
        start_of = dict(zip(own.columns.uid.tolist(), starts.tolist(), strict=True))
        for uid, attributes in own.nodes(data=True):
            here = graph.nodes[traces.node_id(ordinal, uid)]
            assert here == {**attributes, "rank": ordinal, "trace": trace.name, "start_ns": start_of[uid]}
            seen += 1
    assert len(graph) == seen + len(graph.matched) + 1 + sum(1 + len(path) for path in paths_of(traces))
    # One by one, and block by block.
    assert dict(graph.nodes(data=True)) == {node: graph.nodes[node] for node in graph}


def test_edges_of_a_trace_stay_in_it() -> None:
    traces, _ = job()
    graph = traces.graph
    whole = sum(trace.graph.number_of_edges() for trace in traces)  # type: ignore[union-attr]
    parts = int(graph.matched.count.sum())
    of_paths = sum(2 * len(path) - 1 + sum(uid is not None for uid in path.nodes.uid) for path in paths_of(traces))
    assert graph.number_of_edges() == graph.size() == whole + parts + len(graph.matched) + of_paths
    crossing = {
        kind
        for source, target, kind in graph.edges(keys=True)
        if source // NODES_PER_TRACE != target // NODES_PER_TRACE
    }
    assert crossing == {"MEMBER_OF", "ON_PATH"}
    for ordinal, trace in enumerate(traces):
        low, high = ordinal * NODES_PER_TRACE, (ordinal + 1) * NODES_PER_TRACE
        here = [
            (a - low, b - low, kind) for a, b, kind in graph.edges(keys=True) if low <= a < high and low <= b < high
        ]
        assert sorted(here) == sorted(trace.graph.edges(keys=True))  # type: ignore[union-attr]


def test_collectives_are_those_of_the_simulation() -> None:
    traces, truth = job()
    graph = traces.graph
    true = truth[0]["collectives"]
    assert len(graph.matched) == len(true)
    by_kernels = {tuple(one["kernels"]): one for one in true}
    for number in range(len(true)):
        node = graph.collective(number)
        about = graph.nodes[node]
        members = dict(graph.pred[node])
        assert graph.in_degree(node) == RANKS == about["ranks"]
        told = by_kernels[tuple(member % NODES_PER_TRACE for member in sorted(members))]
        assert (about["kind"], about["name"], about["sequence"]) == ("Collective", told["kind"], told["seq"])
        assert about["collective"] == number
        assert about["dtype"] == told["dtype"]
        starts = np.array(told["start_ns"])
        assert about["start_skew_ns"] == np.ptp(starts)
        assert about["last_rank"] == int(starts.argmax())
        gathered = RANKS if told["kind"] == "_allgather_base" else 1
        assert about["message_bytes"] == told["bytes"] * gathered
        assert about["busbw_gb_s"] > 0
        waits = [members[member]["MEMBER_OF"]["wait_ns"] for member in sorted(members)]
        assert waits == (starts.max() - starts).tolist()
        assert about["wait_ns"] == sum(waits)
        for member, edge in members.items():
            assert sum(edge["MEMBER_OF"].values()) == graph.nodes[member]["dur_ns"]
    in_order = [graph.nodes[graph.collective(number)]["start_ns"] for number in range(len(true))]
    assert in_order == sorted(in_order)


def test_groups_are_nodes_by_their_ranks() -> None:
    graph = job()[0].graph
    [group] = [node for node, kind in graph.nodes(data="kind") if kind == "ProcessGroup"]
    assert graph.nodes[group] == {
        "kind": "ProcessGroup", "name": "0", "description": "default_pg", "ranks": "[0, 1, 2]", "size": 3,
    }  # fmt: skip
    assert graph.in_degree(group) == len(graph.matched)
    assert {kind for _, _, kind in graph.in_edges(group, keys=True)} == {"IN_GROUP"}


def test_algorithms_of_networkx_run_on_it() -> None:
    traces, _ = job()
    graph = traces.graph
    node = graph.collective(0)
    above = nx.ancestors(graph, node)
    assert {other // NODES_PER_TRACE for other in above} == set(range(RANKS))
    assert {graph.nodes[other]["kind"] for other in above} >= {"Kernel", "RuntimeCall", "Op"}
    around = graph.subgraph([node, *graph.predecessors(node)])
    assert (len(around), around.number_of_edges()) == (RANKS + 1, RANKS)
    copied = nx.MultiDiGraph(graph)
    assert nx.utils.graphs_equal(copied, graph.to_networkx())
    assert nx.utils.graphs_equal(copied, graph)
    assert copied.number_of_edges() == graph.number_of_edges()
    copied.add_edge(node, 0)  # which the graph itself refuses
    plain = nx.DiGraph(graph)
    assert plain.number_of_nodes() == len(graph)
    assert nx.has_path(plain.to_undirected(), 0, traces.node_id(2, 0))
    reverse = graph.reverse(copy=False)
    assert set(reverse.successors(node)) == set(graph.predecessors(node))


def test_a_critical_path_leads_over_the_events_of_ranks() -> None:
    traces, _ = job()
    graph = traces.graph
    for path in paths_of(traces):
        node = graph.critical_path(path.step)
        about = graph.nodes[node]
        assert (about["kind"], about.get("step"), about["dur_ns"]) == ("CriticalPath", path.step, path.length_ns)
        assert about["segments"] == graph.in_degree(node) == len(path)
        assert graph.out_degree(node) == 0
        chain = graph.subgraph(graph.predecessors(node))
        order = list(nx.topological_sort(chain))
        assert chain.number_of_edges() == len(order) - 1  # a chain
        assert {kind for _, _, kind in chain.edges(keys=True)} == {"NEXT_ON_PATH"}
        for segment, row in zip(order, path.segments().records(), strict=True):
            known = graph.nodes[segment]
            assert (known["class"], known["dur_ns"]) == (row["class"], row["dur_ns"])
            assert (known.get("rank"), known.get("uid")) == (row["rank"], row["uid"])
            events = [one for one in graph.predecessors(segment) if one < RANKS * NODES_PER_TRACE]
            assert events == ([] if row["uid"] is None else [traces.node_id(row["rank"], row["uid"])])
            for event in events:
                assert graph.nodes[event]["name"] == known["name"]
                assert "ON_PATH" in graph[event][segment]
        computed = sum(graph.nodes[one]["dur_ns"] for one in order if graph.nodes[one]["class"] == "computation")
        assert computed == path.ns_by_class["computation"]
    with pytest.raises(NodeNotFoundError, match="no rank has GPU work of step 99"):
        graph.critical_path(99)


def test_it_cannot_be_written_to() -> None:
    graph = job()[0].graph
    assert nx.is_frozen(graph)
    for write in (
        lambda: graph.add_node(5),
        lambda: graph.remove_node(0),
        lambda: graph.add_edge(0, 1),
        lambda: graph.nodes[graph.collective(0)].update(name="x"),
    ):
        with pytest.raises(nx.NetworkXError, match="read-only"):
            write()


def test_nodes_are_found_by_their_numbers() -> None:
    traces, _ = job()
    graph = traces.graph
    uid = int(traces[1].core.columns.uid[0])
    number = traces.node_id(1, uid)
    assert number in graph
    assert float(number) in graph
    assert graph.nodes[np.int64(number)]["uid"] == uid
    for absent in (-1, RANKS * NODES_PER_TRACE + 10**6, (RANKS + 7) * NODES_PER_TRACE, 10**9, "rank0", None, 0.5):
        assert absent not in graph
        with pytest.raises(KeyError):
            graph.nodes[absent]
    with pytest.raises(NodeNotFoundError, match=r"there is no collective 99 among \d+, counted from 0"):
        graph.collective(99)


def test_it_survives_pickling() -> None:
    traces, _ = job()
    again = pickle.loads(pickle.dumps(traces.graph))
    assert isinstance(again, RanksGraph)
    assert nx.utils.graphs_equal(again, traces.graph)
    both = pickle.loads(pickle.dumps(traces))
    assert len(both.graph) == len(traces.graph)
    assert (
        repr(again) == str(again) == f"<RanksGraph of 3 traces: {len(again):,} nodes, {len(again.matched)} collectives>"
    )


def test_sets_made_of_sets_have_the_graph_too() -> None:
    traces, _ = job()
    assert {one // NODES_PER_TRACE for one in traces[:2].graph} == {0, 1, 2}
    assert traces[:2].graph.in_degree(traces[:2].graph.collective(0)) == 2
    windows = traces.narrowed(step=3)
    assert len(windows.graph) == len(traces.graph)  # windows do not cut it
    plain = TraceSet.of([load_core(transfer(rank, kind, 5, 20)) for rank, kind in enumerate(("send", "recv"))])
    assert not isinstance(plain, TraceGraphSet)
    assert len(TraceGraphSet.of(plain).graph) == 9  # four events, a collective, its group, a path of two segments
    assert len(TraceGraphSet.of([]).graph) == 0
    alone = TraceGraphSet.of(plain[:1]).graph
    assert sorted(dict(alone.nodes(data="kind")).values()) == [
        "CriticalPath", "Kernel", "PathSegment", "PathSegment", "RuntimeCall",
    ]  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
def test_a_transfer_is_an_edge_from_sender_to_receiver(known: bool) -> None:
    sent, got = transfer(0, "send", 50, 90, known), transfer(1, "recv", 20, 90, known)
    traces = TraceGraphSet.of([load(sent), load(got)])
    graph = traces.graph
    kernels = traces.node_id(0, 1), traces.node_id(1, 1)
    [edge] = [one for one in graph.edges(keys=True, data=True) if one[2] == "SENDS"]
    assert edge == (
        *kernels, "SENDS", {"collective": 0, "message_bytes": 1024, "latency_ns": 40_000, "start_skew_ns": 30_000},
    )  # fmt: skip
    assert graph.edges[kernels[1], graph.collective(0), "MEMBER_OF"] == {
        "wait_ns": 30_000, "transfer_ns": 40_000, "end_skew_ns": 0,
    }  # fmt: skip
    # Read the other way round, it is the same transfer.
    turned = TraceGraphSet.of([TraceMember(load(got), "b"), TraceMember(load(sent), "a")]).graph
    assert [(a, b) for a, b, kind in turned.edges(keys=True) if kind == "SENDS"] == [kernels[::-1]]


def test_stages_of_a_pipeline_send_to_one_another() -> None:
    ran = simulate(ranks=2, steps=2, pipeline_parallel=2, memory=False, python_stacks=False)
    traces = TraceGraphSet.of([load(one.trace) for one in ran.ranks])
    graph = traces.graph
    sent = [(a, b) for a, b, kind in graph.edges(keys=True) if kind == "SENDS"]
    assert len(sent) == sum(kind == "send" for kind in graph.matched.kind) > 0
    for ends, wanted in (([a for a, _ in sent], "send"), ([b for _, b in sent], "recv")):
        for number in ends:
            ordinal, uid = divmod(number, NODES_PER_TRACE)
            core = traces[ordinal].core
            assert core.collectives.nodes[core.collectives.of_row[core.row(uid)]].kind == wanted
    # Activations go to the next stage, gradients back.
    assert {(a // NODES_PER_TRACE, b // NODES_PER_TRACE) for a, b in sent} == {(0, 1), (1, 0)}


def test_graphs_without_collectives_stand_side_by_side() -> None:
    one = {"traceEvents": [span("cpu_op", "aten::mm", 0, 5), span("cpu_op", "aten::add", 6, 1)]}
    graph = TraceGraphSet.of({"a": load(one), "b": load(one)}).graph
    assert sorted(graph) == [0, 1, NODES_PER_TRACE, NODES_PER_TRACE + 1]
    assert graph.number_of_edges() == 0
    assert graph.nodes[0]["trace"] == "a"
    assert "rank" not in graph.nodes[0]


def test_a_set_of_lean_graphs_says_what_it_lacks(tmp_path: Path) -> None:
    for rank, kind in enumerate(("send", "recv")):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(transfer(rank, kind, 5, 20)))
    assert len(load_set(tmp_path).graph) == 9
    with pytest.raises(AnalysisError, match="loaded without the column"):
        assert load_set(tmp_path, columns=["kind", "start_ns"]).graph


@needs_corpus
def test_eight_ranks_without_metadata() -> None:
    traces = dlrm()
    graph = traces.graph
    assert len(graph.matched) == 8
    skews = []
    for number in range(8):
        node = graph.collective(number)
        assert graph.in_degree(node) == 8
        assert {graph.nodes[kernel]["rank"] for kernel in graph.predecessors(node)} == set(range(8))
        assert graph.out_degree(node) == 0  # nothing tells of a process group
        skews.append(graph.nodes[node]["start_skew_ns"])
        assert graph.nodes[node]["end_skew_ns"] <= 7_000
    assert (min(skews), max(skews)) == (125_000, 7_624_000)
    last = [graph.nodes[graph.collective(number)]["last_rank"] for number in range(8)]
    assert last.count(7) == 5
    reached = nx.ancestors(graph, graph.collective(3))
    assert {graph.nodes[node]["rank"] for node in reached} == set(range(8))
