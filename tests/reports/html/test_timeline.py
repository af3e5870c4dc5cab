"""What the timeline draws: callers and times follow from it; of many events the longest, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import call, gpu, small_trace, span
from html_pages import page_of, read
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize, traces_named
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.timeline import (
    NOTHING,
    Drawn,
    LeftOut,
    drawn,
    lane_table,
    lanes,
    longest_events,
    seen_first,
)
from tracelens_graph.schema import Kind

TRACES = traces_named(
    "tracelens/h100/qwen1.5-0.5b", "tracelens/mi210/gpu-only", "hta/cpu-only/rank-34",
    "hta/critical-path/event-sync-multi-stream",
)  # fmt: skip


def callers(depth: list[int]) -> list[int]:
    """As the page finds them: the last row one level up."""
    found, open_rows = [], {}
    for row, level in enumerate(depth):
        found.append(open_rows.get(level - 1, -1))
        open_rows[level] = row
    return found


def test_lanes_of_a_small_trace() -> None:
    w = load_core(small_trace()).everything
    found = lanes(w, drawn(w))
    assert [(lane["title"], lane["n"], lane["launches"]) for lane in found["host"]] == [
        ("main", 7, 2), ("thread 200", 1, 0),
    ]  # fmt: skip
    assert [(lane["title"], lane["n"]) for lane in found["note"]] == [("main", 1)]
    assert [(lane["title"], lane["n"]) for lane in found["gpu"]] == [("stream 7", 2), ("stream 8", 1)]
    assert [(lane["title"], lane["n"]) for lane in found["idle"]] == [("idle", 1)]
    assert drawn(w).left_out == {"an allocation or release (`[memory]`)": 1}
    assert drawn(w).events == 12


def test_a_server_is_seen_from_the_middle_of_its_steady_state() -> None:
    def server(steps: int) -> Window:
        events = []
        for n in range(steps):
            events += [span("user_annotation", "step[DECODE bs=4]", 100 * n, 20), call(100 * n + 5, n + 1, dur=1)]
            events += [gpu(100 * n + 30, 50, n + 1)]
        return load_core(events).everything

    # Of 20 steps of one size all are the steady state: the four from number 8 on, up to the end of their GPU work.
    assert seen_first(server(20)) == [800_000, 1_180_000]
    assert seen_first(server(4)) is None
    assert seen_first(load_core(small_trace()).everything) is None
    assert read(page_of(server(20))).body["seen_first"] == [800_000, 1_180_000]


@parametrize("path", chosen_traces())
def test_a_page_has_every_event_to_the_nanosecond(path: Path) -> None:
    core = loaded(path)
    c, columns = core.columns, read(page_of(core)).columns
    d = drawn(core.everything)
    assert columns["host.start"].tolist() == c.start_ns[d.host].tolist()
    assert columns["host.dur"].tolist() == c.dur_ns[d.host].tolist()
    assert columns["host.uid"].tolist() == c.uid[d.host].tolist()
    parent = np.array(callers(columns["host.depth"].tolist()), np.int64)
    assert np.where(parent >= 0, d.host[parent] if len(d.host) else 0, -1).tolist() == c.parent[d.host].tolist()
    end, start = 0, []
    for gap, dur in zip(columns["gpu.gap"].tolist(), columns["gpu.dur"].tolist(), strict=True):
        start.append(end + (-(gap + 1) // 2 if gap % 2 else gap // 2))
        end = start[-1] + dur
    assert start == c.start_ns[d.gpu].tolist()
    launch = columns["gpu.launch"]
    assert np.where(launch > 0, d.host[launch - 1] if len(d.host) else 0, -1).tolist() == c.parent[d.gpu].tolist()


@parametrize("path", traces_named("tracelens/h100/qwen1.5-0.5b"))
def test_in_a_window_callers_are_those_in_it(path: Path) -> None:
    core = loaded(path)
    w = core.window(after_ns=int(core.columns.end_ns.max()) // 2)
    d, c = drawn(w), core.columns
    inside = set(d.host.tolist())
    for row, above in zip(d.host.tolist(), callers(d.depth.tolist()), strict=True):
        up = int(c.parent[row])
        while up >= 0 and up not in inside:
            up = int(c.parent[up])
        assert (int(d.host[above]) if above >= 0 else -1) == up
    assert set(np.unique(c.kind[d.gpu]).tolist()) <= {Kind.Kernel, Kind.Memcpy, Kind.Memset}


def test_the_table_of_lanes() -> None:
    w = load_core(small_trace()).everything
    rows = {row["lane"]: row for row in lane_table(w, drawn(w)).records()}
    assert list(rows) == ["stream 7", "stream 8", "idle", "main", "thread 200", "annotations, main"]
    assert rows["stream 7"]["events"] == 2
    assert rows["stream 7"]["busy_ms"] == pytest.approx(0.08025)
    assert rows["stream 7"]["gpu_span_percent"] == pytest.approx(100 * 80.25 / 159)
    assert rows["main"]["gpu_span_percent"] is None
    assert (rows["stream 7"]["longest"], rows["stream 7"]["uid"]) == ("gemm", 9)
    assert rows["idle"]["busy_ms"] == pytest.approx(0.069)
    assert rows["main"]["busy_ms"] == pytest.approx(0.8)
    assert rows["main"]["longest"] == "train.py(3): step"
    assert rows["annotations, main"]["longest"] == "ProfilerStep#5"


def test_each_device_has_a_span_of_its_own() -> None:
    kernels = [(0, 0, 10), (0, 90, 10), (3, 40, 5), (3, 55, 5)]
    core = load_core([span("kernel", "k", at, dur, device, 7, device=device, stream=7) for device, at, dur in kernels])
    rows = [row for row in lane_table(core.everything, drawn(core.everything)).records() if "stream" in row["lane"]]
    assert [row["gpu_span_percent"] for row in rows] == [pytest.approx(20), pytest.approx(50)]


def test_nothing_has_no_lanes() -> None:
    assert len(lane_table(load_core(small_trace()).everything, NOTHING)) == 0


@parametrize("path", traces_named("tracelens/h100/qwen1.5-0.5b", "tracelens/mi210/gpu-only"))
def test_busy_and_idle_times_are_those_of_the_timeline(path: Path) -> None:
    core = loaded(path)
    table = lane_table(core.everything, drawn(core.everything))
    times = dict(zip(gpu_timeline(core)["type"], gpu_timeline(core)["time ms"], strict=True))
    streams = [row for row in table.records() if "stream" in row["lane"]]
    assert sum(row["events"] for row in streams) == len(core.gpu_rows)
    idle = next(row for row in table.records() if row["lane"].endswith("idle"))
    assert idle["busy_ms"] == pytest.approx(times["idle_time"])
    shares = dict(zip(gpu_timeline(core)["type"], gpu_timeline(core)["percent"], strict=True))
    assert idle["gpu_span_percent"] == pytest.approx(shares["idle_time"])
    assert all(row["gpu_span_percent"] <= 100.001 for row in table.records() if row["gpu_span_percent"] is not None)


def check(w: Window, d: Drawn, kept: Drawn, left_out: list[LeftOut], most: int) -> None:
    c = w.core.columns
    assert kept.events + len(kept.idle.row) <= max(most, 0) or not left_out
    told = {one.what: one for one in left_out}
    for what, rows, rest in (
        ("GPU events", d.gpu, kept.gpu),
        ("calls of the host", d.host, kept.host),
        ("annotations", d.notes, kept.notes),
    ):
        missing = np.setdiff1d(rows, rest)
        assert set(rest.tolist()) <= set(rows.tolist())
        if not len(missing):
            assert what not in told
            continue
        assert (told[what].number, told[what].of) == (len(missing), len(rows))
        assert told[what].longest_ns == int(c.dur_ns[missing].max())
        if what != "calls of the host" and len(rest):
            assert int(c.dur_ns[rest].min()) >= told[what].longest_ns
    launches = c.parent[kept.gpu]
    assert np.isin(launches[launches >= 0], kept.host).all()
    parent_depth = dict(zip(kept.host.tolist(), kept.depth.tolist(), strict=True))
    for row, depth in parent_depth.items():
        around = 0
        while (row := int(c.parent[row])) >= 0:
            around += row in parent_depth
        assert depth == around


@given(traces(), st.integers(1, 40))
def test_the_longest_stay_with_their_launches(trace: dict[str, Any], most: int) -> None:
    w = load_core(trace).everything
    d = drawn(w)
    check(w, d, *longest_events(w, d, most), most)


@parametrize("path", TRACES)
def test_real_traces(path: Path) -> None:
    w = loaded(path).everything
    d = drawn(w)
    for most in (100, 1000):
        check(w, d, *longest_events(w, d, most), most)
    kept, left_out = longest_events(w, d, d.events + len(d.idle.row))
    assert kept is d
    assert left_out == []


@parametrize("path", TRACES[:1])
def test_idle_gaps_keep_what_they_are_due_to(path: Path) -> None:
    w = loaded(path).everything
    d = drawn(w)
    kept, _ = longest_events(w, d, 1000)
    place = np.flatnonzero(np.isin(d.idle.row, kept.idle.row))
    assert len(kept.idle.row) == 62
    assert kept.idle.parts.tolist() == d.idle.parts[:, place].tolist()
    assert kept.idle.total_ns == d.idle.total_ns
