"""The graph of one profiler trace or saved graph, as its file gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracelens_graph.errors import ExecutionTraceError, NotATraceError, XplaneError
from tracelens_graph.graph.graph import Graph
from tracelens_graph.loaders.sources import Source, open_source
from tracelens_graph.loading.pseudo_ops import with_pseudo_ops


def load_profile(
    source: Any, *, progress: Callable[[int, int], None] | None = None, processes: int | None = None
) -> Graph:
    """As `load_core`, of profiler traces and saved graphs only.

    Raises:
        NotATraceError: it is something else, such as an execution trace; the message says what was found.
        TraceError: several ranks are fused in it, or as `load_core`.
        ChangedTraceError, MissingExtraError: as `load_core`.
    """
    opened = open_source(source)
    with opened.loading():
        if opened.packing == "graph":
            return saved_graph(opened)
        from tracelens_graph.loaders.kineto.loader import load_kineto
        from tracelens_graph.loading.fused import check_one_rank

        check_one_rank(opened)
        try:
            core = load_kineto(opened, progress, processes)
        except XplaneError:
            return _xplane(opened, progress)
        if not len(core.columns) and _has_nodes(opened):
            from tracelens_graph.loaders.foreign import IS_EXECUTION_TRACE

            raise ExecutionTraceError(f"{opened.name}: {IS_EXECUTION_TRACE}")
        return with_pseudo_ops(core)


def _xplane(opened: Source, progress: Callable[[int, int], None] | None) -> Graph:
    from tracelens_graph.loaders.xplane.loader import load_xplane

    return load_xplane(opened, progress)


def saved_graph(opened: Source) -> Graph:
    """The graph in a file that `save` wrote."""
    from tracelens_graph.stores.graph_file import read_graph

    core = read_graph(opened)
    if not core.framework.has_times:
        core.info.source = opened.name  # it stands for the execution trace, also where a command is to name that
    return core


def _has_nodes(opened: Source) -> bool:
    """Whether a file has the nodes of an execution trace beside an event list without events."""
    from tracelens_graph.loaders.execution_trace.records import NODES, begins_node
    from tracelens_graph.loaders.kineto.chunks import Walker

    with opened.open() as stream:
        walker = Walker(stream, opened.name, NODES)
        try:
            walker.read_head()
        except NotATraceError:
            return False
        return begins_node(walker.following())
