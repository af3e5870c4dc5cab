"""From a networkx graph back to columns: nodes by their attributes, structure by the edges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tracelens_graph.errors import TraceError
from tracelens_graph.graph.arguments import ARGUMENTS, INSTRUCTION
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NoDetails
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.graph.node import PLAIN
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import (
    CONTEXT_KINDS,
    FLAG_MEANING,
    FOREST_KINDS,
    GPU_KINDS,
    HOST_KINDS,
    LAYER_KINDS,
    Kind,
    OwnerRule,
)
from tracelens_graph.utils.gc_pause import garbage_collection_paused

_NEEDED = ("kind", "name", "start_ns", "dur_ns")
_ARGUMENTS = (*ARGUMENTS, INSTRUCTION)
_BIT_OF = {meaning: flag.value for flag, meaning in FLAG_MEANING.items()}


@garbage_collection_paused()
def rebuild(graph: Any) -> Core:
    """The core of a graph that `to_networkx()` made, or that has the same attributes.

    Args:
        graph: nodes are uids with at least `kind`, `name`, `start_ns` and `dur_ns`; edges CALLS and LAUNCHES make
            the call forest. In a DiGraph the type of an edge is its attribute `type`, in a MultiDiGraph its key.

    Raises:
        TraceError: it is no such graph; the message names the node or edge.
    """
    events = [(_uid(node, data), data) for node, data in graph.nodes(data=True) if not _is_context(data)]
    table = _Table(events)
    edges = _edges_by_type(graph, {uid: place for place, (uid, _) in enumerate(events)})
    parent = _parents(table, edges)
    order, last, depth = _preorder(table, parent)
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.arange(len(order))
    parent = np.where(parent[order] >= 0, row_of[parent[order]], -1) if len(order) else parent
    arrays = {name: values[order] for name, values in table.columns.items()}
    arrays.update(parent=parent.astype(np.int32), last=last, depth=depth)
    arrays["owner"] = np.full(len(order), -1, np.int32)
    for source, target in edges.get("CHARGED_TO", ()):
        arrays["owner"][row_of[source]] = row_of[target]
    columns = Columns(arrays)
    columns = Columns({**arrays, **_owners_where_unknown(columns)})
    depends_on = row_of[np.array(edges.get("DEPENDS_ON", ()), np.int64).reshape(-1, 2)]
    flows = []
    for key, (forward, backward) in enumerate(edges.get("HAS_BACKWARD", ())):
        for phase, place in (("s", forward), ("f", backward)):
            flows.append((phase, key, int(table.columns["thread"][place]), int(table.columns["start_ns"][place])))
    return Graph(
        columns=columns, names=table.names, threads=table.threads, argsets=table.argsets, autograd_flows=flows,
        depends_on=depends_on, collective_args={}, info=_info(graph, table), details=NoDetails(),
        instructions=table.instructions,
    )  # fmt: skip


def _is_context(data: dict[str, Any]) -> bool:
    return data.get("kind") in CONTEXT_KINDS


def _uid(node: Any, data: dict[str, Any]) -> int:
    if not isinstance(node, int) or node < 0:
        raise TraceError(f"node {node!r}: an event is named by its uid, a number from 0 on")
    if lacking := [name for name in _NEEDED if name not in data]:
        raise TraceError(f"node {node}: the attribute {lacking[0]!r} is missing")
    if data["kind"] not in Kind.__members__:
        raise TraceError(f"node {node}: no kind of node is called {data['kind']!r}")
    return node


class _Table:
    """Attributes as columns, in the order of the networkx graph; tables of texts in the order of uids."""

    def __init__(self, events: list[tuple[int, dict[str, Any]]]) -> None:
        names: dict[str, int] = {}
        threads: dict[tuple[Any, Any], int] = {}
        argsets: dict[tuple[str, ...], int] = {}
        data = [attributes for _, attributes in events]
        by_uid = sorted(range(len(events)), key=lambda place: events[place][0])
        codes = np.full((3, len(events)), -1, np.int32)
        for place in by_uid:
            d = data[place]
            codes[0, place] = names.setdefault(str(d["name"]), len(names))
            codes[1, place] = threads.setdefault((d.get("pid", 0), d.get("tid", 0)), len(threads))
            if any(name in d for name in _ARGUMENTS):
                texts = tuple(_json(d[name]) if name in d else "" for name in _ARGUMENTS)
                codes[2, place] = argsets.setdefault(texts, len(argsets))
        self.names, self.threads = list(names), list(threads)
        self.argsets: list[Any] = [texts[:4] for texts in argsets]
        own = [texts[4] for texts in argsets]
        self.instructions = own if any(own) else []
        self.columns: dict[str, np.ndarray] = dict(zip(("name", "thread", "argset"), codes, strict=True))
        self.columns["kind"] = np.array([Kind[d["kind"]] for d in data], np.uint8)
        for prop in PLAIN:
            default = 0 if prop.absent is None else prop.absent
            self.columns[prop.name] = np.array([d.get(prop.name, default) for d in data], prop.dtype)
        self.columns["uid"] = np.array([uid for uid, _ in events], np.int64)
        rules = OwnerRule.__members__
        self.columns["owner_rule"] = np.array([rules[d.get("owner_rule", "none")] for d in data], np.uint8)
        self.columns["flags"] = np.array([sum(_BIT_OF[text] for text in d.get("flags", ())) for d in data], np.uint8)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _edges_by_type(graph: Any, places: dict[int, int]) -> dict[str, list[tuple[int, int]]]:
    """Edges between events as pairs of places; those to other nodes are left out."""
    found: dict[str, list[tuple[int, int]]] = {}
    for source, target, edge_type in _typed_edges(graph):
        if source in places and target in places:
            found.setdefault(edge_type, []).append((places[source], places[target]))
    return found


def _typed_edges(graph: Any) -> Iterator[tuple[Any, Any, str]]:
    if graph.is_multigraph():
        yield from graph.edges(keys=True)
    else:
        yield from graph.edges(data="type")


def _parents(table: _Table, edges: dict[str, list[tuple[int, int]]]) -> np.ndarray:
    """Place of the parent of each node, -1 for a root."""
    kind, uid = table.columns["kind"], table.columns["uid"]
    parent = np.full(len(kind), -1, np.int64)
    ran_as = edges.get("RAN_AS", [])
    below = {target for _, target in ran_as}  # what hangs below captured calls, not below its launch
    launches = [edge for edge in edges.get("LAUNCHES", []) if edge[1] not in below]
    for source, target in edges.get("CALLS", []) + launches + ran_as:
        if kind[source] not in HOST_KINDS or kind[target] not in FOREST_KINDS:
            raise TraceError(
                f"edge {uid[source]} -> {uid[target]}: a {Kind(int(kind[source])).name} cannot call or launch "
                f"a {Kind(int(kind[target])).name}"
            )
        if parent[target] >= 0 and parent[target] != source:
            raise TraceError(f"node {uid[target]}: it has two callers, {uid[parent[target]]} and {uid[source]}")
        parent[target] = source
    return parent


def _preorder(table: _Table, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places in row order, and per row its last descendant and its depth."""
    c = table.columns
    kind, gpu = c["kind"], is_kind(c["kind"], GPU_KINDS)
    thread_rank = np.zeros(len(table.threads), np.int64)
    texts = [tuple((isinstance(part, str), part) for part in thread) for thread in table.threads]
    thread_rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    rank = thread_rank[c["thread"]]
    # One order in which siblings, and roots, follow one another; the rules are those of graph/build.py.
    group = np.where(is_kind(kind, LAYER_KINDS), 2, np.where(gpu, 1, 0))
    lone = gpu & (parent < 0)
    first = np.where(group == 2, kind, np.where(lone, c["device"], np.where(gpu, 0, rank * (parent < 0))))
    second = np.where(group == 2, rank, np.where(lone, c["stream"], 0))
    longer = np.where(gpu, c["stream"], -c["dur_ns"])
    tie = np.where(group == 0, np.maximum(kind, Kind.PythonFunction), 0)
    order = np.lexsort((c["uid"], tie, longer, c["start_ns"], second, first, group))
    children: dict[int, list[int]] = {}
    for place, above in zip(order.tolist(), parent[order].tolist(), strict=True):
        children.setdefault(above, []).append(place)
    rows: list[int] = []
    depth, last = np.zeros(len(kind), np.int32), np.arange(len(kind), dtype=np.int32)
    stack = [(place, 0) for place in reversed(children.get(-1, []))]
    while stack:
        place, level = stack.pop()
        depth[len(rows)] = level
        rows.append(place)
        stack.extend((child, level + 1) for child in reversed(children.get(place, ())))
    if len(rows) < len(kind):
        lost = int(c["uid"][np.setdiff1d(np.arange(len(kind)), rows)[0]])
        raise TraceError(f"node {lost}: it is its own caller, directly or through others")
    # The last descendant is the row before the next one that is not deeper.
    open_rows: list[int] = []
    for row, level in enumerate(depth.tolist()):
        for _ in range(len(open_rows) - level):
            last[open_rows.pop()] = row - 1
        open_rows.append(row)
    last[open_rows] = len(rows) - 1
    return np.array(rows, np.int64), last, depth


def _owners_where_unknown(columns: Columns) -> dict[str, np.ndarray]:
    """Owner and rule of GPU events that come without: the nearest op above."""
    owner, rule = columns.owner.copy(), columns.owner_rule.copy()
    unknown = np.flatnonzero(is_kind(columns.kind, GPU_KINDS) & (rule == OwnerRule.none))
    found = nearest_above(columns, unknown, (Kind.Op,))
    owner[unknown] = found
    lone = columns.parent[unknown] < 0
    rule[unknown] = np.where(lone, OwnerRule.unlinked, np.where(found >= 0, OwnerRule.nearest_op, OwnerRule.no_op))
    return {"owner": owner, "owner_rule": rule}


def _info(graph: Any, table: _Table) -> TraceInfo:
    if "info" in graph.graph:
        return TraceInfo(**json.loads(graph.graph["info"]))
    return TraceInfo(
        source=str(graph.graph.get("name", "")),
        start_epoch_ns=int(graph.graph.get("start_epoch_ns", 0)),
        events=int(table.columns["uid"].max(initial=-1)) + 1,
    )
