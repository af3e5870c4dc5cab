"""What callers give: the two traces of a run as paths, parsed JSON or graphs, and identifiers of GPU work."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.execution.link import Link, link_of
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.loaders.kineto.times import origin_ns
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.schema.categories import CATEGORY_OF_KIND, KIND_OF_CATEGORY, KINDS_BY_NAME
from tracelens_graph.utils.arrays import Mask, Rows

_LARGEST_SHOWN = 60
"""Characters of an id that a message shows."""

CATEGORIES = {
    Kind.Op: CATEGORY_OF_KIND[Kind.Op],
    Kind.RuntimeCall: "runtime",
    **{kind: CATEGORY_OF_KIND[kind] for kind in GPU_KINDS},
}
"""Kinds of nodes that belong to an op -> category under which they are given."""


class Pair(NamedTuple):
    """The profiler's trace as a graph, and what links it with the execution trace."""

    core: Core
    link: Link


_JOINED: WeakKeyDictionary[Core, Core] = WeakKeyDictionary()
"""Graphs that were loaded apart from the execution trace -> the same, linked, so that they are joined once."""


def load_trace(path: Any) -> Core:
    """Load an execution trace or a profiler's trace; its content says which it is.

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
    from tracelens_graph.loading.profile import load_profile

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


_PARTS = 4
_SHOWN = 80
_FAR_NS = 2**61
"""A time beyond all that graphs keep."""
_MOST_SLACK_NS = 500.0


class GpuIdentifier(NamedTuple):
    """What separates a GPU event from the others of its trace.

    Attributes:
        timestamp: when it began, in us, as `ts` in the trace's file.
        duration: how long it took, in us.
        stream: stream on its device.
        external_id: External id; None for none.
    """

    timestamp: float
    duration: float
    stream: int | None
    external_id: int | None


def get_gpu_op_identifier(event: Any) -> GpuIdentifier:
    """What distinguishes a kernel, copy or fill from all others of its trace.

    Args:
        event: an event of the profiler's trace as its JSON has it, a node of its graph, or a GPU event that
            `op_to_kernel_tracing` found.

    Returns:
        (timestamp in us, duration in us, stream, External id). On all traces at hand it is unique; where two events
        share it, as they can on two devices, `kernel_metadata_scrape` says so, and takes the event's uid as a fifth
        item.

    Raises:
        NodeNotFoundError: it is no GPU event.
    """
    if isinstance(event, Node):
        if event.kind not in GPU_KINDS:
            what = f"event {event.uid} ({event.name[:_SHOWN]})"
            raise NodeNotFoundError(f"{what} is of kind {event.kind.name}, which is not GPU work")
        return identifier_of_row(event.graph, event.row)
    if not isinstance(event, Mapping):
        raise NodeNotFoundError(f"a GPU event is a dictionary or a node, not {type(event).__name__}")
    if "identifier" in event:
        return GpuIdentifier(*_parts(event["identifier"])[:_PARTS])
    args = event.get("args")
    args = args if isinstance(args, Mapping) else {}
    category = str(event.get("cat"))
    kind = KINDS_BY_NAME.get(category, {}).get(str(event.get("name")), KIND_OF_CATEGORY.get(category))
    if kind not in GPU_KINDS:
        raise NodeNotFoundError(f"an event of category {category[:_SHOWN]!r} is no GPU event")
    start, duration = event.get("ts"), event.get("dur", 0)
    stream = args.get("original_stream", args.get("stream", event.get("tid")))
    external = args.get("External id", args.get("external id"))
    return GpuIdentifier(*_parts((start, duration, stream, external))[:_PARTS])


def identifier_of_row(core: Core, row: int) -> GpuIdentifier:
    """The identifier of a GPU event by its row."""
    c = core.columns
    stream, external = int(c.stream[row]), int(c.external_id[row])
    return GpuIdentifier(
        timestamp_us(core, row),
        int(c.dur_ns[row]) / 1000,
        None if stream == -1 else stream,
        None if external == -1 else external,
    )


def timestamp_us(core: Core, row: int) -> float:
    """When an event begins, in us, as its file says it."""
    return (int(core.columns.start_ns[row]) + origin_ns(core)) / 1000


def row_of_identifier(core: Core, identifier: Any) -> int:
    """The row of the GPU event that an identifier names.

    Args:
        identifier: what `get_gpu_op_identifier` gives, or that with a uid as fifth item.

    Raises:
        NodeNotFoundError: it names none, or several.
    """
    timestamp, duration, stream, external, uid = (*_parts(identifier), None)[: _PARTS + 1]
    c, rows = core.columns, core.gpu_rows
    # A float of a large time has lost digits of it, as has one that was rounded to us.
    around = _slack_ns(timestamp)
    start = max(-_FAR_NS, min(_FAR_NS, _ns(timestamp) - origin_ns(core)))
    near = np.abs(c.start_ns[rows] - start) <= around
    lasting = np.abs(c.dur_ns[rows] - _ns(duration)) <= _slack_ns(duration)
    alike = near & lasting & (c.stream[rows] == _or_none(stream)) & (c.external_id[rows] == _or_none(external))
    found = rows[alike]
    if uid is not None:
        found = found[c.uid[found] == uid]
    if len(found) == 1:
        return int(found[0])
    shown = f"timestamp {timestamp!r}, duration {duration!r}, stream {stream}, External id {external}"
    if len(found):
        uids = ", ".join(map(str, c.uid[found[:5]].tolist()))
        raise NodeNotFoundError(f"{len(found)} GPU events have {shown}: uids {uids}; add a uid as fifth item")
    raise NodeNotFoundError(f"no GPU event has {shown}{_nearest(core, rows, near, start)}")


def shared_identifiers(core: Core) -> Mask:
    """For each of `core.gpu_rows` whether its identifier is that of another event, too."""
    c, rows = core.columns, core.gpu_rows
    keys = np.stack([np.asarray(of[rows], np.int64) for of in (c.start_ns, c.dur_ns, c.stream, c.external_id)], axis=1)
    _, group, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return count[group.reshape(-1)] > 1


def _nearest(core: Core, rows: Rows, near: np.ndarray, start: int) -> str:
    """What there is instead of what was looked for."""
    if not len(rows):
        return "; the trace has no GPU events"
    at_the_time = np.flatnonzero(near)
    distance = np.abs(core.columns.start_ns[rows].astype(np.float64) - start)
    row = int(rows[at_the_time[0] if len(at_the_time) else distance.argmin()])
    where = "the one at that time" if len(at_the_time) else "the nearest one"
    return f"; {where} has {', '.join(map(repr, identifier_of_row(core, row)))}"


def _parts(identifier: Any) -> tuple[Any, ...]:
    """The items of an identifier, each of its type.

    Raises:
        NodeNotFoundError: it is none.
    """
    count = len(identifier) if isinstance(identifier, Sequence) and not isinstance(identifier, str | bytes) else 0
    if count not in (_PARTS, _PARTS + 1):
        raise NodeNotFoundError(
            f"an identifier is (timestamp, duration, stream, External id), not {type(identifier).__name__}"
            + (f" of {count}" if count else "")
        )
    timestamp, duration, *ids = identifier
    times = [_time(timestamp, "timestamp"), _time(duration, "duration")]
    names = ("stream", "External id", "uid")
    numbers = [None if one is None else _id(one, what) for one, what in zip(ids, names, strict=False)]
    return (*times, numbers[0], numbers[1] or None, *numbers[2:])


def _id(value: Any, what: str) -> int:
    return whole_number(int(value) if isinstance(value, str) and value.strip().isdecimal() else value, what)


def _time(value: Any, what: str) -> float:
    try:
        time = float(value) if isinstance(value, int | float | str | np.number) else math.nan
    except (ValueError, OverflowError):
        time = math.nan
    if not math.isfinite(time) or isinstance(value, bool):
        raise NodeNotFoundError(f"the {what} of an identifier is a number of us, not {str(value)[:_SHOWN]!r}")
    return time


def _slack_ns(us: float) -> float:
    """By how much a time that was read from a float may be off, in ns."""
    return min(max(1.0, math.ulp(us) * 1000) / 2, _MOST_SLACK_NS)


def _ns(us: float) -> int:
    return max(-_FAR_NS, min(_FAR_NS, round(Fraction(us) * 1000)))


def _or_none(number: int | None) -> int:
    return -1 if number is None else number
