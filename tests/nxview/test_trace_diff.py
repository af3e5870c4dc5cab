"""`diff()` in Python: both call forests as one networkx graph, with tables and texts."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import tracelens_graph as tlg
from corpus import needs_corpus
from tracelens_graph.schema import FOREST_KINDS
from tracelens_graph.simulate import simulate


@pytest.fixture(scope="module")
def graphs() -> tuple[tlg.TraceGraph, tlg.TraceGraph]:
    """Two runs of two steps; the second has a layer more."""
    a, b = (tlg.load(simulate(1, steps=2, layers=layers, seed=61).ranks[0].trace) for layers in (2, 3))
    return a, b


@pytest.fixture(scope="module")
def whole(graphs: tuple[tlg.TraceGraph, tlg.TraceGraph]) -> tlg.TraceDiff:
    return tlg.diff(*(g.window() for g in graphs), names=("two", "three"))


def test_it_is_a_graph_of_both_forests(whole: tlg.TraceDiff, graphs: tuple[tlg.TraceGraph, tlg.TraceGraph]) -> None:
    kinds = [kind.name for kind in FOREST_KINDS]
    expected = {
        (side, uid) for side, g in zip("ab", graphs, strict=True) for uid, kind in g.nodes(data="kind") if kind in kinds
    }
    assert set(whole) == set(whole.nodes) == expected
    for side, g in zip("ab", graphs, strict=True):
        assert all(whole.nodes[side, uid] == g.nodes[uid] for _, uid in list(expected)[:200] if (side, uid) in expected)
        own = Counter((u[1], v[1], key) for u, v, key in whole.edges(keys=True) if u[0] == v[0] == side)
        assert own == Counter((u, v, "CALLS" if "CALLS" in g[u][v] else "LAUNCHES") for u, v in g.tree.edges)
    matches = [(u, v, data) for u, v, key, data in whole.edges(keys=True, data=True) if key == "MATCHES"]
    assert {(u[0], v[0]) for u, v, _ in matches} == {("a", "b")}
    assert len(matches) == len(whole.matches)
    assert {data["kind"] for _, _, data in matches} <= {
        "identical", "same structure", "renamed", "other arguments", "wrapped", "fused", "changed",
    }  # fmt: skip
    assert whole.number_of_edges() == sum(1 for _ in whole.edges)


def test_every_gpu_event_has_partners_or_is_alone(whole: tlg.TraceDiff) -> None:
    found = whole.matches
    for side, window in enumerate((whole.a, whole.b)):
        gpu = window.gpu_rows
        paired, alone = (np.intersect1d(gpu, rows) for rows in (found.rows[side], found.alone[side]))
        assert not len(np.intersect1d(paired, alone))
        assert np.array_equal(np.union1d(paired, alone), gpu)
        ns = window.core.columns.dur_ns
        is_gpu = np.isin(found.rows[side], gpu)
        assert np.array_equal(found.ns[side][is_gpu], ns[found.rows[side][is_gpu]])


def test_match_goes_both_ways(whole: tlg.TraceDiff, graphs: tuple[tlg.TraceGraph, tlg.TraceGraph]) -> None:
    edges = nx.DiGraph((u, v) for u, v, key in whole.edges(keys=True) if key == "MATCHES")
    for u, v in list(edges.edges)[::50]:
        mine, other = graphs[0].node(u[1]), graphs[1].node(v[1])
        of_mine, of_other = whole.match(mine), whole.match(other)
        assert of_mine
        assert of_other
        assert ("b", of_mine.uid) in edges.successors(u)
        assert ("a", of_other.uid) in edges.predecessors(v)
    alone = graphs[1].nodes_at([int(whole.matches.alone[1][0])])[0]
    assert whole.match(alone) is None
    third = tlg.load(simulate(1, steps=1, layers=1, seed=62).ranks[0].trace)
    with pytest.raises(tlg.AnalysisError, match="is a node of neither graph"):
        whole.match(third.node(next(iter(third))))


def test_points_add_up(whole: tlg.TraceDiff) -> None:
    points = whole.points()
    assert points.name == "diff_places"
    assert round(sum(points["change_ms"]) * 1e6) == whole.ns[1] - whole.ns[0]
    assert list(whole.tables) == ["diff_totals", "diff_times", "diff_places"]
    frame = whole.tables["diff_places"]
    assert list(frame.columns) == list(points.columns)
    assert "only in three" in " ".join(points["why"])


def test_texts(whole: tlg.TraceDiff) -> None:
    first, second = (ns / 1e6 for ns in whole.ns)
    assert repr(whole).startswith(f"<TraceDiff two -> three: GPU time {first:,.3f} -> {second:,.3f} ms (+")
    tree = whole.tree()
    assert "A ms" in tree
    assert "aten::" in tree
    assert len(whole.tree(min_percent=0).splitlines()) >= len(tree.splitlines())
    assert all(len(line) <= 80 for line in whole.tree(width=80).splitlines())


def test_exchanging_the_sides_mirrors_it(whole: tlg.TraceDiff) -> None:
    back = tlg.diff(whole.b, whole.a)
    there = {(u[1], v[1], data["kind"]) for u, v, key, data in whole.edges(keys=True, data=True) if key == "MATCHES"}
    other = {(v[1], u[1], data["kind"]) for u, v, key, data in back.edges(keys=True, data=True) if key == "MATCHES"}
    assert there == other


def test_a_step_of_median_time_of_graphs_with_steps(graphs: tuple[tlg.TraceGraph, tlg.TraceGraph]) -> None:
    found = tlg.diff(*graphs)
    assert all("step" in window.title for window in (found.a, found.b))
    assert len(found) < len(tlg.diff(*(g.window() for g in graphs)))
    one = tlg.diff(graphs[0].window(step=3), graphs[0].window(step=4), names=("third", "fourth"))
    assert one.a.core is one.b.core
    assert len(one.matches) > 0


def test_cores_and_paths_will_do(tmp_path: Path, graphs: tuple[tlg.TraceGraph, tlg.TraceGraph]) -> None:
    paths = []
    for layers in (2, 3):
        path = tmp_path / f"layers{layers}.json"
        path.write_text(json.dumps(simulate(1, steps=2, layers=layers, seed=61).ranks[0].trace))
        paths.append(path)
    found = tlg.diff(*paths)
    assert found.names == ("layers2", "layers3")
    assert found.ns == tlg.diff(*graphs).ns
    assert found.ns == tlg.diff(str(paths[0]), graphs[1]).ns


def test_what_networkx_makes_of_it_is_plain(whole: tlg.TraceDiff) -> None:
    copy = whole.to_networkx()
    assert type(copy) is nx.MultiDiGraph
    assert nx.utils.graphs_equal(copy, whole)
    assert nx.utils.graphs_equal(whole.copy(), copy)
    assert nx.number_weakly_connected_components(whole) == nx.number_weakly_connected_components(copy)
    some = [("a", uid) for uid in sorted(uid for side, uid in copy if side == "a")[:40]]
    assert nx.utils.graphs_equal(whole.subgraph(some).copy(), copy.subgraph(some).copy())
    with pytest.raises(nx.NetworkXError, match="read-only"):
        whole.add_edge(("a", 0), ("b", 0))
    with pytest.raises(KeyError):
        whole.nodes["c", 0]
    again = pickle.loads(pickle.dumps(whole))
    assert nx.utils.graphs_equal(again, whole)
    assert again.names == whole.names


def test_nothing_to_compare(graphs: tuple[tlg.TraceGraph, tlg.TraceGraph]) -> None:
    with pytest.raises(tlg.AnalysisError, match="holds no GPU events to compare"):
        tlg.diff(graphs[0], tlg.load({"traceEvents": []}))


@needs_corpus
def test_the_vit_pair(corpus: Path) -> None:
    paths = [corpus / "tracelens" / device / "vit-nsfw.json.gz" for device in ("h100", "mi300")]
    found = tlg.diff(*paths)
    assert found.names == ("h100/vit-nsfw", "mi300/vit-nsfw")
    (row,) = [row for row in found.points().records() if row["op"] == "aten::_convolution"]
    assert (round(row["a_ms"], 3), round(row["b_ms"], 3)) == (0.126, 0.046)
    assert row["module"].endswith("ViTEmbeddings/ViTPatchEmbeddings/Conv2d")
    assert "aten::_convolution" in found.tree(min_percent=0)


def test_what_is_no_trace_and_no_name_is_refused(graphs: tuple[tlg.TraceGraph, tlg.TraceGraph]) -> None:
    a, b = graphs
    with pytest.raises(TypeError, match="a graph, a window or a path is needed, not NoneType"):
        tlg.diff(a, None)  # type: ignore[arg-type]
    for names in ("xy", ("x",), ("x", "x")):
        with pytest.raises(tlg.AnalysisError, match="two different names are needed"):
            tlg.diff(a, b, names=names)  # type: ignore[arg-type]
    with pytest.raises(tlg.AnalysisError, match="is a node of neither graph"):
        tlg.diff(a, b).match("x")  # type: ignore[arg-type]
