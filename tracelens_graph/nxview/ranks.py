"""Several traces for Python users: the set, and the graph of all ranks of a job as a read-only networkx graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import networkx as nx
import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import JobPaths, job_paths
from tracelens_graph.analyses.ranks.figures import Figures, transfers
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import NODES_PER_TRACE, TraceSet
from tracelens_graph.nxview.lazy import FrozenDict, Index, JoinedIndex, KeyIndex, OnDemandDict, ShiftedIndex, whole
from tracelens_graph.nxview.questions import OfSet
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.nxview.views import NOTHING, ReadOnly
from tracelens_graph.tables.table import Table


class RanksGraph(ReadOnly, nx.MultiDiGraph):
    """The traces of a set side by side in one graph, joined by what their ranks did together.

    * A node of a trace is `ordinal * 2**40 + uid`, as `TraceSet.node_id` gives it, with the attributes that it has in
      the graph of its trace, the `rank` and the name of the `trace`. `start_ns` is on the common clock of the ranks.
    * What the ranks share has numbers as if it were of one more trace. `Collective` nodes have the attributes of the
      table `rank_collectives`, times in ns; `ProcessGroup` nodes stand for the ranks of a group. A `CriticalPath` is
      what bounds a step, or everything there is; its `PathSegment` nodes are what the table `critical_path` lists.
    * The edges of each trace stay inside of it. Kernels are `MEMBER_OF` a collective, with the `wait_ns`,
      `transfer_ns` and `end_skew_ns` of their rank; a collective is `IN_GROUP` of a process group; a kernel `SENDS` to
      the one that receives. GPU work and calls on the host are `ON_PATH` of the segments that they account for; a
      segment is `OF_PATH` of its path, and `NEXT_ON_PATH` leads to the one that follows it.

    Args:
        traces: the ranks, each a whole graph that is a networkx graph itself.

    Attributes:
        matched: which kernels are one collective, and the common clock.
    """

    _made_of = TraceSet

    def __init__(self, traces: TraceSet) -> None:
        self._traces = traces
        self.matched = MatchedCollectives(traces)
        self._merged = Merged(Figures(self.matched), job_paths(traces, self.matched))
        self._faces: list[Any] = [*traces.graphs]
        self._about = [
            {"trace": one.name} if one.rank is None else {"rank": one.rank, "trace": one.name} for one in traces
        ]
        parts: list[Index] = [
            ShiftedIndex(face._node.index, ordinal * NODES_PER_TRACE) for ordinal, face in enumerate(self._faces)
        ]
        parts.append(KeyIndex(self._merged.keys))
        self._index = JoinedIndex(parts, lambda key: whole(key) // NODES_PER_TRACE)
        about = {"name": ", ".join(dict.fromkeys(filter(None, (one.run for one in traces)))), "traces": len(traces)}
        nodes = OnDemandDict(self._index, self._nodes)
        self._put_on_rows(about, nodes, self._rows("_adj"), self._rows("_pred"), self._edges)

    def collective(self, number: int) -> int:
        """The node of a collective.

        Args:
            number: its number, as the table `rank_collectives` has it: by first start, from 0.

        Raises:
            NodeNotFoundError: there is no such collective.
        """
        if not 0 <= number < len(self.matched):
            raise NodeNotFoundError(f"there is no collective {number} among {len(self.matched):,}, counted from 0")
        return self._merged.collective(number)

    def critical_path(self, step: int | None = None) -> int:
        """The node of a critical path.

        Args:
            step: the number in `ProfilerStep#n`; by default the path through everything there is.

        Raises:
            NodeNotFoundError: there is no GPU work, or none of this step.
        """
        found = self._merged.path_of_step(step)
        if found is None:
            raise NodeNotFoundError("no rank has GPU work" + ("" if step is None else f" of step {step}"))
        return found

    def _nodes(self, low: int, high: int) -> list[FrozenDict]:
        """Attributes of the nodes at positions low..high-1."""
        found: list[FrozenDict] = []
        for ordinal, first, end in self._index.blocks(low, high):
            if ordinal == len(self._faces):
                found += map(self._merged.attributes, self._index.parts[ordinal].keys(first, end))
            else:
                found += self._of_trace(ordinal, self._faces[ordinal]._node.at(first, end))
        return found

    def _of_trace(self, ordinal: int, own: Sequence[Mapping[str, Any]]) -> list[FrozenDict]:
        """Attributes of nodes of a trace: those that they have there, and their rank."""
        start = self.matched.clock_ns(ordinal, np.array([one["start_ns"] for one in own], np.int64))
        about = self._about[ordinal]
        return [FrozenDict({**one, "start_ns": ns, **about}) for one, ns in zip(own, start.tolist(), strict=True)]

    def _rows(self, side: str) -> OnDemandDict:
        """node -> neighbour -> edges; those of a trace as its own graph has them.

        Args:
            side: how networkx calls the neighbours: `_adj` for successors, `_pred` for predecessors.
        """
        joined = self._merged.out if side == "_adj" else self._merged.into

        def row(key: int, own: Mapping[int, FrozenDict]) -> dict[int, FrozenDict]:
            base = key - key % NODES_PER_TRACE
            return {base + other: data for other, data in own.items()} | joined(key)

        def rows(low: int, high: int) -> list[dict[int, FrozenDict]]:
            found: list[dict[int, FrozenDict]] = []
            for ordinal, first, end in self._index.blocks(low, high):
                keys, is_trace = self._index.parts[ordinal].keys(first, end), ordinal < len(self._faces)
                own = getattr(self._faces[ordinal], side).at(first, end) if is_trace else [{}] * len(keys)
                found += map(row, keys, own)
            return found

        return OnDemandDict(self._index, rows)

    def _edges(self) -> int:
        return sum(face.number_of_edges() for face in self._faces) + self._merged.edges

    def __reduce__(self) -> tuple[Any, ...]:
        return RanksGraph, (TraceSet(self._traces),)

    def __repr__(self) -> str:
        return f"<RanksGraph of {len(self._faces):,} traces: {len(self):,} nodes, {len(self.matched):,} collectives>"

    __str__ = __repr__


class TraceGraphSet(TraceSet, OfSet):
    """The set of traces that `load_set()` returns; each trace, and the whole set, is a networkx graph."""

    @cached_property
    def graph(self) -> RanksGraph:
        """All ranks of a job as one read-only `networkx.MultiDiGraph`, joined by their collectives.

        It holds the whole traces, whatever windows of them are in the set. Collectives are matched and clocks compared
        when it is first asked for.

        Raises:
            AnalysisError: the graphs are lean, and lack columns that this needs.
        """
        return RanksGraph(self.with_graphs(_with_face))

    def cypher(self, statement: str, /, *, run: str = "", timeout_s: float = 60.0, **parameters: Any) -> Table:
        """As `TraceGraph.cypher`, of all traces at once; the property `trace`, and Trace nodes, separate them.

        Args:
            run: name of the run that they are the ranks of, so that they share collectives; else each is its own.
            timeout_s: when it is given up.
            parameters: what the statement calls `$name`.

        Raises:
            DatabaseError: the statement is none, needs Neo4j, writes, or takes too long; in one line, with the place.
            MissingExtraError: the extra `cypher` is not installed.
            ChangedTraceError: a trace file is no longer the one that was loaded.
        """
        asking = import_module("tracelens_graph.embedded.asking")  # which stands above this room
        return asking.cypher(self, statement, run=run, timeout_s=timeout_s, **parameters)


def _with_face(core: Core) -> TraceGraph:
    if isinstance(core, TraceGraph):
        return core
    return TraceGraph(core)


# --- what joins the ranks -------------------------------------------------------------------------------------------


FIRST_GROUP, FIRST_PATH, FIRST_SEGMENT = 2**39, 2**39 + 2**37, 2**39 + 2**38
"""Nodes that belong to no trace are numbered as if they were of one more: collectives from 0, groups, paths and their
segments from here on."""

_OF_COLLECTIVES = (
    "key", "group", "sequence", "step", "dtype", "ranks", "group_size", "hosts", "message_bytes", "last_rank",
    "last_trace", "start_ns", "dur_ns", "start_skew_ns", "wait_ns", "latency_ns", "end_skew_ns", "algbw_gb_s",
    "busbw_gb_s",
)  # fmt: skip
"""Figures of a collective that are attributes of its node."""

Neighbours = dict[int, dict[int, FrozenDict]]
"""node -> neighbour -> type of the edge -> its attributes, as networkx keeps the edges of a MultiDiGraph."""


class Merged:
    """Nodes that ranks share, and the edges that join ranks.

    Attributes:
        edges: how many edges there are.
    """

    def __init__(self, figures: Figures, paths: JobPaths) -> None:
        self._nodes: dict[int, FrozenDict] = {}
        self._out: Neighbours = {}
        self._into: Neighbours = {}
        self._figures, self._matched = figures, figures.matched
        self._base = len(self._matched.ranks) * NODES_PER_TRACE
        self._steps = [path.step for path in paths.paths]
        self.edges = 0
        self._add_collectives()
        self._add_groups()
        self._join_members()
        self._join_transfers()
        self._add_paths(paths)

    @property
    def keys(self) -> list[int]:
        """The nodes by their numbers in the set: collectives in their order, process groups, paths, their segments."""
        return list(self._nodes)

    def attributes(self, key: int) -> FrozenDict:
        """The attributes of a node."""
        return self._nodes[key]

    def out(self, key: int) -> dict[int, FrozenDict]:
        """The edges from a node, also of a trace: neighbour -> type -> attributes."""
        return self._out.get(key, {})

    def into(self, key: int) -> dict[int, FrozenDict]:
        """The edges to a node; they show the same attributes as `out`."""
        return self._into.get(key, {})

    def collective(self, number: int) -> int:
        """The node of a collective, by its number in `MatchedCollectives`."""
        return self._base + number

    def path_of_step(self, step: int | None) -> int | None:
        """The node of the critical path of a step, or with None of everything; None where there is no such path."""
        return self._base + FIRST_PATH + self._steps.index(step) if step in self._steps else None

    def _add_collectives(self) -> None:
        columns = {"name": self._figures.columns["kind"], "collective": self._figures.columns["number"]}
        columns |= {name: self._figures.columns[name] for name in _OF_COLLECTIVES}
        for number, values in enumerate(zip(*columns.values(), strict=True)):
            self._add(self.collective(number), "Collective", **dict(zip(columns, values, strict=True)))

    def _add_groups(self) -> None:
        """A group is its ranks; where these are not recorded, its name. Where neither is, there is no node for it."""
        m, groups = self._matched, self._figures.groups
        for number, ranks in enumerate(groups.ranks):
            members = np.flatnonzero(groups.number == number).tolist()
            known = [one for at in members for one in m.members(at)]
            if ranks is None and known[0].group is None:
                continue
            node = self._base + FIRST_GROUP + number
            self._add(
                node, "ProcessGroup", name=_listed([one.group for one in known]),
                description=_listed([one.group_description for one in known]),
                ranks=None if ranks is None else json.dumps(ranks),
                size=known[0].group_size if ranks is None else len(ranks),
            )  # fmt: skip
            for at in members:
                self._join("IN_GROUP", self.collective(at), node)

    def _join_members(self) -> None:
        m = self._matched
        for part in m.order.tolist():
            times = FrozenDict(
                wait_ns=int(m.wait_ns[part]), transfer_ns=int(m.transfer_ns[part]), end_skew_ns=int(m.end_skew_ns[part])
            )
            first, *others = self._kernels(part)
            collective = self.collective(int(m.number[part]))
            self._join("MEMBER_OF", first, collective, times)
            for kernel in others:  # times are of the whole part, so that they stand once
                self._join("MEMBER_OF", kernel, collective)

    def _join_transfers(self) -> None:
        for at, source, target in zip(*(each.tolist() for each in transfers(self._matched)), strict=True):
            collective = self._nodes[self.collective(at)]
            shown = ("collective", "message_bytes", "latency_ns", "start_skew_ns")
            about = FrozenDict({name: collective[name] for name in shown if name in collective})
            self._join("SENDS", self._kernels(source)[0], self._kernels(target)[0], about)

    def _add_paths(self, paths: JobPaths) -> None:
        """A node per path and per segment; events lead to their segments, and these to their path and the next one."""
        first_path, first = self._base + FIRST_PATH, self._base + FIRST_SEGMENT
        for number in range(len(paths.paths)):
            self._nodes[first_path + number] = _known("CriticalPath", paths.about(number))
        for number, values in enumerate(zip(*paths.columns.values(), strict=True)):
            self._nodes[first + number] = _known("PathSegment", dict(zip(paths.columns, values, strict=True)))
        segment, ordinal, uid = paths.events
        events = ordinal.astype(np.int64) * NODES_PER_TRACE + uid
        for event, number in zip(events.tolist(), segment.tolist(), strict=True):
            self._join("ON_PATH", event, first + number)
        of = paths.path.tolist()
        for number, path in enumerate(of):
            self._join("OF_PATH", first + number, first_path + path)
            if of[number + 1 : number + 2] == [path]:
                self._join("NEXT_ON_PATH", first + number, first + number + 1)

    def _kernels(self, part: int) -> list[int]:
        base = int(self._matched.trace[part]) * NODES_PER_TRACE
        return [base + uid for uid in self._matched.parts.collective(part).uids]

    def _add(self, node: int, kind: str, **attributes: Any) -> None:
        self._nodes[node] = _known(kind, {name: None if value == "" else value for name, value in attributes.items()})

    def _join(self, name: str, source: int, target: int, attributes: FrozenDict = NOTHING) -> None:
        joined = FrozenDict({**self._out.get(source, {}).get(target, {}), name: attributes})
        self._out.setdefault(source, {})[target] = joined
        self._into.setdefault(target, {})[source] = joined
        self.edges += 1


def _listed(names: Sequence[str | None]) -> str:
    """The different names, the more frequent first where several ranks call one group by other names."""
    return ", ".join(dict.fromkeys(name for name in names if name))


def _known(kind: str, attributes: Mapping[str, Any]) -> FrozenDict:
    """The attributes of a node, without those that are absent."""
    return FrozenDict({"kind": kind, **{name: value for name, value in attributes.items() if value is not None}})
