"""Several traces for Python users: the set with a networkx graph over all of them."""

from __future__ import annotations

from functools import cached_property

from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.nxview.ranks import RanksGraph
from tracelens_graph.nxview.trace_graph import TraceGraph


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
