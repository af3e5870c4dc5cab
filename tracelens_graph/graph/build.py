"""From a table of events to the graph: call forest, launches, row order, owners."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import fitting, is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.details import Details, NoDetails
from tracelens_graph.graph.flows import Flows, dependencies, link_by_flow, link_by_id
from tracelens_graph.graph.forest import build_forest
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.graph.programs import CompiledProgram, CompiledPrograms
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema import (
    DEVICE_KINDS,
    GPU_KINDS,
    HOST_KINDS,
    LAYER_KINDS,
    NESTING_RANK,
    Flag,
    Kind,
    OwnerRule,
)
from tracelens_graph.utils.arrays import Codes, Mask, Rows
from tracelens_graph.utils.gc_pause import MANY, give_memory_back

PASSES_ON = ("execute",)
"""Ops that only stand for the op above them, which is charged instead."""

_RANK_OF_KIND = np.zeros(256, np.uint8)
_RANK_OF_KIND[list(NESTING_RANK)] = list(NESTING_RANK.values())


@dataclass
class EventTable:
    """What a loader hands over: events in any order, every other fact of the trace beside them.

    Attributes:
        columns: one array per stored property but parent, last, depth, owner and owner_rule. Without `uid` the uid of
            an event is its position; without `device` and `stream` these are what threads of device events are called.
        names, threads, argsets: the tables that `name`, `thread` and `argset` point into.
        autograd_flows, launch_flows: ends of arrows, times as in `start_ns`.
        collectives: (uid, collective arguments) of ops and kernels that have them.
        info: the trace's facts; its `start_epoch_ns` and `lead_ns` are set here.
        details: where the arguments of single events can be looked up.
        of_graphs: positions of GPU events that a graph launched, and that name themselves what they belong to.
        programs: compiled programs that ops are of.
        sources: lines of source that their instructions come from.
        first_ns: earliest start of what viewers draw and is no event here, as in `start_ns`; None without any.
        instructions: for each argument set the facts of its instruction as JSON; none of PyTorch's traces.
    """

    columns: dict[str, np.ndarray]
    names: list[str]
    threads: list[tuple[Any, Any]]
    argsets: list[tuple[str, str, str, str]]
    autograd_flows: Flows = field(default_factory=Flows.of)
    launch_flows: Flows = field(default_factory=Flows.of)
    collectives: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    info: TraceInfo = field(default_factory=TraceInfo)
    details: Details = field(default_factory=NoDetails)
    of_graphs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    programs: tuple[CompiledProgram, ...] = ()
    sources: tuple[str, ...] = ()
    first_ns: int | None = None
    instructions: list[str] = field(default_factory=list)


def build_core(table: EventTable) -> Graph:
    """The graph of a table of events. The table's columns are taken over and must not be used again."""
    _sort_tables(table)
    columns = table.columns
    origin = _to_trace_start(columns)
    table.info.start_epoch_ns += origin
    if table.first_ns is not None:
        table.info.lead_ns = max(origin - table.first_ns, 0)
    autograd_flows, launch_flows = (flows.since(origin) for flows in (table.autograd_flows, table.launch_flows))
    kind = columns["kind"]
    host = np.flatnonzero(is_kind(kind, HOST_KINDS)).astype(np.int32)
    if "uid" in columns and not (columns["uid"][1:] > columns["uid"][:-1]).all():
        # Position settles ties in the call forest, and loaders that collect by family are not in file order.
        host = host[np.argsort(columns["uid"][host], kind="stable")]
    gpu = np.flatnonzero(is_kind(kind, GPU_KINDS))
    layer = np.flatnonzero(is_kind(kind, LAYER_KINDS))
    numbers = {name: _numbers(table.threads, part) for name, part in _PARTS.items()}
    _fill_devices(columns, np.flatnonzero(is_kind(kind, DEVICE_KINDS)), numbers)
    forest = build_forest(columns["thread"], columns["start_ns"], columns["dur_ns"], _RANK_OF_KIND[kind], host)
    host, nested = host[forest.order], {"parent": forest.parent, "last": forest.last, "depth": forest.depth}
    columns["flags"][host[forest.outlives]] |= Flag.outlives_parent.value
    del forest
    launch = _launches(columns, table.names, host, gpu, launch_flows)
    places = {name: _given(columns, numbers, name, gpu) for name in _PARTS}
    rows, arrays, gpu, lone = _rows(columns, host, gpu, layer, nested, launch, places)
    del host, places, kind, launch, layer
    if len(rows) > MANY:
        give_memory_back()
    for name in list(columns):  # one by one: each is as large as one of the graph's
        arrays[name] = _taken(columns.pop(name), rows)
    if "uid" not in arrays:
        arrays["uid"] = rows.astype(np.int64)
    by_name = np.zeros(0, bool)
    if len(table.of_graphs):
        by_name = np.isin(rows, table.of_graphs)
    del rows
    passes_on = np.isin(arrays["name"], [code for code, name in enumerate(table.names) if name in PASSES_ON])
    arrays["owner"], arrays["owner_rule"] = _owners(arrays["kind"], arrays["parent"], passes_on, gpu, lone)
    if len(by_name):
        arrays["owner_rule"][by_name & (arrays["owner_rule"] == OwnerRule.nearest_op)] = OwnerRule.hlo
    if len(passes_on) > MANY:
        give_memory_back()
    for name in _PARTS:
        if name not in arrays:
            narrow = numbers[name].astype(np.int32)
            column = (narrow if (narrow == numbers[name]).all() else numbers[name])[arrays["thread"]]
            column[~is_kind(arrays["kind"], DEVICE_KINDS)] = -1
            arrays[name] = column
    depends_on = (
        _dependencies(arrays, np.concatenate((gpu, lone)), launch_flows) if launch_flows else np.zeros((0, 2), np.int64)
    )
    programs, code, source = None, arrays.pop("program", None), arrays.pop("source", None)
    if code is not None and table.programs:
        ops = arrays["kind"] == Kind.Op
        programs = CompiledPrograms(table.programs, code[ops], table.sources, None if source is None else source[ops])
    return Graph(
        columns=Columns(arrays),
        names=table.names,
        threads=table.threads,
        argsets=table.argsets,
        autograd_flows=autograd_flows,
        depends_on=depends_on,
        collective_args=dict(table.collectives),
        info=table.info,
        details=table.details,
        programs=programs,
        instructions=table.instructions,
    )


