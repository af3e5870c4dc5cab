"""The same process as PyTorch's execution trace observer writes it (schema 1.1.1-chakra.0.0.4).

Operators and ranges become nodes, each under the one open around it on its thread; a node is written when it
ends, so children stand before their parents. `op_schema` is left empty.
"""

from __future__ import annotations

from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

from tracelens_graph.simulate.emit import BASE_NS
from tracelens_graph.simulate.events import ITEM_BYTES, HostEvent, Storage, Tensor
from tracelens_graph.simulate.host import Process
from tracelens_graph.simulate.truth import last_uses, release_times

Json = dict[str, Any]
SCHEMA = "1.1.1-chakra.0.0.4"
PROCESS, THREAD = (f"[pytorch|profiler|execution_trace|{kind}]" for kind in ("process", "thread"))
USER_SCOPE = 7
COLLECTIVE_ATTRIBUTES = (
    ("collective_name", "string", "Collective name"),
    ("dtype", "string", "dtype"),
    ("in_msg_nelems", "uint64", "In msg nelems"),
    ("out_msg_nelems", "uint64", "Out msg nelems"),
    ("in_split_size", "string", "In split size"),
    ("out_split_size", "string", "Out split size"),
    ("global_rank_start", "uint64", "Global rank start"),
    ("global_rank_stride", "uint64", "Global rank stride"),
    ("pg_name", "string", "Process Group Name"),
    ("pg_desc", "string", "Process Group Description"),
    ("pg_size", "uint64", "Group size"),
)


def execution_trace(process: Process) -> Json:
    """The execution trace of a process as JSON; `rf_id` is the `Record function id` of the Kineto trace."""
    return _Observer(process).observe()


class _Observer:
    """Numbers nodes, tensors and storages from one counter, in the order it meets them."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._nodes: list[Json] = []
        self._last = 1
        self._ids: dict[int, int] = {}
        self._free = _FreeIds(process) if process.options.reuse_ids else None
        self._open: dict[int, list[int]] = {}
        self._making = 0
        """While results are numbered: when their operator began."""

    def observe(self) -> Json:
        edges = []
        for event in self._process.hosts:
            if event.record_id:
                edges += [(event.start, 1, event), (event.end, 0, event)]
        edges.sort(key=lambda edge: edge[:2])
        parents: dict[int, tuple[int, int, int]] = {}
        for _, begins, event in edges:
            if begins:
                parents[id(event)] = self._begin(event)
            else:
                self._end(event, *parents[id(event)])
        self._write(1, PROCESS, 1, _attributes(USER_SCOPE, 0))
        hosts = self._process.hosts
        start = min(event.start for event in hosts)
        when = datetime.fromtimestamp((BASE_NS + start) // 10**9, UTC)
        return {
            "schema": SCHEMA,
            "pid": self._process.pid,
            "time": when.strftime("%Y-%m-%d %H:%M:%S"),
            "start_ts": start // 10**6,
            "finish_ts": max(event.end for event in hosts) // 10**6,
            "nodes": self._nodes,
        }

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _id(self, thing: Tensor | Storage) -> int:
        if id(thing) not in self._ids:
            found = self._free.take(thing, self._making) if self._free and self._making else None
            number = self._ids[id(thing)] = self._next() if found is None else found
            if self._free:
                self._free.add(thing, number)
        return self._ids[id(thing)]

    def _begin(self, event: HostEvent) -> tuple[int, int, int]:
        """Open a node: its number, its parent's, and that of the node open on the forward thread."""
        stack = self._open.get(event.thread.number)
        if stack is None:
            stack = self._open[event.thread.number] = [self._next()]
            self._write(stack[0], THREAD, 1, _attributes(USER_SCOPE, event.thread.number))
        parent, node = stack[-1], self._next()
        forward = self._open.get(event.forward_thread, [0])[-1] if event.forward_thread else 0
        stack.append(node)
        for value in event.inputs:
            self._argument(value)
        return node, parent, forward

    def _end(self, event: HostEvent, node: int, parent: int, forward: int) -> None:
        self._open[event.thread.number].remove(node)
        self._making = event.start
        for value in event.outputs:
            self._argument(value)
        self._making = 0
        attributes = _attributes(event.scope, event.thread.number, event, forward)
        self._write(node, event.name, parent, attributes, event)

    def _write(self, node: int, name: str, parent: int, attributes: list[Json], event: HostEvent | None = None) -> None:
        self._nodes.append(
            {
                "id": node,
                "name": name,
                "ctrl_deps": parent,
                "inputs": self._arguments(event.inputs if event else ()),
                "outputs": self._arguments(event.outputs if event else ()),
                "attrs": attributes,
            }
        )

    def _arguments(self, values: tuple[Any, ...]) -> Json:
        rows = [self._argument(value) for value in values]
        return {key: [row[i] for row in rows] for i, key in enumerate(("values", "shapes", "types", "strides"))}

    def _argument(self, value: Any) -> tuple[Any, Any, str, Any]:
        """Value, shape, type and strides of one argument."""
        if isinstance(value, Tensor):
            return self._tensor(value), list(value.shape), f"Tensor({value.dtype})", list(value.strides)
        if isinstance(value, (list, tuple)):
            items = [self._argument(item) for item in value]
            kind = "GenericList" if isinstance(value, list) else "Tuple"
            inner = ",".join(item[2] for item in items)
            return [i[0] for i in items], [i[1] for i in items], f"{kind}[{inner}]", [i[3] for i in items]
        if value is None:
            return "<None>", [], "None", []
        return value, [], _scalar_type(value), []

    def _tensor(self, tensor: Tensor) -> list[Any]:
        number = self._id(tensor)
        storage = self._id(tensor.storage)
        return [number, storage, tensor.offset, tensor.numel, ITEM_BYTES[tensor.dtype], tensor.device]


