"""A linked pair of traces in the JSON form that `chakra_trace_link` writes, for simulators and converters of Chakra.

The file is an execution trace of schema 1.1.1 whose nodes have times, and which has nodes for GPU work, too.

Keys of the file: `generator` (this tool), `schema`, `pid`, `time`, `start_ts`, `finish_ts` as in an execution trace,
and `nodes`, by id. Nodes of the host are those of the execution trace:

* `id`: from 0 without gaps, in the order in which nodes began, GPU work behind the op that it comes from
* `name`, `inputs`, `outputs` (each with `values`, `shapes`, `types`, `strides`), `attrs`: as recorded, but that ids
  in `fw_parent` are new ones
* `ctrl_deps`: id of the node that it ran in; the process names itself
* of those with an event in the profiler's trace: `ts`, its begin, `inclusive_dur` and `exclusive_dur`, its duration
  with and without the ops and ranges inside it, in us; `inter_thread_dep`: id of the last node that began on another
  thread before the stretch of ops that this one is in, where more than 1,000 us without an op lie before the stretch,
  and for the first stretch of a thread; null for none

Nodes of GPU work are copies of the node that they come from, but for these keys:

* `id`, and `ctrl_deps`: id of the node that they come from
* `cat`: `kernel`, `gpu_memcpy` or `gpu_memset`; `name`; `ph`: always `X`; `stream`
* `ts`: when it began on the device, in us; `inclusive_dur` and `exclusive_dur`: its duration
* `pg_name`: name of the process group, of communication alone

`chakra_trace_link` leaves out memsets and whatever a graph launch brings, gives GPU work the begin of its launch, and
finds the op by the time that it began alone; here it is the one that the launch stands in. GPU work that leads to no op
is left out by both. The dependencies on synchronisation (`sync_dep`) that it takes from another tool are not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.execution.link import Link
from tracelens_graph.execution.sides import Arguments
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import is_kind, positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.linkage.traces import CATEGORIES
from tracelens_graph.linkage.tracing import origins
from tracelens_graph.loaders.kineto.times import origin_ns
from tracelens_graph.output.files import GENERATOR
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Ns

SCHEMA = "1.1.1-chakra.0.0.4"
LONG_GAP_NS = 1_000_000
"""Time without an op on a thread from which on the next op is taken to have waited for another thread."""

_ATTRIBUTES = (
    ("rf_id", "uint64", "rf_id"), ("seq_id", "int64", "sequence"), ("scope", "uint64", "scope"),
    ("tid", "uint64", "tid"), ("fw_tid", "uint64", "forward_tid"),
)  # fmt: skip
"""Attributes of a node: name, type, and the column of the execution trace that holds it."""

_TYPES = {int: "uint64", str: "string"}


def write_chakra(core: Core, link: Link, file: BinaryIO) -> int:
    """Write a linked pair.

    Args:
        link: what links it with the execution trace.
        file: where to.

    Returns:
        How many GPU events are left out because they lead to no op.
    """
    linked = _Linked(core, link)
    info = link.execution.info
    head = {
        "generator": GENERATOR, "schema": SCHEMA, "pid": info.pid, "time": info.time, "start_ts": info.start_ms,
        "finish_ts": info.finish_ms,
    }  # fmt: skip
    file.write(msgspec.json.encode(head)[:-1] + b',"nodes":[\n')
    encode = msgspec.json.Encoder().encode
    for place, node in enumerate(linked.nodes()):
        file.write((b",\n" if place else b"") + encode(node))
    file.write(b"\n]}\n")
    return linked.left_out


class _Linked:
    """The nodes of the file.

    Attributes:
        left_out: GPU events that lead to no op.
    """

    def __init__(self, core: Core, link: Link) -> None:
        self._core, self._link = core, link
        c, execution = core.columns, link.execution
        gpu = core.gpu_rows
        origin = origins(core, link, gpu).row
        self.left_out = int((origin < 0).sum())
        gpu, origin = gpu[origin >= 0], origin[origin >= 0]
        order = np.lexsort((c.uid[gpu], c.start_ns[gpu], link.node_of_row[origin]))
        self._gpu, self._origin = gpu[order], origin[order]
        self._begin = np.searchsorted(link.node_of_row[origin][order], np.arange(len(execution) + 1))
        # GPU events are numbered right behind their node, so those of all nodes before shift its id.
        self._id = np.arange(len(execution)) + self._begin[:-1]
        self._exclusive = exclusive_ns(core)
        self._waits_for = _last_on_other_threads(core)
        self._clock_ns = origin_ns(core)

    def nodes(self) -> Iterator[dict[str, Any]]:
        """All of them, by id."""
        execution = self._link.execution
        for row in range(len(execution)):
            node = self._host_node(execution, row)
            event = int(self._link.row_of_node[row])
            yield node if event < 0 else node | self._times(event) | {"inter_thread_dep": self._waiting(event)}
            for place in range(int(self._begin[row]), int(self._begin[row + 1])):
                yield node | self._gpu_node(place, int(self._id[row]), place - int(self._begin[row]))

    def _host_node(self, execution: ExecutionTrace, row: int) -> dict[str, Any]:
        parent, forward = int(execution.parent[row]), int(execution.forward_parent[row])
        attributes = {
            **{name: (kind, int(getattr(execution, column)[row])) for name, kind, column in _ATTRIBUTES},
            "fw_parent": ("uint64", int(self._id[forward]) if forward >= 0 else 0),
            "op_schema": ("string", execution.schemas[execution.schema[row]]),
            **{name: (_TYPES.get(type(value), ""), value) for name, value in execution.more.get(row, {}).items()},
        }
        return {
            "id": int(self._id[row]),
            "name": execution.names[execution.name[row]],
            "ctrl_deps": int(self._id[parent if parent >= 0 else row]),
            "inputs": _side(execution.inputs[row]),
            "outputs": _side(execution.outputs[row]),
            "attrs": [{"name": name, "type": kind, "value": value} for name, (kind, value) in attributes.items()],
        }

    def _times(self, row: int) -> dict[str, Any]:
        c = self._core.columns
        return {
            "inclusive_dur": int(c.dur_ns[row]) / 1000,
            "exclusive_dur": int(self._exclusive[row]) / 1000,
            "ts": (int(c.start_ns[row]) + self._clock_ns) / 1000,
        }

    def _waiting(self, row: int) -> int | None:
        other = int(self._waits_for[row])
        node = int(self._link.node_of_row[other]) if other >= 0 else -1
        return int(self._id[node]) if node >= 0 else None

    def _gpu_node(self, at: int, above: int, place: int) -> dict[str, Any]:
        core, c = self._core, self._core.columns
        row = int(self._gpu[at])
        # Old profilers wrote arguments of a collective with its op alone.
        recorded = map(core.collective_args.get, c.uid[[row, self._origin[at]]].tolist())
        group = next((args["group"] for args in recorded if args and args.get("group") is not None), None)
        return {
            "id": above + 1 + place,
            "ctrl_deps": above,
            "cat": CATEGORIES[Kind(int(c.kind[row]))],
            "name": core.names[c.name[row]],
            "ph": "X",
            **self._times(row),
            "stream": int(c.stream[row]),
            **({} if group is None else {"pg_name": str(group)}),
        }


def _side(arguments: Arguments) -> dict[str, Any]:
    return {name: Raw(text) if text else [] for name, text in zip(Arguments._fields, arguments, strict=True)}


def exclusive_ns(core: Core) -> Ns:
    """Per row the duration without that of ops and ranges inside it, in ns; of all else the duration.

    Steps do not count as ranges.
    """
    c = core.columns
    start, end = c.start_ns, c.start_ns + c.dur_ns
    own: np.ndarray = c.dur_ns.astype(np.int64)
    inner, outer = [], []
    for rows in _by_thread(core):
        around: list[int] = []
        for row, begin in zip(rows.tolist(), start[rows].tolist(), strict=True):
            while around and end[around[-1]] <= begin:
                around.pop()
            if around:
                inner.append(row)
                outer.append(around[-1])
            around.append(row)
    covered = np.minimum(end[inner], end[outer]) - start[inner] if inner else np.zeros(0, np.int64)
    np.subtract.at(own, np.array(outer, np.int64), covered)
    return own


def _by_thread(core: Core) -> Iterator[np.ndarray]:
    """Rows of ops and ranges of each thread, by start, the longer first."""
    c = core.columns
    rows = np.flatnonzero(is_kind(c.kind, (Kind.Op, Kind.Annotation)))
    rows = rows[np.lexsort((c.uid[rows], -c.dur_ns[rows], c.start_ns[rows]))]
    for _, places in positions_by(c.thread[rows]):
        yield rows[np.sort(places)]


def _last_on_other_threads(core: Core) -> np.ndarray:
    """Per row of an op or range the last one that began on another thread before the stretch of ops that it is in.

    A stretch begins where none has begun before on the thread, or the one before ended more than 1,000 us earlier.
    """
    c = core.columns
    found = np.full(len(c), -1)
    threads = list(_by_thread(core))
    rows = np.concatenate(threads) if threads else np.zeros(0, np.int64)
    rows = rows[np.argsort(c.start_ns[rows], kind="stable")]
    start, thread = c.start_ns[rows], c.thread[rows]
    places = np.arange(len(rows))
    changes = np.append(True, thread[1:] != thread[:-1])[: len(rows)]
    before_stretch = np.maximum.accumulate(np.where(changes, places - 1, -1)) if len(rows) else places
    for own in threads:
        begin = c.start_ns[own]
        gap = begin[1:] - begin[:-1] - c.dur_ns[own[:-1]]
        first = np.append(0, np.flatnonzero(gap > LONG_GAP_NS) + 1)
        at = np.searchsorted(start, begin[first], "left") - 1
        same = (at >= 0) & (thread[at] == c.thread[own[0]])
        at = np.where(same, before_stretch[at], at)
        last = np.where(at >= 0, rows[at], -1)
        found[own] = np.repeat(last, np.diff(np.append(first, len(own))))
    return found
