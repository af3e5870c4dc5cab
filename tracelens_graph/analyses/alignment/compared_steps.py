"""Which steps of two traces stand for them in a comparison."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.alignment.repetitions import REPETITION, one_repetition
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.window import Window, narrow, step_number, whole_window
from tracelens_graph.schema import Kind

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
