"""Loading without the networkx face: what the command line uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracelens_graph.errors import ExecutionTraceError, LinkError, NotATraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.profile import load_profile, saved_graph

if TYPE_CHECKING:
    from tracelens_graph.execution.trace import ExecutionTrace


def load_core(
    source: Any,
    *,
    et: Any = None,
    memory: Any = None,
    capture: Any = None,
    identify: Any = False,
    tell: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
) -> Graph:
    """The graph of a trace or of a saved graph, as columns.

    An execution trace alone becomes a graph, too, which has no times (`TraceInfo.has_times`).

    Args:
        source: a path (`.json`, `.json.gz`, `.json.zst`, `.zip` or a saved graph, separated by content), `-` for
            standard input, bytes, a file object, or parsed JSON (a dict with `traceEvents` or `nodes`, or the list of
            events).
        et: the execution trace of the same run, given like `source`: see `linked`.
        memory: a snapshot of CUDA memory of the same run, given like `source`: see `memory.with_memory`.
        capture: captures of the graphs that it replays: see `captures.with_captures`.
        identify: infer what replayed kernels are that no capture describes: see `identified.identified`.
        tell: called with a line on captures that could not be used.
        progress: called with bytes done and bytes in all.
        processes: 1 to stay in this process; by default two for large files where that is safe.

    Raises:
        NotATraceError: it is something else; the message says what was found.
        TraceError: it cannot be read.
        ChangedTraceError: the file changed while it was loaded.
        LinkError: the execution trace is of another program or rank, or the snapshot of another time.
        MissingExtraError: `.json.zst` needs the extra `zstd`.
    """
    core = _load(source, progress, processes)
    if memory is not None:
        from tracelens_graph.loading.memory import with_memory

        core = with_memory(core, memory, tell)
    if capture is not None:
        from tracelens_graph.loading.captures import with_captures

        core = with_captures(core, capture, tell)
    if identify:
        from tracelens_graph.loading.identified import identified

        core = identified(core, identify, tell)
    return core if et is None else linked(core, et)


def _load(source: Any, progress: Callable[[int, int], None] | None, processes: int | None) -> Graph:
    opened = open_source(source)
    try:
        return load_profile(opened, progress=progress, processes=processes)
    except ExecutionTraceError:
        from tracelens_graph.loaders.execution_trace.graph import execution_graph
        from tracelens_graph.loaders.execution_trace.loader import load_execution_trace

        with opened.loading():
            return execution_graph(load_execution_trace(opened), opened)


def link_damage(core: Core) -> str:
    """What was repaired in the execution trace that a graph is linked with, or lost of it; empty if it is sound."""
    return "" if core.link is None else core.link.damage


def unread_tensors(core: Core) -> str:
    """How many tensors of the execution trace cannot be read; empty if all can, or the graph has none.

    This reads the arguments of all operators.
    """
    from tracelens_graph.execution.link import link_of

    link = link_of(core)
    if link is None or not (lost := link.lineage.uses.malformed):
        return ""
    return f"{link.execution.info.source}: tensors among arguments that cannot be read and are left out: {lost:,}"


def linked(core: Core, et: Any) -> Graph:
    """The graph, linked with the execution trace of its run.

    Args:
        core: a whole graph.
        et: path of the execution trace, or whatever else `load_core` takes.

    Raises:
        LinkError: the execution trace is of another program or rank; the message names both files and the share, and
            what is broken in the execution trace.
        NotATraceError, TraceError: the execution trace cannot be read.
        ChangedTraceError: the file of the graph is no longer the one that was loaded.
    """
    return joined(core, load_execution(et))


def load_execution(source: Any) -> ExecutionTrace:
    """The execution trace in a file, or in a graph that was saved with one.

    Args:
        source: given like that of `load_core`.

    Raises:
        NotATraceError: it is something else; the message says what.
        TraceError: it cannot be read.
    """
    from tracelens_graph.execution.link import link_of
    from tracelens_graph.loaders.execution_trace.loader import load_execution_trace

    opened = open_source(source)
    with opened.loading():
        if opened.packing != "graph":
            return load_execution_trace(opened)
        link = link_of(saved_graph(opened))
        if link is None:
            raise NotATraceError(f"{opened.name}: is the saved graph of a profiler's trace, not an execution trace")
        return link.execution


def joined(core: Core, execution: ExecutionTrace) -> Graph:
    """The graph, linked with an execution trace that is loaded.

    Raises:
        LinkError, ChangedTraceError: as `linked`.
    """
    from tracelens_graph.execution.joining import join, linked_graph
    from tracelens_graph.loaders.kineto.details import record_ids

    if not core.framework.has_times:
        raise LinkError(f"{core.info.source}: is an execution trace itself; the profiler's trace of its run is wanted")
    try:
        link = join(core, execution, record_ids(core))
    except LinkError as error:
        damage = execution.info.damage
        raise LinkError(f"{error}; {damage}" if damage else str(error)) from None
    return linked_graph(core, link)
