"""The columns of a graph: one numpy array per property, all of one length, in pre-order of the call forest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.schema import STORED

ALWAYS = frozenset({"uid", "kind", "name", "start_ns", "dur_ns", "parent", "last"})
"""Columns that every graph has, however lean it is."""

_NAMES = frozenset(prop.name for prop in STORED)


class Columns:
    """Arrays of the properties in `schema.STORED`, as attributes, read-only.

    Row i is one event node. Rows of the call forest come first, in pre-order (threads by pid and tid, roots by
    start, GPU events after the host children of their launch), then GPU events without a launch by device,
    stream and start, then the layers beside the forest (annotations and the like) by thread and start.


    A lean graph lacks some of them; whoever asks for one of these is told so.

    Raises:
        AnalysisError: a column was not loaded.
    """

    if TYPE_CHECKING:
        uid: np.ndarray
        kind: np.ndarray
        name: np.ndarray
        thread: np.ndarray
        start_ns: np.ndarray
        dur_ns: np.ndarray
        external_id: np.ndarray
        correlation: np.ndarray
        device: np.ndarray
        stream: np.ndarray
        bytes: np.ndarray
        argset: np.ndarray
        sequence: np.ndarray
        forward_thread: np.ndarray
        parent: np.ndarray
        last: np.ndarray
        depth: np.ndarray
        owner: np.ndarray
        owner_rule: np.ndarray
        flags: np.ndarray

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        for prop in STORED:
            if prop.name in arrays:
                array = arrays[prop.name].view()
                array.flags.writeable = False
                setattr(self, prop.name, array)
        if missing := ALWAYS - vars(self).keys():
            raise ValueError(f"columns lack {', '.join(sorted(missing))}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _NAMES:
                raise AnalysisError(f"the graph was loaded without the column {name}; load it whole for this")
            raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.uid)

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        for prop in STORED:
            if prop.name in vars(self):
                yield prop.name, getattr(self, prop.name)

    @property
    def end_ns(self) -> np.ndarray:
        """Ends, in ns."""
        return self.start_ns + self.dur_ns

    @property
    def nbytes(self) -> int:
        """Memory of all columns, in bytes."""
        return sum(array.nbytes for _, array in self)
