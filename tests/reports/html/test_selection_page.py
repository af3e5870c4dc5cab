"""Idle gaps and ranges of time are selected on a page, and its address brings back what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from handmade import span
from html_pages import Opened, page_of, show, until

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.idle.blame import culprit
from tracelens_graph.analyses.idle.idle import Cause, idle_parts
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.names import LONGEST, clean
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.simulate import simulate

if TYPE_CHECKING:
    from playwright.sync_api import Page

QWEN = traces_named("tracelens/h100/qwen1.5-0.5b")
PLACE = (
    "(e) => { const l = tracelensGraph.timeline, t = l.trace, b = l.canvas.getBoundingClientRect();"
    "return [b.x + l.x(t.start[e] + t.dur[e] / 2), b.y + l.lanes.placeOf(e).y + 6] }"
)
"""Middle of an event on the screen."""


def waiting() -> list[dict[str, Any]]:
    """Two kernels; in between a function of the user calls a slow one, and the framework's frames are around it."""
    launch = {"pid": 100, "tid": 100}
    return [
        span("python_function", "train.py(9): main", 0, 1000, **launch),
        span("cpu_op", "aten::mm", 5, 10, **launch),
        span("cuda_runtime", "cudaLaunchKernel", 6, 4, correlation=1, **launch),
        span("python_function", "torch/nn/modules/module.py(1): _call_impl", 100, 800, **launch),
        span("python_function", "model.py(3): tokenize", 120, 700, **launch),
        span("cpu_op", "aten::add", 910, 10, **launch),
        span("cuda_runtime", "cudaLaunchKernel", 911, 4, correlation=2, **launch),
        span("kernel", "one", 20, 30, 0, 7, correlation=1, device=0, stream=7),
        span("kernel", "two", 920, 50, 0, 7, correlation=2, device=0, stream=7),
    ]


def on_timeline(page: Page) -> None:
    show(page, "timeline")
    until(page, "tracelensGraph.timeline.sheet")


def test_an_idle_gap_says_its_cause_its_length_and_the_call_that_is_most_of_it(opened: Opened) -> None:
    page = opened(page_of(load_core(waiting())))
    on_timeline(page)
    page.mouse.click(*page.evaluate(PLACE, page.evaluate("tracelensGraph.trace.first.idle")))
    said = page.inner_text("#selected")
    assert said.startswith("idle: python\n870.000 µs, from ")
    assert "most of it: model.py:3 tokenize 700.000 µs" in said
    assert "in train.py:9 main\nand 1 frame of the framework" in said
    assert "ends with two" in said
    address = page.evaluate("location.hash")
    assert "gap=8" in address
    page.click("#selected >> text=model.py:3 tokenize")
    until(page, "document.querySelector('#selected b').textContent === 'model.py(3): tokenize'")
    again = opened(page_of(load_core(waiting())), hash=address)
    assert again.inner_text("#selected").startswith("idle: python\n870.000 µs, from ")


