"""Traces joined with snapshots of CUDA memory: the same answers as of traces that record allocations themselves."""

from __future__ import annotations

import gzip
import json
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from memory_snapshots import entry
from typer.testing import CliRunner

import tracelens_graph as tlg
from tracelens_graph.cli.app import app
from tracelens_graph.errors import LinkError, NotATraceError, TraceError
from tracelens_graph.simulate import simulate

QUESTIONS = ("memory_summary", "memory_peak", "memory_at_end", "memory_to_fit", "allocations_by_module")

Json = dict[str, Any]


@cache
def recorded() -> Json:
    """A simulated training run of two steps with allocations."""
    trace: Json = simulate(ranks=1, steps=2, layers=2, seed=3, memory=True).ranks[0].trace
    return trace


def apart(trace: Json) -> tuple[Json, Json]:
    """The trace without its allocations, and the snapshot that PyTorch would have taken of them beside it.

    Times are whole microseconds. Frames are those that are open on the thread, of threads without Python none.
    """
    instants = [one for one in trace["traceEvents"] if one.get("name") == "[memory]"]
    rest = [one for one in trace["traceEvents"] if one.get("name") != "[memory]"]
    frames = [one for one in rest if one.get("cat") == "python_function" and not one["name"].startswith("nn.Module")]
    base_us = int(trace.get("baseTimeNanoseconds", 0)) // 1000
    entries = []
    for one in instants:
        at, args = float(one["ts"]), one["args"]
        around = [f for f in frames if f["tid"] == one["tid"] and float(f["ts"]) <= at < float(f["ts"]) + f["dur"]]
        stack = [f["name"].partition("(") for f in sorted(around, key=lambda f: -float(f["ts"]))]
        reserved = args["Total Reserved"] - sum(e["size"] for e in entries if e["action"] == "segment_alloc")
        where = {"stream": 0, "time_us": int(at) + base_us}
        if reserved:
            more = {"action": "segment_alloc", "addr": 2**40 + len(entries), "size": reserved, "frames": []}
            entries.append(more | where)
        entries.append({
            "action": "alloc" if args["Bytes"] > 0 else "free_completed", "addr": args["Addr"],
            "size": abs(args["Bytes"]), **where,
            "frames": [{"filename": f"/x/{file}", "line": 7, "name": at.partition(": ")[2]} for file, _, at in stack],
        })  # fmt: skip
    total = sum(e["size"] for e in entries if e["action"] == "segment_alloc")
    device = instants[0]["args"]["Device Id"]
    segment = {"device": device, "address": 2**50, "total_size": total, "blocks": []}
    snapshot = {"segments": [segment], "device_traces": [[]] * device + [entries]}
    return {**trace, "traceEvents": rest}, snapshot


@cache
def pair() -> tuple[tlg.TraceGraph, tlg.TraceGraph]:
    """The graph of the trace with allocations, and that of the other with its snapshot."""
    trace, snapshot = apart(recorded())
    return tlg.load(recorded()), tlg.load(trace, memory=pickle.dumps(snapshot))


@pytest.mark.parametrize("step", [None, 3, 4])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_joined_trace_answers_as_one_that_records_allocations(question: str, step: int | None) -> None:
    own, joined = (tlg.QUESTIONS[question](g, **({} if step is None else {"step": step})) for g in pair())
    assert len(own)
    times = [name for name in own.columns if name.endswith("_us")]
    names = [name for name in own.columns if name not in (*times, "uid")]  # allocations stand elsewhere in the file
    assert [[row[name] for name in names] for row in joined.records()] == [
        [row[name] for name in names] for row in own.records()
    ]
    for name in times:  # a snapshot has whole microseconds, at both ends of a life
        assert np.allclose(
            *(np.array([row[name] for row in table.records()], float) for table in (joined, own)),
            atol=2,
            equal_nan=True,
        )


THREADS = [
    span("user_annotation", "ProfilerStep#7", 0, 1000),
    span("python_function", "train.py(5): main", 1, 990, tid=100),
    span("python_function", "nn.Module: Net_0", 5, 500, tid=100),
    span("python_function", "net.py(8): forward", 10, 400, tid=100),
    span("cpu_op", "aten::linear", 20, 300, tid=100),
    span("python_function", "loader.py(3): work", 2, 900, tid=300),
    span("cpu_op", "aten::empty", 45, 100, tid=300),
]
"""Two threads that are at work at once."""
MAIN = [{"filename": "/x/net.py", "line": 9, "name": "forward"}, {"filename": "/x/train.py", "line": 6, "name": "main"}]
WORK = [{"filename": "/x/loader.py", "line": 4, "name": "work"}]


