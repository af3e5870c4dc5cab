"""Counters on the timeline in a browser: their courses are those of the questions, and they act as lanes do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from html_pages import Opened, page_of, show

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.launches.queues import queues_of
from tracelens_graph.analyses.timeline.copy_bandwidth import bandwidths_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html import timeline
from tracelens_graph.simulate import simulate

COURSES = "tracelensGraph.timeline.counters.map((one) => [one.title, [...one.at], [...one.level], one.most])"
PLACE = """(title) => {
  const { lanes, canvas } = tracelensGraph.timeline, region = lanes.counters, at = canvas.getBoundingClientRect(),
    lane = region.lanes.find((one) => one.title === title);
  region.scrollTo(lane.y);
  return [at.x, at.y + region.topOf(lane) + lane.height - 3];
}"""
"""Where the lane of a counter stands, near its bottom."""


COLOR = """([x, y]) => {
  const { canvas } = tracelensGraph.timeline, at = canvas.getBoundingClientRect();
  return [...canvas.getContext("2d").getImageData(x - at.x, y - at.y, 1, 1).data];
}"""
"""The pixel at a place in the window."""


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(simulate(steps=3, layers=1).ranks[0].trace)


def check(core: Core, opened: Opened) -> None:
    w, page = window_of(core), opened(page_of(core), width=700)
    show(page, "timeline")
    several = len({one.device for one in queues_of(w)}) > 1
    where = {one.device: f"GPU {one.device} " if several else "" for one in (*queues_of(w), *bandwidths_of(w))}
    expected = {f"{where[one.device]}stream {one.stream} queue": one.course for one in queues_of(w) if len(one.waited)}
    expected |= {f"{where[one.device]}{one.direction} bandwidth": one.rate for one in bandwidths_of(w)}
    found = {title: (at, level, most) for title, at, level, most in page.evaluate(COURSES)}
    assert set(found) == set(expected)
    for title, (at, level, most) in found.items():
        assert at == expected[title].at.tolist(), title
        assert level == pytest.approx(expected[title].level.tolist(), rel=1e-9, abs=1e-9), title
        assert most == max(level)


def test_counters_are_the_queues_and_bandwidths(core: Core, opened: Opened) -> None:
    check(core, opened)


@parametrize("path", traces_named("hta/queue-length-cuda-graph", "tracelens/inference/vllm-decode/graph-replay"))
def test_counters_of_real_traces(path: Path, opened: Opened) -> None:
    check(loaded(path), opened)


def test_a_full_queue_is_seen_and_its_head_selected(
    core: Core, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    (queue,) = (one for one in queues_of(window_of(core)) if one.stream == 7)
    monkeypatch.setattr(timeline, "CAPACITY", queue.longest)
    page = opened(page_of(core))
    show(page, "timeline")
    begin, end = (int(ns) for ns in queue.course.at[queue.course.level.argmax() :][:2])
    page.evaluate("([from, to]) => { tracelensGraph.timeline.show(from, to); tracelensGraph.timeline.draw(); }",
                  [begin - 1000, end + 1000])  # fmt: skip
    x, y = page.evaluate(PLACE, "stream 7 queue")
    x += page.evaluate("(time) => tracelensGraph.timeline.x(time)", (begin + end) / 2)
    page.mouse.move(x, y)
    assert page.inner_text("#tip").splitlines()[:2] == ["stream 7 queue", f"{queue.longest} launched: full"]
    color = page.evaluate(COLOR, [x, y])
    assert color[:3] == [0xD5, 0x5E, 0x00]
    page.mouse.click(x, y)
    c, waiting = core.columns, queue.events[queue.waited]
    head = waiting[c.start_ns[waiting] >= end].min()
    assert page.evaluate("tracelensGraph.trace.uid[tracelensGraph.selection]") == int(c.uid[head])


def test_a_range_says_what_counters_were(core: Core, opened: Opened) -> None:
    page = opened(page_of(core))
    show(page, "timeline")
    (queue,) = (one for one in queues_of(window_of(core)) if one.stream == 7)
    low, high = int(queue.course.at[0]), int(queue.course.at[-1])
    page.evaluate("([from, to]) => tracelensGraph.timeline.selectRange({ from, to })", [low, high])
    mean = float(queue.course.mean(np.array([low, high]))[0])
    says = f"stream 7 queue: mean {mean:.2f} launched, at most {queue.longest} launched"
    assert says in page.inner_text("#view-timeline")
