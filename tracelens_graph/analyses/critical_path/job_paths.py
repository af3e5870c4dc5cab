"""The critical paths of a job, as a database and the graph of all ranks hold them: of everything, and of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.causes import causes
from tracelens_graph.analyses.critical_path.critical_path import COLUMNS, CriticalPath, critical_path, step_paths
from tracelens_graph.analyses.critical_path.path_tables import CLASS, RANK, SEGMENTS, class_names, from_ranks
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

PATH_OF_STEP = TableSchema(
    "path_of_step",
    "What bounds a step of a run over all of its ranks, segment by segment.",
    {
        "place": Column("place on the path, from 1", heading="place"),
        "class": CLASS,
        "rank": RANK,
        "trace": Column.text("name of the trace of the rank"),
        "name": Column.key(
            "GPU work; of host time the innermost call with most of it; of launches and waits the call; else the class",
            "name",
        ),
        **{name: SEGMENTS[name] for name in ("op", "start_us", "dur_ns", "from_rank", "uid")},
    },
    ordered=True,
)


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
        return {"number": list(range(len(self.path))), **found}

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


def job_paths(traces: TraceSet, meetings: Meetings) -> JobPaths:
    """The critical paths of a job.

    There is none without GPU work, and of lean graphs that lack columns which a path reads.

    Args:
        traces: the ranks, as whole graphs.
        meetings: which of their collectives are one, and on which clock they are; its ranks in the same order.
    """
    cores = [one.core for one in traces]
    has_columns = all(set(core.columns.names) >= COLUMNS for core in cores)
    if not (has_columns and any(len(core.gpu_rows) for core in cores)):
        return JobPaths(())
    known = causes(traces, meetings)
    return JobPaths((critical_path(known), *step_paths(known)))


def segment_columns(path: CriticalPath) -> dict[str, list[Any]]:
    """What is to be said of the segments of a path, in their order; None for nothing."""
    nodes, classes = path.nodes, class_names(path)
    names = [one.name for one in path.causes.traces]
    return {
        "name": [name or of for name, of in zip(nodes.name, classes, strict=True)],
        "place": list(range(1, len(classes) + 1)),
        "class": classes,
        "rank": nodes.rank,
        "trace_name": [names[at] if at >= 0 else None for at in path.ordinal.tolist()],
        "uid": nodes.uid,
        "op": [op or None for op in nodes.op],
        "start_ns": path.start_ns.tolist(),
        "dur_ns": (path.end_ns - path.start_ns).tolist(),
        "from_rank": from_ranks(path),
    }


def path_of_step(traces: TraceSet, run: str | None = None, step: int | None = None) -> Table:
    """What bounded a step of a run over all of its ranks, segment by segment: `critical_path` as a question.

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
        path = critical_path(ranks, step)
    except AnalysisError as error:
        title = ranks.titled("Critical path" if step is None else f"Critical path of step {step}")
        return PATH_OF_STEP.empty(title, [str(error)])
    known = segment_columns(path)
    start = np.array(known["start_ns"], np.int64)
    known |= {"trace": known["trace_name"], "start_us": ((start - start[:1]) / 1e3).tolist()}
    return PATH_OF_STEP.table({name: known[name] for name in PATH_OF_STEP}, path.title, path.notes)
