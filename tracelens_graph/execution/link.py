"""What links a graph with the execution trace of its run; tensors and storages of the graph that follow from it.

These have names, and it is known who touched them, and when. An operator of the execution trace that did not join has
no row in the graph; its uses are part of a tensor's life all the same, without a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracelens_graph.execution.lineage import Lineage, lineage
from tracelens_graph.execution.tensor_uses import describe
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows
from tracelens_graph.utils.texts import file_name

if TYPE_CHECKING:
    from tracelens_graph.graph.context import Context

_MOST_SHOWN = 3
"""Tensors of each side of an op that its line shows; then their number."""


@dataclass(eq=False, repr=False)
class Link:
    """Nodes of a graph and those of an execution trace that stand for the same operator or range.

    Attributes:
        execution: the execution trace.
        node_of_row: for each row of the graph the row of its node in the execution trace, -1 for none.
        row_of_node: for each row of the execution trace the row of its node in the graph, -1 for none.
        method: how they were joined, for people.
        equal_names_percent: share of the pairs whose names are equal.
        unjoined: why -> number of ops and annotations of the graph, and nodes of the execution trace, without partner.
        is_same_process: whether both name one process; False for two runs of a program, None if one names none.
    """

    execution: ExecutionTrace
    node_of_row: Rows
    row_of_node: Rows
    method: str
    equal_names_percent: float
    unjoined: Mapping[str, int]
    is_same_process: bool | None = None

    def __repr__(self) -> str:
        return f"<Link: {self.summary}>"

    @property
    def summary(self) -> str:
        """One line: how many nodes are joined and how, and why others are not."""
        joined, nodes = int((self.row_of_node >= 0).sum()), int(self.execution.is_op.sum())
        alone = "; ".join(f"{why} ({count:,})" for why, count in self.unjoined.items())
        return (
            f"linked with {file_name(self.execution.info.source)}: {joined:,} of {nodes:,} nodes by {self.method}, "
            f"{self.equal_names_percent:.1f} % of the names are equal"
            + ("; two runs of one program: their process ids differ" if self.is_same_process is False else "")
            + (f"; not joined: {alone}" if alone else "")
        )

    @property
    def damage(self) -> str:
        """What was repaired in the execution trace, or lost of it; empty if it is sound."""
        return self.execution.info.damage

    @cached_property
    def lineage(self) -> Lineage:
        """The tensors and storages of the execution trace: who made, read and wrote each."""
        return lineage(self.execution)

    def arguments(self, core: Core, row: int) -> str:
        """Tensors that the op of a row of the graph takes and makes, in one line; empty for none."""
        return core.once(_tensors, self).line(row)


def link_of(core: Core) -> Link | None:
    """What links a graph with an execution trace; None without one."""
    if core.link is None:
        return None
    assert isinstance(core.link, Link)
    return core.link


def tensors_of(core: Core) -> GraphTensors | None:
    """Tensors and storages of a graph; None without an execution trace."""
    link = link_of(core)
    return None if link is None else core.once(_tensors, link)


def _tensors(core: Core, link: Link) -> GraphTensors:
    return GraphTensors(core.columns, link, core.framework.has_times)


class Spans(NamedTuple):
    """From when to when things are alive, ns from the trace's start; both -1 where no use is in the graph."""

    start_ns: Ns
    end_ns: Ns


