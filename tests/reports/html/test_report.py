"""The page of a report as a file: its policy, its size, what it says, and that nothing of a trace is markup."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from handmade import HOSTILE, hostile_trace, small_trace, span
from html_pages import Tags, hostile_page, page_of, policy_of, read
from hypothesis import given
from hypothesis import strategies as st

from corpus import chosen_traces, loaded, parametrize, traces_named
from tracelens_graph.analyses.across.overview import overview_line
from tracelens_graph.analyses.diagnosis.account import time_spent
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.memory.holders import memory_peak
from tracelens_graph.analyses.memory.peak import DeviceMemory, memory_over_time, memory_summary
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.document import facts
from tracelens_graph.reports.html import report as module
from tracelens_graph.reports.html.names import CLASSES, LONGEST, clean
from tracelens_graph.reports.html.overview import in_window, parts
from tracelens_graph.reports.html.report import kept, report_page
from tracelens_graph.reports.html.shell import asset
from tracelens_graph.reports.html.timeline import causes
from tracelens_graph.schema import KIND_MEANING, Kind, OwnerRule
from tracelens_graph.simulate.serving import simulate, write

MOST_BYTES, PER_EVENT = 600_000, 6


def test_the_policy_allows_the_pages_own_scripts_only() -> None:
    page = page_of(load_core(small_trace()))
    policy = policy_of(page)
    script, style = page.rpartition("<script>")[2].partition("</script>")[0], page.partition("<style>")[2]
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (script, style.partition("</style>")[0])]
    assert policy == {
        "default-src": "'none'", "script-src": f"'sha256-{hashes[0]}'", "style-src": f"'sha256-{hashes[1]}'",
        "worker-src": "blob:", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert page.index("http-equiv") < page.index("<title>")
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg|/\*! https://github\.com/leeoniya/uPlot ", "", page)
    assert not re.search(r"\son\w+=|<[^>]*\sstyle=|innerHTML|insertAdjacentHTML|document\.write|eval\(", page)


def test_no_name_is_markup() -> None:
    tags = Tags(hostile_page()).found
    plain = Tags(page_of(load_core(small_trace()))).found
    assert [tag for tag, _ in tags] == [tag for tag, _ in plain]
    assert [sorted(attributes) for _, attributes in tags] == [sorted(attributes) for _, attributes in plain]


def test_names_are_capped_and_stand_once() -> None:
    page = hostile_page()
    assert len(page) < 300_000
    body = read(page).body
    assert max(map(len, body["names"])) <= LONGEST + len("...")
    kinds = list(zip(body["names"], read(page).columns["name.class"].tolist(), strict=True))
    assert len(kinds) == len(set(kinds))
    assert len(body["texts"]) == len(set(body["texts"]))
    assert all(text.isprintable() for text in (*body["names"], *body["texts"]))
    page.encode()


def test_no_script_ends_early() -> None:
    page = page_of(load_core(small_trace()))
    assert page.count("<script") == page.count("</script>") == 5


@parametrize("path", chosen_traces())
def test_size(path: Path) -> None:
    core = loaded(path)
    page = page_of(core)
    assert len(page.encode()) <= MOST_BYTES + PER_EVENT * read(page).body["drawn"]["events"]


def test_what_it_says_of_a_small_trace() -> None:
    found = read(page_of(load_core(small_trace())))
    said = found.head["overview"]
    assert found.head["heading"].endswith("rank 3 of 8, GPU of tests, 3 GPU events")
    assert ["rank", "3 of 8"] in said["facts"]
    assert found.columns["gpu.dur"].sum() == 100_250
    assert sum(part["ns"] for part in said["parts"]) == 900_000
    assert said["base"] == "the 900 us of the steps and other GPU work"
    assert {"ops_summary", "modules", "python_lines", "idle_causes"} <= {
        table["name"] for table in found.body["tables"]
    }
    assert clean(HOSTILE) in found.body["names"]
    assert found.body["classes"] == list(CLASSES)


def test_a_page_of_a_window_names_it_first_and_keeps_it_apart_from_the_whole() -> None:
    core = load_core(small_trace())
    whole = core.everything
    assert list(in_window(whole)) == []
    kernels = core.columns.uid[whole.gpu_rows].tolist()
    part = core.window(under=int(core.columns.uid[core.columns.parent[whole.linked_gpu_rows[0]]]))
    assert 0 < len(part.gpu_rows) < len(kernels)
    page = page_of(part)
    said = read(page).head["overview"]
    assert read(page).head["heading"].startswith(f"only {part.title}: ")
    assert f"<title>only {escape(part.title)}: " in page
    assert dict(said["of_window"])["GPU events"] == f"{len(part.gpu_rows)} of {len(kernels)}"
    assert dict(said["of_window"])["GPU span"] == f"{part.span_ns() / 1e6:,.3f} ms"
    assert dict(said["facts"])["GPU events"] == str(len(kernels))
    assert dict(said["facts"])["GPU span"] == f"{whole.span_ns() / 1e6:,.3f} ms"


def test_the_operations_are_those_that_the_report_counts() -> None:
    w = load_core(small_trace()).everything
    for options, is_there in (({}, True), ({"linked_only": True}, False)):
        page = report_page(w, (), {}, facts(w, options), str)
        rows = read(page).head["overview"]["largest"][0]["rows"]
        assert rows
        assert any(row["name"] == NO_LAUNCH for row in rows) is is_there


def test_every_cause_of_idle_time_has_a_colour() -> None:
    colors = asset("colors.css")
    for cause in Cause:
        assert f"--idle-{causes()[cause]['class']}: #" in colors, cause


def test_parts_of_two_devices_are_added_up() -> None:
    events = [
        span("kernel", f"k{device}{at}", at, 10, device, 7, device=device, stream=7)
        for device in (0, 1)
        for at in (0, 40 + 10 * device)
    ]
    assert {part["label"]: part["ns"] for part in parts(load_core(events).everything)} == {
        "computation": 40_000, "idle: unknown (no launch)": 30_000 + 40_000,
    }  # fmt: skip


def test_without_gpu_work_and_with_damaged_events() -> None:
    events = small_trace()["traceEvents"]
    host = [event for event in events if event.get("cat") not in ("kernel", "gpu_memcpy")]
    found = read(page_of(load_core(host)))
    assert found.columns["gpu.dur"].sum() == 0
    assert found.head["overview"]["parts"] == []
    assert found.body["drawn"]["events"] == 9


def test_the_same_page_twice() -> None:
    assert page_of(load_core(small_trace())) == page_of(load_core(small_trace()))


@pytest.mark.parametrize("events", [[], [span("cpu_op", "a", 0, 1)], [span("kernel", "k", 1e12, 1, 0, 7)]])
def test_of_next_to_nothing(events: list[dict[str, object]]) -> None:
    assert read(page_of(load_core(events))).body["drawn"]["events"] == len(events)


def test_a_hostile_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(hostile_trace())
    read(page_of(load_core(path)))


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


def test_a_page_of_a_server_has_its_steps_and_kernels_of_graphs_their_captured_op(tmp_path: Path) -> None:
    write(simulate(seed=2, steps=12, layers=2), tmp_path, traces_only=True)
    core = load_core(tmp_path / "rank0.json.gz", capture=tmp_path / "capture")
    found, c = read(page_of(core)), core.columns
    tables = {table["name"] for table in found.body["tables"]}
    assert {"phases", "iterations", "steady_state", "step_costs"} <= tables
    assert not [one for one in found.head["overview"]["missing"] if one["what"].startswith("steps")]
    assert overview_line(core, "rank0")["steps"] == 12
    joined = np.flatnonzero(c.owner_rule[core.gpu_rows] == OwnerRule.graph_capture)
    at = {int(uid): place for place, uid in enumerate(found.columns["gpu.uid"])}
    for row in core.gpu_rows[joined[::50]].tolist():
        call = found.columns["gpu.launch"][at[int(c.uid[row])]] - 1
        assert found.columns["host.uid"][call] == c.uid[c.parent[row]]


@parametrize("path", chosen_traces())
def test_bar_and_verdict_have_one_base(path: Path) -> None:
    core = loaded(path)
    said = read(page_of(core)).head["overview"]
    spent = time_spent(core)
    assert said["base"] in (spent.title or "")
    assert sum(part["ns"] for part in said["parts"]) == pytest.approx(1e6 * sum(spent["ms"]), abs=10)
