"""Memory over time on a page: what allocators held of each device, and in which call each change was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracelens_graph.analyses.memory.peak import DeviceMemory, memory_over_time
from tracelens_graph.graph.membership import calls_at
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.html.names import clean
from tracelens_graph.reports.html.shell import Packed, zigzag
from tracelens_graph.reports.html.timeline import Drawn
from tracelens_graph.utils.arrays import Ns, Rows

MOST_POINTS = 100_000
"""Moments of a device on a page. Of more, runs of neighbours are told by their ends, extremes, and largest change."""

_KEPT_OF_A_RUN = 6


def memory(w: Window, d: Drawn) -> tuple[list[dict[str, Any]], dict[str, Packed]]:
    """The memory of a window over time.

    Returns:
        Of each device `title`, number `n` of its moments, the number of `all` of them, and whether reserved memory is
        known (`reserved`); no device where no allocation is in the window. And columns of all devices, one behind the
        other: moments in ns from the trace's start; `memory.rest`, what a total differs by from the one before and the
        change; `memory.call`, one more than the number of the call in which the change was, 0 without one.
    """
    devices = [(one, kept(one)) for one in memory_over_time(w)]
    if not devices:
        return [], {}

    def every(values: Callable[[DeviceMemory], Ns]) -> Ns:
        return np.concatenate([values(one)[points] for one, points in devices])

    rest = np.concatenate([_rest(one, points) for one, points in devices])
    return [
        {"title": clean(one.device, 60), "n": len(points), "all": len(one.rows),
         "reserved": one.reserved_bytes is not None}
        for one, points in devices
    ], {
        "memory.time": Packed(every(lambda one: one.time_ns), True),
        "memory.change": Packed(zigzag(every(lambda one: one.change_bytes))),
        "memory.rest": Packed(zigzag(rest)),
        "memory.reserved": Packed(every(_reserved), True),
        "memory.call": Packed(_calls(w, d, every(lambda one: one.rows)), True),
    }  # fmt: skip


def kept(one: DeviceMemory) -> Rows:
    """Positions of the moments of a device that are on the page, ascending: all, or of many those that show its shape.

    Of each run of neighbours stay the ends, the highest and the lowest total, the highest reserved one and the largest
    change. So both peaks of the device stay.
    """
    n = len(one.rows)
    if n <= MOST_POINTS:
        return np.arange(n)
    begins = np.linspace(0, n, MOST_POINTS // _KEPT_OF_A_RUN, endpoint=False).astype(np.int64)
    ends = np.append(begins[1:], n) - 1
    high, low = _first_greatest(one.allocated_bytes, begins), _first_greatest(-one.allocated_bytes, begins)
    taken = _first_greatest(_reserved(one), begins)
    changed = _first_greatest(np.abs(one.change_bytes), begins)
    return np.unique(np.concatenate((begins, ends, high, low, taken, changed)))


def _first_greatest(values: Ns, begins: Rows) -> Rows:
    """Position of the first of the greatest values of each run."""
    lengths = np.diff(np.append(begins, len(values)))
    found = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, begins), lengths))
    run = np.repeat(np.arange(len(begins)), lengths)[found]
    return np.asarray(found[np.diff(run, prepend=-1) > 0])


def _rest(one: DeviceMemory, points: Rows) -> Ns:
    total = one.allocated_bytes[points]
    return np.asarray(np.diff(total, prepend=0) - one.change_bytes[points])


def _reserved(one: DeviceMemory) -> Ns:
    return np.zeros(len(one.rows), np.int64) if one.reserved_bytes is None else one.reserved_bytes


def _calls(w: Window, d: Drawn, rows: Rows) -> Rows:
    """For each allocation one more than the position of the innermost call around it, 0 without one on the page."""
    place = np.zeros(len(w.core.columns) + 1, np.int64)  # the last entry is that of no call
    place[d.host] = np.arange(1, len(d.host) + 1)
    return np.asarray(place[calls_at(w.core.columns, rows)])
