"""Sequence numbers of collectives: in which process groups those that were recorded repeat, and so prove nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Ns

_MOST_OPS = 2
"""So many ops of one number may be all that was recorded of a group; of more, one at least is another collective."""


def groups_of_repeats(core: Core, kernels: Iterable[tuple[Hashable, int, Hashable, int]]) -> set[Hashable]:
    """Groups in which one number stands for several collectives.

    What is launched as one collective has kernels of one op, or those of ops with nothing between them, as coalesced
    calls are. So a number repeats where any other kernel was launched between, or where it is that of all ops.

    Args:
        kernels: per kernel its group, its number, what else would show its collective, and its row.
    """
    rows: dict[Hashable, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    ops: dict[tuple[Hashable, int], set[Hashable]] = defaultdict(set)
    for group, number, op, row in kernels:
        rows[group][number].append(row)
        ops[group, number].add(op)
    found = {group for group, of in rows.items() if len(of) == 1 and len(ops[group, next(iter(of))]) > _MOST_OPS}
    shared = [(group, rows[group][number]) for (group, number), of in ops.items() if len(of) > 1 and group not in found]
    if shared:
        launched = np.sort(_launched(core, np.flatnonzero(core.columns.kind == Kind.Kernel)))
        for group, own in shared:
            moments = _launched(core, np.array(own))
            first, last = launched.searchsorted(moments.min()), launched.searchsorted(moments.max(), "right")
            if last - first > len(own):
                found.add(group)
    return found


def _launched(core: Core, rows: np.ndarray) -> Ns:
    """When kernels were launched; where that is not recorded, when they began."""
    c = core.columns
    call = c.parent[rows]
    return np.where(call >= 0, c.start_ns[call], c.start_ns[rows])
