"""Which captured call a replayed GPU event is the work of: two sequences are aligned, once for each pattern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.captures.recording import CapturedGraph
from tracelens_graph.graph.common_order import common_order
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Rows


@dataclass(frozen=True, eq=False)
class Match:
    """How the GPU events of a replay fit a captured graph.

    Attributes:
        graph: the graph.
        call: of each GPU event the position of its captured call, -1 for none.
        rule: how they were joined.
    """

    graph: CapturedGraph
    call: Rows
    rule: str

    @property
    def joined(self) -> int:
        """Number of GPU events with a captured call."""
        return int(np.count_nonzero(self.call >= 0))


EXACT, ALIGNED = "equal names in order", "aligned by name"
_LEAST = 0.5
"""Share of the GPU events of a replay that have to fit a graph."""
_COPIES = ("copyBuffer", "fillBuffer")
"""What kernels of ROCm are called that do the work of copies and fills."""
_COPY, _FILL, _UNNAMED = "(copy)", "(fill)", "(kernel)"


def _token(kind: int, name: str | None) -> str:
    """What is compared of a GPU event, or of a captured call."""
    if kind == Kind.Memcpy or (name and _COPIES[0] in name):
        return _COPY
    if kind == Kind.Memset or (name and _COPIES[1] in name):
        return _FILL
    return name or _UNNAMED


class Matcher:
    """Fits replays to captured graphs, each pattern of GPU events once.

    Args:
        core: the trace of the replays.
        graphs: the captured graphs.
    """

    def __init__(self, core: Core, graphs: Sequence[CapturedGraph]) -> None:
        self._core = core
        self._codes: dict[str, int] = {}
        self._graphs = [(graph, self._numbers(zip(graph.kinds.tolist(), graph.names, strict=True))) for graph in graphs]
        self._token = np.full(len(core.names), -1, np.int64)
        self._known: dict[bytes, list[Match]] = {}

    def _numbers(self, events: Iterable[tuple[int, str | None]]) -> Codes:
        return np.array([self._codes.setdefault(_token(*one), len(self._codes)) for one in events], np.int64)

    def _tokens(self, rows: Rows) -> Codes:
        """A number for what is compared of each GPU event."""
        c = self._core.columns
        name = c.name[rows]
        new, at = np.unique(name[self._token[name] < 0], return_index=True)
        if len(new):
            kinds = c.kind[rows][self._token[name] < 0][at].tolist()
            self._token[new] = self._numbers(zip(kinds, (self._core.names[code] for code in new.tolist()), strict=True))
        return self._token[name]

    def pattern(self, rows: Rows) -> bytes:
        """What tells the GPU events of replays apart that may fit differently."""
        return self._tokens(rows).tobytes()

    def matches(self, rows: Rows) -> list[Match]:
        """The fits of replayed GPU events, in the order in which they began, that are best; several if equally good."""
        key = self.pattern(rows)
        if key not in self._known:
            self._known[key] = self._best(self._tokens(rows))
        return self._known[key]

    def _best(self, events: Codes) -> list[Match]:
        exact = [graph for graph, calls in self._graphs if np.array_equal(calls, events)]
        if exact:
            return [Match(graph, np.arange(len(events)), EXACT) for graph in exact]
        found = [Match(graph, _aligned(events, calls), ALIGNED) for graph, calls in self._graphs]
        # What is left over on either side counts against a graph.
        scores = [2 * one.joined - len(events) - len(one.graph) for one in found]
        best = max(scores, default=0)
        return [
            one
            for one, score in zip(found, scores, strict=True)
            if score == best and one.joined >= _LEAST * len(events)
        ]


def _aligned(events: Codes, calls: Codes) -> Rows:
    """Of each GPU event the position of its captured call in a longest common subsequence, -1 for none."""
    call = np.full(len(events), -1, np.int64)
    at, of = common_order(events, calls)
    call[at] = of
    return call
