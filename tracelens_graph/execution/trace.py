"""PyTorch's execution trace of one process: what its operators were given and what they made, without times.

Nodes are rows in the order of their ids, which is the order in which they began; a parent stands before its children.
Everything that is counted per node is a column; arguments stay JSON until someone looks at them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.execution.sides import Sides
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.utils.arrays import Codes, Mask, Rows


@dataclass
class ExecutionTraceInfo:
    """Facts about an execution trace beside its nodes.

    Attributes:
        source: where it was read from, for messages.
        schema: version text of the format, such as `1.1.1-chakra.0.0.4`; for people only.
        pid: id of the process.
        time: when it was begun, local time as text.
        start_ms, finish_ms: begin and end on the machine's steady clock, in ms.
        entries: number of entries in the file's list of nodes, those that could not be read included.
        left_out: why -> number of entries that became no node.
        repairs: fault -> number of nodes it was repaired in.
        lost_nodes, lost_bytes: what could not be read, as far as it could be counted.
        cut_short: bytes of JSON that could be read of a compressed file that ends before its end; 0 of a whole one.
    """

    source: str = ""
    schema: str = ""
    pid: int | None = None
    time: str = ""
    start_ms: int | None = None
    finish_ms: int | None = None
    entries: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    lost_nodes: int = 0
    lost_bytes: int = 0
    cut_short: int = 0

    @property
    def damage(self) -> str:
        """One line on what was repaired in the file and what was lost, with counts; empty for a sound file."""
        info = TraceInfo(
            events=self.entries, repairs=self.repairs, left_out=self.left_out, lost_events=self.lost_nodes,
            lost_bytes=self.lost_bytes, cut_short=self.cut_short, has_times=False,
        )  # fmt: skip
        return f"{self.source}: {info.damage}" if info.damage else ""


@dataclass(eq=False, repr=False)
class ExecutionTrace:
    """Nodes of an execution trace in columns.

    Attributes:
        info: facts beside the nodes.
        names: texts that `name` points into.
        schemas: texts that `schema` points into; the first is empty.
        id: ids of the nodes as the file gives them, ascending.
        name, schema: codes of the name and of the operator's schema.
        parent: row of the node that it ran in (its control dependency); -1 for the process.
        rf_id: id of the record function, 0 for none: what the profiler's trace calls `Record function id`.
        sequence: autograd's sequence number, -1 for none.
        scope: PyTorch's RecordScope: 0 function, 1 backward, 7 user.
        tid, forward_tid: PyTorch's own small number of the thread, and of the forward thread; 0 for none.
        forward_parent: row of the node that was open on the forward thread; -1 for none.
        place: position in the file: nodes are written when they end.
        is_op: whether it stands for an operator or a range, not for the process or a thread.
        inputs, outputs: arguments and results of each node.
        more: row -> further attributes that were recorded, such as `kernel_file` and those of collectives.
    """

    info: ExecutionTraceInfo
    names: list[str]
    schemas: list[str]
    id: np.ndarray
    name: Codes
    schema: np.ndarray
    parent: Rows
    rf_id: np.ndarray
    sequence: np.ndarray
    scope: np.ndarray
    tid: np.ndarray
    forward_tid: np.ndarray
    forward_parent: np.ndarray
    place: Rows
    is_op: Mask
    inputs: Sides
    outputs: Sides
    more: dict[int, dict[str, Any]]

    def __len__(self) -> int:
        return len(self.id)

    def __repr__(self) -> str:
        return f"<ExecutionTrace {self.info.source!r}: {len(self):,} nodes>"

    def row(self, node: int) -> int:
        """The row of a node's id; -1 if no node has it."""
        at = int(np.searchsorted(self.id, node)) if 0 <= node < 2**63 else len(self)
        return at if at < len(self) and self.id[at] == node else -1

    @cached_property
    def last(self) -> np.ndarray:
        """Row of the last node that began inside each node, itself included."""
        last = np.arange(len(self))
        for row, parent in zip(range(len(self) - 1, -1, -1), self.parent[::-1].tolist(), strict=True):
            if parent >= 0 and last[row] > last[parent]:
                last[parent] = last[row]
        return last

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """When each node began and ended, as places in the one order of all beginnings and ends: 0 .. 2 n - 1.

        A node ends behind the last node that began inside it; of several that end there, the one written first.
        """
        n = len(self)
        when = np.concatenate((np.arange(n), self.last))
        is_end = np.repeat([0, 1], n)
        order = np.lexsort((np.concatenate((np.zeros(n, np.int64), self.place)), is_end, when))
        moment = np.empty(2 * n, np.int64)
        moment[order] = np.arange(2 * n)
        return moment[:n], moment[n:]
