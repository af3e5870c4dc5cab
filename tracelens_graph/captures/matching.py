"""Which captured call a replayed GPU event is the work of: two sequences are aligned, once for each pattern."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.captures.recording import CapturedGraph
from tracelens_graph.captures.unnamed import belongs, kernels_of, op_of_call
from tracelens_graph.graph.common_order import common_order
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows


@dataclass(frozen=True, eq=False)
class Match:
    """How the GPU events of a replay fit a captured graph.

    Attributes:
        graph: the graph.
        call: of each GPU event the position of its captured call, -1 for none.
        rule: how they were joined.
        uncertain: GPU events that may as well be the work of another call of another op, for lack of lost events.
        foreign: GPU events that are none of the work of the op that their place would give them to.
    """

    graph: CapturedGraph
    call: Rows
    rule: str
    uncertain: Mask
    foreign: Mask

    @property
    def joined(self) -> int:
        """Number of GPU events with a captured call."""
        return int(np.count_nonzero(self.call >= 0))


EXACT, ALIGNED, BY_NODE = "equal names in order", "aligned by name", "graph node id"
UNNAMED, UNNAMED_ALIGNED = "order, as kernels fit their ops", "aligned by the kernels of equal ops"
"""The rules. Captures of CUDA name no kernels: there the kernel of each call is found first (`captures.unnamed`)."""
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
        replays: GPU events of each replay, in the order in which they began.
        expected: the graph that each replays by the batch and place of its step; None where these do not say.
    """

    def __init__(
        self, core: Core, graphs: Sequence[CapturedGraph], replays: Sequence[Rows],
        expected: Sequence[CapturedGraph | None],
    ) -> None:  # fmt: skip
        self._core = core
        self._graphs = graphs
        self._codes: dict[str, int] = {}
        self._token = np.full(len(core.names), -1, np.int64)
        self._names = {id(graph): self._names_of(graph, replays, expected) for graph in graphs}
        self._calls = {
            id(graph): self._numbers(zip(graph.kinds.tolist(), self._names[id(graph)], strict=True)) for graph in graphs
        }
        self._known: dict[bytes, list[Match]] = {}
        self._fits: dict[tuple[bytes, int], Match] = {}

    def _names_of(
        self, graph: CapturedGraph, replays: Sequence[Rows], expected: Sequence[CapturedGraph | None]
    ) -> Sequence[str | None]:
        """Names of the kernels of a graph, found from its replays where the capture has none."""
        if any(graph.names):
            return graph.names
        own = [rows for rows, one in zip(replays, expected, strict=True) if one is graph or one is None]
        c, names = self._core.columns, self._core.names
        found = kernels_of(graph, [[names[code] for code in c.name[rows].tolist()] for rows in own])
        return found or graph.names

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
        return self._tokens(rows).tobytes() + self._streams(rows).tobytes()

    def _streams(self, rows: Rows) -> Codes:
        """The streams of GPU events, numbered as they come; empty if there is one."""
        stream = self._core.columns.stream[rows]
        if not len(rows) or (stream == stream[0]).all():
            return np.empty(0, np.int64)
        first, place = np.unique(stream, return_index=True)
        return np.argsort(np.argsort(place))[np.searchsorted(first, stream)]

    def matches(self, rows: Rows) -> list[Match]:
        """The fits of replayed GPU events, in the order in which they began, that are best; several if equally good."""
        key = self.pattern(rows)
        if key not in self._known:
            found = [self.fit(rows, graph) for graph in self._graphs]
            # What is left over on either side counts against a graph.
            scores = [2 * one.joined - len(rows) - len(one.graph) for one in found]
            best = max(scores, default=0)
            self._known[key] = [
                one
                for one, score in zip(found, scores, strict=True)
                if score == best and one.joined >= _LEAST * len(rows)
            ]
        return self._known[key]

    def fit(self, rows: Rows, graph: CapturedGraph) -> Match:
        """How replayed GPU events fit a graph."""
        key = self.pattern(rows), id(graph)
        if key not in self._fits:
            self._fits[key] = self._fit(rows, graph)
        return self._fits[key]

    def _fit(self, rows: Rows, graph: CapturedGraph) -> Match:
        calls, events, streams = self._calls[id(graph)], self._tokens(rows), self._streams(rows)
        is_named = any(graph.names)
        order, tied = np.arange(len(rows)), np.zeros(len(rows), bool)
        if len(streams):
            order, tied = _merged(events, calls, streams)
        is_equal = np.array_equal(calls, events[order])
        call, uncertain = np.arange(len(rows)), np.zeros(len(rows), bool)
        if not is_equal:
            call = _aligned(events[order], calls)
            uncertain = _uncertain(events[order], calls, call, _makers(graph))
        back = np.argsort(order)
        call, uncertain = call[back], uncertain[back] | tied
        foreign = np.zeros(len(rows), bool)
        if not is_named:
            foreign = self._foreign(rows, graph, call)
            call = np.where(foreign, -1, call)
        rules = (EXACT, ALIGNED) if is_named else (UNNAMED, UNNAMED_ALIGNED)
        return Match(graph, call, rules[not is_equal], uncertain & (call >= 0), foreign)

    def _foreign(self, rows: Rows, graph: CapturedGraph, call: Rows) -> Mask:
        """GPU events whose kernels cannot belong to the op of their call."""
        names = self._core.columns.name[rows].tolist()
        return np.array(
            [at >= 0 and not belongs(self._core.names[name], op_of_call(graph, at))
             for name, at in zip(names, call.tolist(), strict=True)], bool,
        )  # fmt: skip


