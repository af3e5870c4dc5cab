"""The graph as Python users hold it: loading, frames, saving, pickling, and the way to networkx and back."""

from __future__ import annotations

import copy
import io
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from handmade import HOSTILE, small_trace
from hypothesis import given
from made_traces import traces

import tracelens_graph as tlg
from corpus import chosen_traces, kineto_traces, loaded, parametrize, parametrize_all
from tracelens_graph.api import from_networkx, load
from tracelens_graph.errors import AnalysisError, NodeNotFoundError, OutputError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import EVENT_EDGES, STORED, Kind
from tracelens_graph.stores.frames import ARGSET_PARTS

LINEAR, ADDMM, LAUNCH, GEMM, STRAY = 5, 6, 7, 9, 13


@pytest.fixture(scope="module")
def graph() -> TraceGraph:
    return load(small_trace())


def write(folder: Path) -> Path:
    import json

    path = folder / "small.json"
    path.write_text(json.dumps(small_trace()))
    return path


# --- loading ---------------------------------------------------------------------------------------------------


def test_load_gives_a_networkx_graph(graph: TraceGraph) -> None:
    assert isinstance(graph, tlg.TraceGraph | nx.MultiDiGraph)
    assert isinstance(graph, Core)
    assert nx.is_directed(graph)
    assert graph.is_multigraph()
    assert graph.name == "<parsed trace>"
    assert graph.graph["rank"] == 3


def test_nodes_are_uids_in_row_order(graph: TraceGraph) -> None:
    assert list(graph) == graph.columns.uid.tolist()
    assert graph.nodes[GEMM]["name"] == "gemm"
    assert graph.nodes[GEMM]["dur_ns"] == 50250
    assert graph[ADDMM] == {LAUNCH: {"CALLS": {}}, 8: {"CALLS": {}}, 2: {"DURING": {}}}
    assert graph.has_edge(LAUNCH, GEMM, "LAUNCHES")
    assert graph.has_edge(GEMM, ADDMM, "CHARGED_TO")


