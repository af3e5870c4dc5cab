"""One event as TraceLens shows it: a mapping with its keys, read from the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from reprlib import Repr
from typing import Any

from tracelens_graph.compat.event_tree import EventTree
from tracelens_graph.graph.node import Node
from tracelens_graph.schema import Kind


class TraceEvent(Mapping[str, Any]):
    """A read-only view of one event.

    | key | what |
    |---|---|
    | UID | position in the file's event list |
    | name, pid, tid, args | as in the file; args are read from there when asked for |
    | cat, ph | as in the file; of an event in no file what PyTorch writes for its kind |
    | ts, dur, t_end | microseconds as in the file, on its own clock; an instant has no dur and no t_end (None) |
    | tree | whether the event is in the call tree |
    | parent | UID of the caller, of GPU work its launch; None for a root and outside of the tree |
    | children | UIDs of the calls made and the GPU work launched, by start |
    | cpu_op_root | whether it is an op under no other op |

    Some keys are there for some events only. Times are GPU busy time in us.

    | key | of | what |
    |---|---|---|
    | gpu_events | calls that lead to GPU work | UIDs of the GPU work launched below the call, by its launches |
    | nn_module_children | nn.Modules, if Python frames are part of the tree | UIDs of the modules directly in it |
    | GPU Time | the same | of everything launched below the module |
    | nn Parent GPU Time | the same | that of the module around it; None if there is none |
    | Non-nn.Module GPU Time | those that hold modules | of what is launched below it, but below no module in it |

    Times carry whole nanoseconds: `ts` equals the file's number wherever that has no finer digits. A duration
    that the file lacks or that is negative is zero.
    """

    __slots__ = ("_tree", "row")

    def __init__(self, tree: EventTree, row: int) -> None:
        self._tree = tree
        self.row = row

    @property
    def node(self) -> Node:
        """The same event as a node of the graph."""
        return Node(self._tree.graph, self.row)

    def __getitem__(self, key: str) -> Any:
        read = _KEYS.get(key)
        if read is None:
            applies, read = _SOMETIMES[key]
            if not applies(self._tree, self.row):
                raise KeyError(key)
        return read(self._tree, self.row)

    def __iter__(self) -> Iterator[str]:
        yield from _KEYS
        yield from (key for key, (applies, _) in _SOMETIMES.items() if applies(self._tree, self.row))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TraceEvent) and other._tree is self._tree:
            return other.row == self.row
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((id(self._tree), self.row))

    def __repr__(self) -> str:
        return f"TraceEvent({_short.repr(dict(self))})"


class MeasuredEvent(TraceEvent):
    """The view of an event, with further keys for what was found out about it."""

    __slots__ = ("_measured",)

    def __init__(self, tree: EventTree, row: int, measured: Mapping[str, Any]) -> None:
        super().__init__(tree, row)
        self._measured = measured

    def __getitem__(self, key: str) -> Any:
        return self._measured[key] if key in self._measured else super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        yield from self._measured


def _ts(tree: EventTree, row: int) -> float:
    return (int(tree.graph.columns.start_ns[row]) + tree.clock_ns) / 1000


def _dur(tree: EventTree, row: int) -> float | None:
    columns = tree.graph.columns
    return None if columns.kind[row] == Kind.MemoryEvent else int(columns.dur_ns[row]) / 1000


def _t_end(tree: EventTree, row: int) -> float | None:
    dur = _dur(tree, row)
    return None if dur is None else _ts(tree, row) + dur


def _parent(tree: EventTree, row: int) -> int | None:
    parent = tree.parent_row(row)
    return None if parent < 0 else int(tree.graph.columns.uid[parent])


def _uid(tree: EventTree, row: int) -> int:
    return int(tree.graph.columns.uid[row])


def _name(tree: EventTree, row: int) -> str:
    return tree.graph.names[tree.graph.columns.name[row]]


_Reader = Callable[[EventTree, int], Any]

_KEYS: dict[str, _Reader] = {
    "UID": _uid,
    "args": lambda tree, row: Node(tree.graph, row).args,
    "cat": lambda tree, row: tree.category(row),
    "children": lambda tree, row: tree.uids(tree.child_rows(row)),
    "cpu_op_root": lambda tree, row: bool(tree.is_root_op[row]),
    "dur": _dur,
    "name": _name,
    "parent": _parent,
    "ph": lambda tree, row: tree.phase(row),
    "pid": lambda tree, row: Node(tree.graph, row).pid,
    "t_end": _t_end,
    "tid": lambda tree, row: Node(tree.graph, row).tid,
    "tree": lambda tree, row: bool(tree.in_tree[row]),
    "ts": _ts,
}

_SOMETIMES: dict[str, tuple[Callable[[EventTree, int], bool], _Reader]] = {
    "gpu_events": (EventTree.has_gpu_below, lambda tree, row: tree.uids(tree.gpu_rows_below(row))),
    "nn_module_children": (EventTree.is_module, lambda tree, row: tree.uids(tree.module_rows_in(row))),
    "GPU Time": (EventTree.is_module, lambda tree, row: tree.module_us(row)),
    "nn Parent GPU Time": (EventTree.is_module, lambda tree, row: tree.module_us(tree.module_around(row))),
    "Non-nn.Module GPU Time": (
        lambda tree, row: tree.is_module(row) and len(tree.module_rows_in(row)) > 0,
        lambda tree, row: tree.own_module_us(row),
    ),
}
"""Key -> whether an event has it, and its value."""

_short = Repr()
_short.maxdict, _short.maxlist, _short.maxstring, _short.maxother = 50, 8, 160, 160
