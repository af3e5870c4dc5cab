"""First calls of ops, which cost the host more than those that follow: kernels are chosen, built and loaded in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.idle.blame import Spent
from tracelens_graph.analyses.shared.grouping import Groups, group_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows


class FirstCalls(NamedTuple):
    """First calls in some time, the one with most of it, and that time of all together, ns."""

    rows: Rows
    longest: int
    ns: int


def first_calls_in(core: Core, spent: Spent) -> FirstCalls:
    """Slow first calls that some time was spent in; with none of them `longest` is -1."""
    first, (rows, _, due) = core.once(slow_first_calls), spent
    if not len(first):
        return FirstCalls(first, -1, 0)
    of = np.searchsorted(first, rows, "right") - 1
    inside = (of >= 0) & (rows <= core.columns.last[first[of]])
    ns = np.bincount(of[inside], weights=due[inside], minlength=len(first))
    return FirstCalls(first[ns > 0], int(first[ns.argmax()]) if ns.any() else -1, int(ns.sum()))


def slow_first_calls(core: Core) -> Rows:
    """Calls of ops that are the first with their sizes in the recording and take `FIRST_CALL_RATIO` times the median.

    The median is over all calls of the op, `FEW_CALLS` at least. Of calls within one another the outermost counts.
    """
    c = core.columns
    ops = rows_of_kind(c, (Kind.Op,))
    ops = ops[np.argsort(c.start_ns[ops], kind="stable")]
    if not len(ops):
        return ops
    name, example = group_by(c.name[ops])
    took = Groups(name, c.dur_ns[ops], len(example))
    _, first = group_by(name, c.argset[ops])
    of = name[first]
    slow = (took.count[of] >= limits.FEW_CALLS) & (c.dur_ns[ops[first]] >= limits.FIRST_CALL_RATIO * took.median[of])
    rows = np.sort(ops[first[slow]])
    reach = np.maximum.accumulate(c.last[rows])
    return rows[np.append(-1, reach[:-1])[: len(rows)] < rows]
