"""How far figures of two runs differ by noise: rows of the timeline, ops and their categories, of whole windows."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, sqrt

import numpy as np

from tracelens_graph.analyses.alignment.noise import student
from tracelens_graph.analyses.alignment.spread import Durations, in_common, in_steps
from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.shared.op_names import OpNames
from tracelens_graph.analyses.timeline.timeline import times_by_group
from tracelens_graph.graph.window import Window
from tracelens_graph.utils.arrays import Mask

_FALSE_ALARMS = 0.001
"""Share of comparisons of equal programs in which a figure changes by more than its margin, at most."""


def margin_ms(windows: tuple[Window, Window], table: str, rows: tuple[str, ...]) -> float:
    """By how much a time of two windows may differ by noise, ms; 0 where nothing shows it.

    Rows of the timeline vary from step to step, times of ops as the GPU events charged to them do.

    Args:
        windows: the two.
        table: name of the table that the figure stands in.
        rows: the keys of its rows there.
    """
    found = [_variance(window, table, rows) for window in windows]
    if any(freedom < 1 for _, freedom in found):
        return 0.0
    quantile = float(student(1 - _FALSE_ALARMS / 2, np.array([sum(freedom for _, freedom in found)]))[0])
    return quantile * sqrt(sum(variance for variance, _ in found)) / 1e6


def _variance(w: Window, table: str, rows: tuple[str, ...]) -> tuple[float, float]:
    """Variance of a time of a window, ns^2, and its degrees of freedom, 0 where it is not known."""
    if table == "gpu_timeline":
        return _of_timeline(w, rows)
    wanted = {"ops_summary": _of_op, "ops_summary_by_category": _of_category}.get(table)
    if wanted is None:
        return 0.0, 0.0
    calls = launchers(w)
    events = np.sort(calls.gpu[wanted(w, rows)[calls.of]])
    if not len(events):
        return 0.0, inf
    durations = Durations(w, events)
    spread = durations.spread(np.zeros(len(events), np.int64), 1, in_common(durations))
    return float(spread.of_one[0]), float(spread.freedom[0])


def _of_timeline(w: Window, rows: tuple[str, ...]) -> tuple[float, float]:
    core = w.core
    gpu, steps, of = in_steps(core, w.gpu_rows)
    if len(steps) < 2 or len(gpu) < len(w.gpu_rows):
        return 0.0, 0.0
    times: Mapping[str, np.ndarray] = times_by_group(core, gpu, of, len(steps))
    known = [times[row] for row in rows if row in times]
    return (len(steps) * float(np.var(sum(known), ddof=1)), len(steps) - 1.0) if known else (0.0, 0.0)


def _of_op(w: Window, rows: tuple[str, ...]) -> Mask:
    """Of each call whether it is of some ops."""
    calls, names = launchers(w), w.core.once(OpNames)
    return np.isin(names.called(calls.rows), [at for at, name in enumerate(names.names) if name in rows])


def _of_category(w: Window, rows: tuple[str, ...]) -> Mask:
    calls = launchers(w)
    return np.isin(calls.category, [at for at, name in enumerate(calls.categories) if name in rows])
