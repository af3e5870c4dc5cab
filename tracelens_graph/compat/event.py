"""One event as TraceLens shows it: a mapping with its keys, read from the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tracelens_graph.compat.event_tree import EventTree
from tracelens_graph.graph.node import Node
from tracelens_graph.schema import Kind


class TraceEvent(Mapping[str, Any]):
    """A read-only view of one event, always with the same keys.

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
        return _KEYS[key](self._tree, self.row)

    def __iter__(self) -> Iterator[str]:
        return iter(_KEYS)

    def __len__(self) -> int:
        return len(_KEYS)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TraceEvent) and other._tree is self._tree:
            return other.row == self.row
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((id(self._tree), self.row))

    def __repr__(self) -> str:
        return f"TraceEvent({dict(self)})"


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

    def __len__(self) -> int:
        return super().__len__() + len(self._measured)


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


def _children(tree: EventTree, row: int) -> list[int]:
    found: list[int] = tree.graph.columns.uid[tree.child_rows(row)].tolist()
    return found


def _name(tree: EventTree, row: int) -> str:
    return tree.graph.names[tree.graph.columns.name[row]]


_KEYS: dict[str, Callable[[EventTree, int], Any]] = {
    "UID": _uid,
    "args": lambda tree, row: Node(tree.graph, row).args,
    "cat": lambda tree, row: tree.category(row),
    "children": _children,
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
