"""Which steps of two traces are compared."""

from __future__ import annotations

import numpy as np

from tracelens_graph.graph.window import Window, narrow, step_number
from tracelens_graph.schema import Kind

_IN_STEPS = 0.5
"""Share of a window's GPU time that must lie in its steps, so that one of them stands for it."""


def median_steps(a: Window, b: Window) -> tuple[Window, Window]:
    """Of each window the step of median GPU time; the windows as they are where one has no steps with its GPU work.

    Without launches most GPU work may lie in no step: then one step of it is not what another trace does in one.
    The titles of the windows tell which step it is, and of how many.
    """
    times = [steps_with_work(window) for window in (a, b)]
    if not all(map(_are_of_most_work, (a, b), times)):
        return a, b
    first, second = (_median(window, time) for window, time in zip((a, b), times, strict=True))
    return first, second


def _are_of_most_work(w: Window, time_of: dict[int, int]) -> bool:
    return bool(time_of) and sum(time_of.values()) >= _IN_STEPS * int(w.core.columns.dur_ns[w.gpu_rows].sum())


def steps_with_work(w: Window) -> dict[int, int]:
    """GPU time of each step of a window that has any, in ns, in the order of the steps."""
    core, c = w.core, w.core.columns
    steps = w.rows_of_kind(Kind.Step)
    gpu = w.gpu_rows
    ns = np.zeros(len(c) + 1, np.int64)
    np.add.at(ns, core.gpu_step[gpu], c.dur_ns[gpu])
    time_of: dict[int, int] = {}
    for row in steps.tolist():
        number = step_number(core.names[c.name[row]])
        if number is not None and ns[row]:
            time_of[number] = time_of.get(number, 0) + int(ns[row])
    return time_of


def _median(w: Window, time_of: dict[int, int]) -> Window:
    ordered = sorted(time_of, key=lambda number: (time_of[number], number))
    step = narrow(w, step=ordered[(len(ordered) - 1) // 2])
    if len(ordered) == 1:
        return step
    return step.retitled(f"{step.title}, of median GPU time of {len(ordered):,} steps")