def snapshot(*entries: Json) -> bytes:
    return pickle.dumps({"segments": [], "device_traces": [list(entries)]})


def test_stacks_tell_threads_apart() -> None:
    taken = snapshot(
        {**entry("alloc", 50, 1, 100), "frames": MAIN}, {**entry("alloc", 50, 2, 30), "frames": WORK},
        entry("alloc", 60, 3, 7),
    )  # fmt: skip
    rows = tlg.QUESTIONS["memory_peak"](tlg.load(THREADS, memory=taken)).records()
    assert [(row["module_path"], row["op"], row["bytes"]) for row in rows] == [
        ("Net_0", "aten::linear", 100), ("(no module)", "aten::empty", 37),
    ]  # fmt: skip
    # Without any stack the call counts that began last.
    bare = snapshot(entry("alloc", 40, 1, 100), entry("alloc", 50, 2, 30), entry("alloc", 200, 3, 7))
    for one in (bare_trace := pickle.loads(bare))["device_traces"][0]:
        one["frames"] = []
    rows = tlg.QUESTIONS["memory_peak"](tlg.load(THREADS, memory=pickle.dumps(bare_trace))).records()
    assert [(row["op"], row["bytes"]) for row in rows] == [("aten::linear", 107), ("aten::empty", 30)]


def test_what_is_outside_of_the_trace_is_counted() -> None:
    taken = snapshot(entry("alloc", 30, 1, 8), entry("alloc", 5000, 2, 16))
    with pytest.warns(tlg.IncompleteSetWarning, match="1 of 2 entries are outside of the trace's time"):
        g = tlg.load(THREADS, memory=taken)
    assert tlg.QUESTIONS["memory_summary"](g).records()[0]["peak_bytes"] == 8


@pytest.mark.parametrize(
    ("trace", "memory", "says"),
    [
        (THREADS, snapshot(entry("alloc", 3_000_000, 1, 8)), "begins 2.999 s after the end of"),
        (THREADS, snapshot(), "has no history"),
        (THREADS, snapshot({**entry("alloc", 3, 1, 8), "time_us": "x"}), "entries of its history lack"),
        (THREADS, json.dumps(THREADS).encode(), "is no snapshot of torch.cuda.memory"),
        (recorded, snapshot(entry("alloc", 30, 1, 8)), "has allocations of its own"),
    ],
    ids=["late", "empty", "damaged", "other", "recorded"],
)
def test_what_does_not_fit_is_an_error_in_one_line(trace: Any, memory: bytes, says: str) -> None:
    with pytest.raises((LinkError, NotATraceError, TraceError), match=says) as caught:
        tlg.load(trace() if callable(trace) else trace, memory=memory)
    assert "\n" not in str(caught.value)


def test_a_saved_graph_keeps_the_snapshot(tmp_path: Path) -> None:
    _, joined = pair()
    joined.save(tmp_path / "joined.tlg")
    again = tlg.load(tmp_path / "joined.tlg")
    for question in ("memory_peak", "memory_segments"):
        assert tlg.QUESTIONS[question](again).records() == tlg.QUESTIONS[question](joined).records()
    with pytest.raises(LinkError, match="is no profiler's trace"):
        tlg.load(tmp_path / "joined.tlg", memory=snapshot(entry("alloc", 30, 1, 8)))


def test_commands_take_the_snapshot(tmp_path: Path) -> None:
    trace, taken = apart(recorded())
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    (tmp_path / "memory.pickle").write_bytes(pickle.dumps(taken))
    arguments = ["ask", "allocations_by_module", str(tmp_path / "trace.json.gz"), "-f", "json"]
    result = CliRunner().invoke(app, [*arguments, "--memory", str(tmp_path / "memory.pickle")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [row["allocated_bytes"] for row in rows] == [
        row["allocated_bytes"] for row in tlg.QUESTIONS["allocations_by_module"](pair()[0]).records()
    ]
