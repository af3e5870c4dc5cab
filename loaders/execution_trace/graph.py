"""An execution trace alone as a graph: calls nest as it recorded them, and nothing in it has a time.

Starts and durations are places in the one order of all begins and ends (`ExecutionTrace.moments`). From these the call
forest comes out as the trace has it; they are never shown (`TraceInfo.has_times`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.execution.arguments import ArgumentSets, collective_arguments
from tracelens_graph.execution.link import Link
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.build import EventTable, build_core
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import Details, source_id
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.loaders.sources import Source
from tracelens_graph.schema import STORED, Kind
from tracelens_graph.schema.categories import is_step_name

_USER_SCOPE = 7
"""PyTorch's RecordScope of ranges that programs mark."""

_STRUCTURE = ("parent", "last", "depth", "owner", "owner_rule")
_BLOCK = 1024
"""Nodes whose details are made at a time."""


def execution_graph(execution: ExecutionTrace, source: Source) -> Graph:
    """The graph of an execution trace: an op for each operator, an annotation for each range of the program's.

    Uids are positions in the file's list of nodes. `Core.link` leads to the execution trace itself.

    Args:
        execution: the trace.
        source: the file that it was read from.
    """
    rows = np.flatnonzero(execution.is_op)
    uid = execution.place[rows]
    begin, end = (moment[rows] for moment in execution.moments)
    sets = ArgumentSets()
    argset = sets.codes(execution.inputs, rows)
    tids, thread = np.unique(execution.tid[rows], return_inverse=True)
    forward_thread = execution.forward_tid[rows]
    known: dict[str, Any] = {
        "uid": uid,
        "kind": kinds(execution)[rows],
        "name": execution.name[rows],
        "thread": thread.reshape(-1),
        "start_ns": begin,
        "dur_ns": end - begin,
        "argset": argset,
        "sequence": execution.sequence[rows],
        "forward_thread": np.where(forward_thread == 0, -1, forward_thread),
    }
    columns = {
        prop.name: np.array(known.get(prop.name, np.full(len(rows), prop.absent or 0)), prop.dtype)
        for prop in STORED
        if prop.name not in _STRUCTURE
    }
    collectives = collective_arguments(execution)
    core = build_core(
        EventTable(
            columns=columns,
            names=list(execution.names),
            threads=[(0 if execution.info.pid is None else execution.info.pid, tid) for tid in tids.tolist()],
            argsets=sets.sets,
            collectives=[(int(execution.place[row]), found) for row, found in collectives.items()],
            info=_info(execution, source),
            details=ExecutionDetails(execution, source),
        )
    )
    core.link = _identity(execution, core)
    return core


def kinds(execution: ExecutionTrace) -> np.ndarray:
    """For each node the kind that it has, or would have, in a graph: op, annotation or step."""
    is_range = (execution.scope == _USER_SCOPE) & (execution.schema == 0)
    is_step = np.array([is_step_name(name) for name in execution.names], bool)
    step = is_step[execution.name] if len(execution) else np.zeros(0, bool)
    return np.where(is_range, np.where(step, Kind.Step, Kind.Annotation), Kind.Op)


def _info(execution: ExecutionTrace, source: Source) -> TraceInfo:
    facts = execution.info
    left_out = dict(facts.left_out)
    if special := int(np.count_nonzero(~execution.is_op)):
        left_out["process or thread"] = special
    metadata = {"schema": facts.schema, "time": facts.time}
    return TraceInfo(
        source=source.name,
        metadata={key: value for key, value in metadata.items() if value},
        events=facts.entries,
        left_out=left_out,
        repairs=dict(facts.repairs),
        lost_events=facts.lost_nodes,
        lost_bytes=facts.lost_bytes,
        cut_short=source.cut_short,
        has_times=False,
    )


def _identity(execution: ExecutionTrace, core: Core) -> Link:
    node_of_place = np.full(int(execution.place.max(initial=-1)) + 1, -1, np.int64)
    node_of_place[execution.place] = np.arange(len(execution))
    node_of_row = node_of_place[core.columns.uid]
    row_of_node = np.full(len(execution), -1, np.int64)
    row_of_node[node_of_row] = np.arange(len(node_of_row))
    return Link(execution, node_of_row, row_of_node, "the execution trace itself", 100.0, {})


class ExecutionDetails(Details):
    """Nodes of an execution trace in the form of the profiler's events, without times."""

    def __init__(self, execution: ExecutionTrace, source: Source) -> None:
        self._execution, self._source = execution, source
        self._by_place = np.argsort(execution.place, kind="stable")
        first = np.arange(0, execution.info.entries, _BLOCK)
        super().__init__(first, np.minimum(first + _BLOCK, execution.info.entries) - first)

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """The JSON text `[event, ...]` of each of the blocks; null for entries that could not be read."""
        places = self._execution.place[self._by_place]
        for block in blocks:
            begin, count = int(self.first[block]), int(self.count[block])
            low, high = np.searchsorted(places, (begin, begin + count))
            events: list[Any] = [None] * count
            for row in self._by_place[low:high].tolist():
                events[int(self._execution.place[row]) - begin] = self._event(row)
            yield msgspec.json.encode(events)

    def identity(self) -> str:
        """Hash of the decompressed bytes."""
        return source_id(self._source)

    def _event(self, row: int) -> dict[str, Any]:
        e = self._execution
        facts = {
            "Node id": int(e.id[row]),
            "Record function id": int(e.rf_id[row]),
            "Sequence number": int(e.sequence[row]) if e.sequence[row] >= 0 else None,
            "Fwd thread id": int(e.forward_tid[row]) or None,
            "Schema": e.schemas[e.schema[row]] or None,
            "Inputs": _shown(e.inputs[row].decoded()),
            "Outputs": _shown(e.outputs[row].decoded()),
            **e.more.get(row, {}),
        }
        args = {key: value for key, value in facts.items() if value is not None}
        category = "user_annotation" if e.scope[row] == _USER_SCOPE and not e.schema[row] else "cpu_op"
        return {"cat": category, "name": e.names[e.name[row]], "pid": e.info.pid, "tid": int(e.tid[row]), "args": args}


def _shown(arguments: Iterable[Any]) -> list[dict[str, Any]] | None:
    return [
        {key: value for key, value in one._asdict().items() if value not in (None, [])} for one in arguments
    ] or None