class _FreeIds:
    """Ids of tensors and storages that are gone: whose last operator has ended, and whose memory was given back.

    A storage gets the id of one of its size, as its memory would be where that had been. Only results get used ids:
    of what comes from elsewhere nobody could know that it is another.
    """

    def __init__(self, process: Process) -> None:
        self._last, self._released = last_uses(process), release_times(process)
        self._waiting: list[tuple[int, int, int]] = []
        self._free: dict[int, list[int]] = {}

    def add(self, thing: Tensor | Storage, number: int) -> None:
        """Keep the id of a thing for when it is gone."""
        gone = self._last[id(thing)]
        if isinstance(thing, Storage):
            if thing.address not in self._released:
                return
            gone = max(gone, self._released[thing.address])
        heappush(self._waiting, (gone, number, self._size(thing)))

    def take(self, thing: Tensor | Storage, now: int) -> int | None:
        """An id that was free before a time; None where there is none."""
        while self._waiting and self._waiting[0][0] < now:
            _, number, size = heappop(self._waiting)
            self._free.setdefault(size, []).append(number)
        free = self._free.get(self._size(thing))
        return free.pop() if free else None

    @staticmethod
    def _size(thing: Tensor | Storage) -> int:
        return -1 if isinstance(thing, Tensor) else thing.bytes


def _scalar_type(value: Any) -> str:
    if isinstance(value, str):
        return "Device" if value.startswith("cuda:") else "String"
    return {bool: "Bool", int: "Int", float: "Double"}[type(value)]


def _attributes(scope: int, thread: int, event: HostEvent | None = None, forward: int = 0) -> list[Json]:
    sequence = -1 if event is None or event.sequence is None else event.sequence
    rows: list[tuple[str, str, Any]] = [
        ("rf_id", "uint64", event.record_id if event else 0),
        ("fw_parent", "uint64", forward),
        ("seq_id", "int64", sequence),
        ("scope", "uint64", scope),
        ("tid", "uint64", thread),
        ("fw_tid", "uint64", event.forward_thread if event else 0),
        ("op_schema", "string", ""),
        ("kernel_backend", "string", ""),
        ("kernel_file", "string", ""),
        ("tensor_range", "string", ""),
    ]
    if event is not None and "Collective name" in event.args:
        rows += [(name, kind, event.args[key]) for name, kind, key in COLLECTIVE_ATTRIBUTES]
    return [{"name": name, "type": kind, "value": value} for name, kind, value in rows]
