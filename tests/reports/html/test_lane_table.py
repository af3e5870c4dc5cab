"""The lanes of a timeline as a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import small_trace, span

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.drawn import NOTHING, drawn
from tracelens_graph.reports.html.lane_table import lane_table


def test_lanes_of_a_small_trace() -> None:
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
