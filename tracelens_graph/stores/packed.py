"""What a saved graph gives on request only: original events, and lists that few questions touch."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import msgspec
import numpy as np

from tracelens_graph.graph.details import Details
from tracelens_graph.stores.sections import damaged

_EVENTS = msgspec.json.Decoder(list[msgspec.Raw])


class Blocks(Protocol):
    """Compressed texts by their number."""

    def __getitem__(self, at: int, /) -> bytes: ...


class PackedDetails(Details):
    """Original events in compressed blocks, each unpacked when one of its events is looked at."""

    def __init__(self, first: np.ndarray, count: np.ndarray, blocks: Blocks, trace_id: str, name: str) -> None:
        super().__init__(first, count)
        self._blocks = blocks
        self._trace_id, self._name = trace_id, name

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """Texts of blocks.

        Raises:
            TraceError: the saved graph is damaged there.
        """
        for block in blocks:
            try:
                text = zlib.decompress(self._blocks[block])
                whole = len(_EVENTS.decode(text)) == self.count[block]
            except (zlib.error, msgspec.DecodeError, RecursionError):
                whole = False
            if not whole:
                raise damaged(self._name, f"block {block} of events")
            yield text

    def events(self, uids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """uid -> the original event, for those that stand in the file.

        Raises:
            TraceError: the saved graph is damaged there.
        """
        try:
            return super().events(uids)
        except (msgspec.DecodeError, UnicodeDecodeError):  # of text, which is not looked into before
            raise damaged(self._name, "events") from None

    def identity(self) -> str:
        """The id that the trace had when the graph was saved."""
        return self._trace_id


class DeferredList(Sequence[Any]):
    """A list that is read as a whole on first use."""

    def __init__(self, read: Callable[[], list[Any]]) -> None:
        self._read = read

    @cached_property
    def _items(self) -> list[Any]:
        return self._read()

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._items,)


class DeferredDict(Mapping[Any, Any]):
    """A dictionary that is read as a whole on first use."""

    def __init__(self, read: Callable[[], dict[Any, Any]]) -> None:
        self._read = read

    @cached_property
    def _items(self) -> dict[Any, Any]:
        return self._read()

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._items,)