def _makers(graph: CapturedGraph) -> Codes:
    """A number for what made each call: node of the tree."""
    return graph.call


def _merged(events: Codes, calls: Codes, streams: Codes) -> tuple[Rows, Mask]:
    """GPU events of several streams in the order of the calls, and those that could as well be one of another stream.

    Each stream keeps its order. A call is the next event of the stream of the call before, if it fits, else of another.
    Where no event fits a call, it was lost.
    """
    queues = [deque(np.flatnonzero(streams == one).tolist()) for one in range(int(streams.max()) + 1)]
    order: list[int] = []
    tied = np.zeros(len(events), bool)
    current = int(np.argmax(np.bincount(streams)))
    main = current
    for token in calls.tolist():
        fitting = [one for one, queue in enumerate(queues) if queue and events[queue[0]] == token]
        if not fitting:
            continue
        current = next((one for one in (current, main) if one in fitting), fitting[0])
        event = queues[current].popleft()
        tied[event] = len(fitting) > 1
        order.append(event)
    left = sorted(event for queue in queues for event in queue)
    return np.array(order + left, np.int64), tied


def _uncertain(events: Codes, calls: Codes, call: Rows, makers: Codes) -> Mask:
    """GPU events that lie as well at another call, of another maker, if all others keep their order.

    An event lies between the earliest and the latest call that it can be, as all joined events are taken as early, and as
    late, as they can be.
    """
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, token in enumerate(calls.tolist()):
        places[token].append(place)
    joined = np.flatnonzero(call >= 0).tolist()
    early: dict[int, int] = {}
    late: dict[int, int] = {}
    at = -1
    for event in joined:
        found = places[int(events[event])]
        at = early[event] = found[bisect_right(found, at)]
    at = len(calls)
    for event in reversed(joined):
        found = places[int(events[event])]
        at = late[event] = found[bisect_left(found, at) - 1]
    uncertain = np.zeros(len(events), bool)
    for event in joined:
        if early[event] != late[event]:
            found = places[int(events[event])]
            between = found[bisect_left(found, early[event]) : bisect_right(found, late[event])]
            uncertain[event] = len(set(makers[between].tolist())) > 1
    return uncertain


def _aligned(events: Codes, calls: Codes) -> Rows:
    """Of each GPU event the position of its captured call in a longest common subsequence, -1 for none."""
    call = np.full(len(events), -1, np.int64)
    at, of = common_order(events, calls)
    call[at] = of
    return call
