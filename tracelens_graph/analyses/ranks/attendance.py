"""What one rank of a job took part in: its collectives, and what is known of the rank itself.

An attendance holds no graph, so that traces can be loaded one by one, in other processes or on other machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.trace_set import TraceMember
from tracelens_graph.graph.window import Window


@dataclass(frozen=True)
class Attendance:
    """The collectives that one rank took part in.

    Attributes:
        name, rank: of the trace.
        world_size: ranks of its job, None where not recorded.
        host: what tells the host of the rank from others, None where not recorded.
        devices: number of devices that the trace lists, 0 where it lists none.
        offset_ns: what to add to its times to compare them with those of other ranks.
        held: each with the first start and the last end of its kernels in the window, ns.
        cut: keys of those of which the window holds none.
    """

    name: str
    rank: int | None
    world_size: int | None
    host: str | None
    devices: int
    offset_ns: int
    held: tuple[tuple[Collective, int, int], ...]
    cut: frozenset[str] = frozenset()

    @classmethod
    def of(cls, trace: TraceMember) -> Attendance:
        """That of a member of a set."""
        held = tuple(_held(trace.window))
        keys = {one.key for one, _, _ in held}
        cut = frozenset(one.key for one in trace.core.collectives.nodes if one.key not in keys)
        info = trace.core.info
        devices = info.metadata.get("deviceProperties")
        return cls(
            trace.name,
            trace.rank,
            info.world_size,
            info.metadata.get("host"),
            len(devices) if isinstance(devices, list) else 0,
            trace.offset_ns,
            held,
            cut,
        )


def _held(w: Window) -> Iterator[tuple[Collective, int, int]]:
    """The collectives with kernels in a window, and the first start and last end of these kernels, ns."""
    nodes = w.core.collectives.nodes
    if not w.title:  # a whole graph
        yield from ((one, one.start_ns, one.end_ns) for one in nodes)
        return
    c = w.core.columns
    for one in nodes:
        rows = np.array(one.rows)
        rows = rows[w.holds(rows)]
        if len(rows):
            yield one, int(c.start_ns[rows].min()), int(c.end_ns[rows].max())
