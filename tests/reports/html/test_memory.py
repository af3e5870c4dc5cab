"""Memory over time on a page, held against instants that are known and against the tables."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from handmade import span
from html_pages import page_of, read
from hypothesis import given
from hypothesis import strategies as st

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.memory.peak import DeviceMemory, memory_over_time, memory_peak, memory_summary
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html import memory as module
from tracelens_graph.reports.html.memory import kept
from tracelens_graph.schema import KIND_MEANING, Kind

TRACES = traces_named(
    "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/normalization-layers",
    "tracelens/inference/sglang-decode/capture/bs_32_rank0",
)  # fmt: skip
INSTANT = KIND_MEANING[Kind.MemoryEvent]


def instant(ts: float, size: int, total: int, reserved: int, tid: int = 100, kind: int = 1) -> dict[str, Any]:
    args = {
        "Bytes": size, "Total Allocated": total, "Total Reserved": reserved, "Addr": 4096, "Device Id": kind - 1,
        "Device Type": kind,
    }  # fmt: skip
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": tid, "ts": ts, "args": args}


EVENTS = [
    span("cpu_op", "aten::linear", 10, 30), span("cpu_op", "aten::empty", 12, 5), instant(5, 64, 1064, 4096),
    instant(13, 1000, 2064, 4096), instant(20, -64, 2000, 8192), instant(50, 8, 8, 0, kind=0),
    instant(60, -2000, 0, 8192), instant(14, 1, 2065, 4096, tid=7),
]  # fmt: skip


def unzigzag(values: np.ndarray) -> np.ndarray:
    return (values >> 1) ^ -(values & 1)


def totals(columns: dict[str, np.ndarray], low: int, high: int) -> list[int]:
    """Allocated bytes of a device, whose moments stand from `low` on, as the page adds them up."""
    change, rest = (unzigzag(columns[f"memory.{name}"][low:high]) for name in ("change", "rest"))
    return np.cumsum(change + rest).tolist()


def test_of_known_instants() -> None:
    page = read(page_of(load_core(EVENTS)))
    assert page.head["memory"] == [
        {"title": "cuda:0", "n": 5, "all": 5, "reserved": True}, {"title": "cpu", "n": 1, "all": 1, "reserved": False}
    ]  # fmt: skip
    assert page.columns["memory.time"].tolist() == [0, 8000, 9000, 15000, 55000, 45000]
    assert unzigzag(page.columns["memory.change"]).tolist() == [64, 1000, 1, -64, -2000, 8]
    assert totals(page.columns, 0, 5) == [1064, 2064, 2065, 2000, 0]
    assert totals(page.columns, 5, 6) == [8]
    assert page.columns["memory.reserved"].tolist() == [4096, 4096, 4096, 8192, 8192, 0]
    # The second call, none on the other thread, the first call, none behind it.
    assert page.columns["memory.call"].tolist() == [0, 2, 0, 1, 0, 0]
    assert page.body["drawn"] == {"events": 2, "instants": 6, "left_out": {}}


def test_instants_that_tell_no_bytes_are_counted_as_left_out() -> None:
    broken = {**instant(30, 0, 0, 0), "args": {}}
    assert read(page_of(load_core([*EVENTS, broken]))).body["drawn"]["left_out"] == {INSTANT: 1}


def test_moments_that_do_not_stay_are_counted_as_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 12)
    instants = [instant(at, 8, 8 * at, 4096) for at in range(1, 61)]
    drawn = read(page_of(load_core([*EVENTS[:2], *instants]))).body["drawn"]
    assert drawn["instants"] <= 12
    assert drawn["left_out"] == {INSTANT: 60 - drawn["instants"]}


def test_without_instants_there_is_nothing_of_it() -> None:
    text = page_of(load_core(EVENTS[:2]))
    page = read(text)
    assert page.head["memory"] == []
    assert "uPlot=" not in text
    assert not [name for name in page.columns if name.startswith("memory.")]
    assert not [table for table in page.body["tables"] if table["name"].startswith("memory_")]


def test_the_licence_of_what_draws_it_is_in_the_page() -> None:
    licence = (files("tracelens_graph.reports.html") / "page/vendor/uPlot.LICENSE").read_text("utf-8")
    assert licence in page_of(load_core(EVENTS))


@parametrize("path", TRACES)
def test_of_real_traces(path: Path) -> None:
    core = loaded(path)
    page, at = read(page_of(core)), 0
    summary = {row["device"]: row for row in memory_summary(core).records()}
    for told, one in zip(page.head["memory"], memory_over_time(core.everything), strict=True):
        found = totals(page.columns, at, at + told["n"])
        assert found == one.allocated_bytes.tolist()
        assert max(found) == summary[told["title"]]["peak_bytes"]
        at += told["n"]
    held = next(table for table in page.body["tables"] if table["name"] == "memory_peak")
    assert held["rows"] == len(memory_peak(core))
    calls = page.columns["memory.call"]
    assert calls.max() <= len(page.columns["host.uid"])
    assert (calls > 0).any()


def test_a_window_has_its_own_moments() -> None:
    core = load_core([*EVENTS, span("user_annotation", "ProfilerStep#1", 11, 20)])
    w = core.window(step=1)
    (told,) = read(page_of(w)).head["memory"]
    assert told == {"title": "cuda:0", "n": 3, "all": 3, "reserved": True}


NUMBERS = st.lists(st.integers(0, 50), min_size=1, max_size=300)


def of(allocated: list[int], reserved: list[int] | None) -> DeviceMemory:
    total = np.array(allocated, np.int64)
    n = np.arange(len(total))
    held = None if reserved is None else np.resize(np.array(reserved, np.int64), len(total))
    return DeviceMemory("cuda:0", n, np.diff(total, prepend=0), total, held, n)


@given(NUMBERS, st.none() | NUMBERS)
def test_of_many_moments_both_peaks_and_the_ends_stay(allocated: list[int], reserved: list[int] | None) -> None:
    one = of(allocated, reserved)
    with patch.object(module, "MOST_POINTS", 60):
        points = kept(one)
    assert (np.diff(points) > 0).all()
    assert {0, len(allocated) - 1, int(one.allocated_bytes.argmax())} <= set(points.tolist())
    assert len(points) <= 60
    assert one.allocated_bytes[points].min() == one.allocated_bytes.min()
    assert np.abs(one.change_bytes[points]).max() == np.abs(one.change_bytes).max()
    if one.reserved_bytes is not None:
        assert int(one.reserved_bytes.argmax()) in points


@pytest.mark.parametrize("count", [60, 61])
def test_few_moments_stay_all(count: int) -> None:
    with patch.object(module, "MOST_POINTS", 60):
        assert (len(kept(of([1] * count, None))) == count) == (count == 60)


def test_where_no_size_can_be_read_a_table_says_so() -> None:
    unread = [
        {**one, "args": {**one["args"], "Bytes": None}} if one.get("name") == "[memory]" else one for one in EVENTS
    ]
    page = read(page_of(load_core(unread)))
    assert page.head["memory"] == []
    (table,) = [one for one in page.body["tables"] if one["name"] == "memory_summary"]
    assert table["rows"] == 0
    assert table["notes"] == ["6 allocations and releases are recorded, but no size can be read"]
