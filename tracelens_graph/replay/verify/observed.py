"""What a trace shows of one call: arguments, ops below, kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.replay.replay_plan import Recorded
from tracelens_graph.schema import Kind


@dataclass(frozen=True)
class Observed:
    """One call in a trace.

    Attributes:
        name: name of the op.
        recorded: its arguments.
        children: names of the ops below it, in order, at all depths.
        kernels: names of the GPU work below it, in order of launch.
    """

    name: str
    recorded: Recorded
    children: tuple[str, ...]
    kernels: tuple[str, ...]


def observed(core: Core, row: int) -> Observed:
    """The call of a row."""
    below = slice(row + 1, int(core.columns.last[row]) + 1)
    names, kinds = core.columns.name[below], core.columns.kind[below]
    low, high = np.searchsorted(core.gpu_rows, (below.start, below.stop))
    return Observed(
        core.names[core.columns.name[row]],
        recorded_at(core, row),
        tuple(core.names[code] for code in names[kinds == Kind.Op].tolist()),
        tuple(core.names[code] for code in core.columns.name[core.gpu_rows[low:high]].tolist()),
    )


def recorded_at(core: Core, row: int) -> Recorded:
    """The arguments of the call of a row, as the profiler wrote them."""
    code = int(core.columns.argset[row])
    if code < 0:
        return Recorded()
    dims, types, strides, values = (as_tuples(json.loads(text)) if text else () for text in core.argsets[code])
    return Recorded(dims, types, strides, values)


def as_tuples(value: Any) -> Any:
    """Lists in lists as tuples."""
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value


def outermost_ops(core: Core) -> np.ndarray:
    """Rows of the ops that no other op stands above, ascending."""
    c = core.columns
    ops = np.flatnonzero(c.kind == Kind.Op)
    parents = c.parent[ops]
    return ops[(parents < 0) | (c.kind[parents] != Kind.Op)]
