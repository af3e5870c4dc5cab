"""Views for notebooks: a static table first, then the view alone in a sandbox, small enough to be kept."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from handmade import HOSTILE, small_trace, span
from html_pages import NAMES, hostile_graph, policy_of, read

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.idle.idle_gaps import idle_gaps
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.api import load
from tracelens_graph.errors import AnalysisError, MissingExtraError, OutputError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.reports.html import inline
from tracelens_graph.reports.html.inline import LONGEST_PAGE, Inline

TRACES = traces_named(
    "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/resnet-ddp-checkpointing", "tracelens/mi210/gpu-only",
    "hta/cpu-only/rank-34", "hta/critical-path/event-sync-multi-stream",
)  # fmt: skip
DEVICE = "h100-sxm"


class Tags(HTMLParser):
    """Tags in their order, and the attributes of the frame."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.frame: dict[str, str | None] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "iframe":
            self.frame = dict(attrs)


def views(core: Core) -> dict[str, Inline]:
    found = {by: inline.flame(core, by) for by in inline.FLAMES}
    return {
        **found, "timeline": inline.timeline(core), "roofline": inline.roofline(core, arch=DEVICE),
        "tables": inline.grid(core),
    }  # fmt: skip


def gpu_ns(core: Core) -> int:
    return int(core.columns.dur_ns[core.gpu_rows].sum())


@parametrize("path", TRACES)
def test_real_traces_are_small_and_keep_their_time(path: Path) -> None:
    core = loaded(path)
    for name, view in views(core).items():
        assert len(view.page) <= LONGEST_PAGE, name
        assert len(view._repr_html_()) <= 1.2 * LONGEST_PAGE, name
        found = read(view.page)
        if name in inline.FLAMES:
            page = inline.FLAMES[name][0]
            if name != "host":
                assert int(found.columns[f"{page}.ns"].sum()) == gpu_ns(core)
            assert list(found.body["flame"]["views"]) == [page]
            assert len(found.columns["gpu.dur"]) == 0
        elif name == "timeline" and not view.notes:
            assert int(found.columns["gpu.dur"].sum()) == gpu_ns(core)


def test_a_table_comes_first_then_a_sandbox() -> None:
    for view in views(load_core(small_trace())).values():
        found = Tags(view._repr_html_())
        assert found.tags.index("table") < found.tags.index("iframe")
        assert "script" not in found.tags
        assert found.tags.count("iframe") == 1
        assert found.frame["sandbox"] == "allow-scripts"
        assert found.frame["srcdoc"] == view.page
        assert found.frame["title"] == view.heading
        policy = policy_of(view.page)
        assert policy["default-src"] == "'none'"
        assert "unsafe" not in policy["script-src"]


def test_a_page_has_only_the_code_of_its_view() -> None:
    found = views(load_core(small_trace()))
    classes = {name: set(re.findall(r"^class (\w+)", view.page, re.MULTILINE)) for name, view in found.items()}
    assert "Timeline" in classes["timeline"]
    assert "Timeline" not in classes["op"] | classes["roofline"]
    assert "Flame" in classes["op"]
    assert "Flame" not in classes["timeline"] | classes["roofline"]
    assert "Tables" in classes["tables"]
    assert not {"Tables", "Overview"} & classes["timeline"]


def many_events(count: int) -> TraceGraph:
    gpu = {"device": 0, "stream": 7}
    events = []
    for number in range(1, count + 1):
        at = 100.0 * number
        events += [
            span("cpu_op", f"op{number}", at, 50),
            span("cuda_runtime", "cudaLaunchKernel", at + 1, 5, correlation=number),
            span("kernel", f"kernel{number}", at + 10, 10 + number % 40, 0, 7, correlation=number, **gpu),
        ]
    return load(events)


def test_a_timeline_says_what_it_leaves_out() -> None:
    g = many_events(500)
    view = g.timeline(events=160)
    (note,) = view.notes
    assert note == (
        "The longest events are drawn, and what launched them. Left out: 460 of 500 GPU events, none longer than "
        "46.000 µs; 900 of 1,000 calls of the host, none longer than 50.000 µs; 489 of 499 idle gaps, none longer than "
        "90.000 µs. A window has room for more of its part."
    )
    assert note in repr(view)
    assert note in view._repr_html_()
    assert len(read(view.page).columns["gpu.dur"]) == 40
    assert g.timeline().notes == []
    assert len(g.window(after_ns=0, before_ns=1_000_000).timeline(events=160).notes) == 0


def test_a_flame_graph_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "MOST_FRAMES", 100)
    g = many_events(500)
    view = g.flame("op")
    assert view.notes == ["The 101 frames with most time are drawn; that of 900 others is in the frames around them."]
    assert int(read(view.page).columns["ops.ns"].sum()) == gpu_ns(g)


