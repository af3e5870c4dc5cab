"""Chrome traces of other tools: one that VizTracer recorded, cut down, and what has no category at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tracelens_graph as tlg
from tracelens_graph.cli.app import app
from tracelens_graph.cli.options import ANYWHERE, Anywhere
from tracelens_graph.errors import NotATraceError
from tracelens_graph.schema import Kind

VIZTRACER = Path(__file__).parent / "viztracer/trace.json"


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    ANYWHERE.set(Anywhere())  # it stays set in this process
    assert done.exit_code == 0, done.output
    return done.output


def test_without_the_flag_the_line_names_it(tmp_path: Path) -> None:
    bare = [{"ph": "X", "name": "forward", "pid": 0, "tid": 1, "ts": 5, "dur": 3}]
    (tmp_path / "bare.json").write_text(json.dumps({"traceEvents": bare}))
    for file in (VIZTRACER, tmp_path / "bare.json"):
        with pytest.raises(NotATraceError, match="--generic") as caught:
            tlg.load(file)
        assert "\n" not in str(caught.value)


def test_a_recorded_trace_is_the_graph_of_its_calls() -> None:
    g = tlg.load(VIZTRACER, generic=True)
    events = json.loads(VIZTRACER.read_text())["traceEvents"]
    assert len(g.columns) == sum(event["ph"] == "X" for event in events)
    assert set(g.columns.kind.tolist()) == {Kind.PythonFunction}
    lines = tlg.QUESTIONS["host_times"](g, by="line").to_pandas().set_index("name")
    for function, line in {"step": 8, "count": 3, "load": 7}.items():
        recorded = [event["dur"] for event in events if event["name"] == f"{function} (/home/me/train.py:{line})"]
        row = lines.loc[f"/home/me/train.py({line}): {function}"]
        assert row.calls == len(recorded) == 5
        assert row.total_ms == pytest.approx(sum(recorded) / 1e3)


def test_commands_keep_the_flag_in_what_they_suggest() -> None:
    screen = run("report", str(VIZTRACER), "--generic")
    assert "Host only" in screen
    assert "--generic" in next(line for line in screen.splitlines() if "ask next" in line)
    assert "train.py(8): step" in run("--generic", "tree", str(VIZTRACER))
    with pytest.raises(NotATraceError):
        tlg.load(VIZTRACER)


def test_events_without_a_category_nest_and_others_are_counted(tmp_path: Path) -> None:
    """As NDTimeline writes them."""
    events = [
        {"ph": "X", "name": "step", "pid": 0, "tid": 1, "ts": 0, "dur": 10},
        {"ph": "X", "name": "forward", "pid": 0, "tid": 1, "ts": 1, "dur": 4, "cat": "compute"},
        {"ph": "X", "name": "aten::mm", "pid": 0, "tid": 1, "ts": 2, "dur": 1, "cat": "cpu_op"},
        {"ph": "i", "name": "mark", "pid": 0, "tid": 1, "ts": 3},
    ]
    g = tlg.load({"traceEvents": events}, generic=True)
    assert [(g.names[name], depth) for name, depth in zip(g.columns.name, g.columns.depth, strict=True)] == [
        ("step", 0), ("forward", 1), ("aten::mm", 2),
    ]  # fmt: skip
    assert g.columns.kind.tolist() == [Kind.PythonFunction, Kind.PythonFunction, Kind.Op]
    assert g.info.left_out == {"no category": 1}
