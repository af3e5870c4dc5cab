"""Graphs of a set that are not held: read again when they are asked for, or asked where they are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Question, Reader
from tracelens_graph.graph.graph import Graph
from tracelens_graph.loading.elsewhere import Done, Order, abroad, fetched, keep, kept, loaded, on_workers
from tracelens_graph.utils.processes import map_in_processes

AGAIN_BYTES = 64 * 2**20
"""Size of graphs that were read again and are kept, in case they are asked for once more."""

_LEAST_BYTES = 2**20
"""What a graph takes beside its columns."""


class Again:
    """Graphs that are read again when they are asked for; the last ones are kept.

    Attributes:
        done: what became of each file when it was read first.
    """

    def __init__(self, processes: int | None, scheduler: str | None) -> None:
        self._processes, self._scheduler = processes, scheduler
        self.done: dict[str, tuple[Done, Order]] = {}
        self._kept: dict[str, tuple[Graph, int]] = {}
        self._bytes = 0

    def answers(self, question: Question, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """File and answer of some graphs, each where it is read; of few that were written on the way that is here.

        Raises:
            TraceError: one of them cannot be read any more.
        """
        asked = {file: _Asked(*self.done[file], question, one) for file, one in given.items()}
        if sum(one.written_bytes for one in asked.values()) <= AGAIN_BYTES:
            here = {file: one for file, one in asked.items() if one.done.written is not None}
            yield from ((file, question(self._reader(file), one.given)) for file, one in here.items())
            asked = {file: one for file, one in asked.items() if file not in here}
        if self._scheduler is not None:
            orders = {file: replace(one, order=abroad(one.order)) for file, one in asked.items()}
            found = on_workers(_answer, orders, self._scheduler)
        else:
            answers = map_in_processes(_answer, list(asked.values()), self._processes, lambda one: one.order.file)
            found = zip(asked, answers, strict=True)
        for file, answer in found:
            if isinstance(answer, TraceError):
                raise answer
            yield file, answer

    def _reader(self, file: str) -> Reader:
        read = partial(self.graph, file)
        return Reader(read) if file in self._kept else _KeptReader(self.done[file][1], read)

    def graph(self, file: str) -> Graph:
        """The graph of a file.

        Raises:
            TraceError: it cannot be read any more.
        """
        if file in self._kept:
            core, size = self._kept.pop(file)
        else:
            core = _read(*self.done[file])
            order = self.done[file][1]
            if order.keeps is not None:
                with suppress(OSError):
                    core.remember(kept(order, order.keeps), order.keeps)
            size = core.columns.nbytes + _LEAST_BYTES
            self._bytes += size
        self._kept[file] = core, size  # behind all others
        while len(self._kept) > 1 and self._bytes > AGAIN_BYTES:
            self._bytes -= self._kept.pop(next(iter(self._kept)))[1]
        return core


def _read(done: Done, order: Order, processes: int = 0) -> Graph:
    """The graph of a file again.

    Raises:
        TraceError: it cannot be read any more.
    """
    if done.written is not None:
        return fetched(done, order, into_memory=False)
    again = loaded(order, processes=processes)
    if isinstance(again, TraceError):
        raise again
    return again.core


@dataclass(frozen=True)
class _Asked:
    """A file, what became of it when it was read first, and what its graph is asked."""

    done: Done
    order: Order
    question: Question
    given: Any

    @property
    def written_bytes(self) -> int:
        """Size of the graph where it was written."""
        return os.path.getsize(self.done.written) if isinstance(self.done.written, Path) else 0


def _answer(asked: _Asked) -> Any:
    """What a graph answers, or why it cannot be read."""
    try:
        return asked.question(_KeptReader(asked.order, partial(_read, asked.done, asked.order, 1)), asked.given)
    except TraceError as error:
        return error


class _KeptReader(Reader):
    """A graph whose kept parts lie beside the set's other temporary files.

    On a machine that does not see these, they are made of the graph again.
    """

    def __init__(self, order: Order, read: Callable[[], Core]) -> None:
        super().__init__(read)
        self._order = order

    def once(self, make: Callable[[Core], Any]) -> Any:
        """What a function makes of the graph, read back where it was kept."""
        try:
            return kept(self._order, make)
        except OSError:
            return keep(self._order, self.core, make)
