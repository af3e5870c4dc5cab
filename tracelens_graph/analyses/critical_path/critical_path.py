"""The critical path of a step over one or all ranks of a job: what its length consists of.

    path = critical_path(ranks, step=4)
    path.classes()    # host, launch, computation, communication, ... they add up to the step
    path.segments()   # the path itself, one row per segment

The path goes back from the last GPU end of a step over binding causes to the last GPU end of the step before it, so
the lengths of steps add up to that of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path import path_tables
from tracelens_graph.analyses.critical_path.causes import Causes, causes
from tracelens_graph.analyses.critical_path.path_tables import SEGMENTS, segment_columns
from tracelens_graph.analyses.critical_path.points import Role
from tracelens_graph.analyses.critical_path.walk import Path, walk
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import Window, gpu_steps, whole_window
from tracelens_graph.schema import HOST_KINDS
from tracelens_graph.tables.table import Table

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

    @cached_property
    def steps(self) -> Steps:
        """The steps of the job."""
        return steps_of(self.causes)


def critical_path(ranks: Any, step: int | None = None, *, matched: MatchedCollectives | None = None) -> CriticalPath:
    """The critical path of a step.

    Args:
        ranks: a set of traces, or a graph or window of one rank: of a window the path leads from its first event to
            its last GPU end. Or `Causes`, so that several paths share them.
        step: the number in `ProfilerStep#n`; by default everything there is.
        matched: which collectives of the ranks are one; by default they are matched.

    Raises:
        AnalysisError: there are no GPU events, or no such step.
    """
    known = ranks if isinstance(ranks, Causes) else causes_of(ranks, matched)
    if step is not None:
        start, end = steps_of(known).of(step)
        return CriticalPath(known, step, *walk(known, start, end))
    windows = [one.graph for one in known.traces]
    if any(isinstance(one, Window) and not one.is_whole for one in windows):
        return CriticalPath(known, None, *walk(known, *_of_windows(known)))
    return CriticalPath(known, None, *walk(known, None, int(known.time[known.role == Role.gpu_end].max())))


def step_paths(ranks: Any, *, matched: MatchedCollectives | None = None) -> list[CriticalPath]:
    """The critical paths of all steps; see `critical_path`. Empty without steps."""
    known = ranks if isinstance(ranks, Causes) else causes_of(ranks, matched)
    steps = steps_of(known)
    spans = zip(steps.number.tolist(), steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    return [CriticalPath(known, number, *walk(known, start, end)) for number, start, end in spans]


def causes_of(ranks: Any, matched: MatchedCollectives | None = None) -> Causes:
    """What bound the points of some ranks; of one graph it is kept with the graph."""
    if isinstance(ranks, Core | Window) and matched is None:
        window = ranks if isinstance(ranks, Window) else whole_window(ranks)
        found = window.whole.once(_alone)
        if window.is_whole:
            return found
        return replace(found, traces=TraceSet.of(window))
    return causes(TraceSet.of(ranks), matched)


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


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of a job: their numbers, ascending, and from which to which moment each lasts on the device.

    A step lasts from the last GPU end of the steps before it to its own; the first begins with its mark on the host.
    """

    number: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray

    def of(self, number: int) -> tuple[int, int]:
        """Start and end of a step.

        Raises:
            AnalysisError: there is no such step, or it launched nothing on a GPU.
        """
        at = int(np.searchsorted(self.number, number))
        if at == len(self.number) or self.number[at] != number:
            there = ", ".join(map(str, self.number.tolist())) or "none"
            raise AnalysisError(f"no rank has GPU work of step {number}; steps with GPU work: {there}")
        return int(self.start_ns[at]), int(self.end_ns[at])


def steps_of(causes: Causes, time: np.ndarray | None = None) -> Steps:
    """The steps in which ranks launched GPU work.

    Args:
        causes: the points of the ranks.
        time: other moments of the points, by default those recorded.
    """
    moment = causes.time if time is None else time
    found = []
    for ordinal, one in enumerate(causes.traces):
        end = moment[causes.first_point[ordinal] + causes.ranks[ordinal].gpu_end]
        for number, mark, of in gpu_steps(one.core, causes.ranks[ordinal].gpu_rows):
            found.append((number, causes.on_clock(ordinal, int(one.core.columns.start_ns[mark])), int(end[of].max())))
    return joined_steps(found)


