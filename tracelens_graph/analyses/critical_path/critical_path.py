"""The critical path of a step over one or all ranks of a job: what its length consists of.

    path = critical_path(ranks, step=4)
    path.classes()    # host, launch, computation, communication, ... they add up to the step
    path.segments()   # the path itself, one row per segment

The path goes back from the last GPU end of a step over binding causes to the last GPU end of the step before it, so
the lengths of steps add up to that of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path import path_tables
from tracelens_graph.analyses.critical_path.job_causes import JobCauses, Steps, job_causes
from tracelens_graph.analyses.critical_path.path import Path, followed_paths
from tracelens_graph.analyses.critical_path.path_tables import SEGMENTS, segment_columns
from tracelens_graph.analyses.critical_path.slack import slack_by_name
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
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
    slack = slack_by_name

    @property
    def steps(self) -> Steps:
        """The steps of the job."""
        return self.job.steps


def critical_path(ranks: Any, step: int | None = None, *, matched: MatchedCollectives | None = None) -> CriticalPath:
    """The critical path of a step.

    Args:
        ranks: a set of traces, or a graph or window of one rank: of a window the path leads from its first event to
            its last GPU end. Or `JobCauses`, so that several paths share them.
        step: the number in `ProfilerStep#n`; by default everything there is.
        matched: which collectives of the ranks are one; by default they are matched.

    Raises:
        AnalysisError: there are no GPU events, or no such step.
    """
    job = job_causes(ranks, matched)
    if step not in job.paths:
        job.paths[step] = followed_paths(job, [(step, *job.extent(step))], CriticalPath)[0]
    found: CriticalPath = job.paths[step]
    return found


def step_paths(ranks: Any, *, matched: MatchedCollectives | None = None) -> list[CriticalPath]:
    """The critical paths of all steps; see `critical_path`. Empty without steps."""
    job = job_causes(ranks, matched)
    steps = job.steps
    spans = zip(steps.number.tolist(), steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    return followed_paths(job, list(spans), CriticalPath)


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
        return np.cumsum([0, *map(len, self.paths)])

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
            "segments": len(path),
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
    known = JobCauses(traces, matched)
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
