"""A trace that repeats its program without steps that mark it: one repetition stands for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import gcd, log

import numpy as np

from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows

_MOST = 1000
"""Repetitions that are looked for, at most."""
_ALIKE = 0.99
"""Share of kernels that must be those of one repetition before: layers repeat, too, but not what is around them."""
_NEARLY = 0.9
"""Share of kernels that a repetition must have in common with what the other trace does once."""


REPETITION = "repetition"
"""What the title of a window holds that is one of several repetitions."""


def one_repetition(windows: tuple[Window, Window], steps: Sequence[tuple[Window, int] | None]) -> tuple[Window, Window]:
    """Of two windows one repetition each, that of median GPU time, where one repeats its program more often.

    They stay as they are unless their GPU times are nearer to each other then: of one that computes nothing but equal
    layers, no layer is taken for the program.

    Args:
        steps: of each that has steps one of them, and how many there are.
    """
    kernels = [_in_order(window if step is None else step[0]) for window, step in zip(windows, steps, strict=True)]
    starts = [
        _starts(window, own) if step is None else np.zeros(1, np.int64)
        for window, own, step in zip(windows, kernels, steps, strict=True)
    ]
    once = [_names(window, own[: first[1] if len(first) > 1 else None])
            for window, own, first in zip(windows, kernels, starts, strict=True)]  # fmt: skip
    found = []
    for side, (window, step) in enumerate(zip(windows, steps, strict=True)):
        if step is None:
            if len(starts[side]) == 1:
                starts[side] = _starts_like(_names(window, kernels[side]), once[1 - side])
            step = _median(window, kernels[side], starts[side]), len(starts[side])
        found.append(step)
    (first, one), (second, other) = found
    if one == other or _ratio(first, second) >= _ratio(*windows):
        return windows
    return first, second


def _in_order(w: Window) -> Rows:
    """Kernels in the order of their launches, without a launch in that of their starts."""
    c, rows = w.core.columns, w.gpu_rows
    rows = rows[c.kind[rows] == Kind.Kernel]
    launch = np.where(c.parent[rows] >= 0, c.parent[rows], rows)
    return rows[np.lexsort((c.start_ns[rows], c.start_ns[launch]))]


def _names(w: Window, kernels: Rows) -> list[str]:
    return [w.core.names[code] for code in w.core.columns.name[kernels].tolist()]


def _starts(w: Window, kernels: Rows) -> Rows:
    """Where each of several equal repetitions begins among the kernels; only 0 where nothing is repeated as a whole."""
    name, code = distinct(w.core.columns.name[kernels])
    number = gcd(*np.bincount(code, minlength=len(name)).tolist()) if len(name) > 1 else 1
    for times in range(min(number, _MOST), 1, -1):
        size = len(kernels) // times
        if number % times == 0 and (code[size:] == code[:-size]).mean() >= _ALIKE:
            return np.arange(times) * size
    return np.zeros(1, np.int64)


def _starts_like(names: Sequence[str], once: Sequence[str]) -> Rows:
    """Where repetitions begin that are about what another trace does once; only 0 where that is not so.

    A kernel that the other runs once, the first of those that are run equally often here, shows how often and where.
    """
    counts, of_once = Counter(names), Counter(once)
    alone = [name for name, count in of_once.items() if count == 1]
    for times, _ in Counter(counts[name] for name in alone if 1 < counts[name] <= _MOST).most_common():
        by_count = {name for name in alone if counts[name] == times}
        first = next(at for at, name in enumerate(names) if name in by_count)
        starts = np.flatnonzero(np.array(names) == names[first]) - once.index(names[first])
        starts[0] = 0
        parts = [Counter(names[begin:end]) for begin, end in pairwise([*starts.tolist(), len(names)])]
        if all(2 * (one & of_once).total() >= _NEARLY * (one + of_once).total() for one in parts):
            return starts
    return np.zeros(1, np.int64)


def _median(w: Window, kernels: Rows, starts: Rows) -> Window:
    """The repetition of median GPU time."""
    times = len(starts)
    if times == 1:
        return w
    c = w.core.columns
    launch = np.where(c.parent[kernels] >= 0, c.parent[kernels], kernels)
    # A repetition ends with its last launch: the calls behind it lead to the next.
    ends = c.start_ns[launch[starts[1:] - 1]]
    rows = np.flatnonzero(w.holds(np.arange(len(c))))
    of = np.full(len(c), -1, np.int64)
    of[rows] = np.searchsorted(ends, c.start_ns[rows])
    gpu = w.gpu_rows
    of[gpu] = np.searchsorted(ends, c.start_ns[np.where(c.parent[gpu] >= 0, c.parent[gpu], gpu)])
    of[kernels] = np.searchsorted(starts, np.arange(len(kernels)), "right") - 1
    ns = sum_by_group(of[gpu], c.dur_ns[gpu], times)
    chosen = int(np.argsort(ns, kind="stable")[(times - 1) // 2])
    return w.narrowed(of == chosen, f"{REPETITION} {chosen + 1:,} of {times:,} of its program, the median of GPU time")


def _ratio(a: Window, b: Window) -> float:
    """How far the GPU times of two windows are apart."""
    first, second = (max(int(w.core.columns.dur_ns[w.gpu_rows].sum()), 1) for w in (a, b))
    return abs(log(first / second))
