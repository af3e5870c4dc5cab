"""Loading without the networkx face: what the command line uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.foreign import ExecutionTraceError
from tracelens_graph.loaders.sources import open_source


def load_core(source: Any, *, progress: Callable[[int, int], None] | None = None, processes: int | None = None) -> Core:
    """The graph of a trace or of a saved graph, as columns.

    An execution trace alone becomes a graph, too, which tells no times (`TraceInfo.has_times`).

    Args:
        source: a path (`.json`, `.json.gz`, `.json.zst`, `.zip` or a saved graph, told apart by content), `-` for
            standard input, bytes, a file object, or parsed JSON (a dict with `traceEvents` or `nodes`, or the list of
            events).
        progress: called with bytes done and bytes in all.
        processes: 1 to stay in this process; by default two for large files where that is safe.

    Raises:
        NotATraceError: it is something else; the message says what was found.
        TraceError: it cannot be read.
        ChangedTraceError: the file changed while it was loaded.
        MissingExtraError: `.json.zst` needs the extra `zstd`.
    """
    opened = open_source(source)
    try:
        return load_profile(opened, progress=progress, processes=processes)
    except ExecutionTraceError:
        from tracelens_graph.loaders.execution_trace.graph import execution_graph
        from tracelens_graph.loaders.execution_trace.loader import load_execution_trace

        with opened.loading():
            return execution_graph(load_execution_trace(opened), opened)


def load_profile(
    source: Any, *, progress: Callable[[int, int], None] | None = None, processes: int | None = None
) -> Core:
    """As `load_core`, of profiler traces and saved graphs only.

    Raises:
        NotATraceError: it is something else, such as an execution trace; the message says what was found.
        TraceError, ChangedTraceError, MissingExtraError: as `load_core`.
    """
    opened = open_source(source)
    with opened.loading():
        if opened.packing == "graph":
            from tracelens_graph.stores.graph_file import read_graph

            return read_graph(opened)
        from tracelens_graph.loaders.kineto.loader import load_kineto

        return load_kineto(opened, progress, processes)
