"""Which captured call a replayed GPU event is the work of: two sequences are aligned, once for each pattern."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
LEAST = 0.9
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
        self._lanes: dict[int, tuple[Codes, Mask]] = {}
        own = [(graph, [rows for rows, one in zip(replays, expected, strict=True) if one is graph]) for graph in graphs]
        for graph, of_graph in own:
            self._lanes[id(graph)] = self._lanes_of(graph, of_graph)

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
        """The streams of GPU events, the busiest first and the others as they come; empty if there is one."""
        stream = self._core.columns.stream[rows]
        if not len(rows) or (stream == stream[0]).all():
            return np.empty(0, np.int64)
        of, place, at, count = np.unique(stream, return_index=True, return_inverse=True, return_counts=True)
        place[np.argmax(count)] = -1
        return np.argsort(np.argsort(place))[at] if len(of) else at

    def _lanes_of(self, graph: CapturedGraph, replays: Sequence[Rows]) -> tuple[Codes, Mask]:
        """On which stream of its replays each call runs, and whether it could be another; empty for one stream."""
        several = [(rows, streams) for rows in replays if len(streams := self._streams(rows))]
        several = sorted(several, key=lambda one: abs(len(one[0]) - len(graph)))[:_MOST_REPLAYS]
        if not several:
            return np.empty(0, np.int64), np.empty(0, bool)
        votes = np.zeros((len(graph), 1 + max(int(streams.max()) for _, streams in several)), np.int64)
        tied = np.zeros(len(graph), np.int64)
        for rows, streams in several:
            call, is_tied = _merged(self._tokens(rows), self._calls[id(graph)], streams)
            is_joined = call >= 0
            np.add.at(votes, (call[is_joined], streams[is_joined]), 1)
            np.add.at(tied, call[is_tied], 1)
        return votes.argmax(axis=1), 2 * tied > votes.sum(axis=1)

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
                if score == best and one.joined >= LEAST * len(rows)
            ]
        return self._known[key]

    def fit(self, rows: Rows, graph: CapturedGraph) -> Match:
        """How replayed GPU events fit a graph."""
        key = self.pattern(rows), id(graph)
        if key not in self._fits:
            self._fits[key] = self._fit(rows, graph)
        return self._fits[key]

    def settled(self, rows: Rows, match: Match) -> Match:
        """A fit whose uncertain GPU events are where their times speak for: a lost event leaves a hole."""
        lanes, _ = self._lanes[id(match.graph)]
        calls, events = self._calls[id(match.graph)], self._tokens(rows)
        certain = np.flatnonzero((match.call >= 0) & ~match.uncertain)
        open_ones = np.flatnonzero(match.uncertain)
        if not len(open_ones) or len(certain) < LEAST * len(rows):
            return match
        call, size = match.call.copy(), len(calls)
        around = np.concatenate(([-1], call[certain], [size]))
        before = np.searchsorted(certain, open_ones)
        taken = np.zeros(size, bool)
        taken[call[certain]] = True
        groups: dict[tuple[int, ...], list[int]] = {}
        for event, at in zip(open_ones.tolist(), before.tolist(), strict=True):
            lane = int(lanes[call[event]]) if len(lanes) else 0
            groups.setdefault((at, int(events[event]), lane), []).append(event)
        for (at, token, lane), group in groups.items():
            low, high = sorted(around[at : at + 2].tolist())
            free = low + 1 + np.flatnonzero((calls[low + 1 : high] == token) & ~taken[low + 1 : high])
            free = free[lanes[free] == lane] if len(lanes) else free
            if len(free) >= len(group):
                call[group] = free[self._kept(rows, group, len(free))]
        return replace(match, call=call)

    def _kept(self, rows: Rows, group: Sequence[int], count: int) -> list[int]:
        """Which of so many equal calls some GPU events are; the others were lost where the widest holes are."""
        c = self._core.columns
        own = rows[c.stream[rows] == c.stream[rows[group[0]]]]
        place = np.searchsorted(own, rows[group]) if (np.diff(own) > 0).all() else np.arange(len(group))
        start, end = c.start_ns[own], c.end_ns[own]
        holes = [int(start[at] - end[at - 1]) if at else 0 for at in place.tolist()]
        after = int(place[-1]) + 1
        holes.append(int(start[after] - end[after - 1]) if after < len(own) else 0)
        length = max(1, int((end - start)[place].mean()))
        lost = [0] * len(holes)
        for _ in range(count - len(group)):
            at = holes.index(max(holes))
            lost[at] += 1
            holes[at] -= length
        return (np.arange(len(group)) + np.cumsum(lost[:-1])).tolist()

    def _fit(self, rows: Rows, graph: CapturedGraph) -> Match:
        calls, events, streams = self._calls[id(graph)], self._tokens(rows), self._streams(rows)
        lanes, tied = self._lanes[id(graph)]
        is_named = any(graph.names)
        call, uncertain = np.full(len(rows), -1, np.int64), np.zeros(len(rows), bool)
        is_equal = len(calls) == len(events)
        by_stream = len(streams) and len(lanes)
        for stream in range(int(streams.max()) + 1) if by_stream else (0,):
            of = np.flatnonzero(streams == stream) if by_stream else np.arange(len(rows))
            to = np.flatnonzero(lanes == stream) if by_stream else np.arange(len(calls))
            if np.array_equal(events[of], calls[to]):
                call[of] = to
                continue
            is_equal = False
            found, uncertain[of] = _aligned(events[of], calls[to], graph.call[to])
            call[of] = np.where(found >= 0, np.append(to, -1)[found], -1)
        if by_stream:
            uncertain |= (call >= 0) & np.append(tied, False)[call]
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


def _merged(events: Codes, calls: Codes, streams: Codes) -> tuple[Rows, Mask]:
    """The call of each GPU event of several streams, -1 for none, and which events could as well be on another stream.

    Each stream keeps its order. A call is the next event of the stream of the call before, if it fits, else of another.
    Where none fits that is about to begin, it was lost.
    """
    queues = [deque(np.flatnonzero(streams == one).tolist()) for one in range(int(streams.max()) + 1)]
    call, tied = np.full(len(events), -1, np.int64), np.zeros(len(events), bool)
    current = 0
    for place, token in enumerate(calls.tolist()):
        next_ones = [queue[0] for queue in queues if queue]
        soon = min(next_ones, default=0) + _AHEAD
        fitting = [one for one, queue in enumerate(queues) if queue and events[queue[0]] == token and queue[0] < soon]
        if fitting:
            current = next((one for one in (current, 0) if one in fitting), fitting[0])
            event = queues[current].popleft()
            call[event], tied[event] = place, len(fitting) > 1
    return call, tied


_AHEAD = 8
"""How many GPU events may begin between two of which the later one is the work of an earlier call."""
_MOST_REPLAYS = 12
"""So many replays show on which stream a call runs."""


class _Order:
    """Where GPU events can lie among calls if all of them keep their order.

    Args:
        events, calls: tokens.
    """

    def __init__(self, events: Codes, calls: Codes) -> None:
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        for place, token in enumerate(calls.tolist()):
            self._places[token].append(place)
        self._events, self._size = events.tolist(), len(calls)

    def early(self, joined: Sequence[int]) -> list[int] | None:
        """The call of each of some events if all are taken as early as they can be; None if they are not in order."""
        found, at = [], -1
        for event in joined:
            places = self._places.get(self._events[event], ())
            if (next_one := bisect_right(places, at)) == len(places):
                return None
            at = places[next_one]
            found.append(at)
        return found

    def uncertain(self, joined: Sequence[int], early: Sequence[int], makers: Codes) -> list[int]:
        """Those of the events that may lie at calls of several makers."""
        found, at = [], self._size
        for event, first in zip(reversed(joined), reversed(early), strict=True):
            places = self._places[self._events[event]]
            at = places[bisect_left(places, at) - 1]
            if at != first:
                between = places[bisect_left(places, first) : bisect_right(places, at)]
                if len(set(makers[between].tolist())) > 1:
                    found.append(event)
        return found


def _aligned(events: Codes, calls: Codes, makers: Codes) -> tuple[Rows, Mask]:
    """Of each GPU event the position of its captured call, -1 for none, and whether it may as well be another's.

    Where all events are among the calls in order, none is left over; else those of a longest common subsequence are.
    """
    call, uncertain = np.full(len(events), -1, np.int64), np.zeros(len(events), bool)
    order = _Order(events, calls)
    joined: Sequence[int] = range(len(events))
    early = order.early(joined)
    if early is None:
        joined = common_order(events, calls)[0].tolist()
        early = order.early(joined) or []
    call[joined] = early
    uncertain[order.uncertain(joined, early, makers)] = True
    return call, uncertain
