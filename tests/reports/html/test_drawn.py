"""What the timeline draws, and that a page can tell callers and times from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from handmade import small_trace
from html_pages import page_of, read

from corpus import chosen_traces, loaded, parametrize, traces_named
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.drawn import drawn, lanes
from tracelens_graph.schema import Kind


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
    assert [(lane["title"], lane["n"]) for lane in found["notes"]] == [("main", 1)]
    assert [(lane["title"], lane["n"]) for lane in found["gpu"]] == [("stream 7", 2), ("stream 8", 1)]
    assert [(lane["title"], lane["n"]) for lane in found["idle"]] == [("idle", 1)]
    assert drawn(w).left_out == {"an allocation or release (`[memory]`)": 1}
    assert drawn(w).events == 12


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
