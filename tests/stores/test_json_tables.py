"""A report in JSON, read back as tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import small_trace

from tracelens_graph.analyses.across.compare import compare
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.errors import TraceError
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.document import facts, report_json
from tracelens_graph.stores.saved_reports import JsonTables, is_report


@pytest.fixture
def report(tmp_path: Path) -> Path:
    w = load_core(small_trace()).window(step=5)
    path = tmp_path / "r.json"
    path.write_text(report_json([], report_tables(w), facts(w)))
    return path


def written(path: Path, **changed: Any) -> Path:
    path.write_text(json.dumps({"schema_version": 1, "trace": {}, "tables": {}} | changed))
    return path


def test_what_was_written_comes_back(report: Path) -> None:
    made = report_tables(load_core(small_trace()).window(step=5))
    found = JsonTables(report)
    assert found.window == "step 5"
    assert list(found) == list(made)
    assert len(found) == len(made)
    for name, table in made.items():
        back = found[name]
        assert (back.title, back.notes, len(back)) == (table.title, list(table.notes), len(table))
        assert list(back.columns) == list(table.columns)
    ms = found["gpu_timeline"]["time ms"]
    assert isinstance(ms, np.ndarray)
    assert ms.tolist() == np.asarray(made["gpu_timeline"]["time ms"]).tolist()


def test_it_does_not_differ_from_its_trace(report: Path) -> None:
    made = report_tables(load_core(small_trace()).window(step=5))
    for table in compare({"a": JsonTables(report), "b": made}).values():
        for name, cells in table.columns.items():
            if name.endswith("_diff"):
                assert not np.nan_to_num(np.asarray(cells, float)).any(), (table.name, name)
        assert not any(table["only_in"])


def test_what_is_a_report(report: Path, tmp_path: Path) -> None:
    assert is_report(report)
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(small_trace()))
    assert not is_report(trace)
    assert not is_report(tmp_path)
    assert not is_report(tmp_path / "nothing.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_report(pipe)  # and it was not opened, which would wait forever


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tables": []}, "no report on a trace"),
        ({"trace": None, "tables": {"diff_places": {}}}, r"no report on a trace \(a comparison that diff wrote\)"),
        ({"trace": None}, "no report on a trace"),
        ({"tables": {"t": 7}}, "table t has no rows"),
        ({"tables": {"t": {"rows": 7}}}, "table t has no rows"),
        ({"tables": {"t": {"rows": [7]}}}, "table t: row 1 has other columns than the first"),
        ({"tables": {"t": {"rows": [{"a": 1}, {"b": 1}]}}}, "table t: row 2 has other columns than the first"),
    ],
)
def test_what_is_none(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(TraceError, match=words):
        JsonTables(written(tmp_path / "r.json", **changed))["t"]


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": ' + "[" * 10**5, '{"schema_version": 1}', "\ud800"])
def test_broken_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(TraceError, match=r"r\.json: no report"):
        JsonTables(path)


def test_odd_cells(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": None, "c": 2**70, "d": True}, {"a": 2, "b": 0.5, "c": 1, "d": False}]
    table = JsonTables(written(tmp_path / "r.json", tables={"t": {"rows": rows, "notes": 7}}))["t"]
    assert np.asarray(table["a"]).tolist() == [1, 2]
    assert np.isnan(table["b"][0])
    assert table["c"][0] == 2**70
    assert table["d"] == [True, False]
    assert list(table.notes) == []
    empty = {"rows": [], "definitions": {"name": "x"}}
    assert list(JsonTables(written(tmp_path / "e.json", tables={"t": empty}))["t"].columns) == ["name"]