def test_a_grid_has_the_tables_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    g = many_events(60)

    def shown(view: Inline) -> dict[str, int]:
        return {table["name"]: table["rows"] for table in read(view.page).body["tables"]}

    every = report_tables(g)
    assert shown(g.grid()) == {name: len(table) for name, table in every.items()}
    one = g.grid("kernel_summary")
    assert shown(one) == {"kernel_summary": 60}
    assert one.heading == "kernel_summary: <parsed trace>"
    assert one.table.records() == every["kernel_summary"].records()
    frame = g.tables["kernel_summary"]
    longest = frame[frame["Kernel duration (µs)_sum"] > 40]
    two = g.grid(longest, frame, idle_gaps(g))
    assert shown(two) == {"kernel_summary": len(longest), "kernel_summary 2": 60, "idle_gaps": len(idle_gaps(g))}
    assert 0 < len(longest) < 60
    assert "sum us" in [column["heading"] for column in read(two.page).body["tables"][0]["columns"]]
    assert list(two.table["table"]) == list(shown(two))
    monkeypatch.setattr(inline, "MOST_LINES", 50)
    cut = g.grid("kernel_summary", "gpu_timeline")
    assert cut.notes == ["The first 50 rows are shown of kernel_summary."]
    assert shown(cut)["kernel_summary"] == 50
    assert read(cut.page).body["tables"][0]["notes"][-1] == "10 more rows: to_pandas() has them"
    with pytest.raises(AnalysisError, match="no table 'kernel_sumary'; did you mean kernel_summary"):
        g.grid("kernel_sumary")
    with pytest.raises(AnalysisError, match="this is of type list"):
        g.grid([1, 2])  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="two columns of table have one name"):
        g.grid(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_a_grid_of_a_window_is_of_its_part() -> None:
    g = many_events(60)
    part = g.window(after_ns=0, before_ns=2_000_000).grid("kernel_summary")
    assert 0 < len(part.table) < 60


def test_a_page_that_is_too_long_gets_fewer_events(monkeypatch: pytest.MonkeyPatch) -> None:
    g = many_events(300)
    monkeypatch.setattr(inline, "LONGEST_PAGE", len(g.timeline().page) - 1000)
    found = g.timeline()
    assert found.notes
    assert len(found.page) <= inline.LONGEST_PAGE
    monkeypatch.setattr(inline, "LONGEST_PAGE", 10)
    assert len(g.flame("op").notes) == 1  # what cannot be that short is as short as can be


def test_what_is_saved_has_all(tmp_path: Path) -> None:
    g = many_events(500)
    g.timeline(events=160).save(tmp_path / "timeline.html")
    found = read((tmp_path / "timeline.html").read_text())
    assert len(found.columns["gpu.dur"]) == 500
    g.flame("kernel").save(tmp_path / "flame.html")
    g.roofline(arch=DEVICE).save(tmp_path / "roofline.html")
    assert read((tmp_path / "roofline.html").read_text()).body["roofline"]["device"] == "NVIDIA H100 SXM5"
    with pytest.raises(OutputError, match="there is no folder"):
        g.flame().save(tmp_path / "none" / "flame.html")


def test_steps_and_windows() -> None:
    g = load(small_trace())
    assert "(step 5)" in g.flame(step=5).heading
    assert "(step 5)" in g.window(step=5).timeline().heading
    assert len(g.window(device=0).flame("kernel").table) == 2
    with pytest.raises(AnalysisError, match="no step 7"):
        g.timeline(step=7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: g.flame("modul"), "goes by module, op, line, kernel or host, not 'modul'; did you mean module"),
        (lambda g: g.flame(height=0), "height is a number of pixels above 0, not 0"),
        (lambda g: g.timeline(height="tall"), "not 'tall'"),
        (lambda g: g.timeline(events=0), "events is a number above 0, not 0"),
        (lambda g: g.roofline(), "no roofline: .*; name a device with arch="),
        (lambda g: g.roofline(arch="h1000"), "h1000"),
    ],
)
def test_what_makes_no_sense_is_said(make: Any, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        make(load(small_trace()))


def test_without_gpu_events_it_says_so() -> None:
    g = load([span("cpu_op", "aten::mm", 0, 10)])
    assert g.flame().notes == ["There are no GPU events to draw."]
    assert len(g.timeline().table) == 1


def test_the_roofline_is_a_figure_of_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    figure_type = pytest.importorskip("matplotlib.figure").Figure
    view = load(small_trace()).roofline(arch=DEVICE)
    assert isinstance(view.figure(), figure_type)
    assert view.figure().axes[0].get_title("left") == "Roofline of NVIDIA H100 SXM5: <parsed trace>"
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="plot"):
        view.figure()


def test_hostile_names_stay_in_the_frame() -> None:
    g = hostile_graph()
    for view in views(g).values():
        found = Tags(view._repr_html_())
        assert set(found.tags) <= {
            "div", "style", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "iframe"
        }  # fmt: skip
        assert found.frame["srcdoc"] == view.page
        assert len(view.page) <= LONGEST_PAGE
        assert HOSTILE not in view._repr_html_()
        assert NAMES[-1] not in view.page


def test_the_code_of_pages_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys, tracelens_graph as t; from handmade import small_trace; g = t.load(small_trace()); repr(g);"
        "g.window(step=5).tables['ops_summary']; found = [m for m in sys.modules if 'reports.html' in m];"
        "assert not found, found; g.flame(); assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
