"""Where the content of tensors comes from: who made what an op reads, and what is copied again and again."""

from __future__ import annotations

from itertools import product

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import fitting_names, names_of, uids_of
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.tensors.storages import storages_by_row, without_tensors
from tracelens_graph.errors import AnalysisError
from tracelens_graph.execution.link import GraphTensors, tensors_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

TENSOR_MAKERS = TableSchema(
    "tensor_makers",
    "Who made what an op reads, who allocated its memory, and who wrote there last.",
    {
        "op": Column.text("name of the op that reads"),
        "tensor": Column.key("name, type and sizes of what it reads"),
        "bytes": Column("size of the tensor's elements", "B"),
        "made_by": Column.text("op that made the tensor; absent where it was there before, or was made out of sight"),
        "made_by_uid": Column.uid("that op"),
        "view_of": Column.text("what the tensor was made a view of; absent for none"),
        "storage": Column.text("the tensor's storage; absent for a tensor without elements"),
        "allocated_by": Column.text("op that allocated the storage; absent as for made_by"),
        "allocated_by_uid": Column.uid("that op"),
        "written_by": Column.text(
            "op that wrote last into the storage before this one began; absent where none did in place"
        ),
        "written_by_uid": Column.uid("that op"),
    },
)

COPY_CHAINS = TableSchema(
    "copy_chains",
    "Tensors that are copied or cast, and then copied again.",
    {
        "copies": Column("number of copies, one after another"),
        "bytes": Column("what they copied in all", "B"),
        "way": Column.text("tensors from the first source to the last copy, with >"),
        "devices": Column.text("devices of these, with >"),
        "first_op": Column.text("name of the op of the first copy"),
        "first_uid": Column.instance("that op"),
        "last_op": Column.text("name of the op of the last copy"),
        "last_uid": Column.uid("that op"),
    },
)


COPYING = ("aten::to", "aten::_to_copy", "aten::contiguous", "aten::clone", "aten::copy_")
"""Ops that copy a tensor, or cast it."""


def tensor_makers(g: Core | Window, uid: int | None = None) -> Table:
    """For each tensor that an op reads, the ops that made it, allocated its memory and wrote there last.

    Args:
        uid: the op; None for the one with the most GPU time below it of those that read tensors.

    Raises:
        NodeNotFoundError: no node has this uid.
        AnalysisError: the node is no op.
    """
    w = window_of(g, needs_times=False)
    core, c, tensors = w.core, w.core.columns, tensors_of(w.core)
    title = w.titled("Who made what an op reads")
    if tensors is None:
        return without_tensors(TENSOR_MAKERS, title)
    rows, numbers = tensors.edges["CONSUMES"]
    op = _costliest_reader(w, rows) if uid is None else core.row(uid)
    if uid is not None and c.kind[op] != Kind.Op:
        raise AnalysisError(f"uid {uid} is not an op: {Kind(int(c.kind[op])).name} {core.names[c.name[op]]!r:.60}")
    read = numbers[rows == op]
    known, storages = tensors.lineage.tensors, tensors.lineage.storages
    storage = np.array([tensors.storage_of(number) for number in read.tolist()], np.int64)
    made = tensors.rows_of_nodes(known.producer[read])
    allocated = np.where(storage >= 0, tensors.rows_of_nodes(storages.producer[storage]), -1)
    written = np.array([_last_writer(core, tensors, int(one), op) for one in storage.tolist()], np.int64)
    columns: dict[str, Cells] = {
        "op": names_of(core, np.full(len(read), op)),
        "tensor": [tensors.tensor_text(number) for number in read.tolist()],
        "bytes": [tensors.bytes_of(number) for number in read.tolist()],
        "made_by": names_of(core, made),
        "made_by_uid": uids_of(core, made),
        "view_of": [tensors.tensor_text(number) if number >= 0 else None for number in known.view_of[read].tolist()],
        "storage": [tensors.storage_name(number) if number >= 0 else None for number in storage.tolist()],
        "allocated_by": names_of(core, allocated),
        "allocated_by_uid": uids_of(core, allocated),
        "written_by": names_of(core, written),
        "written_by_uid": uids_of(core, written),
    }
    return TENSOR_MAKERS.table(columns, title)


def _costliest_reader(w: Window, rows: np.ndarray) -> int:
    c = w.core.columns
    ops = np.unique(rows)
    ops = ops[w.holds(ops) & (c.kind[ops] == Kind.Op)]
    return int(ops[np.argmax(w.core.gpu_sum_ns[ops])]) if len(ops) else -1


def _last_writer(core: Core, tensors: GraphTensors, storage: int, op: int) -> int:
    """The op that was the last to end of those that wrote into a storage before an op began; -1 for none."""
    c = core.columns
    rows, numbers = storages_by_row(tensors, "WRITES")
    before = rows[(numbers == storage) & (c.end_ns[rows] <= c.start_ns[op])] if storage >= 0 else rows[:0]
    return int(before[np.lexsort((before, c.end_ns[before]))[-1]]) if len(before) else -1


