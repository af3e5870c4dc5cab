"""Replays of one graph, put together into one reference, which has what single replays lost.

The reference is aligned with the captured calls once (`fitting`), and each different replay with the reference, stream
by stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.captures.recording import arguments_of
from tracelens_graph.graph.common_order import common_order
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

_COPIES = ("copyBuffer", "fillBuffer")
"""What kernels of ROCm are called that do the work of copies and fills."""
COPY, FILL = "(copy)", "(fill)"
_NODE_ID = "graph node id"
_MERGED = 32
"""Different replays that are put together into one reference."""
_LOOKED_UP = 8
"""Those of them whose arguments are looked up in the file."""
ALIKE = 0.8
"""Share of a replay that has to be in a reference, and of a reference that has to be captured, to belong there."""
_ALIKE_WITH_LOSSES = 0.5
"""Share of a reference that has to be in a replay that is like no other: what is lost differs from one to the next."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a replay ran: stream by stream, and on each in the order in which it began.

    Attributes:
        rows: the GPU events, as they stand below the launch.
        order: positions of these in the order of the pattern.
        token, stream: of each event of the pattern a number for what it is called, and its stream.
        start: when it began, from the first of them, ns.
    """

    rows: Rows
    order: Rows
    token: Codes
    stream: Codes
    start: Ns

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal for replays that fit equally, if none of their events was lost."""
        return self.token.tobytes(), self.stream.tobytes(), self.order.tobytes()


@dataclass(frozen=True, eq=False)
class Reference:
    """What the replays of a graph ran, put together, in the order in which it was captured, as far as that is known.

    Attributes:
        token, stream: of each event.
        start: when it began, from the begin of a replay, ns.
        names, kinds: what it is called, and what it is.
        grids: its grid, None where that is not known.
        is_ordered: whether the order is that of the capture: on one stream, or by the ids of nodes.
        by_node: whether it is by the ids of nodes.
    """

    token: Codes
    stream: Codes
    start: Ns
    names: Sequence[str]
    kinds: Sequence[int]
    grids: Sequence[Any]
    is_ordered: bool
    by_node: bool

    def __len__(self) -> int:
        return len(self.token)

    def part(self, events: slice) -> Reference:
        """Some of its events alone."""
        per_event = ("token", "stream", "start", "names", "kinds", "grids")
        return replace(self, **{name: getattr(self, name)[events] for name in per_event})