@parametrize("path", QWEN)
def test_the_call_of_a_gap_is_that_of_the_analysis(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page, idle, c = opened(page_of(core)), idle_parts(core), core.columns
    found = "(uid) => { const t = tracelensGraph.trace, e = t.gapOf(uid), i = e - t.first.idle, k = t.culprit[i] - 1;"
    found += "return [t.dur[e], t.rest[i], k < 0 ? null : t.uid[k], t.blamed[i]] }"
    for gap in np.argsort(idle.start - idle.end, kind="stable")[:20].tolist():
        cause = Cause(int(idle.parts[:, gap].argmax()))
        row, ns = culprit(core, idle, gap, cause)
        length = int(idle.end[gap] - idle.start[gap])
        assert page.evaluate(found, int(c.uid[idle.row[gap]])) == [
            length, length - int(idle.parts[cause, gap]), int(c.uid[row]) if row >= 0 else None, ns if row >= 0 else 0,
        ]  # fmt: skip


def test_a_range_is_selected_with_shift_or_in_its_mode_and_escape_leaves_it(opened: Opened) -> None:
    page = opened(page_of(load_core(waiting())))
    on_timeline(page)
    x, y, width = page.evaluate(
        "(() => { const b = tracelensGraph.timeline.canvas.getBoundingClientRect();return [b.x, b.y + 60, b.width] })()"
    )

    def drag() -> None:
        page.mouse.move(x + 0.2 * width, y)
        page.mouse.down()
        page.mouse.move(x + 0.7 * width, y + 9, steps=4)
        page.mouse.up()

    before = page.evaluate("({ ...tracelensGraph.timeline.view })")
    page.keyboard.down("Shift")
    drag()
    page.keyboard.up("Shift")
    assert page.evaluate("({ ...tracelensGraph.timeline.view })") == before
    first = page.evaluate("tracelensGraph.timeline.range")
    assert "GPU busy 0 ns, 0.0 %" in page.inner_text("#selected")
    assert "idle: python" in page.inner_text("#view-timeline .twin")
    page.keyboard.press("Escape")
    assert page.evaluate("tracelensGraph.timeline.range") is None
    assert page.is_hidden("#view-timeline .twin")
    page.keyboard.press("r")
    drag()
    assert page.evaluate("tracelensGraph.timeline.range") == first
    page.keyboard.press("r")
    drag()
    assert page.evaluate("tracelensGraph.timeline.range") == first
    assert page.evaluate("({ ...tracelensGraph.timeline.view })") != before


def expected(core: Core, low: int, high: int) -> dict[str, tuple[int, int]]:
    """Name of GPU events and of ops -> number in a range, and time of their own there."""
    c = core.columns
    part = np.minimum(c.end_ns, high) - np.maximum(c.start_ns, low)
    own = np.maximum(part, 0)
    host = np.isin(c.kind, HOST_KINDS)
    inside = host & (c.parent >= 0)
    np.subtract.at(own, c.parent[inside], np.maximum(part, 0)[inside])
    found: dict[str, tuple[int, int]] = {}
    for row in np.flatnonzero((part > 0) & np.isin(c.kind, (Kind.Op, Kind.Kernel))).tolist():
        count, ns = found.get(core.names[c.name[row]], (0, 0))
        found[core.names[c.name[row]]] = (count + 1, ns + max(int(own[row]), 0))
    return found


@parametrize("path", QWEN)
@pytest.mark.parametrize("shares", [(0.3, 0.35), (0.0, 1.0), (0.5, 0.9)])
def test_sums_of_a_range_are_those_of_the_graph(shares: tuple[float, float], path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core))
    low, high = (
        int(value)
        for value in page.evaluate("([a, b]) => [a, b].map((one) => tracelensGraph.trace.high * one)", shares)
    )
    sums = page.evaluate(
        "([from, to]) => { const t = tracelensGraph.trace; return $range.Range.sums(t, { from, to }).map((one) =>"
        "[t.text(one.event), t.className(one.event), one.count, one.own, one.ns]) }",
        [low, high],
    )
    others = {"python", "module", "call", "annotation", "step", "idle"}
    found = {name: (count, own) for name, of, count, own, _ in sums if of not in others}
    wanted = {clean(name): value for name, value in expected(core, low, high).items() if len(name) < LONGEST}
    assert len(wanted) > 5
    assert {name: found[name] for name in wanted} == wanted
    assert all(own <= ns for _, of, _, own, ns in sums if of != "annotation")
    rows = core.gpu_rows
    busy = np.zeros(high - low + 1, np.int8)
    for start, end in zip(core.columns.start_ns[rows].tolist(), core.columns.end_ns[rows].tolist(), strict=True):
        busy[max(start - low, 0) : max(min(end, high) - low, 0)] = 1
    assert page.evaluate(
        "([from, to]) => [...$range.Range.busy(tracelensGraph.trace, { from, to }).values()]", [low, high]
    ) == [int(busy.sum())]


def test_the_address_brings_back_what_the_page_shows(opened: Opened) -> None:
    text = page_of(load_core(simulate(steps=2, layers=2).ranks[0].trace))
    page = opened(text)
    show(page, "flame")
    assert page.evaluate("location.hash") == "#view=flame"
    page.select_option("#view-flame select >> nth=0", "ops")
    page.select_option("#view-flame select >> nth=1", "2")
    page.check("#view-flame >> text=inverted")
    show(page, "tables")
    page.click('[data-table="idle_causes"]')
    on_timeline(page)
    page.evaluate("tracelensGraph.timeline.show(1e6, 9e6)")
    page.evaluate("tracelensGraph.timeline.selectRange({ from: 2000000, to: 4000000 })")
    until(page, "location.hash.includes('seen=')")
    address = page.evaluate("location.hash")
    state = (
        "(() => { const { flame, tables, timeline, shown } = tracelensGraph;"
        "return [shown, flame.options, flame.made.sum, tables.name, timeline.range, Math.round(timeline.view.from),"
        "Math.round(timeline.view.to), timeline.listed] })()"
    )
    before = page.evaluate(state)
    assert before[1]["view"] == "ops"
    again = opened(text, hash=address)
    assert again.evaluate(state) == before
    assert again.evaluate("location.hash") == address
    other = opened(text, hash="#view=flame&mode=none&step=x&isInverted=7&table=none&range=5~2&seen=a~b&gap=123")
    assert other.evaluate("tracelensGraph.flame.options.view") == "classes"
    assert other.evaluate("tracelensGraph.timeline.range") is None