class GraphTensors:
    """Tensors and storages of a graph.

    Attributes:
        lineage: what is known of them.
        row: per use the row of its node in the graph, -1 for none.
    """

    def __init__(self, columns: Columns, link: Link, has_times: bool) -> None:
        self._columns, self._has_times = columns, has_times
        self.lineage: Lineage = link.lineage
        self.row = link.row_of_node[self.lineage.uses.node]
        self._row_of_node = link.row_of_node

    def rows_of_nodes(self, nodes: Rows) -> Rows:
        """Rows of nodes of the execution trace; -1 for -1 and for those that did not join."""
        return np.where(nodes >= 0, self._row_of_node[nodes], -1)

    # --- names -----------------------------------------------------------------------------------------------

    @cached_property
    def _tensor_versions(self) -> np.ndarray:
        return _is_reused(self.lineage.tensors.id)

    @cached_property
    def _storage_versions(self) -> np.ndarray:
        return _is_reused(self.lineage.storages.id)

    def tensor_name(self, number: int) -> str:
        """Such as `t123`; `t123#2` for the second tensor with an id that was used again."""
        known = self.lineage.tensors
        return f"t{known.id[number]}" + (f"#{known.version[number]}" if self._tensor_versions[number] else "")

    def storage_name(self, number: int) -> str:
        """Such as `s124`; `s124#2` for the second storage with an id that was used again."""
        known = self.lineage.storages
        return f"s{known.id[number]}" + (f"#{known.version[number]}" if self._storage_versions[number] else "")

    def form(self, use: int) -> str:
        """Type and sizes of a tensor at a use: `float32[16384,4096]`."""
        known = self.lineage.uses
        return describe(known.shapes[known.shape[use]], known.dtypes[known.dtype[use]])

    @cached_property
    def form_use(self) -> np.ndarray:
        """Per tensor the use that shows its form: the first one with elements, for many are made empty and resized."""
        known = self.lineage
        order = np.lexsort((known.moment, known.uses.elements <= 0, known.tensor))
        return order[np.searchsorted(known.tensor[order], np.arange(len(known.tensors)))]

    def tensor_text(self, number: int) -> str:
        """Name, type and sizes of a tensor: `t123: float32[16384,4096]`."""
        return f"{self.tensor_name(number)}: {self.form(int(self.form_use[number]))}"

    def bytes_of(self, number: int) -> int:
        """Size of a tensor's elements; what 64 bits cannot hold is cut."""
        known, use = self.lineage.uses, self.form_use[number]
        return max(min(int(known.elements[use]) * int(known.itemsize[use]), 2**63 - 1), 0)

    def device_of(self, number: int) -> str:
        """The device of a tensor, such as `cuda:0`."""
        known = self.lineage.uses
        return known.devices[known.device[self.form_use[number]]]

    # --- by op -----------------------------------------------------------------------------------------------

    @cached_property
    def _by_row(self) -> tuple[np.ndarray, np.ndarray]:
        # Stable: uses of one row keep the order of its arguments and results.
        order = np.argsort(self.row, kind="stable")
        return order, self.row[order]

    def uses_at(self, row: int) -> tuple[list[int], list[int]]:
        """Uses of a row of the graph: arguments and results, in their order."""
        order, rows = self._by_row
        low, high = np.searchsorted(rows, (row, row + 1))
        here = order[low:high]
        results = self.lineage.uses.is_output[here]
        return here[~results].tolist(), here[results].tolist()

    def line(self, row: int) -> str:
        """Arguments and results of a row, short: `(t1: float32[2,3], t2: ...) -> t4: ...`; empty for none."""
        inputs, outputs = map(self._some, self.uses_at(row))
        if not (inputs or outputs):
            return ""
        return f"({inputs})" + (f" -> {outputs}" if outputs else "")

    def _some(self, uses: list[int]) -> str:
        more = len(uses) - _MOST_SHOWN
        return ", ".join(map(self._shown, uses[:_MOST_SHOWN])) + (f", {more} more" if more > 0 else "")

    def _shown(self, use: int) -> str:
        return f"{self.tensor_name(int(self.lineage.tensor[use]))}: {self.form(use)}"

    @cached_property
    def edges(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """CONSUMES, WRITES, PRODUCES -> rows of the graph and numbers of tensors, by tensor, then uid."""
        known, uid = self.lineage, self._columns.uid
        makers = self.rows_of_nodes(known.tensors.producer)
        made = np.flatnonzero(makers >= 0)
        found = {
            "CONSUMES": _pairs(self.row, known.tensor, (self.row >= 0) & known.reads),
            "WRITES": _pairs(self.row, known.tensor, (self.row >= 0) & known.writes),
            "PRODUCES": (makers[made], made),
        }
        orders = {name: np.lexsort((uid[rows], tensors)) for name, (rows, tensors) in found.items()}
        return {name: (rows[orders[name]], tensors[orders[name]]) for name, (rows, tensors) in found.items()}

    @cached_property
    def stored_in(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct pairs of a tensor and a storage that it lies on at a use in the graph, by tensor."""
        known = self.lineage
        return _pairs(known.tensor, known.storage, (self.row >= 0) & (known.storage >= 0))

    def storages_of(self, tensors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Storages that tensors lie on, and for each the place of its tensor; one that was resized has several."""
        tensor, storage = self.stored_in
        low, high = (np.searchsorted(tensor, tensors, side) for side in ("left", "right"))
        places, of = expanded(low, high)
        return storage[places], of

    def storage_of(self, tensor: int) -> int:
        """The storage of a tensor, of several the one that came last; -1 for none."""
        found, _ = self.storages_of(np.array([tensor]))
        known, start = self.lineage.storages, self.storage_spans.start_ns
        order = np.lexsort((known.version[found], known.id[found], start[found]))
        return int(found[order[-1]]) if len(found) else -1

    # --- times -----------------------------------------------------------------------------------------------

    @cached_property
    def tensor_spans(self) -> Spans:
        """From the start of the op that made each tensor, else its first use, to the end of the last op with it."""
        known = self.lineage
        return self._spans(known.tensor, len(known.tensors), known.tensors.producer, False)

    @cached_property
    def storage_spans(self) -> Spans:
        """The same of storages; those that were there before, or made out of sight, are alive from the start on."""
        known = self.lineage
        return self._spans(known.storage, len(known.storages), known.storages.producer, True)

    def _spans(self, number: np.ndarray, count: int, producer: Rows, from_start: bool) -> Spans:
        c = self._columns
        there = (self.row >= 0) & (number >= 0)
        rows, number = self.row[there], number[there]
        start, end = np.full(count, 2**62), np.full(count, -1)
        np.minimum.at(start, number, c.start_ns[rows])
        np.maximum.at(end, number, c.end_ns[rows])
        made = self.rows_of_nodes(producer)
        start = np.where(made >= 0, c.start_ns[made] if len(c) else 0, start)
        if from_start:
            start = np.where(producer < 0, 0, start)
        return Spans(np.where(end < 0, -1, start), end)

    # --- facts -----------------------------------------------------------------------------------------------

    def facts_of_tensor(self, number: int) -> dict[str, Any]:
        """Properties of a tensor as a node, by name."""
        known, uses = self.lineage.tensors, self.lineage.uses
        use, spans = int(self.form_use[number]), self.tensor_spans
        strides = uses.all_strides[uses.strides[use]]
        return {
            "name": self.tensor_text(number),
            "tensor_id": int(known.id[number]),
            "version": int(known.version[number]),
            "dtype": uses.dtypes[uses.dtype[use]],
            "shape": json.dumps(uses.shapes[uses.shape[use]]),
            "strides": None if strides is None else json.dumps(strides),
            "offset": int(uses.offset[use]),
            "elements": int(uses.elements[use]),
            "bytes": self.bytes_of(number),
            "on": self.device_of(number),
            **self._times(spans, number),
        }

    def facts_of_storage(self, number: int) -> dict[str, Any]:
        """Properties of a storage as a node, by name."""
        known = self.lineage.storages
        made = int(self.rows_of_nodes(known.producer[number : number + 1])[0])
        return {
            "name": self.storage_name(number),
            "storage_id": int(known.id[number]),
            "version": int(known.version[number]),
            "bytes": int(known.bytes[number]),
            "on": self.lineage.uses.devices[known.device[number]],
            "made_by": int(self._columns.uid[made]) if made >= 0 else None,
            **self._times(self.storage_spans, number),
        }

    def _times(self, spans: Spans, number: int) -> dict[str, int]:
        if not self._has_times:
            return {}
        return {"start_ns": int(spans.start_ns[number]), "end_ns": int(spans.end_ns[number])}


def _pairs(row: Codes, tensor: Codes, kept: Mask) -> tuple[Codes, Codes]:
    """Distinct pairs of row and tensor."""
    pairs = np.unique(np.stack((row[kept], tensor[kept]), axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _is_reused(ids: np.ndarray) -> Mask:
    """Whether others have the same id."""
    _, back, count = np.unique(ids, return_inverse=True, return_counts=True)
    return np.asarray(count[back] > 1)


def add_tensors(context: Context, core: Core) -> None:
    """Add tensors that ops of a graph use to its context, with their storages, and the edges to and among them."""
    tensors = tensors_of(core)
    if tensors is None:
        return
    known = tensors.lineage
    of_tensor, of_storage = (
        {
            number: context.add(f"{kind.lower()}:{of.id[number]}:{of.version[number]}", kind, **facts(number))
            for number in np.unique(used).tolist()
        }
        for kind, of, used, facts in (
            ("Tensor", known.tensors, known.tensor[tensors.row >= 0], tensors.facts_of_tensor),
            ("Storage", known.storages, tensors.stored_in[1], tensors.facts_of_storage),
        )
    )
    for tensor, storage in zip(*(side.tolist() for side in tensors.stored_in), strict=True):
        context.join("STORED_IN", of_tensor[tensor], of_storage[storage])
    for number, node in of_tensor.items():
        base = int(known.tensors.view_of[number])
        if base in of_tensor:
            context.join("VIEW_OF", node, of_tensor[base])
    for name, (rows, numbers) in tensors.edges.items():
        if len(rows):
            context.join_events(name, rows, numbers, of_tensor.__getitem__)
