"""What the collectives of a job cost.

Waiting is not communication: how long a collective really takes is told by the rank that came last, for which nobody
had to wait. Sizes and factors of bandwidths are in `sizes`.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.analyses.ranks.process_groups import ProcessGroups
from tracelens_graph.analyses.ranks.sizes import Messages, bus_factors, gb_per_s
from tracelens_graph.graph.collective_kinds import kind_of
from tracelens_graph.graph.intervals import length_before, merge
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.perf.roofs import peak_bus_bandwidth


class Figures:
    """What each collective cost.

    Args:
        meetings: the collectives.
        architecture: the device; by default that of the traces, if all have the same.

    Attributes:
        meetings: the collectives.
    """

    def __init__(self, meetings: Meetings, architecture: Architecture | None = None) -> None:
        self.meetings = meetings
        self._architecture = architecture

    @cached_property
    def architecture(self) -> Architecture | None:
        """The device of all ranks; None where it is not known or they differ."""
        if self._architecture is not None:
            return self._architecture
        found = [detect(rank.properties) for rank in self.meetings.attendances if rank.held]
        same = found and all(isinstance(one, Architecture) and one == found[0] for one in found)
        return found[0] if same and isinstance(found[0], Architecture) else None

    @cached_property
    def latency_ns(self) -> np.ndarray:
        """Duration of the part that came last to each collective: nobody keeps it waiting."""
        m = self.meetings
        return (m.end_ns - m.start_ns)[m.last_part]

    @cached_property
    def size(self) -> np.ndarray:
        """Size of the message of each collective in bytes, NaN where not known: the largest that a rank tells."""
        m = self.meetings
        sizes = Messages.of([m.parts.collective(part) for part in m.order.tolist()]).size
        return np.fmax.reduceat(sizes, m.first) if len(m) else sizes

    @cached_property
    def algorithm_bandwidth(self) -> np.ndarray:
        """GB/s of each collective."""
        return gb_per_s(self.size, self.latency_ns)

    @cached_property
    def bus_bandwidth(self) -> np.ndarray:
        """GB/s of each collective on the links."""
        sizes = np.where(self.meetings.group_size > 0, self.meetings.group_size, self.meetings.count)
        return self.algorithm_bandwidth * bus_factors(self.meetings.kind, sizes)

    @cached_property
    def groups(self) -> ProcessGroups:
        """The process group of each collective."""
        return ProcessGroups.of(self.meetings)

    @cached_property
    def hosts(self) -> list[int | None]:
        """Number of hosts of each collective, None where not known."""
        m, found = self.meetings, []
        for at in range(len(m)):
            hosts = {m.hosts[trace] for trace in m.trace[m.parts_of(at)].tolist()}
            found.append(None if None in hosts else len(hosts))
        return found

    @cached_property
    def peak(self) -> np.ndarray:
        """Rate of the links that each collective uses, GB/s; NaN where not known."""
        rate = peak_bus_bandwidth(self.architecture) if self.architecture else None
        return np.array([np.nan if rate is None or hosts != 1 else rate for hosts in self.hosts], float)

    @cached_property
    def computing_ns(self) -> np.ndarray:
        """For each part how long its rank computed meanwhile."""
        return self._computing(self.meetings.parts.start_ns, self.meetings.parts.end_ns)

    def exposed_wait_ns(self, trace: int, parts: np.ndarray) -> int:
        """How long a rank waited in some of its parts while it did not compute; what overlaps counts once."""
        m = self.meetings
        start = m.parts.start_ns[parts] - m.parts.shift_ns[trace]
        return self.exposed_ns(trace, start, start + m.wait_ns[parts])

    def bubble_ns(self, trace: int) -> int | None:
        """How long a pipeline stage did nothing: of its steps what is left beside computing, collectives and transfers.

        Waiting for a transfer counts as nothing. None for a rank that sends and receives nothing, or has no GPU work,
        so that nothing tells when it computes.
        """
        m, rank = self.meetings, self.meetings.attendances[trace]
        parts = np.flatnonzero(m.trace == trace)
        sends = m.parts.is_transfer[parts]
        if not sends.any() or not rank.has_gpu_work:
            return None
        start, end = (times[parts] - m.parts.shift_ns[trace] for times in (m.parts.start_ns, m.parts.end_ns))
        begun = start + np.where(sends, m.wait_ns[parts], 0)
        computing = rank.gpu.computing
        working = merge(np.concatenate((computing[0], begun)), np.concatenate((computing[1], end)))
        measured = np.array(rank.measured_ns)
        return int(measured[1] - measured[0] - np.diff(length_before(working, measured))[0])

    @cached_property
    def exchanged_bytes(self) -> np.ndarray:
        """For each part of an uneven all-to-all the bytes that its rank got, such as tokens of an expert; else NaN."""
        parts = self.meetings.parts
        nodes = [parts.collective(part) for part in range(len(parts))]
        got = [one.out_bytes if kind_of(one.kind) == "all_to_allv" else None for one in nodes]
        return np.array([np.nan if one is None else one for one in got], float)

    def exposed_ns(self, trace: int, start_ns: np.ndarray, end_ns: np.ndarray) -> int:
        """Length of the union of some stretches, on the clock of a rank's trace, in which the rank does not compute."""
        computing = self.meetings.attendances[trace].gpu.computing
        start, end = merge(start_ns, end_ns)
        return int((end - start - length_before(computing, end) + length_before(computing, start)).sum())

    def _computing(self, start_ns: np.ndarray, end_ns: np.ndarray) -> np.ndarray:
        m = self.meetings
        found = np.zeros(len(m.parts), np.int64)
        for trace, rank in enumerate(m.attendances):
            here = np.flatnonzero(m.trace == trace)
            own = m.parts.shift_ns[trace]
            computing = rank.gpu.computing
            if len(here) and len(computing[0]):
                found[here] = length_before(computing, end_ns[here] - own) - length_before(
                    computing, start_ns[here] - own
                )
        return found

    @cached_property
    def step(self) -> list[int | None]:
        """Number of the step in which most ranks launched each collective; None outside of steps."""
        m, found = self.meetings, []
        for at in range(len(m)):
            numbers = Counter(m.step_of(part) for part in m.parts_of(at).tolist())
            found.append(numbers.most_common(1)[0][0])
        return found

    @cached_property
    def held_up_ns(self) -> tuple[np.ndarray, np.ndarray]:
        """Which rank came last to each collective, and how much later than the median start of the others.

        Place of the rank in the attendances, -1 where several came last; and ns.
        """
        m = self.meetings
        order = m.order[np.lexsort((m.start_ns[m.order], m.meeting[m.order]))]
        # The middle of all but the last one.
        low, high = (m.start_ns[order[m.first + (m.count - 1 - up) // 2]] for up in (1, 0))
        later = (2 * m.last_start_ns - low - high) // 2
        return np.where(later > 0, m.trace[m.last_part], -1), later
