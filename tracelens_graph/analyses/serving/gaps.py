"""What a server's host did while the GPU was idle between two steps: schedule, prepare, sample, detokenise, else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.idle.blame import Blamed, blame
from tracelens_graph.analyses.idle.idle import BETWEEN_STEPS, UNKNOWN, Cause
from tracelens_graph.analyses.serving.iterations import Served

_OTHERS: Mapping[str, Sequence[Cause]] = {
    "launch": (Cause.launches, Cause.queued),
    "wait": (Cause.synchronization,),
    "unrecorded": UNKNOWN,
}
PARTS: Mapping[str, Sequence[Cause]] = {
    **{cause.name: (cause,) for cause in BETWEEN_STEPS},
    **_OTHERS,
    "python": [cause for cause in Cause if cause not in (*BETWEEN_STEPS, *sum(map(tuple, _OTHERS.values()), ()))],
}
"""What the host does between steps -> causes of idle time: its work, launches, waiting for the GPU, what was not
recorded, and all else, which is Python and ops."""


@dataclass(frozen=True, eq=False)
class HostParts:
    """Idle time between steps by what the host did, as `idle_causes` has it.

    Attributes:
        ns: part -> time, for all of PARTS; they add up to the gaps, over all devices.
        gaps: number of gaps.
    """

    served: Served
    ns: Mapping[str, int]
    gaps: int

    @property
    def leads(self) -> str:
        """The part with most of the time."""
        return max(self.ns, key=lambda part: self.ns[part])

    @cached_property
    def due(self) -> Blamed:
        """The function that most of that part is due to."""
        at = np.flatnonzero(self.served.between)
        return blame(self.served.window.core, self.served.idle, at, PARTS[self.leads])


def host_parts_between(served: Served) -> HostParts:
    """What the thread that launches did in the idle gaps between iterations; each instant goes to one part."""
    parts = served.idle.parts[:, served.between]
    return HostParts(served, {part: int(parts[list(causes)].sum()) for part, causes in PARTS.items()}, parts.shape[1])
