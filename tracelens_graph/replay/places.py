"""Where a sequence of operations is taken from: one module, function, op, annotation or step of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph import membership
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.utils.suggest import did_you_mean

_SPANS = (Kind.Annotation, Kind.Step)
_MODULE = "nn.Module: "


@dataclass(frozen=True, eq=False)
class Place:
    """A part of a trace.

    Attributes:
        row: row of the node that it is below.
        name: its name.
        holds: for each row of the graph whether it is in the part.
        others: nodes of the same name that were not taken.
    """

    row: int
    name: str
    holds: np.ndarray
    others: int = 0


def place(core: Core, under: int | str) -> Place:
    """The part of a trace below a node.

    An annotation holds what starts in it on its own thread, a step what starts in it on any thread of its process.

    Args:
        core: the graph.
        under: uid of a node, or a name; `nn.Module: ` may be left out. Of several nodes of a name the one with the
            most GPU time is taken, in a trace without GPU work the longest one.

    Raises:
        AnalysisError: no node has the name, or the node is none that holds others.
        NodeNotFoundError: no node has the uid.
    """
    c = core.columns
    if isinstance(under, int):
        row = core.row(under)
        if not is_kind(c.kind[row : row + 1], (*HOST_KINDS, *_SPANS))[0]:
            raise AnalysisError(f"uid {under} is a {Kind(int(c.kind[row])).name}, which nothing is below")
        return Place(row, core.names[c.name[row]], _below(core, row))
    fits = np.fromiter((name in (under, _MODULE + under) for name in core.names), bool, len(core.names))
    can_hold = is_kind(c.kind, (*HOST_KINDS, *_SPANS))
    rows = np.flatnonzero(fits[c.name] & can_hold) if len(c) else np.zeros(0, np.int64)
    if not len(rows):
        known = {core.names[code].removeprefix(_MODULE) for code in np.unique(c.name[can_hold]).tolist()}
        meant = did_you_mean(under, sorted(known))
        raise AnalysisError(
            f"the trace has no module, function, op, annotation or step {under!r}" + (meant and f"; {meant}")
        )
    time = gpu_ns(core, rows) if len(core.gpu_rows) else c.dur_ns[rows]
    row = int(rows[np.argmax(time)])
    return Place(row, core.names[c.name[row]], _below(core, row), len(rows) - 1)


def gpu_ns(core: Core, rows: np.ndarray) -> np.ndarray:
    """Sum of the durations of the GPU events below each of some nodes, in ns."""
    c = core.columns
    found = core.gpu_sum_ns[rows].copy()
    spans = np.flatnonzero(is_kind(c.kind[rows], _SPANS))
    if not len(spans):
        return found
    gpu = core.gpu_rows[c.parent[core.gpu_rows] >= 0]
    launch = c.parent[gpu]
    for thread in np.unique(c.thread[rows[spans]]).tolist():
        here = gpu[c.thread[launch] == thread]
        start = c.start_ns[c.parent[here]]
        order = np.argsort(start, kind="stable")
        total = np.concatenate(([0], np.cumsum(c.dur_ns[here][order])))
        asked = spans[c.thread[rows[spans]] == thread]
        low, high = (np.searchsorted(start[order], at[rows[asked]]) for at in (c.start_ns, c.end_ns))
        found[asked] = total[high] - total[low]
    if (c.kind[rows[spans]] == Kind.Step).any():
        by_step = np.bincount(core.step[gpu] + 1, weights=c.dur_ns[gpu], minlength=len(c) + 1)
        steps = rows[spans][c.kind[rows[spans]] == Kind.Step]
        found[np.isin(rows, steps)] = by_step[steps + 1]
    return found


def _below(core: Core, row: int) -> np.ndarray:
    c = core.columns
    if c.kind[row] == Kind.Step:
        return np.asarray(core.step == row)
    if c.kind[row] == Kind.Annotation:
        return membership.inside(c, np.array([row]), c.thread.astype(np.int64))
    holds = np.zeros(len(c), bool)
    holds[row : int(c.last[row]) + 1] = True
    return holds
