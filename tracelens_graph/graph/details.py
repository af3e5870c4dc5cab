"""What stays in the file: the full original event behind a node, found again when someone looks at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_CACHED = 4

NO_TEXT = -1
"""In the place of `repaired` in `Details.places`: the file is there, but its format is no text."""


class Details:
    """Events of a trace as JSON, in blocks that are lists of consecutive events.

    Attributes:
        first: uid of the first event of each block, ascending.
        count: number of events in each block.
    """

    def __init__(self, first: Sequence[int] | np.ndarray, count: Sequence[int] | np.ndarray) -> None:
        self.first = np.asarray(first, np.int64)
        self.count = np.asarray(count, np.int64)
        self._recent: dict[int, list[msgspec.Raw]] = {}

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """The JSON text `[event, ...]` of each of the blocks, which are in ascending order."""
        raise NotImplementedError

    def identity(self) -> str | None:
        """The id of the trace that the events stand in; None if they stand in none.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
        """
        raise NotImplementedError

    def places(self) -> np.ndarray | None:
        """Where the blocks stand in the trace's file: (offset, length, whether repaired or `NO_TEXT`) each.

        None if they stand in no file that outlives this process.
        """
        return None

    def events(self, uids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """uid -> the original event, for those that stand in the file.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
        """
        wanted = np.unique(np.fromiter(uids, np.int64))
        block = np.searchsorted(self.first, wanted, "right") - 1
        known = block >= 0
        known[known] &= wanted[known] < self.first[block[known]] + self.count[block[known]]
        wanted, block = wanted[known], block[known]
        needed = np.unique(block).tolist()
        missing = [b for b in needed if b not in self._recent]
        loaded = {b: _RAW_LIST.decode(text) for b, text in zip(missing, self.texts(missing), strict=True)}
        loaded |= {b: self._recent[b] for b in needed if b not in loaded}
        self._recent = dict(list(loaded.items())[-_CACHED:])
        found = {}
        for uid, b in zip(wanted.tolist(), block.tolist(), strict=True):
            event = msgspec.json.decode(loaded[b][uid - int(self.first[b])])
            if isinstance(event, dict):
                found[uid] = event
        return found


class NoDetails(Details):
    """For graphs that come from no file."""

    def __init__(self) -> None:
        super().__init__([], [])

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """Nothing."""
        return iter(())

    def identity(self) -> None:
        """None: there is no trace."""
