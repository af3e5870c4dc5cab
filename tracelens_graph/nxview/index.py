"""Which position in the columns belongs to which networkx node, and back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate, chain
from operator import index as as_int
from typing import Any, Protocol

import numpy as np

from tracelens_graph.graph.trace_set import NODES_PER_TRACE


class Index(Protocol):
    """The nodes of a graph in their order: node key <-> position."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __contains__(self, key: object) -> bool: ...

    def position(self, key: Hashable) -> int:
        """Where a node stands; KeyError if there is none of this key, TypeError if it cannot be a key."""

    def key(self, position: int) -> Any:
        """The node at a position."""

    def keys(self, low: int, high: int) -> list[Any]:
        """The nodes at positions low..high-1."""


class UidIndex:
    """Event nodes: the key is the uid. Numbers equal to a uid (3.0, np.int64(3)) find it, as in a dictionary."""

    def __init__(self, uid: np.ndarray) -> None:
        self._uid = np.ascontiguousarray(uid, np.int64).data
        # A table answers ten times faster than a search, and covers all uids but synthetic ones.
        limit = 8 * len(uid) + 1024
        table = np.full(min(limit, int(uid.max(initial=-1)) + 1), -1, np.int32)
        small = np.flatnonzero(uid < limit)
        table[uid[small]] = small
        self._table, self._limit = table.data, len(table)
        large = np.flatnonzero(uid >= limit)
        self._others = dict(zip(uid[large].tolist(), large.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self._uid)

    def __iter__(self) -> Iterator[int]:
        return iter(self._uid)

    def __contains__(self, key: object) -> bool:
        return self._find(key) >= 0

    def _find(self, key: Any) -> int:
        number = key if type(key) is int else _whole(key)
        if 0 <= number < self._limit:
            return self._table[number]
        return self._others.get(number, -1)

    def position(self, key: Hashable) -> int:
        """The row of a uid."""
        found = self._find(key)
        if found < 0:
            raise KeyError(key)
        return found

    def key(self, position: int) -> int:
        """The uid of a row."""
        return self._uid[position]

    def keys(self, low: int, high: int) -> list[int]:
        """The uids of rows low..high-1."""
        return self._uid[low:high].tolist()


def _whole(key: Any) -> int:
    """The integer that a key is equal to, -1 for none; TypeError if it cannot be a key."""
    hash(key)
    try:
        return as_int(key)
    except TypeError:
        return int(key) if isinstance(key, float) and key.is_integer() else -1


class FullIndex:
    """Event nodes, then nodes with text keys."""

    def __init__(self, events: UidIndex, texts: Sequence[str]) -> None:
        self._events, self._texts = events, list(texts)
        self._places = {text: place for place, text in enumerate(texts, len(events))}

    def __len__(self) -> int:
        return len(self._events) + len(self._texts)

    def __iter__(self) -> Iterator[int | str]:
        return chain(self._events, self._texts)

    def __contains__(self, key: object) -> bool:
        return key in self._places or key in self._events

    def position(self, key: Hashable) -> int:
        """The position of a uid or a text key."""
        return self._places[key] if isinstance(key, str) else self._events.position(key)

    def key(self, position: int) -> int | str:
        """The uid or text key at a position."""
        events = len(self._events)
        return self._events.key(position) if position < events else self._texts[position - events]

    def keys(self, low: int, high: int) -> list[Any]:
        """The keys at positions low..high-1."""
        events = len(self._events)
        texts = self._texts[max(low - events, 0) : max(high - events, 0)]
        return self._events.keys(min(low, events), min(high, events)) + texts


class SetIndex:
    """The nodes of several traces, one trace after the other, then nodes that belong to none of them.

    The key of a trace's node is its number in the set, `ordinal * NODES_PER_TRACE + uid`.
    """

    def __init__(self, traces: Sequence[Index], others: Sequence[int]) -> None:
        self._traces, self._others = traces, list(others)
        self._begin = list(accumulate(map(len, traces), initial=0))
        self._places = {key: place for place, key in enumerate(others, self._begin[-1])}

    def __len__(self) -> int:
        return self._begin[-1] + len(self._others)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(keys for _, _, _, keys in self.blocks(0, len(self)))

    def __contains__(self, key: object) -> bool:
        number = key if type(key) is int else _whole(key)
        ordinal, uid = divmod(number, NODES_PER_TRACE)
        return number in self._places or (0 <= ordinal < len(self._traces) and uid in self._traces[ordinal])

    def position(self, key: Hashable) -> int:
        """The position of a number of the set."""
        if key not in self:
            raise KeyError(key)
        number = _whole(key)
        ordinal, uid = divmod(number, NODES_PER_TRACE)
        found = self._places.get(number)
        return self._begin[ordinal] + self._traces[ordinal].position(uid) if found is None else found

    def place(self, position: int) -> tuple[int, int]:
        """Whose node stands at a position, and where among those; who is of no trace has the ordinal behind them."""
        ordinal = bisect_right(self._begin, position) - 1
        return ordinal, position - self._begin[ordinal]

    def key(self, position: int) -> int:
        """The number of the node at a position."""
        ordinal, own = self.place(position)
        if ordinal == len(self._traces):
            return self._others[own]
        return ordinal * NODES_PER_TRACE + int(self._traces[ordinal].key(own))

    def keys(self, low: int, high: int) -> list[int]:
        """The numbers of the nodes at positions low..high-1."""
        return [key for _, _, _, keys in self.blocks(low, high) for key in keys]

    def blocks(self, low: int, high: int) -> Iterator[tuple[int, int, int, list[int]]]:
        """Positions low..high-1 trace by trace: ordinal, first and last but one of its own positions, numbers."""
        for ordinal, begin in enumerate(self._begin):
            is_trace = ordinal < len(self._traces)
            size = len(self._traces[ordinal]) if is_trace else len(self._others)
            first, end = max(low - begin, 0), min(high - begin, size)
            if first >= end:
                continue
            if is_trace:
                base = ordinal * NODES_PER_TRACE
                yield ordinal, first, end, [base + uid for uid in self._traces[ordinal].keys(first, end)]
            else:
                yield ordinal, first, end, self._others[first:end]
