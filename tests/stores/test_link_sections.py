"""A saved graph keeps its link; what is damaged of it is never taken for sound."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from graph_damage import index_of, span_of
from linked_pairs import calls, execution_trace, kineto

import tracelens_graph as tlg
from tracelens_graph.errors import TraceError
from tracelens_graph.execution.link import Link
from tracelens_graph.loading.one import linked, load_core
from tracelens_graph.stores.graph_file import read_graph, write_graph

EXAMPLE = "examples/traces/tiny-transformer-cpu"
COLUMNS = ("id", "name", "schema", "parent", "rf_id", "sequence", "scope", "tid", "forward_tid", "forward_parent",
           "place", "is_op")  # fmt: skip
PROGRAM = calls(["a", "b", "c"], ["d"])


def check_same(link: Link | None, other: Link | None) -> None:
    assert link is not None
    assert other is not None
    assert link.summary == other.summary
    for name in ("node_of_row", "row_of_node"):
        assert np.array_equal(getattr(link, name), getattr(other, name))
    one, two = link.execution, other.execution
    for name in COLUMNS:
        assert np.array_equal(getattr(one, name), getattr(two, name))
        assert getattr(one, name).dtype == getattr(two, name).dtype
    assert (one.names, one.schemas, one.info, one.more) == (two.names, two.schemas, two.info, two.more)
    for mine, theirs in ((one.inputs, two.inputs), (one.outputs, two.outputs)):
        assert len(mine) == len(theirs)
        for row in range(len(one)):
            assert mine[row].decoded() == theirs[row].decoded()


def test_a_link_is_saved(tmp_path: Path) -> None:
    graph = tlg.load(f"{EXAMPLE}.json.gz", et=f"{EXAMPLE}.execution-trace.json.gz")
    graph.save(tmp_path / "x.tlg")
    again = tlg.load(tmp_path / "x.tlg")
    assert again.equals(graph)
    check_same(again.link, graph.link)
    check_same(pickle.loads(pickle.dumps(again)).link, graph.link)
    assert again.link is not None
    assert again.link.execution.inputs[-1:] == [again.link.execution.inputs[len(again.link.execution) - 1]]


def test_a_saved_graph_is_linked_later(tmp_path: Path) -> None:
    graph = load_core(f"{EXAMPLE}.json.gz")
    write_graph(graph, tmp_path / "x.tlg")
    assert read_graph(tmp_path / "x.tlg").link is None
    et = f"{EXAMPLE}.execution-trace.json.gz"
    check_same(load_core(tmp_path / "x.tlg", et=et).link, linked(graph, et).link)


def test_an_execution_trace_alone_keeps_its_identity(tmp_path: Path) -> None:
    graph = load_core(f"{EXAMPLE}.execution-trace.json.gz")
    write_graph(graph, tmp_path / "x.tlg")
    check_same(read_graph(tmp_path / "x.tlg").link, graph.link)


SECTIONS = ["node_of_row", *COLUMNS, "names", "facts", "inputs.values", "inputs.values.text", "outputs.types.ends"]


@pytest.mark.parametrize("section", SECTIONS)
def test_damage_is_noticed(tmp_path: Path, section: str) -> None:
    path = tmp_path / "x.tlg"
    write_graph(load_core(kineto(PROGRAM), et=execution_trace(PROGRAM)), path)
    content = bytearray(path.read_bytes())
    begin, _ = span_of(index_of(content)[1], f"link.{section}")
    content[begin] ^= 0x41
    path.write_bytes(content)
    with pytest.raises(TraceError, match="the saved graph is damaged"):
        read_graph(path)


@pytest.mark.parametrize("column", ["node_of_row", "name", "parent", "id", "schema"])
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, column: str) -> None:
    core = load_core(kineto(PROGRAM), et=execution_trace(PROGRAM))
    assert core.link is not None
    holder = core.link if column == "node_of_row" else core.link.execution
    wrong = getattr(holder, column).copy()
    wrong[-1] = 1000 if column != "id" else 0
    setattr(holder, column, wrong)
    write_graph(core, tmp_path / "x.tlg")
    with pytest.raises(TraceError, match="the saved graph is damaged"):
        read_graph(tmp_path / "x.tlg")
