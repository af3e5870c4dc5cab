"""The page of a report as a file: its policy, its size, what it says, and that nothing of a trace is markup."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from pathlib import Path

import pytest
from handmade import HOSTILE, hostile_trace, small_trace, span
from html_pages import Tags, hostile_page, page_of, policy_of, read

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.idle.idle import Cause, idle_parts
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.document import facts
from tracelens_graph.reports.html.names import CLASSES, LONGEST, clean
from tracelens_graph.reports.html.overview import in_window, parts
from tracelens_graph.reports.html.report import report_page
from tracelens_graph.reports.html.shell import asset
from tracelens_graph.reports.html.timeline import causes

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
    assert sum(part["ns"] for part in said["parts"]) == 159_000  # from 1001 to 1160 us
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
        rows = read(page).head["overview"]["top_ops"]["rows"]
        assert rows
        assert any(row["name"] == NO_LAUNCH for row in rows) is is_there


def test_every_cause_of_idle_time_has_a_colour() -> None:
    colors = asset("colors.css")
    for cause in Cause:
        assert f"--idle-{causes()[cause]['class']}: #" in colors, cause


@parametrize("path", chosen_traces())
def test_parts_of_the_span_add_up(path: Path) -> None:
    core = loaded(path)
    said = parts(core.everything)
    assert sum(part["ns"] for part in said) == idle_parts(core).total_ns
    assert sum(part["ns"] for part in said) >= core.everything.span_ns()


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
