"""The memory view in a browser: its figures are those of the tables, and its moments lead to the timeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from handmade import span
from html_pages import Opened, page_of, show, tabs, until

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.memory.holders import memory_peak
from tracelens_graph.analyses.memory.peak import memory_over_time, memory_summary
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

if TYPE_CHECKING:
    from playwright.sync_api import Page

TRACES = traces_named(
    "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/normalization-layers",
    "tracelens/inference/sglang-decode/capture/bs_32_rank0",
)  # fmt: skip
MIB = 2**20

PLACE = """([device, moment]) => {
  const m = tracelensGraph.memory, one = m.devices[device], box = one.plot.over.getBoundingClientRect();
  return [box.x + m.x(one.time[moment]), box.y + box.height / 2];
}"""
"""Where a moment of a device is on the screen."""


def instant(ts: float, size: int, total: int, reserved: int) -> dict[str, object]:
    args = {"Bytes": size, "Total Allocated": total, "Total Reserved": reserved, "Device Id": 0, "Device Type": 1}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 100, "ts": ts, "args": args}


EVENTS = [
    span("python_function", "nn.Module: Linear_0", 1000, 400), span("cpu_op", "aten::linear", 1010, 300),
    span("cpu_op", "aten::empty", 1012, 50), instant(1020, 3 * MIB, 5 * MIB, 8 * MIB),
    instant(1500, -3 * MIB, 2 * MIB, 8 * MIB), span("cpu_op", "aten::relu", 1600, 20),
]  # fmt: skip


def shown(page: Page) -> None:
    show(page, "memory")
    until(page, "tracelensGraph.memory.devices.every((one) => one.plot)")


@parametrize("path", TRACES)
def test_figures_are_those_of_the_tables(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core))
    shown(page)
    summary = {row["device"]: row for row in memory_summary(core).records()}
    told = page.evaluate("tracelensGraph.memory.devices.map((one) => [one.title, one.allocated[one.peak]])")
    assert told == [[name, row["peak_bytes"]] for name, row in summary.items()]
    for number, one in enumerate(memory_over_time(core.everything)):
        drawn = page.evaluate(f"Math.max(...tracelensGraph.memory.devices[{number}].plot.data[1])")
        assert drawn == one.allocated_bytes.max()
        page.evaluate(f"tracelensGraph.memory.holders.show(tracelensGraph.memory.devices[{number}])")
        held = page.evaluate("tracelensGraph.memory.holders.sums().map((one) => one.bytes)")
        assert sum(held) == one.allocated_bytes.max()
        of = [row["bytes"] for row in memory_peak(core).records() if row["device"] == one.device]
        assert sum(of) == sum(held)
    until(page, "tracelensGraph.memory.grid.order")
    rows = sum(len(one.rows) for one in memory_over_time(core.everything))
    assert page.evaluate("tracelensGraph.memory.grid.content.rows") == min(rows, 20_000)


def test_a_moment_tells_bytes_and_op_and_leads_to_the_timeline(opened: Opened) -> None:
    page = opened(page_of(load_core(EVENTS)))
    page.keyboard.press(str(1 + tabs(page).index("memory")))
    page.wait_for_selector("#view-memory")
    until(page, "tracelensGraph.memory.devices[0].plot")
    x, y = page.evaluate(PLACE, [0, 0])
    page.mouse.move(x + 1, y)
    said = page.inner_text("#tip")
    assert "allocated 5.00 MiB" in said
    assert "allocated 3.00 MiB" in said
    assert "reserved 8.00 MiB, 37.5 % of it not allocated" in said
    assert "in aten::empty" in said
    assert "Linear_0" in said
    page.mouse.click(x + 1, y)
    page.wait_for_selector("#view-timeline")
    assert "aten::empty" in page.inner_text("#selected")
    # What is released in no call leads to the call that is nearest.
    shown(page)
    page.evaluate("tracelensGraph.memory.key('0')")
    page.mouse.click(*page.evaluate(PLACE, [0, 1]))
    assert "aten::relu" in page.inner_text("#selected")


def test_time_is_the_timelines(opened: Opened) -> None:
    page = opened(page_of(load_core(EVENTS)))
    shown(page)
    view = "(({ from, to }) => [from, to])(tracelensGraph.timeline.view)"
    scale = "(({ min, max }) => [min, max])(tracelensGraph.memory.devices[0].plot.scales.x)"
    whole = page.evaluate(view)
    for key in ("w", "d", "p"):
        page.keyboard.press(key)
        assert page.evaluate(view) != whole
        assert page.evaluate(scale) == pytest.approx(page.evaluate(view))
    page.keyboard.press("0")
    left = "(name) => document.querySelector(name).getBoundingClientRect().left"
    drawn = page.evaluate(left, "#view-memory .u-over")
    show(page, "timeline")
    assert page.evaluate(left, "#view-timeline canvas") == pytest.approx(drawn, abs=1)


def test_more_moments_than_pixels_keep_their_extremes(opened: Opened) -> None:
    page = opened(page_of(load_core(EVENTS)))
    extremes = page.evaluate(
        """(() => {
          const n = 50000, device = { time: Float64Array.from({ length: n }, (_, i) => i),
            allocated: Float64Array.from({ length: n }, (_, i) => (i * 7919) % 10007), reserved: null };
          const [xs, ys] = $moments.Moments.points(device, { from: 0, to: n }, 100, n);
          return [xs.length, Math.max(...ys), Math.min(...ys), xs.every((x, k) => !k || x >= xs[k - 1])];
        })()"""
    )
    assert extremes[0] <= 100 * 5 + 2
    assert extremes[1:] == [10006, 0, True]


def test_the_peak_is_told_by_module_op_and_line(opened: Opened) -> None:
    run = simulate(ranks=1, steps=2, seed=7, memory=True)
    page = opened(page_of(load_core(run.ranks[0].trace)))
    shown(page)
    for way in ("by module", "by op", "by line"):
        page.click(f"#view-memory >> text={way}")
        assert page.locator("#view-memory .holder").count() > 0
    page.click("#view-memory .holder a >> nth=0")
    page.wait_for_selector("#selected")


def test_without_allocations_there_is_no_such_view(opened: Opened) -> None:
    page = opened(page_of(load_core(EVENTS[:2])))
    assert page.locator("#tab-memory").count() == 0
    page.keyboard.press("6")
    page.wait_for_selector("#view-overview")
