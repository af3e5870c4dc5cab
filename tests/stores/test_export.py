"""Exports hold every node and edge with the values that the graph has."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from made_traces import traces
from profiles import examples

from corpus import kineto_traces, loaded, parametrize, parametrize_all
from tracelens_graph.errors import MissingExtraError, OutputError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import EVENT_EDGES, Kind
from tracelens_graph.stores.export import export_graph
from tracelens_graph.stores.frames import ARGSET_PARTS, Texts, edge_columns, node_columns

SMALL = [path for path in kineto_traces() if path.stat().st_size < 60_000]
TRACE = {
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": 'a<b>&"\r\n\t\x1b\x00', "pid": "p", "tid": 1, "ts": 1, "dur": 9,
         "args": {"External id": 4, "Input Dims": [[2, 3], []]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": "p", "tid": 1, "ts": 2, "dur": 20,
         "args": {"correlation": 7}},
        {"ph": "X", "cat": "kernel", "name": "=1+1", "pid": 0, "tid": 7, "ts": 5, "dur": 2.25,
         "args": {"correlation": 7, "device": 0, "stream": 7}},
    ],
}  # fmt: skip


def as_in_xml(value: Any) -> Any:
    """How GraphML shows an attribute of networkx."""
    if isinstance(value, list):
        return json.loads(json.dumps(value))
    if isinstance(value, str):
        return "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in value)
    return value


def read_back(value: Any, key: str) -> Any:
    return json.loads(value) if key in ("flags", *ARGSET_PARTS.values()) else value


def assert_graphml_is(file: Path, core: Core) -> None:
    graph = TraceGraph(core)
    found = nx.read_graphml(file, node_type=int, force_multigraph=True)
    assert list(found) == list(graph)
    assert set(found.edges(keys=True)) == set(graph.edges(keys=True))
    assert found.number_of_edges() == graph.number_of_edges()
    assert all(data == {"key": key, "label": key} for *_, key, data in found.edges(keys=True, data=True))
    text = {"pid", "tid"}
    for uid, attributes in found.nodes(data=True):
        ours = {key: as_in_xml(value) for key, value in graph.nodes[uid].items()}
        theirs = {key: read_back(value, key) for key, value in attributes.items()}
        assert {k: v for k, v in theirs.items() if k not in text} == {k: v for k, v in ours.items() if k not in text}
        assert {key: str(theirs[key]) for key in text} == {key: str(ours[key]) for key in text}


@parametrize_all("path", SMALL)
def test_graphml_of_real_traces_is_the_networkx_graph(path: Path, tmp_path: Path) -> None:
    core = loaded(path)
    done = export_graph(core, tmp_path / "graph.graphml")
    assert_graphml_is(tmp_path / "graph.graphml", core)
    assert (done.nodes, done.paths, done.replaced) == (len(core.columns), [tmp_path / "graph.graphml"], 0)


@given(trace=traces())
@examples(50)
def test_graphml_of_made_traces_is_the_networkx_graph(
    trace: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "made.graphml"
    core = load_core(trace)
    export_graph(core, file)
    assert_graphml_is(file, core)


def test_graphml_keeps_white_space_and_counts_what_xml_cannot_hold(tmp_path: Path) -> None:
    core = load_core(TRACE)
    done = export_graph(core, tmp_path / "x.graphml")
    found = nx.read_graphml(tmp_path / "x.graphml", node_type=int)
    assert found.nodes[0]["name"] == 'a<b>&"\r\n\t\ufffd\ufffd'
    assert done.replaced == 2
    assert found.nodes[0]["pid"] == "p"
    assert found.nodes[2]["tid"] == 7
    assert found.nodes[1]["flags"] == '["ends after the event it started in"]'
    assert "stream" not in found.nodes[0]


def plain(column: np.ndarray | Texts) -> list[Any]:
    return column.tolist()


@parametrize("path", SMALL)
def test_parquet_and_csv_of_real_traces(path: Path, tmp_path: Path) -> None:
    core = loaded(path)
    for suffix in ("parquet", "csv"):
        done = export_graph(core, tmp_path / f"run.{suffix}")
        assert done.paths == [tmp_path / f"run-nodes.{suffix}", tmp_path / f"run-edges.{suffix}"]
        assert (done.nodes, done.replaced) == (len(core.columns), 0)
        for target, frame in zip(done.paths, (node_columns(core), edge_columns(core)), strict=True):
            if suffix == "parquet":
                found = {name: values.tolist() for name, values in _arrow(target).items()}
                assert found == {name: plain(column) for name, column in frame.items()}
            else:
                with target.open(encoding="utf-8", newline="") as file:
                    header, *rows = csv.reader(file)
                assert header == list(frame)
                columns = [plain(column) for column in frame.values()]
                assert rows == [["" if v is None else str(v) for v in row] for row in zip(*columns, strict=True)]


def _arrow(file: Path) -> dict[str, Any]:
    from pyarrow import parquet

    table = parquet.read_table(file)
    return {name: np.array([*table[name].to_pylist(), None], object)[:-1] for name in table.column_names}


@parametrize("path", SMALL)
def test_frames_and_exports_are_one_table(path: Path) -> None:
    core = loaded(path)
    graph = TraceGraph(core)
    for frame, columns in ((graph.nodes_frame().reset_index(), node_columns(core)),
                           (graph.edges_frame(), edge_columns(core))):  # fmt: skip
        assert sorted(frame.columns) == sorted(columns)
        for name, column in columns.items():
            theirs = [None if pd.isna(value) else value for value in frame[name].tolist()]
            assert theirs == plain(column), name


def test_columns_name_nodes_by_uid_and_mask_what_is_absent() -> None:
    core = load_core({"traceEvents": [{"ph": "M", "name": "process_name", "args": {}}, *TRACE["traceEvents"]]})
    nodes, edges = node_columns(core), edge_columns(core)
    assert plain(nodes["uid"]) == [1, 2, 3]
    assert plain(nodes["kind"]) == [Kind.Op.name, Kind.RuntimeCall.name, Kind.Kernel.name]
    assert plain(nodes["parent"]) == [None, 1, 2] or plain(nodes["parent"]) == [None, None, 2]
    assert plain(nodes["last"])[-1] == 3
    assert plain(nodes["stream"]) == [None, None, 7]
    assert plain(nodes["external_id"]) == [4, None, None]
    assert plain(nodes["input_dims"]) == ["[[2,3],[]]", None, None]
    assert plain(nodes["start_ns"]) == [0, 1000, 4000]
    assert (2, 3, "LAUNCHES") in set(zip(*map(plain, edges.values()), strict=True))
    assert {name for name in plain(edges["type"]) if name} <= {edge.name for edge in EVENT_EDGES}


def test_csv_is_verbatim(tmp_path: Path) -> None:
    export_graph(load_core(TRACE), tmp_path / "x.csv")
    with (tmp_path / "x-nodes.csv").open(newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert names == [event["name"] for event in TRACE["traceEvents"]]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_folder_takes_both_tables(format: str, tmp_path: Path) -> None:
    done = export_graph(load_core(TRACE), tmp_path / "new" / "folder", format)
    assert done.paths == [tmp_path / "new" / "folder" / f"{table}.{format}" for table in ("nodes", "edges")]
    assert all(path.stat().st_size for path in done.paths)


@pytest.mark.parametrize("format", ["csv", "parquet", "graphml"])
def test_lone_surrogates_are_replaced_and_counted(format: str, tmp_path: Path) -> None:
    core = load_core(TRACE)
    core.names[:] = ["\ud800\udfff", "b", "\udc00"]
    assert export_graph(core, tmp_path / f"x.{format}").replaced == 3


@pytest.mark.parametrize(
    ("name", "format", "words"),
    [
        ("x.grapml", None, r"x.grapml: no export has the suffix '.grapml'; did you mean graphml\? there are graphml, "),
        ("x", None, r"x: no export has the suffix ''; there are graphml, graphml.gz, parquet, csv$"),
        ("x.csv", "paquet", r"x.csv: no export has the format 'paquet'; did you mean parquet\? "),
        ("x.xyz", None, r"x.xyz: no export has the suffix '.xyz'; there are "),
    ],
)
def test_an_unknown_format_is_said_with_those_there_are(
    name: str, format: str | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match=words):
        export_graph(load_core(TRACE), tmp_path / name, format)
    assert list(tmp_path.iterdir()) == []


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[parquet\]'"):
        export_graph(load_core(TRACE), tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []
