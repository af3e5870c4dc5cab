"""The life of a tensor or a storage: made by whom, viewed, read and written by whom, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import GPU_TIME, names_of, uids_of
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.tensors.storages import NO_TENSORS, KernelsOfOps
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.execution.lineage import Storages, Tensors
from tracelens_graph.execution.link import GraphTensors, tensors_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import step_number, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import either

_NODE = Column("id of that op in the execution trace", role=Role.uid, heading="node", drop_priority=0)

TENSOR_LIFE = TableSchema(
    "tensor_life",
    "Every use of a tensor or storage, in order.",
    {
        "what": Column.key("made, viewed, read, written, or passed on: given out again by an op around"),
        "tensor": Column.key("name of the tensor", "tensor"),
        "form": Column.text("its type and sizes then", "form"),
        "op": Column.text("name of the op", "op", drop_priority=0),
        "argument": Column.text(
            "which argument or result of the op it is; n[m] for the m-th of a list", "argument", drop_priority=0
        ),
        "node": _NODE,
        "uid": Column.uid("the op in the trace; absent where it did not join"),
        "module": Column.text("innermost nn.Module around the op", "module", drop_priority=2),
        "step": Column("n of the ProfilerStep#n that holds the op", heading="step", drop_priority=2),
        "at_ms": Column.moment("start of the op", "ms"),
        "kernels": Column.count("GPU events charged to the op", "kernels", drop_priority=2),
        "gpu_time_us": GPU_TIME,
        "kernel": Column.text("the longest of them", "longest kernel", drop_priority=2),
    },
)

TENSOR_VERSIONS = TableSchema(
    "tensor_versions",
    "The tensors and storages that had an id.",
    {
        "name": Column.key("name of the tensor or storage", "name"),
        "form": Column.text("type and sizes of a tensor", "form"),
        "bytes": Column("size; of a storage the least that it can have", "B", heading="bytes"),
        "device": Column.text("where it is", "device", drop_priority=2),
        "made_by": Column.text(
            "op that made it; absent where it was there before, or was made out of sight", "made by", drop_priority=0
        ),
        "node": _NODE,
        "uses": Column.count("places where it is argument or result", "uses", drop_priority=2),
        "last_used_by": Column.text("op of the last use", "last used by", drop_priority=3),
    },
)


_NAME = re.compile(r"([ts]?)([0-9]{1,19})(?:#([0-9]{1,19}))?")
_NEAR = 3


class Thing(NamedTuple):
    """A tensor or a storage: its number in the lineage."""

    is_storage: bool
    number: int


def known_tensors(core: Core) -> GraphTensors:
    """The tensors of a graph.

    Raises:
        AnalysisError: it is not linked with an execution trace.
    """
    found = tensors_of(core)
    if found is None:
        raise AnalysisError(f"{core.info.source}: {NO_TENSORS}")
    return found


def find_things(core: Core, name: str) -> list[Thing]:
    """Tensors and storages with a name or an id: tensors first, by version.

    Args:
        name: `t123` or `s123`, with `#2` for the second one with this id; an id alone for whatever has it.

    Raises:
        AnalysisError: the graph is not linked with an execution trace, or this is not a name.
        NodeNotFoundError: there is none; the message names near ones.
    """
    lineage = known_tensors(core).lineage
    asked = _NAME.fullmatch(name)
    if not asked:
        raise AnalysisError(f"{name!r:.60} is not the id of a tensor, such as 123, t123, s123 or t123#2")
    letter, number, version = asked[1], int(asked[2]), asked[3]
    found, near = [], []
    kinds: tuple[tuple[bool, str, Tensors | Storages], ...]
    kinds = (False, "t", lineage.tensors), (True, "s", lineage.storages)
    for is_storage, kind, of in kinds:
        if letter not in ("", kind) and (of.id == number).any():
            near.append((0, f"{kind}{number}"))
        if letter in ("", kind):
            here = np.flatnonzero(of.id == number) if number < 2**63 else np.zeros(0, np.int64)
            chosen = here if version is None else here[of.version[here] == int(version)]
            found += [Thing(is_storage, one) for one in chosen.tolist()]
            ids = np.unique(of.id[of.id > 0])
            near += [(abs(int(one) - number), f"{kind}{one}") for one in ids[_nearest(ids, number)].tolist()]
            if version is not None and len(here) and not len(chosen):
                raise NodeNotFoundError(
                    f"{core.info.source}: there is no {name}; {kind}{number} has {len(here)} version"
                    f"{'s' if len(here) > 1 else ''}"
                )
    if not found:
        what = {"t": "tensor", "s": "storage", "": "tensor or storage"}[letter]
        hint = either([one for _, one in sorted(near)[:_NEAR]]) if near else "nothing"
        raise NodeNotFoundError(f"{core.info.source}: there is no {what} {number}; near it there is {hint}")
    return found


def _nearest(ids: np.ndarray, number: int) -> slice:
    at = int(np.searchsorted(ids, min(number, 2**63 - 1)))
    return slice(max(at - _NEAR, 0), at + _NEAR)


def describe_thing(core: Core, thing: Thing) -> list[str]:
    """What it is, who made it, what it is a view of and what views it, and from when to when: a line each."""
    tensors = known_tensors(core)
    lineage = tensors.lineage
    maker = int((lineage.storages if thing.is_storage else lineage.tensors).producer[thing.number])
    made = _op(core, tensors, maker) if maker >= 0 else "not in the trace: there before, or made out of sight"
    if thing.is_storage:
        tensors_on = np.unique(lineage.tensor[lineage.storage == thing.number])
        device = lineage.uses.devices[lineage.storages.device[thing.number]]
        size = int(lineage.storages.bytes[thing.number])
        head = f"{tensors.storage_name(thing.number)}: storage of at least {size:,} bytes on {device}"
        lines = [head, f"allocated by: {made}", f"tensors: {_listed(tensors, tensors_on.tolist())}"]
    else:
        use = int(tensors.form_use[thing.number])
        strides = lineage.uses.all_strides[lineage.uses.strides[use]]
        storage = int(lineage.storage[use])
        head = f"{tensors.tensor_text(thing.number)}, {tensors.bytes_of(thing.number):,} bytes"
        head += f" on {tensors.device_of(thing.number)}"
        head += "" if strides is None else f", strides {list(strides)}"
        if storage >= 0:
            head += f", at element {lineage.uses.offset[use]:,} of storage {tensors.storage_name(storage)}"
        lines = [head, f"made by: {made}"]
        if (base := int(lineage.tensors.view_of[thing.number])) >= 0:
            lines.append(f"view of: {tensors.tensor_text(base)}")
        if len(views := np.flatnonzero(lineage.tensors.view_of == thing.number)):
            lines.append(f"views: {_listed(tensors, views.tolist())}")
    return [*lines, *_alive(core, tensors, thing)]


def _alive(core: Core, tensors: GraphTensors, thing: Thing) -> list[str]:
    """From when to when it is alive, in a line; none where no time is known."""
    lineage, number = tensors.lineage, thing.number
    of = lineage.storages if thing.is_storage else lineage.tensors
    spans = tensors.storage_spans if thing.is_storage else tensors.tensor_spans
    start, end = (core.info.shown_ms(int(one[number])) for one in spans)
    if not core.framework.has_times or spans.end_ns[number] < 0:
        return []
    begin = f"from {start:,.3f} ms"
    if of.producer[number] < 0:
        begin = "from before the recording"
        if of.version[number] > 1:  # something else had its id in the recording
            rows = tensors.row[(lineage.storage if thing.is_storage else lineage.tensor) == number]
            first = int(core.columns.start_ns[rows[rows >= 0]].min())
            begin = f"made out of sight, before {core.info.shown_ms(first):,.3f} ms,"
    return [f"alive: {begin} to {end:,.3f} ms, the end of the last op that uses it"]


def _op(core: Core, tensors: GraphTensors, node: int) -> str:
    execution = tensors.lineage.execution
    row = int(tensors.rows_of_nodes(np.array([node]))[0])
    where = f"uid {core.columns.uid[row]}" if row >= 0 else "not joined"
    return f"{execution.names[execution.name[node]]} (node {execution.id[node]}, {where})"


def _listed(tensors: GraphTensors, numbers: Sequence[int], most: int = 8) -> str:
    more = len(numbers) - most
    return ", ".join(map(tensors.tensor_text, numbers[:most])) + (f" and {more:,} more" if more > 0 else "")


def tensor_life(core: Core, thing: Thing) -> Table:
    """Every use of a tensor, or of the tensors of a storage, in order, with the kernels of the op."""
    tensors = known_tensors(core)
    lineage, c = tensors.lineage, core.columns
    of_thing = lineage.storage if thing.is_storage else lineage.tensor
    uses = np.flatnonzero(of_thing == thing.number)
    uses = uses[np.lexsort((uses, lineage.moment[uses]))]
    rows, nodes = tensors.row[uses], lineage.uses.node[uses]
    joined = rows >= 0
    module = np.where(joined, nearest_above(c, rows, (Kind.Module,)), -1) if len(c) else rows
    step = np.where(joined, core.step[rows], -1) if len(c) else rows
    events, place = KernelsOfOps(window_of(core, needs_times=False)).of(rows)
    longest: list[str | None] = [None] * len(uses)
    for event, at in sorted(zip(events.tolist(), place.tolist(), strict=True), key=lambda pair: int(c.dur_ns[pair[0]])):
        longest[at] = core.names[c.name[event]]
    number = lineage.tensor[uses].tolist()
    execution = lineage.execution
    columns: dict[str, Cells] = {
        "what": [_what(tensors, use) for use in uses.tolist()],
        "tensor": [tensors.tensor_name(one) for one in number],
        "form": [tensors.form(use) for use in uses.tolist()],
        "op": [execution.names[code] for code in execution.name[nodes].tolist()],
        "argument": [_argument(tensors, use) for use in uses.tolist()],
        "node": execution.id[nodes],
        "uid": uids_of(core, rows),
        "module": names_of(core, module),
        "step": [None if name is None else step_number(name) for name in names_of(core, step)],
        "at_ms": [
            core.info.shown_ms(int(c.start_ns[row])) if row >= 0 and core.framework.has_times else None
            for row in rows.tolist()
        ],
        "kernels": np.bincount(place, minlength=len(uses)),
        "gpu_time_us": sum_by_group(place, c.dur_ns[events], len(uses)) / 1e3,
        "kernel": longest,
    }
    name = tensors.storage_name(thing.number) if thing.is_storage else tensors.tensor_text(thing.number)
    left_out = () if len(core.gpu_rows) else _OF_KERNELS
    left_out += () if core.framework.has_times else ("at_ms",)
    left_out += () if (c.kind == Kind.Module).any() else ("module",)
    left_out += () if (c.kind == Kind.Step).any() else ("step",)
    columns = {key: cells for key, cells in columns.items() if key not in left_out}
    return TENSOR_LIFE.table(columns, f"Life of {name}")


def versions(core: Core, things: Sequence[Thing]) -> Table:
    """Tensors and storages beside one another, such as those that had one id."""
    tensors = known_tensors(core)
    lineage = tensors.lineage
    execution = lineage.execution
    rows = []
    for thing in things:
        of = lineage.storages if thing.is_storage else lineage.tensors
        uses = np.flatnonzero((lineage.storage if thing.is_storage else lineage.tensor) == thing.number)
        last = int(uses[np.argmax(lineage.moment[uses])])
        maker = int(of.producer[thing.number])
        number = thing.number
        rows.append((
            tensors.storage_name(number) if thing.is_storage else tensors.tensor_name(number),
            None if thing.is_storage else tensors.form(int(tensors.form_use[number])),
            int(lineage.storages.bytes[number]) if thing.is_storage else tensors.bytes_of(number),
            lineage.uses.devices[lineage.uses.device[last]],
            execution.names[execution.name[maker]] if maker >= 0 else None,
            int(execution.id[maker]) if maker >= 0 else None,
            len(uses),
            execution.names[execution.name[lineage.uses.node[last]]],
        ))  # fmt: skip
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(TENSOR_VERSIONS)}
    return TENSOR_VERSIONS.table(columns, "Tensors and storages with this id; name one of them")


_OF_KERNELS: tuple[str, ...] = ("kernels", "gpu_time_us", "kernel")
"""Columns that are left out of a trace without GPU work, as others are where a trace has nothing of the kind."""


def _what(tensors: GraphTensors, use: int) -> str:
    lineage = tensors.lineage
    if lineage.makes[use]:
        return "made" if lineage.tensors.view_of[lineage.tensor[use]] < 0 else "viewed"
    if lineage.writes[use]:
        return "read, written" if lineage.reads[use] else "written"
    if lineage.reads[use]:
        return "read"
    return "passed on"


def _argument(tensors: GraphTensors, use: int) -> str:
    lineage = tensors.lineage.uses
    text = f"{'result' if lineage.is_output[use] else 'argument'} {lineage.position[use]}"
    return text if lineage.element[use] < 0 else f"{text}[{lineage.element[use]}]"
