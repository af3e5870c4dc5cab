"""What a graph and an execution trace are joined by: names, ids, threads and order, alike for both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind

Pairs = tuple[np.ndarray, np.ndarray]
"""Places in the first and in the second side, of equal length."""

_JOINED = (Kind.Op, Kind.Annotation, Kind.Step)


@dataclass(eq=False)
class Side:
    """Ops and ranges of one of the two, thread by thread, on each in the order in which they began.

    Attributes:
        what: what it is called in messages.
        row: rows of the graph, or of the execution trace.
        name: codes of names, the same for both sides.
        thread: number of the thread.
        order: ascending with the beginning, over all threads.
        record_id, external_id: 0 where there is none.
        is_step: whether it is a range `ProfilerStep#n`.
    """

    what: str
    row: np.ndarray
    name: np.ndarray
    thread: np.ndarray
    order: np.ndarray
    record_id: np.ndarray
    external_id: np.ndarray
    is_step: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def of_graph(cls, core: Core, record_ids: np.ndarray) -> Side:
        """Ops, annotations and steps of a graph."""
        c = core.columns
        rows = np.flatnonzero(is_kind(c.kind, _JOINED))
        # Of equal times an annotation is the outer one; ops stand in the order of the call forest.
        keys = rows, c.kind[rows] == Kind.Op, -c.dur_ns[rows], c.start_ns[rows]
        order = np.empty(len(rows), np.int64)
        order[np.lexsort(keys)] = np.arange(len(rows))
        rows, order = (values[np.lexsort((order, c.thread[rows]))] for values in (rows, order))
        return cls(
            "trace", rows, c.name[rows].astype(np.int64), c.thread[rows].astype(np.int64), order, record_ids[rows],
            np.maximum(c.external_id[rows], 0), c.kind[rows] == Kind.Step,
        )  # fmt: skip

    @classmethod
    def of_execution_trace(cls, execution: ExecutionTrace, core: Core) -> Side:
        """Ops and ranges of an execution trace, with the codes that names have in a graph."""
        known = {name: code for code, name in enumerate(core.names)}
        codes = [known.setdefault(name, len(known)) for name in execution.names]
        rows = np.flatnonzero(execution.is_op)
        rows = rows[np.argsort(execution.tid[rows], kind="stable")]
        name = np.array(codes, np.int64)[execution.name[rows]]
        steps = [code for name, code in known.items() if name.startswith("ProfilerStep#")]
        return cls(
            "execution trace", rows, name, execution.tid[rows], rows, np.maximum(execution.rf_id[rows], 0),
            np.zeros(len(rows), np.int64), np.isin(name, steps),
        )  # fmt: skip