def _taken(column: np.ndarray, rows: Rows) -> np.ndarray:
    """Rows of a column; one of a single value that is repeated, not stored, stays so."""
    return np.broadcast_to(column[:1], len(rows)) if column.strides == (0,) and len(rows) else column[rows]


def _to_trace_start(columns: dict[str, np.ndarray]) -> int:
    start = columns["start_ns"]
    if not len(start):
        return 0
    origin = int(start.min())
    start -= origin
    return origin


def _dependencies(arrays: dict[str, np.ndarray], gpu: Rows, flows: Flows) -> np.ndarray:
    """Rows of (successor, predecessor), for arrows from device to device."""
    thread = arrays["thread"][gpu]
    pairs = dependencies(flows, thread, arrays["start_ns"][gpu], set(np.unique(thread).tolist()))
    return gpu[np.array(pairs, np.int64).reshape(-1, 2)]


def _sort_tables(table: EventTable) -> None:
    """Names by text and threads by (pid, tid), numbers before text: codes that depend on nothing but the trace."""
    columns = table.columns
    table.names, code = _in_order(table.names, sorted(range(len(table.names)), key=table.names.__getitem__))
    columns["name"] = _recoded(columns["name"], code)
    table.threads, code = _in_order(table.threads, _order_of_threads(table.threads))
    columns["thread"] = _recoded(columns["thread"], code)
    table.autograd_flows, table.launch_flows = (
        flows.with_threads(code) for flows in (table.autograd_flows, table.launch_flows)
    )


def _recoded(column: np.ndarray, code: Codes) -> np.ndarray:
    """Each entry's new code, in the same memory where that is the column's own."""
    if not column.flags.writeable or column.dtype != code.dtype:
        return code[column]
    for first in range(0, len(column), _SLICE):
        column[first : first + _SLICE] = code[column[first : first + _SLICE]]
    return column


def _order_of_threads(threads: Sequence[tuple[Any, Any]]) -> list[int]:
    """Positions of threads by pid, then by tid. No key is made for each, which would take more than the threads do."""
    order = list(range(len(threads)))
    for part in (1, 0):
        texts = [i for i in order if isinstance(threads[i][part], str)]
        numbers = [i for i in order if not isinstance(threads[i][part], str)] if texts else order
        # Stable sorts, by tid first: pid comes last, and so counts most.
        for group in (numbers, texts):
            group.sort(key=lambda i: threads[i][part])
        order = numbers + texts
    return order


