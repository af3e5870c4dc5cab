"""Execution traces of every schema become the same columns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_execution import OLD, PROCESS, SCHEMAS, THREAD, WITH_STRIDES, Op, made, node, process, special, tensor, trace

from corpus import CHECKOUT, execution_traces, parametrize
from tracelens_graph.errors import NotATraceError
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.kineto import chunks
from tracelens_graph.loaders.sources import open_source

EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-cpu.execution-trace.json.gz"


def loaded(data: Any) -> ExecutionTrace:
    return load_execution_trace(open_source(data))


OPS = (
    Op(5, "aten::mul", 3, [tensor(9), (2, [], "Int", [])], [tensor(10)], {"rf_id": 8, "tid": 1, "op_schema": "mul(x)"}),
    Op(3, "## step ##", THREAD, facts={"rf_id": 7, "scope": 7}),
    Op(
        7,
        "MulBackward0",
        THREAD,
        [tensor(11)],
        facts={"rf_id": 9, "seq_id": 4, "fw_tid": 1, "fw_parent": 3, "scope": 1},
    ),
)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_schema_gives_the_same_columns(schema: str) -> None:
    found = loaded(trace(OPS, schema))
    assert found.id.tolist() == [1, 2, 3, 5, 7]
    assert [found.names[code] for code in found.name.tolist()][2:] == ["## step ##", "aten::mul", "MulBackward0"]
    assert found.parent.tolist() == [-1, 0, 1, 2, 1]
    assert found.rf_id.tolist() == [0, 0, 7, 8, 9]
    assert found.sequence.tolist() == [-1, -1, -1, -1, 4]
    assert found.scope.tolist() == [7, 7, 7, 0, 1]
    assert found.tid.tolist() == [0, 1, 1, 1, 1]
    assert found.forward_tid.tolist() == [0, 0, 0, 0, 1]
    assert found.forward_parent.tolist() == [-1, -1, -1, -1, 2]
    assert found.place.tolist() == [4, 0, 2, 1, 3]
    assert found.is_op.tolist() == [False, False, True, True, True]
    assert [found.schemas[code] for code in found.schema.tolist()] == ["", "", "", "mul(x)", ""]
    given, scalar = found.inputs[3].decoded()
    assert given.value == [9, 1009, 0, 6, 4, "cuda:0"]
    assert (given.shape, given.type) == ([2, 3], "Tensor(float)")
    assert given.strides == ([3, 1] if schema >= WITH_STRIDES else None)
    assert (scalar.value, scalar.type) == (2, "Int")
    assert found.outputs[3].decoded()[0].value[0] == 10
    info = found.info
    assert (info.schema, info.pid, info.time, info.start_ms, info.finish_ms) == (
        schema,
        77,
        "2026-01-02 03:04:05",
        5,
        9,
    )
    assert (info.entries, info.repairs, info.left_out, info.lost_nodes) == (5, {}, {}, 0)
    assert not info.cut_short


def test_attributes_that_no_schema_had_are_kept() -> None:
    facts = {"kernel_file": "/tmp/x.py", "pg_size": 4, "of_tomorrow": {"a": 1}, "empty": ""}
    found = loaded(trace([Op(3, facts=facts), Op(4)]))
    assert found.more == {2: {"kernel_file": "/tmp/x.py", "pg_size": 4, "of_tomorrow": {"a": 1}}}
    assert found.info.repairs == {}


def test_schemas_may_be_mixed_and_keys_in_any_order() -> None:
    nodes = [special(), node(OPS[0], OLD), node(OPS[1]), node(OPS[2], OLD), process()]
    for data in (json.dumps(made(nodes)), json.dumps(made(nodes), sort_keys=True), json.dumps(made(nodes), indent=1)):
        found = loaded(data.encode())
        assert found.id.tolist() == [1, 2, 3, 5, 7]
        assert found.rf_id.tolist() == [0, 0, 7, 8, 9]
        assert found.info.repairs == {}


def test_parsed_json_and_packed_files(tmp_path: Path) -> None:
    data = trace(OPS)
    path = tmp_path / "et.json.gz"
    path.write_bytes(gzip.compress(data))
    for source in (json.loads(data), path):
        assert loaded(source).id.tolist() == [1, 2, 3, 5, 7]


@parametrize("path", execution_traces())
def test_real_traces_do_not_depend_on_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = loaded(path)
    assert whole.info.repairs == {}
    assert whole.info.lost_nodes == 0
    assert (whole.parent[whole.is_op] >= 0).all()
    monkeypatch.setattr(chunks, "BLOCK", 20_000)
    again = loaded(path)
    for column in ("id", "parent", "rf_id", "sequence", "scope", "tid", "forward_tid", "forward_parent", "place"):
        assert np.array_equal(getattr(whole, column), getattr(again, column)), column
    assert [whole.names[code] for code in whole.name] == [again.names[code] for code in again.name]
    assert list(whole.inputs) == list(again.inputs)
    assert list(whole.outputs) == list(again.outputs)


@parametrize("path", execution_traces())
def test_real_traces_are_what_plain_json_says(path: Path) -> None:
    found = loaded(path)
    nodes = sorted(json.loads(gzip.decompress(path.read_bytes()))["nodes"], key=lambda one: one["id"])
    assert found.id.tolist() == [one["id"] for one in nodes]
    row_of = {one["id"]: row for row, one in enumerate(nodes)}
    for row, one in enumerate(nodes):
        told = {**one, **{each["name"]: each["value"] for each in one.get("attrs", ())}}
        parent = told.get("ctrl_deps", told.get("parent"))
        assert found.parent[row] == (-1 if one["id"] == PROCESS else row_of[parent])
        assert found.names[found.name[row]] == told["name"]
        assert found.schemas[found.schema[row]] == told["op_schema"]
        assert found.rf_id[row] == told["rf_id"]
        assert found.sequence[row] == told["seq_id"]
        values = one["inputs"]["values"] if isinstance(one["inputs"], dict) else one["inputs"]
        assert [each.value for each in found.inputs[row].decoded()] == values


@pytest.mark.parametrize(
    "data", [b'{"schema": "1.0.1", "nodes": {}}', b'{"schema":"x","nodes":[{"id":"a","label":"b"}]}']
)
def test_what_is_no_execution_trace_is_said_in_one_line(data: bytes) -> None:
    with pytest.raises(NotATraceError) as caught:
        loaded(data)
    assert "execution trace" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_list_of_nodes_is_an_empty_trace() -> None:
    found = loaded(b'{"schema": "1.0.1", "nodes": []}')
    assert (len(found), found.info.entries, found.info.repairs) == (0, 0, {})
    assert loaded(EXAMPLE).row(10**30) == -1
