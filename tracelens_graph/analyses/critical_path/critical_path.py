"""The critical path of a step over one or all ranks of a job: what its length consists of.

    path = critical_path(ranks, step=4)
    path.classes()    # host, launch, computation, communication, ... they add up to the step
    path.segments()   # the path itself, one row per segment

The path goes back from the last GPU end of a step over binding causes to the last GPU end of the step before it, so
the lengths of steps add up to that of the whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tracelens_graph.analyses.critical_path import path_tables
from tracelens_graph.analyses.critical_path.causes import Causes, causes
from tracelens_graph.analyses.critical_path.points import Role
from tracelens_graph.analyses.critical_path.steps import steps_of
from tracelens_graph.analyses.critical_path.walk import Path, walk
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import HOST_KINDS

COLUMNS = frozenset(
    ("thread", "correlation", "device", "stream", "owner", "flags", "sequence", "forward_thread", "external_id")
)
"""Columns that a path reads, beside those that every graph has and those of collectives; see `Graph.lean`."""


class CriticalPath(Path):
    """A critical path and its tables."""

    segments = path_tables.segments
    classes = path_tables.classes
    names = path_tables.names
    ranks = path_tables.by_rank
    near_ties = path_tables.near_ties
    slack = path_tables.slack_by_name


def critical_path(ranks: Any, step: int | None = None, *, meetings: Meetings | None = None) -> CriticalPath:
    """The critical path of a step.

    Args:
        ranks: a set of traces, or a graph or window of one rank: of a window the path leads from its first event to
            its last GPU end. Or `Causes`, so that several paths share them.
        step: the number in `ProfilerStep#n`; by default everything there is.
        meetings: which collectives of the ranks are one; by default they are matched.

    Raises:
        AnalysisError: there are no GPU events, or no such step.
    """
    known = ranks if isinstance(ranks, Causes) else causes_of(ranks, meetings)
    if step is not None:
        start, end = steps_of(known).of(step)
        return CriticalPath(known, step, *walk(known, start, end))
    windows = [one.graph for one in known.traces]
    if any(isinstance(one, Window) and not one.is_whole for one in windows):
        return CriticalPath(known, None, *walk(known, *_of_windows(known)))
    return CriticalPath(known, None, *walk(known, None, int(known.time[known.role == Role.gpu_end].max())))


def step_paths(ranks: Any, *, meetings: Meetings | None = None) -> list[CriticalPath]:
    """The critical paths of all steps; see `critical_path`. Empty without steps."""
    known = ranks if isinstance(ranks, Causes) else causes_of(ranks, meetings)
    steps = steps_of(known)
    spans = zip(steps.number.tolist(), steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    return [CriticalPath(known, number, *walk(known, start, end)) for number, start, end in spans]


def causes_of(ranks: Any, meetings: Meetings | None = None) -> Causes:
    """What bound the points of some ranks; of one graph it is kept with the graph."""
    if isinstance(ranks, Core | Window) and meetings is None:
        window = ranks if isinstance(ranks, Window) else whole_window(ranks)
        found = window.whole.once(_alone)
        if window.is_whole:
            return found
        return replace(found, traces=TraceSet.of(window))
    return causes(TraceSet.of(ranks), meetings)


def _alone(window: Window) -> Causes:
    return causes(TraceSet.of(window))


def _of_windows(causes: Causes) -> tuple[int, int]:
    """From the first event of the windows of a set to the last GPU end in them, on its clock.

    Raises:
        AnalysisError: there are no GPU events in them.
    """
    starts, ends = [], []
    for ordinal, one in enumerate(causes.traces):
        window, c = one.window, one.core.columns
        rows = window.gpu_rows
        if len(rows):
            hosts = window.rows_of_kind(*HOST_KINDS)
            first = min(int(c.start_ns[some].min()) for some in (rows, hosts) if len(some))
            starts.append(causes.on_clock(ordinal, first))
            ends.append(causes.on_clock(ordinal, int(c.end_ns[rows].max())))
    if not ends:
        raise AnalysisError("the window has no GPU events, so there is no path to follow through it")
    return min(starts), max(ends)