def _in_order(values: list[Any], order: list[int]) -> tuple[list[Any], np.ndarray]:
    """The values in an order, and for each old position the new one."""
    place = np.empty(len(values), np.int32)
    place[order] = np.arange(len(values))
    return [values[i] for i in order], place


_PARTS = {"device": 0, "stream": 1}
"""Columns of device events -> which part of their thread stands for it."""


def _numbers(threads: Sequence[tuple[Any, Any]], part: int) -> np.ndarray:
    """Of each thread the number that its process or thread is called by, as a device or a stream; -1 for none."""
    numbers = np.array([_number(thread[part]) for thread in threads] or [-1], np.int64)
    if part == _PARTS["device"]:
        numbers[abs(numbers) >= 2**31] = -1
    return numbers


def _fill_devices(columns: dict[str, np.ndarray], rows: Rows, numbers: Mapping[str, np.ndarray]) -> None:
    """Device and stream of device events that have no such arguments: their pid and tid."""
    for name, of_thread in numbers.items():
        if name in columns:
            lacking = rows[columns[name][rows] == -1]
            columns[name][lacking] = of_thread[columns["thread"][lacking]]


def _given(columns: Mapping[str, np.ndarray], numbers: Mapping[str, np.ndarray], name: str, rows: Rows) -> np.ndarray:
    """Device or stream of some device events."""
    return columns[name][rows] if name in columns else numbers[name][columns["thread"][rows]]


def _number(value: Any) -> int:
    if isinstance(value, int):
        return value if -(2**62) < value < 2**62 else -1
    digits = re.search(r"(\d{1,18})\s*$", value)
    return int(digits.group(1)) if digits else -1


_LAUNCHING = re.compile("launch|memcpy|memorycopy|memset|memoryfill", re.I)
"""Names of runtime calls that put work on a device. An op's other calls may share its External id."""


def _launches(columns: dict[str, np.ndarray], names: Sequence[str], host: Rows, gpu: Rows, flows: Flows) -> Rows:
    """For each GPU event the position of its launch in the host pre-order, -1 without one.

    Where neither side has a correlation id, arrows link, and where there is none, the External id that both have.
    """
    is_call = columns["kind"][host] == Kind.RuntimeCall
    calls = np.flatnonzero(is_call)
    correlation, start, thread = columns["correlation"], columns["start_ns"], columns["thread"]
    found = link_by_id(correlation[host[calls]], start[host[calls]], correlation[gpu], start[gpu])
    launch = np.where(found >= 0, calls[found] if len(calls) else -1, -1)
    lonely = np.flatnonzero(correlation[gpu] == -1)
    if flows and len(lonely):
        call_at = {
            (int(thread[host[i]]), int(start[host[i]])): int(i) for i in calls.tolist() if correlation[host[i]] == -1
        }
        gpu_at: dict[tuple[int, int], list[int]] = {}
        for i in lonely.tolist():
            gpu_at.setdefault((int(thread[gpu[i]]), int(start[gpu[i]])), []).append(i)
        for position, call in link_by_flow(flows, call_at, gpu_at).items():
            launch[position] = call
            columns["flags"][gpu[position]] |= Flag.linked_by_flow.value
    lonely = lonely[launch[lonely] < 0]
    if len(lonely) and "external_id" in columns:
        calls = calls[
            (correlation[host[calls]] == -1) & fitting(names, columns["name"][host[calls]], _LAUNCHING.search)
        ]
        external, lone = columns["external_id"], gpu[lonely]
        found = link_by_id(external[host[calls]], start[host[calls]], external[lone], start[lone])
        launch[lonely[found >= 0]] = calls[found[found >= 0]]
    linked = launch >= 0
    # Clocks of host and GPU agree only roughly: such an event is flagged, and keeps its launch.
    early = np.zeros(len(gpu), bool)
    early[linked] = start[gpu[linked]] < start[host[launch[linked]]]
    columns["flags"][gpu[early]] |= Flag.starts_before_launch.value
    return launch


