"""Several traces for Python users: the set, and the graph of all ranks of a job as a read-only networkx graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import job_paths
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.matched_collectives import Meetings
from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import NODES_PER_TRACE, TraceSet
from tracelens_graph.nxview.index import Index, JoinedIndex, KeyIndex, ShiftedIndex, whole
from tracelens_graph.nxview.lazy import FrozenDict, OnDemandDict
from tracelens_graph.nxview.merged import Merged
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.nxview.views import ReadOnly


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
        meetings: which kernels are one collective, and the common clock.
    """

    _made_of = TraceSet

    def __init__(self, traces: TraceSet) -> None:
        self._traces = traces
        self.meetings = Meetings(traces)
        self._merged = Merged(Figures(self.meetings), job_paths(traces, self.meetings))
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
        if not 0 <= number < len(self.meetings):
            raise NodeNotFoundError(f"there is no collective {number} among {len(self.meetings):,}, counted from 0")
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
        start = self.meetings.clock_ns(ordinal, np.array([one["start_ns"] for one in own], np.int64))
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
        return f"<RanksGraph of {len(self._faces):,} traces: {len(self):,} nodes, {len(self.meetings):,} collectives>"

    __str__ = __repr__


class TraceGraphSet(TraceSet):
    """A set of traces as `load_set()` gives it: its graphs are networkx graphs, and so are all of them together."""

    @cached_property
    def graph(self) -> RanksGraph:
        """All ranks of a job as one read-only `networkx.MultiDiGraph`, joined by their collectives.

        It holds the whole traces, whatever windows of them are in the set. Collectives are matched and clocks compared
        when it is first asked for.

        Raises:
            AnalysisError: the graphs are lean, and lack columns that this needs.
        """
        with_face: RanksGraph = RanksGraph(self.with_graphs(_with_face))
        return with_face


def _with_face(core: Core) -> TraceGraph:
    if isinstance(core, TraceGraph):
        return core
    graph: TraceGraph = TraceGraph(core)
    return graph
