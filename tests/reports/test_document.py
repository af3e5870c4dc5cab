"""The whole report as one document."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from handmade import small_trace
from to_draw import Line

import tracelens_graph
from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.document import brief, document_json, facts, report_json, table_json
from tracelens_graph.tables.table import Table

FINDINGS = [
    Line(
        "idle_time",
        "The GPU stood idle for 43 % of the time",
        {"idle_percent": 43.4, "ratio": math.nan},
        "timeline TRACE `x`",
    ),
    Line("compute", "`gemm` took <most> of it"),
]


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(small_trace())


def tables(core: Core) -> dict[str, Table]:
    found = [gpu_timeline(core), ops_summary_by_category(core), ops_summary(core)]
    return {table.name: table for table in found} | {"extra": Table("extra", {"n": np.array([math.inf, 1.5])})}


def parsed(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


def test_facts(core: Core) -> None:
    assert asdict(facts(core, {"linked_only": False})) == {
        "source": "<parsed trace>", "rank": 3, "world_size": 8, "devices": ["GPU of tests"], "events": 18, "nodes": 13,
        "gpu_events": 3, "unlinked_gpu_events": 1, "left_out": core.info.left_out, "damage": "", "window": "",
        "options": {"linked_only": False}, "linked": "",
    }  # fmt: skip
    assert sum(core.info.left_out.values()) == 18 - 13
    assert facts(core.window(step=5)).window == "step 5"


def test_facts_name_no_folder(core: Core, tmp_path: Any) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(small_trace()))
    assert facts(load_core(path)).source == "small.json"


@pytest.mark.parametrize("properties", [None, 7, ["x"], [{"id": [0], "name": "X"}], [{"name": None}]])
def test_facts_of_odd_metadata(properties: Any) -> None:
    trace = small_trace() | {"deviceProperties": properties, "distributedInfo": {"world_size": "many"}}
    found = facts(load_core(trace))
    assert (found.rank, found.world_size) == (None, None)
    assert found.devices in ([], ["X"])


def test_json(core: Core) -> None:
    report = parsed(report_json(FINDINGS, tables(core), facts(core.window(step=5), {"linked_only": True})))
    assert list(report) == ["schema_version", "tool", "verdict", "next", "trace", "window", "options", "tables"]
    assert report["schema_version"] == 1
    assert report["tool"] == {"name": "tracelens_graph", "version": tracelens_graph.__version__}
    assert report["trace"]["devices"] == ["GPU of tests"]
    assert (report["window"], report["options"]) == ("step 5", {"linked_only": True})
    assert list(report["verdict"][0]) == [
        "id",
        "topic",
        "severity",
        "text",
        "evidence",
        "advice",
        "suggestions",
        "ask_next",
    ]
    assert report["verdict"][0]["evidence"] == {"idle_percent": 43.4, "ratio": None}
    assert report["verdict"][1]["text"] == "`gemm` took <most> of it"
    timeline = report["tables"]["gpu_timeline"]
    assert timeline["units"] == {"time ms": "ms", "percent": "%"}
    assert timeline["definitions"]["percent"] == "share of total_time"
    assert {row["type"]: row["time ms"] for row in timeline["rows"]}["total_time"] == 0.159
    assert timeline["notes"]
    assert report["tables"]["extra"]["rows"] == [{"n": None}, {"n": 1.5}]


def test_json_of_nothing(core: Core) -> None:
    report = parsed(report_json([], {}, facts(core)))
    assert (report["window"], report["verdict"], report["tables"]) == (None, [], {})


def many_rows(name: str, rows: int) -> Table:
    return Table(name, {"name": [f"kernel {row} " + 40 * "x" for row in range(rows)], "n": np.arange(rows)})


@pytest.mark.parametrize("rows", [5, 300, 3000])
def test_a_table_keeps_the_first_rows_that_fit(rows: int) -> None:
    text = table_json(many_rows("kernels", rows))
    short, whole = parsed(brief(text, "--top 0")), parsed(text)
    assert len(brief(text, "--top 0")) <= 20_000
    assert short["rows"] == whole["rows"][: len(short["rows"])]
    if rows == 5:
        assert brief(text, "--top 0") == text
    else:
        assert short["cut_short"].endswith("--top 0 gives all")
        assert short["rows_in_all"] == rows
        assert len(brief(text, "--top 0")) > 15_000, "room is used"


def test_a_document_keeps_what_sums_it_up_and_the_first_rows() -> None:
    findings = [{"id": str(place), "text": 300 * "t"} for place in range(5)]
    about = {"verdict": findings, "trace": {"source": "a"}, "much": [{"text": 100 * "m"} for _ in range(900)]}
    tables = {name: many_rows(name, rows) for name, rows in (("first", 8), ("large", 900), ("last", 3))}
    text = document_json(about, tables)
    short = parsed(brief(text, "--all"))
    assert len(brief(text, "--all")) <= 20_000 < len(text)
    assert list(short) == ["schema_version", "tool", "cut_short", "verdict", "trace", "much", "tables"]
    assert (short["verdict"], short["trace"]) == (findings, {"source": "a"})
    assert 0 < len(short["much"]) < 900
    assert [len(table["rows"]) for table in short["tables"].values()][::2] == [8, 3]
    assert short["tables"]["large"]["rows_in_all"] == 900 > len(short["tables"]["large"]["rows"]) > 0