def _rows(
    columns: dict[str, np.ndarray],
    host: Rows,
    gpu: Rows,
    layer: Rows,
    nested: dict[str, np.ndarray],
    launch: Rows,
    places: Mapping[str, np.ndarray],
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The order of all rows, parent, last and depth in that order, and rows of GPU events with and without a launch.

    `nested` holds the same three of host events among themselves, and is used up.

    Example: op A (pre-order 0) calls launch L (1), which launched kernels k2 and k1 (by start); op B (2) calls launch M
    (3), which launched m. The kernels of a launch stand behind the launch's last host descendant, so the rows are

        A  L  k2  k1  B  M  m        last: A 3, L 3, B 6, M 6
        0  1  2   3   4  5  6        parent: L 0, k2 1, k1 1, M 4, m 5

    A host event moves down by the number of GPU events before it (`before`). A GPU event stands behind the last host
    descendant of its launch plus all GPU events before it. GPU events without a launch follow, then the layers.
    """
    start, device, stream = columns["start_ns"], places["device"], places["stream"]

    def ties(events: np.ndarray) -> np.ndarray:
        return columns["uid"][events] if "uid" in columns else events

    hosts = len(host)
    linked, unlinked = np.flatnonzero(launch >= 0), np.flatnonzero(launch < 0)
    call = launch[linked]
    # A launch's GPU events stand behind its last host descendant; inner launches come before outer ones.
    slot = nested["last"][call]
    order = np.lexsort((ties(gpu[linked]), stream[linked], start[gpu[linked]], -nested["depth"][call], slot))
    linked, call, slot = linked[order], call[order], slot[order]
    del order
    host_row = np.empty(hosts, np.int32)
    for first in range(0, hosts, _SLICE):
        here = np.arange(first, min(first + _SLICE, hosts))
        # `left`: GPU events behind this very host event come after it.
        host_row[here] = here + np.searchsorted(slot, here, "left")
    gpu_row = slot + 1 + np.arange(len(linked))
    inside = hosts + len(linked)
    lone = gpu[unlinked]
    lone = lone[np.lexsort((ties(lone), start[lone], stream[unlinked], device[unlinked]))]
    dur, thread, kind = columns["dur_ns"], columns["thread"], columns["kind"]
    layer = layer[np.lexsort((ties(layer), -dur[layer], start[layer], thread[layer], kind[layer]))]
    total = inside + len(lone) + len(layer)

    rows = np.empty(total, np.int32)
    rows[host_row], rows[gpu_row] = host, gpu[linked]
    rows[inside:] = np.concatenate((lone, layer))
    parent = np.full(total, -1, np.int32)
    if hosts:
        above = host_row[nested["parent"]]
        # -1 has looked up the last host row, which is no parent of roots.
        above[nested.pop("parent") < 0] = -1
        parent[host_row] = above
        del above
    parent[gpu_row] = host_row[call]
    depth = np.zeros(total, np.int32)
    depth[gpu_row] = nested["depth"][call] + 1
    depth[host_row] = nested.pop("depth")
    last = np.arange(total, dtype=np.int32)
    last[host_row] += _below(nested.pop("last"), call)
    return rows, {"parent": parent, "last": last, "depth": depth}, gpu_row, np.arange(inside, inside + len(lone))


def _below(last: Rows, call: Rows) -> np.ndarray:
    """Of every host event the number of rows below it: host events, and GPU events that these and it launched.

    Args:
        last: position of the last descendant of each.
        call: position of the launch of each GPU event.
    """
    below, call = np.empty(len(last), np.int32), np.sort(call)
    for first in range(0, len(last), _SLICE):
        end = last[first : first + _SLICE]
        here = np.arange(first, first + len(end))
        launched = np.searchsorted(call, end + 1) - np.searchsorted(call, here) if len(call) else 0
        below[here] = end - here + launched
    return below


_SLICE = 1 << 18
"""Rows that are looked at together where any number will do."""


def _owners(kind: Codes, parent: Rows, passes_on: Mask, linked: Rows, unlinked: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The op each GPU event is charged to: the nearest one above its launch.

    An op that passes on is passed over where a further op stands above it.
    """
    owner = np.full(len(kind), -1, np.int32)
    rule = np.zeros(len(kind), np.uint8)
    # Kernels of a graph launch share it, so each launch is climbed from once.
    calls, back = np.unique(parent[linked], return_inverse=True)
    nearest = climb(parent, calls, kind == Kind.Op)
    if passes_on.any():
        above = climb(parent, calls, (kind == Kind.Op) & ~passes_on)
        nearest = np.where(above >= 0, above, nearest)
    owner[linked] = nearest[back]
    rule[linked] = np.where(owner[linked] >= 0, OwnerRule.nearest_op, OwnerRule.no_op)
    rule[unlinked] = OwnerRule.unlinked
    return owner, rule