def test_loading_makes_no_dictionaries(corpus: Path) -> None:
    graph = load(corpus / "tracelens/h100/qwen1.5-0.5b.json.gz")
    assert dict.__len__(graph._adj) == dict.__len__(graph._pred) == dict.__len__(graph._node) == 0
    assert [*graph._kept.values()] == [graph.everything]


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    events = [{"ph": "X", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(20000)]
    load({"traceEvents": events}, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] <= seen[-1][1]
    assert len(seen) > 2


def test_no_progress_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    load(small_trace())
    assert capfd.readouterr() == ("", "")


# --- showing ---------------------------------------------------------------------------------------------------


def test_repr_tells_source_size_and_duration(tmp_path: Path) -> None:
    graph = load(write(tmp_path))
    assert repr(graph) == str(graph) == "<TraceGraph small.json: 13 nodes, 3 GPU events, 0.9 ms, 1 device>"


def test_repr_of_an_empty_trace() -> None:
    assert repr(load([])) == "<TraceGraph <parsed trace>: 0 nodes, 0 GPU events, 0.0 ms, 0 devices>"


def test_html_counts_kinds_and_escapes(graph: TraceGraph) -> None:
    html = graph._repr_html_()
    assert "&lt;parsed trace&gt;" in html
    found = dict(re.findall(r">(\w+)</th><td>([\d,]+)</td>", html))
    counts = {kind.name: int((graph.columns.kind == kind).sum()) for kind in Kind}
    assert found == {name: str(count) for name, count in counts.items() if count}
    assert HOSTILE not in graph.node(STRAY)._repr_html_()


def test_completion_offers_what_works(graph: TraceGraph) -> None:
    offered = dir(graph)
    assert {"node", "find", "subtree", "tree", "full", "nodes", "edges", "to_networkx"} <= set(offered)
    assert {"add_node", "remove_edge", "clear", "update"}.isdisjoint(offered)
    assert graph.full._ipython_key_completions_() == [node for node in graph.full if isinstance(node, str)]


# --- tables and files ------------------------------------------------------------------------------------------


def test_nodes_frame(graph: TraceGraph) -> None:
    frame = graph.nodes_frame()
    assert frame.index.name == "uid"
    assert list(frame.index) == list(graph)
    expected = {prop.name for prop in STORED} - {"uid", "thread", "argset"} | {"pid", "tid", *ARGSET_PARTS}
    assert expected <= set(frame.columns)
    for uid in graph:
        node, row = graph.node(uid), frame.loc[uid]
        assert (row["kind"], row["name"], row["start_ns"]) == (node.kind.name, node.name, node.start_ns)
        assert (None if pd.isna(row["parent"]) else row["parent"]) == (node.parent.uid if node.parent else None)
        assert (None if pd.isna(row["step"]) else row["step"]) == (node.step.uid if node.step else None)
        assert row["gpu_sum_ns"] == node.gpu_time.sum
        assert row["gpu_busy_ns"] == node.gpu_time.busy
    assert {frame[name].dtype.name for name in ("kind", "name", "pid", "owner_rule")} == {"category"}
    assert frame["stream"].dtype == "Int64"
    assert frame.attrs["units"]["dur_ns"] == "ns"


def test_nodes_frame_with_places(graph: TraceGraph) -> None:
    plain, frame = graph.nodes_frame(), graph.nodes_frame(add=["module", "step", "launcher"])
    added = ["module", "module_name", "step_number", "launcher", "launcher_name"]
    assert list(frame.columns) == [*plain.columns, *added]
    for uid in graph:
        node, row = graph.node(uid), frame.loc[uid]
        module = node.modules[-1] if node.modules else None
        for place, other in (("module", module), ("launcher", node.launcher)):
            expected = (other.uid, other.name) if other else (None, None)
            assert tuple(None if pd.isna(row[name]) else row[name] for name in (place, f"{place}_name")) == expected
        number = row["step_number"]
        assert (None if pd.isna(number) else f"ProfilerStep#{number}") == (node.step.name if node.step else None)
    assert frame["module_name"].dtype == "category"
    assert frame.attrs["definitions"]["launcher_name"].startswith("of GPU work")
    assert list(graph.nodes_frame(add="step").columns) == [*plain.columns, "step_number"]
    with pytest.raises(AnalysisError, match="did you mean module"):
        graph.nodes_frame(add=["modul"])


@parametrize("path", chosen_traces())
def test_places_of_real_events(path: Path) -> None:
    graph = TraceGraph(loaded(path))
    frame = graph.nodes_frame(add=["module", "step", "launcher"])
    for uid in list(graph)[:: max(1, len(graph) // 200)]:
        node, row = graph.node(uid), frame.loc[uid]
        assert (None if pd.isna(row["module"]) else row["module"]) == (node.modules[-1].uid if node.modules else None)
        assert (None if pd.isna(row["launcher"]) else row["launcher"]) == (node.launcher.uid if node.launcher else None)
        assert pd.isna(row["step_number"]) == (node.step is None)


def test_edges_frame(graph: TraceGraph) -> None:
    frame = graph.edges_frame()
    assert frame["type"].dtype == "category"
    assert {tuple(row) for row in frame.itertuples(index=False)} == set(graph.edges(keys=True))
    assert len(frame) == graph.number_of_edges()


def test_save_and_load(graph: TraceGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "small.tlg")
    again = load(tmp_path / "small.tlg")
    assert again.equals(graph)
    assert nx.utils.graphs_equal(again, graph)
    assert again.node(LINEAR).args == graph.node(LINEAR).args


def test_export(graph: TraceGraph, tmp_path: Path) -> None:
    done = graph.export(tmp_path / "small.graphml")
    assert (done.nodes, done.edges) == (len(graph), graph.number_of_edges())
    back = nx.read_graphml(tmp_path / "small.graphml", force_multigraph=True)
    assert (len(back), back.number_of_edges()) == (len(graph), graph.number_of_edges())
    with pytest.raises(OutputError):
        graph.export(tmp_path / "small.docx")


# --- pickling --------------------------------------------------------------------------------------------------


def source_of(how: str, folder: Path) -> Any:
    path = write(folder)
    if how == "saved graph":
        load(path).save(folder / "small.tlg")
        return folder / "small.tlg"
    return {"path": path, "bytes": path.read_bytes(), "stream": io.BytesIO(path.read_bytes())}[how]


@pytest.mark.parametrize("how", ["path", "bytes", "saved graph", "stream"])
def test_pickle(how: str, tmp_path: Path) -> None:
    graph = load(source_of(how, tmp_path))
    again = pickle.loads(pickle.dumps(graph))
    assert type(again) is TraceGraph
    assert again.equals(graph)
    assert again.trace_id == graph.trace_id
    assert list(again.edges(keys=True)) == list(graph.edges(keys=True))
    assert not again.columns.uid.flags.writeable
    # A stream was spooled to a file of this process, which another one cannot open.
    assert again.node(LINEAR).args == ({} if how == "stream" else graph.node(LINEAR).args)


def test_pickle_into_another_process(tmp_path: Path) -> None:
    (tmp_path / "graph.pickle").write_bytes(pickle.dumps(load(write(tmp_path))))
    code = "import pickle, sys; g = pickle.load(open(sys.argv[1], 'rb')); print(g, g.node(5).args['External id'])"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "graph.pickle")], check=True, capture_output=True, text=True
    )
    assert run.stdout == "<TraceGraph small.json: 13 nodes, 3 GPU events, 0.9 ms, 1 device> 1\n"


