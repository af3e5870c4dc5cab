"""Parts of ranks by the collective that they are of: what follows from a match, whichever rule made it."""

from __future__ import annotations

from functools import cached_property

import numpy as np


class PartsByCollective:
    """Parts that ranks had in collectives."""

    @cached_property
    def meeting(self) -> np.ndarray:
        """Number of the collective of each part, -1 for none; numbers go from 0 on without gaps."""
        raise NotImplementedError

    @cached_property
    def trace(self) -> np.ndarray:
        """Place of the rank of each part."""
        raise NotImplementedError

    @cached_property
    def start_ns(self) -> np.ndarray:
        """Start of each part, on one clock."""
        raise NotImplementedError

    @cached_property
    def end_ns(self) -> np.ndarray:
        """End of each part, on the same clock."""
        raise NotImplementedError

    def __len__(self) -> int:
        return int(self.meeting.max(initial=-1)) + 1

    @cached_property
    def order(self) -> np.ndarray:
        """Matched parts by collective, then by rank."""
        order = np.argsort(self.meeting, kind="stable")
        return order[self.meeting[order] >= 0]

    @cached_property
    def first(self) -> np.ndarray:
        """Where the parts of each collective begin in the order."""
        return np.searchsorted(self.meeting[self.order], np.arange(len(self)))

    def parts_of(self, meeting: int) -> np.ndarray:
        """The parts of a collective, by rank."""
        begin = int(self.first[meeting])
        end = int(self.first[meeting + 1]) if meeting + 1 < len(self) else len(self.order)
        return self.order[begin:end]

    def reduced(self, how: np.ufunc, values: np.ndarray) -> np.ndarray:
        """Values of parts put together per collective: `np.add` for sums, `np.minimum`, `np.maximum`."""
        return how.reduceat(values[self.order], self.first) if len(self) else np.empty(0, np.int64)

    @cached_property
    def count(self) -> np.ndarray:
        """Ranks of each collective."""
        return np.diff(np.append(self.first, len(self.order)))

    @cached_property
    def first_start_ns(self) -> np.ndarray:
        """When the first rank came to each collective."""
        return self.reduced(np.minimum, self.start_ns)

    @cached_property
    def last_start_ns(self) -> np.ndarray:
        """When the last rank came."""
        return self.reduced(np.maximum, self.start_ns)

    @cached_property
    def first_end_ns(self) -> np.ndarray:
        """When the first rank left."""
        return self.reduced(np.minimum, self.end_ns)

    @cached_property
    def last_end_ns(self) -> np.ndarray:
        """When the last rank left."""
        return self.reduced(np.maximum, self.end_ns)

    @cached_property
    def shortest_ns(self) -> np.ndarray:
        """Shortest duration of each collective on any rank."""
        return self.reduced(np.minimum, self.end_ns - self.start_ns)

    @cached_property
    def longest_ns(self) -> np.ndarray:
        """Longest duration of each collective on any rank."""
        return self.reduced(np.maximum, self.end_ns - self.start_ns)

    @cached_property
    def last_part(self) -> np.ndarray:
        """The part that came last to each collective; of several the one of the smallest rank."""
        return self._part_that_came(self.last_start_ns)

    @cached_property
    def first_part(self) -> np.ndarray:
        """The part that came first to each collective; of several the one of the smallest rank."""
        return self._part_that_came(self.first_start_ns)

    def _part_that_came(self, moment_ns: np.ndarray) -> np.ndarray:
        there = np.flatnonzero(self.start_ns[self.order] == np.repeat(moment_ns, self.count))
        of = self.meeting[self.order][there]
        return self.order[there[np.searchsorted(of, np.arange(len(self)))]]

    def per_part(self, values: np.ndarray) -> np.ndarray:
        """Values of collectives as one for each part; without meaning where a part was not matched."""
        return values[np.maximum(self.meeting, 0)] if len(self) else np.zeros(len(self.meeting), values.dtype)
