"""The two traces of a run as the functions here take them: paths, parsed JSON or graphs."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.execution.link import Link, link_of
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.core import Core

_LARGEST_SHOWN = 60
"""Characters of an id that a message shows."""


class Pair(NamedTuple):
    """The profiler's trace as a graph, and what links it with the execution trace."""

    core: Core
    link: Link


_JOINED: WeakKeyDictionary[Core, Core] = WeakKeyDictionary()
"""Graphs that were loaded apart from the execution trace -> the same, linked, so that they are joined once."""


def load_trace(path: Any) -> Core:
    """Load an execution trace or a profiler's trace; its content tells which it is.

    Args:
        path: a path (`.json`, `.json.gz`, `.json.zst`, `.zip` or a saved graph), bytes, a file object or parsed JSON.

    Raises:
        NotATraceError: it is something else; the message says what was found.
        TraceError: it cannot be read.
    """
    from tracelens_graph.api import load

    return load(path)


def execution_trace_of(cpu_trace: Any) -> ExecutionTrace:
    """The execution trace that a caller means.

    Raises:
        AnalysisError: it is a graph without one.
        TraceError: it cannot be read, or is none.
    """
    if isinstance(cpu_trace, ExecutionTrace):
        return cpu_trace
    if isinstance(cpu_trace, Core):
        link = link_of(cpu_trace)
        if link is None:
            raise AnalysisError(f"{cpu_trace.info.source}: is a profiler's trace; name the execution trace")
        return link.execution
    from tracelens_graph.loading.one import load_execution

    return load_execution(cpu_trace)


def graph_of(gpu_trace: Any) -> Core:
    """The graph of the profiler's trace that a caller means.

    Raises:
        AnalysisError: it is an execution trace.
        TraceError: it cannot be read, or is none.
    """
    if isinstance(gpu_trace, ExecutionTrace) or (isinstance(gpu_trace, Core) and not gpu_trace.info.has_times):
        raise AnalysisError(f"{gpu_trace.info.source}: is an execution trace; name the profiler's trace")
    if isinstance(gpu_trace, Core):
        return gpu_trace
    from tracelens_graph.loading.one import load_profile

    return load_profile(gpu_trace)


def joined(cpu_trace: Any, gpu_trace: Any) -> Pair:
    """Both traces, joined.

    Raises:
        AnalysisError: they do not belong together.
        TraceError: one of them cannot be read, or is none.
    """
    core = graph_of(gpu_trace)
    execution = execution_trace_of(cpu_trace)
    for known in (core, _JOINED.get(core)):
        link = known and link_of(known)
        if known and link and link.execution is execution:
            return Pair(known, link)
    from tracelens_graph.loading import one as loading

    linked = _JOINED[core] = loading.joined(core, execution)
    link = link_of(linked)
    assert link is not None
    return Pair(linked, link)


def row_of_node(execution: ExecutionTrace, cpu_op_id: Any) -> int:
    """The row of a node of the execution trace.

    Raises:
        NodeNotFoundError: no node has the id.
    """
    wanted = whole_number(cpu_op_id, "the id of a node")
    row = execution.row(wanted)
    if row >= 0:
        return row
    source = execution.info.source
    if not len(execution):
        raise NodeNotFoundError(f"{source}: no node has id {_shown(wanted)}; there are none")
    span = f"ids go from {execution.id[0]} to {execution.id[-1]}, with gaps"
    raise NodeNotFoundError(f"{source}: no node has id {_shown(wanted)}; {span}")


def whole_number(value: Any, what: str) -> int:
    """A whole number that a caller gave.

    Raises:
        NodeNotFoundError: it is none.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise NodeNotFoundError(f"{what} is a whole number, not {_shown(value)}")


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write whole numbers of more than some thousand digits
        text = "a number of that many digits"
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _LARGEST_SHOWN else text[:_LARGEST_SHOWN] + "..."
