"""Host time in the place of GPU time, so that traces without GPU work are compared in the same way.

Each op gets an event below it that lasts as long as its own time: its duration without the ops inside. The events of a
thread are a stream. Those below an outermost op follow each other from its begin to its end, in the order of the calls,
so that none begins before its op, and the time without any is that of the host outside of ops.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.alignment.forest import captured_launches
from tracelens_graph.analyses.places.host_times import calls_among
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edited import with_events
from tracelens_graph.graph.graph import changed
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows
from tracelens_graph.utils.texts import HOST

HOST_TIMES = "These are host times, each op's own without the ops inside it: not every trace has work of a device."
"""What to know of comparisons of such graphs."""


def has_gpu_work(window: Window) -> bool:
    """Whether a window holds GPU events, or launches that were recorded into a graph."""
    return bool(len(window.gpu_rows) or captured_launches(window))


def comparable(*windows: Window) -> tuple[Window, ...]:
    """The windows as they are; where one holds no GPU work, all of them with host time in its place.

    Raises:
        AnalysisError: one of them holds neither GPU work nor ops.
    """
    if all(map(has_gpu_work, windows)) and len({*map(is_of_host, windows)}) < 2:
        return windows
    for window in windows:
        if not len(window.rows_of_kind(Kind.Op)):
            raise AnalysisError(f"{window.core.info.source}: holds no GPU events to compare, and no ops")
    return tuple(map(_on_host, windows))


def is_of_host(window: Window) -> bool:
    """Whether what counts as GPU work of a window is host time."""
    return window.core.info.accelerator == HOST


def _on_host(w: Window) -> Window:
    if is_of_host(w):
        return w
    core, source = w.core.once(_with_host_work)
    window = whole_window(core).extended(w.extension) if w.extension is not None else whole_window(core)
    return window if w.is_whole else window.narrowed(w.holds(source), w.title)


def _with_host_work(core: Core) -> tuple[Core, Rows]:
    """The graph with host time in the place of GPU work, and the row that each of its rows comes from."""
    calls = calls_among(core, core.columns.kind == Kind.Op)
    own = calls.own()
    before = np.cumsum(own) - own
    outermost = np.maximum.accumulate(np.where(calls.parent < 0, np.arange(len(own)), 0))
    start = calls.start[outermost] + before - before[outermost]
    order = np.argsort(calls.rows)
    found, source = with_events(core, calls.rows[order], start[order], own[order])
    return changed(found, info=replace(core.info, accelerator=HOST)), source
