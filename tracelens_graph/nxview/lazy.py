"""Dictionaries whose values are made when someone looks at them, and dictionaries that cannot be written to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any, NoReturn

import networkx as nx

from tracelens_graph.nxview.index import Index

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
