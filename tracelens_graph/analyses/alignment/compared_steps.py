"""Which steps of two traces stand for them in a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import gcd, log

import numpy as np

from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.window import Window, narrow, step_number, whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows

_IN_STEPS = 0.5
"""Share of a window's GPU time that must lie in its steps, so that one of them stands for it."""

_LEAST_OUTSIDE = 1.0
"""Percent of the GPU time outside of a file's only step from which on a note has it."""


def median_steps(a: Window, b: Window) -> tuple[Window, Window]:
    """Of each window the step of median GPU time; the windows as they are where one has no steps with its GPU work.

    Of two ranks of one job, numbered alike, it is the same step. Without launches most GPU work may lie in no step:
    then one step of it is not what another trace does in one. Of servers it is as many iterations of each, of one phase
    and of equal sizes; of a program that one repeats without steps one repetition. The titles of the windows show which
    these are, and of how many.
    """
    times = [steps_with_work(window) for window in (a, b)]
    has_steps = [*map(_are_of_most_work, (a, b), times)]
    if not all(has_steps):
        if is_of_server(a.core) and is_of_server(b.core):
            return _equal_iterations(a, b)
        steps = [
            (_median(window, time), len(time)) if has else None
            for window, time, has in zip((a, b), times, has_steps, strict=True)
        ]
        return one_repetition((a, b), steps)
    if _are_ranks_of_one_job(a.core, b.core) and (shared := times[0].keys() & times[1].keys()):
        number = _median_of({number: times[0][number] for number in shared})
        first, second = (narrow(window, step=number) for window in (a, b))
        return first, second
    first, second = (_median(window, time) for window, time in zip((a, b), times, strict=True))
    return first, second


def _are_ranks_of_one_job(a: Core, b: Core) -> bool:
    ranks = {(core.info.rank, core.info.world_size) for core in (a, b)}
    return len(ranks) == 2 and len({size for _, size in ranks}) == 1 and all(rank is not None for rank, _ in ranks)


def _equal_iterations(a: Window, b: Window) -> tuple[Window, Window]:
    """Iterations of two servers, of one phase and size."""
    from tracelens_graph.analyses.serving.compared import equal_iterations

    return equal_iterations(a, b)


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
    step = narrow(w, step=_median_of(time_of))
    if len(time_of) == 1:
        return step
    return step.retitled(f"{step.title}, of median GPU time of {len(time_of):,} steps")


def _median_of(time_of: dict[int, int]) -> int:
    ordered = sorted(time_of, key=lambda number: (time_of[number], number))
    return ordered[(len(ordered) - 1) // 2]


def _percent_outside(step: Window) -> float:
    """Share of the GPU time of a step's file that is not its own."""
    ns = step.core.columns.dur_ns
    every = int(ns[whole_window(step.core).gpu_rows].sum())
    return 100 * (1 - int(ns[step.gpu_rows].sum()) / every) if every else 0.0


def choice_note(*steps: Window) -> str:
    """Which steps `median_steps` chose, from windows that it gave, and how to choose others."""
    if any(REPETITION in step.title for step in steps):
        return "The program is repeated in one of the two, and one repetition compared: --from 0ms takes all."
    if steps[0].all_iterations is not None:
        chosen, others = "Steps of equal phase and size are", "--iteration N takes others, --phase P all of one phase"
    else:
        if all(len(steps_with_work(whole_window(one.core))) < 2 for one in steps):
            shares = [_percent_outside(one) for one in steps]
            outside = f", with {min(shares):.0f} to {max(shares):.0f} % of the GPU time outside of it"
            more = outside if max(shares) >= _LEAST_OUTSIDE else ""
            return f"The step of each is compared: --from 0ms takes all that was recorded{more}."
        chosen, others = "One step of each is", "--step N takes another"
    return f"{chosen} compared: {others}, --from 0ms all."


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
            step = _repetition_of(window, kernels[side], starts[side]), len(starts[side])
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


def _repetition_of(w: Window, kernels: Rows, starts: Rows) -> Window:
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
