"""Attendances of traces that were read one by one, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens_graph.analyses.ranks.attendance import Attendance
from tracelens_graph.graph.trace_set import TraceMember


def read_alone(trace: TraceMember) -> Attendance:
    """What one rank took part in, where the other ranks are not known yet.

    Its offset is the absolute time at which its clock is 0; `gathered` makes that one to the clock of the job.
    """
    return replace(Attendance.of(trace), offset_ns=trace.clock_ns or 0)


def gathered(ranks: Sequence[Attendance]) -> list[Attendance]:
    """Ranks that were read alone on one clock, as in a `TraceSet`, and in the order of their numbers.

    A trace that does not tell when it began has the offset 0.
    """
    zero = min((one.offset_ns for one in ranks if one.offset_ns), default=0)
    told = [replace(one, offset_ns=one.offset_ns - zero if one.offset_ns else 0) for one in ranks]
    return sorted(told, key=lambda one: (one.rank is None, one.rank or 0, one.name))
