"""Loading without the networkx face: what the command line uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracelens_graph.graph.core import Core, TraceInfo
from tracelens_graph.loaders.foreign import ExecutionTraceError
from tracelens_graph.loaders.sources import open_source


def load_core(
    source: Any,
    *,
    et: Any = None,
    progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
) -> Core:
    """The graph of a trace or of a saved graph, as columns.

    An execution trace alone becomes a graph, too, which tells no times (`TraceInfo.has_times`).

    Args:
        source: a path (`.json`, `.json.gz`, `.json.zst`, `.zip` or a saved graph, told apart by content), `-` for
            standard input, bytes, a file object, or parsed JSON (a dict with `traceEvents` or `nodes`, or the list of
            events).
        et: the execution trace of the same run, given like `source`: see `linked`.
        progress: called with bytes done and bytes in all.
        processes: 1 to stay in this process; by default two for large files where that is safe.

    Raises:
        NotATraceError: it is something else; the message says what was found.
        TraceError: it cannot be read.
        ChangedTraceError: the file changed while it was loaded.
        LinkError: the execution trace is of another program or rank.
        MissingExtraError: `.json.zst` needs the extra `zstd`.
    """
    core = _load(source, progress, processes)
    return core if et is None else linked(core, et)


def _load(source: Any, progress: Callable[[int, int], None] | None, processes: int | None) -> Core:
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


def link_damage(core: Core) -> str:
    """What was repaired in the execution trace that a graph is linked with, or lost of it; empty if it is sound."""
    if core.link is None:
        return ""
    told = core.link.execution.info
    info = TraceInfo(
        events=told.entries, repairs=told.repairs, left_out=told.left_out, lost_events=told.lost_nodes,
        lost_bytes=told.lost_bytes, has_times=False,
    )  # fmt: skip
    return f"{told.source}: {info.damage}" if info.damage else ""


def linked(core: Core, et: Any) -> Core:
    """The graph, linked with the execution trace of its run.

    Args:
        core: a whole graph.
        et: path of the execution trace, or whatever else `load_core` takes.

    Raises:
        LinkError: the execution trace is of another program or rank; the message names both files and the share.
        NotATraceError, TraceError: the execution trace cannot be read.
        ChangedTraceError: the file of the graph is no longer the one that was loaded.
    """
    from tracelens_graph.graph.joining.filling import linked_graph
    from tracelens_graph.graph.joining.join import join
    from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
    from tracelens_graph.loaders.kineto.record_ids import record_ids

    opened = open_source(et)
    with opened.loading():
        execution = load_execution_trace(opened)
    return linked_graph(core, join(core, execution, record_ids(core)))
