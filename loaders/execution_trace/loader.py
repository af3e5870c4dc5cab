"""From the file of an execution trace to its columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.errors import NotATraceError
from tracelens_graph.execution.trace import ExecutionTrace, ExecutionTraceInfo
from tracelens_graph.loaders.execution_trace.collect import NodeCollector
from tracelens_graph.loaders.execution_trace.records import NODES
from tracelens_graph.loaders.kineto.chunks import Walker
from tracelens_graph.loaders.sources import Source
from tracelens_graph.utils.arrays import Rows
from tracelens_graph.utils.gc_pause import garbage_collection_paused

_SPECIAL = "[pytorch|profiler|execution_"
"""How names of nodes begin that stand for the process or a thread."""


def load_execution_trace(source: Source) -> ExecutionTrace:
    """The execution trace in a file.

    What is broken is mended where that can be done, else left out, and either is counted.

    Raises:
        NotATraceError: it is something else; the message says what.
        TraceError: it cannot be read.
    """
    collector = NodeCollector()
    with source.open() as stream, garbage_collection_paused():
        walker = Walker(stream, source.name, NODES)
        walker.read_head()
        walker.walk(collector)
    if collector.entries and not collector.id:
        raise NotATraceError(
            f"{source.name}: is like an execution trace, but no node in it can be read{source.packing_fault}"
        )
    collector.repairs.update(walker.faults)
    collector.repairs.update(dict.fromkeys(source.faults, 1))
    return _columns(collector, {**walker.head, **walker.tail}, source)


def _columns(found: NodeCollector, beside: dict[str, Any], source: Source) -> ExecutionTrace:
    ids = np.frombuffer(found.id, np.int64)
    order = np.argsort(ids, kind="stable")  # of nodes with one id, the one written first
    again = np.zeros(len(ids), bool)
    again[1:] = ids[order[1:]] == ids[order[:-1]]
    if again.any():
        found.left_out["id of another node"] += int(again.sum())
        found.repairs["id_twice"] += int(again.sum())
        order = order[~again]
    ids = ids[order]
    row_of = np.full(len(found.id), -1, np.int64)
    row_of[order] = np.arange(len(order))
    more: dict[int, dict[str, Any]] = {}
    for place, key, value in found.more:
        if row_of[place] >= 0:
            more.setdefault(int(row_of[place]), {})[key] = value
    name = np.frombuffer(found.name, np.int32)[order]
    special = np.array([text.startswith(_SPECIAL) for text in found.names] or [False], bool)
    is_op = ~special[name]
    facts = {key: np.frombuffer(column, np.int64)[order] for key, column in found.facts.items()}
    parent = _rows_of(ids, np.frombuffer(found.parent, np.int64)[order])
    wrong = parent >= np.arange(len(ids))
    parent[wrong] = -1
    if lonely := int(np.count_nonzero((parent < 0) & is_op)):
        found.repairs["no_parent"] += lonely
    if found.odd_ids:
        found.repairs["odd_id"] += len(found.odd_ids)
    return ExecutionTrace(
        info=_info(found, beside, source),
        names=list(found.names),
        schemas=list(found.schemas),
        id=ids,
        name=name,
        schema=np.frombuffer(found.schema, np.int32)[order],
        parent=parent,
        rf_id=facts["rf_id"],
        sequence=facts["seq_id"],
        scope=facts["scope"],
        tid=facts["tid"],
        forward_tid=facts["fw_tid"],
        forward_parent=_rows_of(ids, facts["fw_parent"]),
        place=np.frombuffer(found.place, np.int64)[order],
        is_op=is_op,
        inputs=found.inputs.sides().take(order),
        outputs=found.outputs.sides().take(order),
        more=more,
    )


def _info(found: NodeCollector, beside: dict[str, Any], source: Source) -> ExecutionTraceInfo:
    def text(key: str) -> str:
        return beside[key] if isinstance(beside.get(key), str) else ""

    def number(key: str) -> int | None:
        value = beside.get(key)
        return value if type(value) is int and abs(value) < 2**63 else None

    return ExecutionTraceInfo(
        source=source.name,
        schema=text("schema"),
        pid=number("pid"),
        time=text("time"),
        start_ms=number("start_ts"),
        finish_ms=number("finish_ts"),
        entries=found.entries,
        left_out=dict(found.left_out),
        repairs=dict(found.repairs),
        lost_nodes=found.lost_nodes,
        lost_bytes=found.lost_bytes,
        cut_short=source.cut_short,
    )


def _rows_of(ids: np.ndarray, wanted: np.ndarray) -> Rows:
    """Rows of ids; -1 for those that there are not."""
    if not len(ids):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, at, -1)
