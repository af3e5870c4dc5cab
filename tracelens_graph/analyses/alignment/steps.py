"""Which steps of two traces are compared."""

from __future__ import annotations

import numpy as np

from tracelens_graph.graph.window import Window, narrow, step_number
from tracelens_graph.schema import Kind


def median_steps(a: Window, b: Window) -> tuple[Window, Window]:
    """Of each window the step of median GPU time; the windows as they are where one has no steps with GPU work."""
    first, second = _median_step(a), _median_step(b)
    if first is None or second is None:
        return a, b
    return narrow(a, step=first), narrow(b, step=second)


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


def _median_step(w: Window) -> int | None:
    time_of = steps_with_work(w)
    ordered = sorted(time_of, key=lambda number: (time_of[number], number))
    return ordered[(len(ordered) - 1) // 2] if ordered else None
