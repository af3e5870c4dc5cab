"""Dictionaries over positions in columns, whose values are made when someone looks at them; nobody writes to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from itertools import accumulate, chain
from operator import index as as_int
from typing import Any, NoReturn

import networkx as nx
import numpy as np

from tracelens_graph.utils.arrays import Codes

READ_ONLY = "a trace graph is read-only: change a copy, made by to_networkx()"

_KEPT = 1 << 15
"""Values that an on-demand dictionary remembers."""

_BLOCK = 1 << 12
"""Values that are made at once when all of them are wanted."""


def refuse(*_: Any, **__: Any) -> NoReturn:
    """What every writing method of a read-only object does.

    Raises:
        networkx.NetworkXError: always.
    """
    raise nx.NetworkXError(READ_ONLY)


class FrozenDict(dict[Any, Any]):
    """Attributes of a node or an edge, to read; copies of it are plain and can be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = refuse
    clear = pop = popitem = setdefault = update = refuse

    def copy(self) -> dict[Any, Any]:
        """A plain dictionary with the same items."""
        return dict(self)

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        from copy import deepcopy

        return deepcopy(dict(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class OnDemandDict(dict[Any, Any]):
    """A read-only dictionary over all nodes that makes each value on demand and keeps those used lately.

    It is a `dict` because a value that is already there is then found at the speed of one. Everything that
    would show how little is in it (length, iteration, comparison, copies) is answered from the index instead.
    """

    __slots__ = ("_index", "_make", "_make_block")

    def __init__(
        self, index: Index, make_block: Callable[[int, int], list[Any]], make: Callable[[int], Any] | None = None
    ) -> None:
        """The dictionary of the keys of `index`.

        Args:
            index: the keys.
            make_block: gives the values at positions low..high-1.
            make: gives the value at one position; by default a block of it alone.
        """
        super().__init__()
        self._index = index
        self._make_block = make_block
        self._make = make or (lambda position: make_block(position, position + 1)[0])

    @property
    def index(self) -> Index:
        """The keys and their positions."""
        return self._index

    def __missing__(self, key: Hashable) -> Any:
        position = self._index.position(key)
        value = self._make(position)
        if dict.__len__(self) >= _KEPT:
            dict.clear(self)
        dict.__setitem__(self, self._index.key(position), value)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def __len__(self) -> int:
        return len(self._index)

    def __bool__(self) -> bool:
        return len(self._index) > 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self._index)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(list(self._index))

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The value of a key, or the default where there is none."""
        try:
            return self[key]
        except KeyError:
            return default

    def keys(self) -> KeysView[Any]:  # type: ignore[override]
        """The keys, in row order."""
        return KeysView(self)

    def items(self) -> ItemsView[Any, Any]:  # type: ignore[override]
        """Keys and values, in row order; values are made block by block and not kept."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """The values, in row order; made block by block and not kept."""
        return _Values(self)

    def at(self, low: int, high: int) -> list[Any]:
        """Values at positions low..high-1, made anew."""
        return self._make_block(low, high) if low < high else []

    def blocks(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Keys and values of consecutive positions."""
        for low in range(0, len(self._index), _BLOCK):
            high = min(low + _BLOCK, len(self._index))
            yield self._index.keys(low, high), self._make_block(low, high)

    def copy(self) -> dict[Any, Any]:
        """A plain dictionary with all items."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict):
            return NotImplemented
        if len(self) != len(other):
            return False
        nothing = object()
        return all(other.get(key, nothing) == value for key, value in self.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __or__(self, other: Any) -> dict[Any, Any]:
        return self.copy() | dict(other)

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return dict(other) | self.copy()

    def __repr__(self) -> str:
        return f"<{len(self):,} values, made when looked at>"

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    __hash__ = None
    __setitem__ = __delitem__ = __ior__ = refuse
    clear = pop = popitem = setdefault = update = refuse


class _Items(ItemsView[Any, Any]):
    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for keys, values in self._mapping.blocks():  # type: ignore[attr-defined]
            yield from zip(keys, values, strict=True)


class _Values(ValuesView[Any]):
    def __iter__(self) -> Iterator[Any]:
        for _, values in self._mapping.blocks():  # type: ignore[attr-defined]
            yield from values


class Index:
    """The nodes of a graph in their order: node key <-> position."""

    def __len__(self) -> int:
        raise NotImplementedError

    def find(self, key: Any) -> int:
        """Where a node stands, -1 if there is none of this key; TypeError if it cannot be a key."""
        raise NotImplementedError

    def keys(self, low: int, high: int) -> list[Any]:
        """The nodes at positions low..high-1."""
        raise NotImplementedError

    def key(self, position: int) -> Any:
        """The node at a position."""
        return self.keys(position, position + 1)[0]

    def position(self, key: Hashable) -> int:
        """Where a node stands; KeyError if there is none of this key."""
        found = self.find(key)
        if found < 0:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.find(key) >= 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys(0, len(self)))


class KeyIndex(Index):
    """Nodes whose keys are listed."""

    def __init__(self, keys: Sequence[Hashable]) -> None:
        self._keys = list(keys)
        self._places = {key: place for place, key in enumerate(self._keys)}

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: Any) -> int:
        """The place in the list."""
        return self._places.get(key, -1)

    def keys(self, low: int, high: int) -> list[Any]:
        """A part of the list."""
        return self._keys[low:high]


class UidIndex(Index):
    """Event nodes: the key is the uid. Numbers equal to a uid (3.0, np.int64(3)) find it, as in a dictionary."""

    def __init__(self, uid: Codes) -> None:
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

    def find(self, key: Any) -> int:
        """The row of a uid."""
        number = key if type(key) is int else whole(key)
        if 0 <= number < self._limit:
            return self._table[number]
        return self._others.get(number, -1)

    def key(self, position: int) -> int:
        """The uid of a row."""
        return self._uid[position]

    def keys(self, low: int, high: int) -> list[int]:
        """The uids of rows low..high-1."""
        return self._uid[low:high].tolist()


class ShiftedIndex(Index):
    """The nodes of another index, whose keys are numbers, each so much greater."""

    def __init__(self, index: Index, base: int) -> None:
        self._index, self._base = index, base

    def __len__(self) -> int:
        return len(self._index)

    def find(self, key: Any) -> int:
        """The position of the smaller number."""
        return self._index.find(whole(key) - self._base)

    def keys(self, low: int, high: int) -> list[int]:
        """The greater numbers."""
        return [self._base + key for key in self._index.keys(low, high)]


class JoinedIndex(Index):
    """The nodes of several indexes, one index after the other.

    Args:
        parts: the indexes.
        owner: the number of the one that a key can be in.
    """

    def __init__(self, parts: Sequence[Index], owner: Callable[[Any], int]) -> None:
        self.parts = parts
        self._owner = owner
        self._begin = list(accumulate(map(len, parts), initial=0))

    def __len__(self) -> int:
        return self._begin[-1]

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.parts)

    def find(self, key: Any) -> int:
        """The position in the part, behind all parts before."""
        ordinal = self._owner(key)
        found = self.parts[ordinal].find(key) if 0 <= ordinal < len(self.parts) else -1
        return found if found < 0 else self._begin[ordinal] + found

    def key(self, position: int) -> Any:
        """The node at a position."""
        ordinal = bisect_right(self._begin, position) - 1
        return self.parts[ordinal].key(position - self._begin[ordinal])

    def keys(self, low: int, high: int) -> list[Any]:
        """The nodes at positions low..high-1."""
        return [key for ordinal, first, end in self.blocks(low, high) for key in self.parts[ordinal].keys(first, end)]

    def blocks(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Positions low..high-1 part by part: number of the part, first and last but one of its own positions."""
        for ordinal in range(bisect_right(self._begin, low) - 1, len(self.parts)):
            begin = self._begin[ordinal]
            if begin >= high:
                return
            if len(self.parts[ordinal]):
                yield ordinal, max(low - begin, 0), min(high - begin, len(self.parts[ordinal]))


def whole(key: Any) -> int:
    """The integer that a key is equal to, -1 for none; TypeError if it cannot be a key."""
    hash(key)
    try:
        return as_int(key)
    except TypeError:
        return int(key) if isinstance(key, float) and key.is_integer() else -1
