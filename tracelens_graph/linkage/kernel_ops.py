"""From GPU work back to the operator of the execution trace that it came from."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.execution.link import Link
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb
from tracelens_graph.linkage.cpu_metadata import metadata_of_row
from tracelens_graph.linkage.identifiers import row_of_identifier
from tracelens_graph.linkage.records import event_record
from tracelens_graph.linkage.traces import joined
from tracelens_graph.schema import Kind

WAYS = (
    "launched outside of all ops of the execution trace",
    "its launch is not in the trace",
    "launch, and the op that it stands in",
    "launch, and an op around the one that it stands in, which has no node",
    "launch, and the range that the program marked around it",
    "External id, for want of a launch in the trace",
)
"""How GPU work leads to an operator, by code; the first two do not."""

OUTSIDE, NO_LAUNCH, BY_OP, BY_OUTER_OP, BY_RANGE, BY_EXTERNAL_ID = range(len(WAYS))


class Origins(NamedTuple):
    """Where GPU events come from.

    Attributes:
        row: for each GPU event the row of the op or range, -1 for none.
        way: code of how it was found, as in `WAYS`.
    """

    row: np.ndarray
    way: np.ndarray


def kernel_to_op_tracing(identifier: Any, gpu_trace: Any, cpu_trace: Any) -> dict[str, Any]:
    """The operator that a kernel, copy or fill came from.

    It is the innermost one around the launch that is in the execution trace. GPU work whose launch is not in the trace
    leads to the operator with its External id, if there is one alone.

    Args:
        identifier: what `get_gpu_op_identifier` gives: (timestamp, duration, stream, External id).
        gpu_trace: the profiler's trace: a path, parsed JSON or a graph. A path is read again at every call.
        cpu_trace: the execution trace, likewise; a graph that holds the link serves as both.

    Returns:
        A dictionary of plain values: `cpu_op_id`, the id of the operator's node; `cpu_op`, what
        `operation_metadata_scrape` gives of it; `event`, `launch` (None where it is not in the trace) and `kernel`,
        the events in the profiler's trace, as in `op_to_kernel_tracing`; `way`, how it was found, in words; `method`,
        how the traces were joined.

    Raises:
        NodeNotFoundError: no GPU event has the identifier, or several have, or it leads to no operator.
        AnalysisError: the traces are not of one run.
        TraceError: one of them cannot be read.
    """
    core, link = joined(cpu_trace, gpu_trace)
    kernel = row_of_identifier(core, identifier)
    found = origins(core, link, np.array([kernel]))
    row, way = int(found.row[0]), int(found.way[0])
    launch = int(core.columns.parent[kernel])
    record = partial(event_record, core, link)
    if row < 0:
        name = core.names[core.columns.name[kernel]][:80]
        raise NodeNotFoundError(
            f"{core.info.source}: {name} (event {core.columns.uid[kernel]}) leads to no op: {WAYS[way]}"
        )
    node = int(link.node_of_row[row])
    return {
        "cpu_op_id": int(link.execution.id[node]),
        "cpu_op": metadata_of_row(link.execution, node),
        "event": record(row),
        "launch": record(launch) if launch >= 0 else None,
        "kernel": record(kernel),
        "way": WAYS[way],
        "method": link.method,
    }


def origins(core: Core, link: Link, gpu: np.ndarray) -> Origins:
    """The op or range that each of some GPU events comes from, and how it was found.

    Args:
        core: the graph.
        link: what links it with the execution trace.
        gpu: rows of GPU events.
    """
    c = core.columns
    has_node = link.node_of_row >= 0
    found = climb(c.parent, c.parent[gpu], has_node)
    way = np.where(found >= 0, BY_OP, OUTSIDE)
    nearest = climb(c.parent, c.parent[gpu], c.kind == Kind.Op)
    way[(found >= 0) & (nearest != found)] = BY_OUTER_OP
    missing = np.flatnonzero(found < 0)
    if len(missing):
        ranges = core.annotation[gpu[missing]]
        fits = (ranges >= 0) & has_node[ranges] & (c.parent[gpu[missing]] >= 0)
        found[missing[fits]], way[missing[fits]] = ranges[fits], BY_RANGE
        alone = missing[c.parent[gpu[missing]] < 0]
        by_id = _by_external_id(core, has_node, c.external_id[gpu[alone]])
        found[alone], way[alone] = by_id, np.where(by_id >= 0, BY_EXTERNAL_ID, NO_LAUNCH)
    return Origins(found, way)


def _by_external_id(core: Core, has_node: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each External id the row of the only op that has it; -1 where there is none, or several."""
    c = core.columns
    ops = np.flatnonzero(has_node & (c.kind == Kind.Op) & (c.external_id != -1))
    ids, first, count = np.unique(c.external_id[ops], return_index=True, return_counts=True)
    if not len(ids):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where((ids[at] == wanted) & (count[at] == 1), ops[first[at]], -1)