class Vocabulary:
    """Numbers for what GPU events and captured calls are called."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._codes: dict[str, int] = {}
        self._of_name = np.full((len(core.names), 2), -1, np.int64)

    def of(self, kinds: Iterable[int], names: Iterable[str | None]) -> Codes:
        """Numbers of events of these kinds and names; -1 for a kernel without a name."""
        found = []
        for kind, name in zip(kinds, names, strict=True):
            token = token_of(kind, name)
            found.append(-1 if token is None else self._codes.setdefault(token, len(self._codes)))
        return np.array(found, np.int64)

    def of_rows(self, rows: Rows) -> Codes:
        """Numbers of GPU events of the trace; each name is looked at once."""
        c = self._core.columns
        name, is_kernel = c.name[rows], (c.kind[rows] == Kind.Kernel).astype(np.int64)
        new = self._of_name[name, is_kernel] < 0
        for code, kernel, kind in {
            (int(code), int(kernel), int(kind))
            for code, kernel, kind in zip(name[new], is_kernel[new], c.kind[rows][new], strict=True)
        }:
            self._of_name[code, kernel] = self.of([kind], [self._core.names[code]])[0]
        return self._of_name[name, is_kernel]


def token_of(kind: int, name: str | None) -> str | None:
    """What a GPU event or a captured call is compared by; None for a kernel without a name."""
    if kind == Kind.Memcpy or (name and _COPIES[0] in name):
        return COPY
    if kind == Kind.Memset or (name and _COPIES[1] in name):
        return FILL
    return name


def pattern_of(core: Core, rows: Rows, words: Vocabulary) -> Pattern:
    """The pattern of the GPU events of a launch, which are given in row order."""
    c = core.columns
    stream = c.stream[rows]
    order = np.arange(len(rows)) if (stream == stream[0]).all() else np.argsort(stream, kind="stable")
    start = c.start_ns[rows[order]]
    return Pattern(rows, order, words.of_rows(rows[order]), stream[order], start - start.min())


# --- the reference -----------------------------------------------------------------------------------------------


def reference_of(core: Core, patterns: Sequence[Pattern], calls: int) -> Reference:
    """What the replays of one graph ran, put together.

    Args:
        patterns: the different replays.
        calls: how many calls were captured at most.
    """
    found = sorted(patterns, key=lambda one: -len(one.rows))[:_MERGED]
    c = core.columns
    looked_up = _looked_up(core, found[:_LOOKED_UP]) if len(np.unique(found[0].stream)) > 1 else {}
    nodes = [_node_ids(one, looked_up) for one in found]
    first = found[0]
    by_node = nodes[0] is not None
    place = (
        nodes[0] if nodes[0] is not None else np.argsort(np.argsort(c.start_ns[first.rows[first.order]], kind="stable"))
    )
    made = _Made(first.token, first.stream, first.start, first.rows[first.order], place.astype(float))
    for one, ids in zip(found[1:], nodes[1:], strict=True):
        if len(made.token) >= calls:
            break
        if by_node and ids is not None:
            new = ~np.isin(ids, made.place)
            made = made.with_events(one, np.flatnonzero(new), ids[new].astype(float))
        elif not by_node:
            made = _merged(made, one)
    order = np.argsort(made.place, kind="stable")
    rows = made.row[order]
    return Reference(
        made.token[order], made.stream[order], made.start[order], [core.names[code] for code in c.name[rows].tolist()],
        c.kind[rows].tolist(), [looked_up.get(row, {}).get("grid") for row in rows.tolist()],
        by_node or len(np.unique(made.stream)) == 1, by_node,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Made:
    """A reference that is being put together: of each event its token, stream, begin, an example, where it stands."""

    token: Codes
    stream: Codes
    start: Ns
    row: Rows
    place: np.ndarray

    def with_events(self, one: Pattern, at: Rows, place: np.ndarray) -> _Made:
        """The same and some events of a replay."""
        mine = self.token, self.stream, self.start, self.row, self.place
        theirs = one.token[at], one.stream[at], one.start[at], one.rows[one.order[at]], place
        return _Made(*(np.append(*both) for both in zip(mine, theirs, strict=True)))


def _merged(made: _Made, one: Pattern) -> _Made:
    """The reference with what only another replay has, if that is little: each behind what it follows on its stream."""
    own, at = _by_stream(one.token, one.stream, made.token, made.stream, made.place)
    if len(at) < ALIKE * len(one.token):
        return made
    follows = np.full(len(one.token), -1, np.int64)
    follows[own] = at
    new = np.flatnonzero(follows < 0)
    places = np.sort(made.place)
    found = []
    for event in new.tolist():
        before = event
        while before >= 0 and one.stream[before] == one.stream[event] and follows[before] < 0:
            before -= 1
        is_first = before < 0 or one.stream[before] != one.stream[event]
        low = -1.0 if is_first else float(made.place[follows[before]])
        after = np.searchsorted(places, low, "right")
        high = float(places[after]) if after < len(places) else low + 1
        found.append(low + (high - low) * (event - before) / (len(one.token) + 1))
    return made.with_events(one, new, np.array(found)) if len(new) else made


def _looked_up(core: Core, patterns: Sequence[Pattern]) -> dict[int, dict[str, Any]]:
    """Row -> arguments, of the GPU events of some replays."""
    rows = np.concatenate([one.rows for one in patterns])
    return dict(zip(rows.tolist(), arguments_of(core, rows), strict=True))


def _node_ids(one: Pattern, looked_up: dict[int, dict[str, Any]]) -> np.ndarray | None:
    """Ids of the nodes of the graph that the events of a replay are, in its order; None where not all have one."""
    ids = [looked_up.get(row, {}).get(_NODE_ID) for row in one.rows[one.order].tolist()]
    if not all(type(one) is int for one in ids) or len({*ids}) < len(ids):
        return None
    return np.array(ids, np.int64)


def _by_stream(token: Codes, stream: Codes, of_token: Codes, of_stream: Codes, place: np.ndarray) -> tuple[Rows, Rows]:
    """Places of equal events in the same order on each stream, in the first sequence and in the second."""
    firsts, seconds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for one in np.unique(stream).tolist():
        here, there = np.flatnonzero(stream == one), np.flatnonzero(of_stream == one)
        there = there[np.argsort(place[there], kind="stable")]
        a, b = common_order(token[here], of_token[there])
        firsts.append(here[a])
        seconds.append(there[b])
    return np.concatenate(firsts), np.concatenate(seconds)


def replayed(one: Pattern, of: Reference) -> tuple[Rows, Mask]:
    """Of each GPU event of a replay, as they stand below the launch, its place in the reference, -1 for none.

    Also which of them would fit another place as well, because what stands between was lost: times decide there.
    """
    if np.array_equal(one.token, of.token) and np.array_equal(one.stream, of.stream):
        found, doubtful = np.arange(len(of)), np.zeros(len(of), bool)
    else:
        found, doubtful = _placed(one, of)
    in_rows, unsure = np.empty_like(found), np.empty_like(doubtful)
    in_rows[one.order], unsure[one.order] = found, doubtful
    return in_rows, unsure


def is_alike(at: Rows, size: int, is_repeated: bool) -> bool:
    """Whether a replay is of the graph of a reference: its events are there, and what is there is in it, up to its end.

    Args:
        at: place of each of its events in the reference, -1 for none.
        size: length of the reference.
        is_repeated: whether another replay ran exactly the same.
    """
    placed = int(np.count_nonzero(at >= 0))
    up_to = max(int(at.max(initial=-1)) + 1, size // 2)
    return placed >= ALIKE * len(at) and placed >= (ALIKE if is_repeated else _ALIKE_WITH_LOSSES) * up_to


def _placed(one: Pattern, of: Reference) -> tuple[Rows, Mask]:
    found, last = np.full((2, len(one.token)), -1, np.int64)
    for stream in np.unique(one.stream).tolist():
        here, there = np.flatnonzero(one.stream == stream), np.flatnonzero(of.stream == stream)
        first, latest = bounds(one.token[here], of.token[there])
        found[here], last[here] = np.append(there, -1)[first], np.append(there, -1)[latest]
    doubtful = found != last
    sure = np.flatnonzero((found >= 0) & ~doubtful)
    if not doubtful.any() or len(sure) < _LEAST_SURE:
        return found, doubtful
    # A graph's kernels begin at much the same times in each replay, so the sure ones say when others should.
    sure = sure[np.argsort(of.start[found[sure]], kind="stable")]
    begun = of.start[found[sure]]
    due = of.start + np.interp(of.start, begun, one.start[sure] - begun)
    free = np.ones(len(of), bool)
    free[found[sure]] = False
    for stream, token in {*zip(one.stream[doubtful].tolist(), one.token[doubtful].tolist(), strict=True)}:
        events = np.flatnonzero(doubtful & (one.stream == stream) & (one.token == token))
        places = np.flatnonzero(free & (of.stream == stream) & (of.token == token))
        if len(places) < len(events):
            continue
        distance = np.abs(due[places][None, :] - one.start[events][:, None])
        found[events] = places[_nearest(distance)]
    return found, doubtful


def bounds(events: Codes, places: Codes) -> tuple[Rows, Rows]:
    """The first and the last place of each event if as many as can be keep their order; -1 for those that cannot."""
    joined = np.arange(len(events))
    if (first := _first_places(events, places)) is None:
        joined = common_order(events, places)[0]
        first = _first_places(events[joined], places)
    last = _first_places(events[joined][::-1], places[::-1])
    assert first is not None
    assert last is not None
    found = np.full((2, len(events)), -1, np.int64)
    found[0, joined], found[1, joined] = first, len(places) - 1 - last[::-1]
    return found[0], found[1]


def _first_places(events: Codes, places: Codes) -> Rows | None:
    """The first place of each event behind that of the event before; None if the events are not all in order there."""
    among, found, last = places.tolist(), [], -1
    try:
        for token in events.tolist():
            last = among.index(token, last + 1)
            found.append(last)
    except ValueError:
        return None
    return np.array(found, np.int64)


_LEAST_SURE = 2
"""Events whose places must be known for times to say where others belong."""


def _nearest(distance: np.ndarray) -> Rows:
    """A place for each event, in their order, so that the distances add up to the least."""
    events, places = distance.shape
    best = np.zeros(places + 1)
    rows = []
    for row in range(events):
        paired = best[:-1] + distance[row]
        # The first event has no place behind it, and so on: those before `row` cannot hold it.
        paired[:row] = np.inf
        best = np.concatenate(([np.inf], np.minimum.accumulate(paired)))
        rows.append(paired)
    found, limit = np.empty(events, np.int64), places
    for row in range(events - 1, -1, -1):
        limit = int(np.argmin(rows[row][:limit]))
        found[row] = limit
    return found
