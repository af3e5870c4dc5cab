"""The columns of a graph: one numpy array per property, all of one length, in pre-order of the call forest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.schema import STORED
from tracelens_graph.utils.arrays import Codes, Ns, Rows

ALWAYS = frozenset({"uid", "kind", "name", "start_ns", "dur_ns", "parent", "last"})
"""Columns that every graph has, however lean it is."""

_NAMES = frozenset(prop.name for prop in STORED)


class Columns:
    """Arrays of the properties in `schema.STORED`, as attributes, read-only.

    Row i is one event node. Rows of the call forest come first, in pre-order (threads by pid and tid, roots by
    start, GPU events after the host children of their launch), then GPU events without a launch by device,
    stream and start, then the layers beside the forest (annotations and the like) by thread and start.

    An array is looked up in the mapping when it is first read, and kept. So a mapping may read it from a file then.
    A lean graph lacks some of them; whoever asks for one of these gets an error.

    Attributes:
        names: names of the columns that there are, in the order of the schema.

    Raises:
        AnalysisError: a column was not loaded.
        TraceError: a column is read from a saved graph, which turns out to be damaged.
    """

    if TYPE_CHECKING:
        uid: np.ndarray
        kind: Codes
        name: Codes
        thread: Codes
        start_ns: Ns
        dur_ns: Ns
        external_id: np.ndarray
        correlation: np.ndarray
        device: np.ndarray
        stream: np.ndarray
        bytes: np.ndarray
        argset: Codes
        sequence: np.ndarray
        forward_thread: np.ndarray
        parent: Rows
        last: Rows
        depth: np.ndarray
        owner: Rows
        owner_rule: Codes
        flags: np.ndarray

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        there = set(arrays)
        if missing := ALWAYS - there:
            raise ValueError(f"columns lack {', '.join(sorted(missing))}")
        self.names = tuple(prop.name for prop in STORED if prop.name in there)
        self._arrays = arrays

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _NAMES:
                raise AttributeError(name)
            if name not in self.names:
                raise AnalysisError(f"the graph was loaded without the column {name}; load it whole for this")
            array = self._arrays[name].view()
            array.flags.writeable = False
            setattr(self, name, array)
            return array

    def __reduce__(self) -> tuple[Any, ...]:
        return Columns, (dict(self),)

    def __len__(self) -> int:
        return len(self.kind)  # the narrowest

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        for name in self.names:
            yield name, getattr(self, name)

    def only(self, names: Iterable[str]) -> Columns:
        """Some of the columns, and those that every graph has."""
        kept = ALWAYS.union(names)
        return Columns({name: getattr(self, name) for name in self.names if name in kept})

    @property
    def end_ns(self) -> Ns:
        """Ends, in ns."""
        return self.start_ns + self.dur_ns

    @property
    def nbytes(self) -> int:
        """Memory of all columns, in bytes."""
        return sum(array.nbytes for _, array in self)