def copy_chains(g: Core | Window, min_copies: int = 2, top: int = 20) -> Table:
    """Copies and casts of data that was already copied or cast; the longest chains first, then the most bytes.

    A copy is an op such as `aten::copy_` that reads one storage and makes or writes another. It goes on with an earlier
    copy if it reads the storage that this one had filled, and nobody wrote there in between. A chain ends where no copy
    goes on; several that begin alike are several rows.

    Args:
        min_copies: least number of copies.
        top: number of rows; 0 for all.
    """
    w = window_of(g, needs_times=False)
    c, tensors = w.core.columns, tensors_of(w.core)
    title = w.titled("Chains of copies and casts")
    if tensors is None:
        return without_tensors(COPY_CHAINS, title)
    copies = _copies(w, tensors)
    before = _before(w.core, tensors, copies)
    length, total = (
        np.ones(len(copies), np.int64),
        np.array([tensors.bytes_of(into) for _, _, into in copies], np.int64),
    )
    for i, place in enumerate(before):  # in the order of their starts: what is before comes first
        if place >= 0:
            length[i] += length[place]
            total[i] += total[place]
    is_end = np.ones(len(copies), bool)
    is_end[[place for place in before if place >= 0]] = False
    ends = np.flatnonzero(is_end & (length >= min_copies))
    uids = c.uid[np.array([row for row, *_ in copies], np.int64)[ends]]
    ends = ends[np.lexsort((uids, -total[ends], -length[ends]))]
    ways = [_way(before, end) for end in (ends[:top] if top else ends).tolist()]
    numbers = [[copies[way[0]][1], *(copies[i][2] for i in way)] for way in ways]
    first, last = (np.array([copies[way[at]][0] for way in ways], np.int64) for at in (0, -1))
    columns: dict[str, Cells] = {
        "copies": [len(way) for way in ways],
        "bytes": [int(total[way[-1]]) for way in ways],
        "way": [" > ".join(map(tensors.tensor_text, one)) for one in numbers],
        "devices": [" > ".join(map(tensors.device_of, one)) for one in numbers],
        "first_op": names_of(w.core, first),
        "first_uid": c.uid[first],
        "last_op": names_of(w.core, last),
        "last_uid": c.uid[last],
    }
    return COPY_CHAINS.table(columns, title)


def _copies(w: Window, tensors: GraphTensors) -> list[tuple[int, int, int]]:
    """Row, tensor read, tensor filled of every copy between two storages, by start."""
    core, c = w.core, w.core.columns
    is_copying = fitting_names(core, COPYING.__contains__)
    known = tensors.lineage.tensors
    storage = _storages(tensors)
    sides: list[dict[int, list[int]]] = []
    for edges in (("CONSUMES",), ("WRITES", "PRODUCES")):
        side: dict[int, list[int]] = {}
        for rows, numbers in map(tensors.edges.__getitem__, edges):
            kept = is_copying[c.name[rows]] & (c.kind[rows] == Kind.Op) & w.holds(rows) & (storage[numbers] >= 0)
            for row, number in zip(rows[kept].tolist(), numbers[kept].tolist(), strict=True):
                side.setdefault(row, []).append(number)
        sides.append(side)
    read, filled = sides
    found = []
    for row in sorted(read.keys() & filled.keys(), key=lambda row: (c.start_ns[row], row)):
        ordered = (sorted(side[row], key=lambda one: (known.id[one], known.version[one])) for side in (read, filled))
        pairs = [(a, b) for a, b in product(*ordered) if storage[a] != storage[b]]
        if pairs:
            found.append((row, *pairs[0]))
    return found


def _before(core: Core, tensors: GraphTensors, copies: list[tuple[int, int, int]]) -> list[int]:
    """For each copy the place of the one that had filled what it reads, if nobody wrote there since; -1 for none."""
    c, storage = core.columns, _storages(tensors)
    rows, numbers = (
        np.concatenate(part)
        for part in zip(*(storages_by_row(tensors, edge) for edge in ("WRITES", "PRODUCES")), strict=True)
    )
    order = np.lexsort((rows, c.start_ns[rows], numbers))
    rows, numbers = rows[order], numbers[order]
    place = {(row, int(storage[into])): i for i, (row, _, into) in enumerate(copies)}
    found = []
    for row, source, _ in copies:
        read = int(storage[source])
        low, high = np.searchsorted(numbers, (read, read + 1))
        at = low + int(np.searchsorted(c.start_ns[rows[low:high]], c.start_ns[row])) - 1
        last = int(rows[at]) if at >= low else -1
        is_over = last >= 0 and c.end_ns[last] <= c.start_ns[row]
        found.append(place.get((last, read), -1) if is_over else -1)
    return found


def _storages(tensors: GraphTensors) -> np.ndarray:
    """The storage that each tensor lies on first; -1 for none."""
    tensor, storage = tensors.stored_in
    found = np.full(len(tensors.lineage.tensors), -1, np.int64)
    found[tensor[::-1]] = storage[::-1]
    return found


def _way(before: list[int], end: int) -> list[int]:
    way = [end]
    while before[way[-1]] >= 0:
        way.append(before[way[-1]])
    return way[::-1]