def test_a_deep_copy_is_a_graph_of_its_own(graph: TraceGraph) -> None:
    again = copy.deepcopy(graph)
    assert again.equals(graph)
    assert again != graph


# --- to networkx and back --------------------------------------------------------------------------------------


def meaning(core: Core) -> dict[str, Any]:
    """Columns with their codes replaced by what these stand for, and all edges."""
    columns = {name: column.tolist() for name, column in core.columns}
    columns["name"] = [core.names[code] for code in columns["name"]]
    columns["thread"] = [tuple(core.threads[code]) for code in columns["thread"]]
    columns["argset"] = [core.nodes_at([row])[0].shapes for row in range(len(core.columns))]
    edges = {edge.name: np.stack(edge_rows(core, edge.name)).tolist() for edge in EVENT_EDGES}
    return {**columns, **edges, "info": core.info}


@given(trace=traces())
def test_generated_graphs_agree_and_come_back(trace: dict[str, Any]) -> None:
    graph = load(trace)
    plain = nx.MultiDiGraph(graph)
    assert nx.utils.graphs_equal(graph.to_networkx(), plain)
    assert dict(graph.nodes(data=True)) == {uid: graph.node(uid).attributes() for uid in graph}
    again = from_networkx(plain)
    ours, theirs = meaning(graph), meaning(again)
    assert ours == theirs
    assert from_networkx(again.to_networkx()).equals(again)


@parametrize_all("path", [path for path in kineto_traces() if path.stat().st_size < 200_000])
def test_real_graphs_come_back(path: Path) -> None:
    graph = load(path)
    again = from_networkx(graph.to_networkx())
    assert meaning(again) == meaning(graph)


def test_context_does_not_come_back(graph: TraceGraph) -> None:
    assert from_networkx(nx.MultiDiGraph(graph.full)).equals(from_networkx(graph.to_networkx()))


def test_order_of_nodes_does_not_matter(graph: TraceGraph) -> None:
    plain, shuffled = graph.to_networkx(), nx.MultiDiGraph()
    shuffled.graph.update(plain.graph)
    shuffled.add_nodes_from(reversed(list(plain.nodes(data=True))))
    shuffled.add_edges_from(reversed(list(plain.edges(keys=True))))
    assert from_networkx(shuffled).equals(from_networkx(plain))


def test_the_tree_alone_gives_the_same_structure(graph: TraceGraph) -> None:
    again = from_networkx(nx.DiGraph(graph.tree))
    assert again.columns.last.tolist() == graph.columns.last.tolist()
    assert {node for node in graph if graph.node(node).owner} == {GEMM, 10}
    # Owners are edges of the whole graph; the tree has none.
    assert again.find("gpu")[0].owner is None