def joined_steps(known: Iterable[tuple[int, int, int]]) -> Steps:
    """The steps of a job by number, begin on the host, and last GPU end of those of its ranks."""
    ends: dict[int, int] = {}
    begin: dict[int, int] = {}
    for number, start, end in known:
        ends[number] = max(end, ends.get(number, end))
        begin[number] = min(start, begin.get(number, start))
    numbers = np.array(sorted(ends), np.int64)
    end_ns = np.maximum.accumulate(np.array([ends[one] for one in numbers.tolist()], np.int64))
    start_ns = np.concatenate(([min(begin[numbers[0]], end_ns[0])], end_ns[:-1])) if len(numbers) else end_ns
    return Steps(numbers, start_ns, end_ns)


# --- of a job ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JobPaths:
    """Critical paths of a job, the segments of one behind those of the other.

    Attributes:
        paths: that of everything first, then those of the steps; none where there is no path to follow.
    """

    paths: Sequence[CriticalPath]

    @cached_property
    def first(self) -> np.ndarray:
        """Where the segments of each path begin, and where those of the last one end."""
        return np.cumsum([0, *(len(path.edge) for path in self.paths)])

    @cached_property
    def path(self) -> np.ndarray:
        """Per segment the number of its path."""
        return np.repeat(np.arange(len(self.paths)), np.diff(self.first))

    @cached_property
    def ordinal(self) -> np.ndarray:
        """Per segment the place of its rank in the set; -1 where nothing is recorded."""
        return np.concatenate([np.zeros(0, np.int64), *(path.ordinal for path in self.paths)])

    @cached_property
    def columns(self) -> Mapping[str, list[Any]]:
        """The properties of a `PathSegment`: per segment a value, None for none."""
        known = [segment_columns(path) for path in self.paths]
        names = known[0] if known else ()
        found = {name: list(chain.from_iterable(one[name] for one in known)) for name in names}
        of_trace = {"trace_name": found.pop("trace")} if found else {}
        return {"number": list(range(len(self.path))), **found, **of_trace}

    @cached_property
    def events(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each segment that an event accounts for its number, the place of its rank in the set, and the uid."""
        uid = self.columns.get("uid", [])
        segment = np.array([number for number, one in enumerate(uid) if one is not None], np.int64)
        return segment, self.ordinal[segment], np.array([one for one in uid if one is not None], np.int64)

    def about(self, number: int) -> dict[str, Any]:
        """The properties of a `CriticalPath`; None for none."""
        path = self.paths[number]
        return {
            "number": number,
            "name": "critical path" if path.step is None else f"critical path of step {path.step}",
            "step": path.step,
            "start_ns": int(path.start_ns[0]) if len(path.start_ns) else None,
            "dur_ns": path.length_ns,
            "segments": len(path.edge),
            "near_ties": path.ties.points,
            "notes": path.notes or None,
        }


def job_paths(traces: TraceSet, matched: MatchedCollectives) -> JobPaths:
    """The critical paths of a job.

    There is none without GPU work, and of lean graphs that lack columns which a path reads.

    Args:
        traces: the ranks, as whole graphs.
        matched: which of their collectives are one, and on which clock they are; its ranks in the same order.
    """
    cores = [one.core for one in traces]
    has_columns = all(set(core.columns.names) >= COLUMNS for core in cores)
    if not (has_columns and any(len(core.gpu_rows) for core in cores)):
        return JobPaths(())
    known = causes(traces, matched)
    return JobPaths((critical_path(known), *step_paths(known)))


def segments_of_run(traces: TraceSet, run: str | None = None, step: int | None = None) -> Table:
    """What bounded a step of a run over all of its ranks, segment by segment: the segments of `critical_path`.

    Where there is no such step, or no GPU work, there are no rows, and a note says so.

    Args:
        traces: the traces, in order. Of windows, the path leads from their first event to their last GPU end.
        run: name of a run; by default that of the last trace.
        step: the number in `ProfilerStep#n`; by default everything there is.

    Raises:
        AnalysisError: there is no such run.
    """
    ranks = traces.of_run(run).by_rank()
    try:
        return critical_path(ranks, step).segments()
    except AnalysisError as error:
        title = ranks.titled("Critical path" if step is None else f"Critical path of step {step}")
        return SEGMENTS.empty(title, [str(error)])
