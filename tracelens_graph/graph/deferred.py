"""Graphs that are not held, and how any graph is asked where it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import TraceInfo

_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class Deferred:
    """A graph that is not held, as thousands of ranks together are too large: it is read again by whoever needs it.

    Attributes:
        info: facts about the trace.
        left: what was made of the graph where it was read first.
        read: reads it again.
        file: what its set knows it by.
        ask: asks some of the set something where they are read; see `TraceSet.ask`.
    """

    info: TraceInfo
    left: Any
    read: Callable[[], Core]
    file: str
    ask: Callable[[Question, Mapping[str, Any]], Iterable[tuple[str, Any]]]


class Reader:
    """A graph that is asked something where it is read, and what is kept of it from question to question."""

    def __init__(self, read: Callable[[], Core]) -> None:
        self._read = read

    @cached_property
    def core(self) -> Core:
        """The graph."""
        return self._read()

    def once(self, make: Callable[[Core], _Made]) -> _Made:
        """What a function makes of the graph; made when first asked for."""
        return self.core.once(make)


Question = Callable[[Reader, Any], Any]
"""What a graph is asked, with what is given to it; a function of a module, so that it can be sent to a process."""