def test_a_changed_copy_comes_back_changed(graph: TraceGraph) -> None:
    plain = graph.to_networkx()
    plain.remove_nodes_from(graph.subtree(LINEAR) - {ADDMM})
    plain.remove_edge(LINEAR, ADDMM)
    plain.nodes[ADDMM]["name"] = "aten::renamed"
    again = from_networkx(plain)
    assert again.node(ADDMM).parent is None
    assert again.node(ADDMM).name == "aten::renamed"
    assert GEMM not in again
    assert again.subtree(LINEAR) == set()


def test_a_graph_built_by_hand() -> None:
    by_hand = nx.DiGraph(name="mine")
    by_hand.add_node(0, kind="Op", name="aten::mm", start_ns=0, dur_ns=50)
    by_hand.add_node(1, kind="RuntimeCall", name="cudaLaunchKernel", start_ns=10, dur_ns=5)
    by_hand.add_node(2, kind="Kernel", name="gemm", start_ns=60, dur_ns=30, device=0, stream=7)
    by_hand.add_edge(0, 1, type="CALLS")
    by_hand.add_edge(1, 2, type="LAUNCHES")
    graph = from_networkx(by_hand)
    assert repr(graph) == "<TraceGraph mine: 3 nodes, 1 GPU event, 0.0 ms, 1 device>"
    assert graph.node(2).owner == graph.node(0)
    assert graph.node(0).gpu_time == (30, 30)
    assert tlg.gpu_timeline(graph)["time ms"][0] == 30 / 1e6


NODE = {"kind": "Op", "name": "x", "start_ns": 0, "dur_ns": 9}
REFUSED: dict[str, tuple[list[Any], list[Any], str]] = {
    "text as node": ([("a", NODE)], [], "node 'a': an event is named by its uid"),
    "negative uid": ([(-1, NODE)], [], "node -1: an event is named by its uid"),
    "no name": ([(0, {"kind": "Op"})], [], "node 0: the attribute 'name' is missing"),
    "no such kind": ([(0, {**NODE, "kind": "Opp"})], [], "node 0: no kind of node is called 'Opp'"),
    "two callers": (
        [(n, NODE) for n in range(3)], [(0, 2, "CALLS"), (1, 2, "CALLS")], "node 2: it has two callers, 0 and 1",
    ),
    "cycle": ([(n, NODE) for n in range(2)], [(0, 1, "CALLS"), (1, 0, "CALLS")], "node 0: it is its own caller"),
    "kernel calls": (
        [(0, {**NODE, "kind": "Kernel"}), (1, NODE)], [(0, 1, "CALLS")], "edge 0 -> 1: a Kernel cannot call or launch",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "edges", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_trace_graph_is_refused(nodes: list[Any], edges: list[Any], message: str) -> None:
    plain = nx.MultiDiGraph()
    plain.add_nodes_from(nodes)
    plain.add_edges_from(edges)
    with pytest.raises(TraceError, match=re.escape(message)):
        from_networkx(plain)


# --- structure -------------------------------------------------------------------------------------------------


def test_subtree(graph: TraceGraph) -> None:
    assert graph.subtree(ADDMM) == {LAUNCH, 8, GEMM, 10}
    assert graph.subtree(GEMM) == set()
    with pytest.raises(NodeNotFoundError):
        graph.subtree(999)


def test_uids_may_be_far_apart() -> None:
    """Synthetic nodes have uids from 2**39 on."""
    plain = nx.DiGraph()
    far = 2**39 + 5
    plain.add_nodes_from((uid, {**NODE, "start_ns": uid % 7}) for uid in (0, 10**7, far))
    graph = from_networkx(plain)
    assert set(graph) == {0, 10**7, far}
    assert far in graph
    assert far + 1 not in graph
    assert graph.nodes[far]["uid"] == far
    assert graph[far] == {}


def test_loading_a_damaged_trace_warns(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.warns(tlg.DamagedTraceWarning, match="the end of the file is missing"):
        load(path)
