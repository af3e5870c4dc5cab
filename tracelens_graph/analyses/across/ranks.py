"""The ranks of a run side by side: how far apart they began their collectives, and who came last.

Ranks are put on one clock by the absolute starts of their traces. A rank that waits for the last one runs its kernel
meanwhile, so the kernels of one collective overlap, and their ends lie close together where clocks agree. What shares a
key and does neither is not one collective, or its clocks cannot be compared: it is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.first_rows import first_rows
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.graph.window import Window
from tracelens_graph.schema.tables.across import COLLECTIVE_SPREAD, SLOWEST_RANKS
from tracelens_graph.table import Table, columns_of

END_TOLERANCE_NS = 100_000
"""Kernels that do not overlap are of one collective if they end within this time: they are short, and the clocks of the
ranks differ a little. The queries `collective_spread` and `slowest_ranks` have the same number."""

_PAIRWISE = ("send", "recv")
"""Kinds in which two ranks of a group take part."""


@dataclass(frozen=True)
class Attendance:
    """The collectives that one rank took part in.

    Attributes:
        name, rank: of the trace.
        world_size: ranks of its job, None where not recorded.
        offset_ns: what to add to its times to compare them with those of other ranks.
        held: each with the first start and the last end of its kernels in the window, ns.
        cut: keys of those of which the window holds none.
    """

    name: str
    rank: int | None
    world_size: int | None
    offset_ns: int
    held: tuple[tuple[Collective, int, int], ...]
    cut: frozenset[str] = frozenset()

    @classmethod
    def of(cls, trace: TraceMember) -> Attendance:
        """That of a member of a set."""
        held = tuple(_held(trace.window))
        keys = {one.key for one, _, _ in held}
        cut = frozenset(one.key for one in trace.core.collectives.nodes if one.key not in keys)
        return cls(trace.name, trace.rank, trace.core.info.world_size, trace.offset_ns, held, cut)


@dataclass(frozen=True)
class Part:
    """One rank's part of a collective; times in ns on the clock of the run."""

    trace: Attendance
    start: int
    end: int

    def and_also(self, start: int, end: int) -> Part:
        """The part that also reaches over another stretch of time."""
        return Part(self.trace, min(self.start, start), max(self.end, end))


@dataclass(frozen=True)
class Met:
    """A collective for which ranks of a run met.

    Attributes:
        said: what each of them knows of it.
        parts: name of a trace -> when that rank ran it.
    """

    said: list[Collective] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Its kind; where two ends of a transfer say different things, that of the rank pushed last."""
        return self.said[-1].kind

    @property
    def group(self) -> str | None:
        """Description of its group, else name."""
        described = [one.group_description for one in self.said if one.group_description]
        named = [one.group for one in self.said if one.group]
        return [None, *named, *described][-1]

    @property
    def sequence(self) -> int | None:
        """Its number in its group."""
        return next((one.sequence for one in reversed(self.said) if one.sequence is not None), None)

    @property
    def first(self) -> int:
        """Start of the rank that came first."""
        return min(part.start for part in self.parts.values())

    @property
    def last(self) -> int:
        """Start of the rank that came last."""
        return max(part.start for part in self.parts.values())

    @property
    def ends_apart(self) -> int:
        """Last end less first end, ns."""
        ends = [part.end for part in self.parts.values()]
        return max(ends) - min(ends)

    @property
    def is_verified(self) -> bool:
        """Whether all its kernels overlap, or else end within `END_TOLERANCE_NS`."""
        return self.last < min(part.end for part in self.parts.values()) or self.ends_apart <= END_TOLERANCE_NS

    @property
    def group_size(self) -> int | None:
        """How many ranks take part in it; None where not recorded."""
        if self.kind in _PAIRWISE:
            return 2
        sizes = (one.group_size or len(one.ranks or ()) for one in self.said)
        return max(sizes, default=0) or None

    @property
    def late(self) -> Attendance:
        """The rank that came last; of several the one with the smallest number, else name."""
        late = [part.trace for part in self.parts.values() if part.start == self.last]
        return min(late, key=lambda one: (one.rank is None, one.rank or 0, one.name))


def collective_spread(traces: TraceSet, run: str | None = None, kind: str | None = None, top: int = 20) -> Table:
    """How far apart the ranks of a run began each collective, how long they took, and who came last.

    Collectives that two ranks at least took part in, those with the most waiting first. Where ends lie apart, clocks
    differ, or ranks do not wait for one another; durations do not depend on clocks. Left out, and
    counted in a note, are those whose kernels neither overlap nor end within 0.1 ms of one another.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.
        top: number of collectives; 0 for all.

    Raises:
        AnalysisError: there is no such run, or `top` is negative.
    """
    ranks = traces.of_run(run)
    meetings = Meetings([Attendance.of(trace) for trace in ranks], kind)
    rows = []
    for key, met in meetings.verified.items():
        first, latest, durations = met.first, met.last, [part.end - part.start for part in met.parts.values()]
        wait = sum(latest - part.start for part in met.parts.values())
        said = {
            "kind": met.kind,
            "group": met.group,
            "sequence": met.sequence,
            "collective": key,
            "ranks": len(met.parts),
            "first_start_us": first / 1e3,
            "last_start_us": latest / 1e3,
            "start_skew_us": (latest - first) / 1e3,
            "end_skew_us": met.ends_apart / 1e3,
            "wait_us": wait / 1e3,
            "shortest_us": min(durations) / 1e3,
            "longest_us": max(durations) / 1e3,
            "duration_spread_us": (max(durations) - min(durations)) / 1e3,
            "last_trace": met.late.name,
            "last_rank": met.late.rank,
        }
        rows.append(((-wait, first, key), said))
    chosen, cut = first_rows([said for _, said in sorted(rows, key=lambda row: row[0])], top)
    about = COLLECTIVE_SPREAD
    columns = columns_of(chosen, about)
    title = _titled("Collectives", ranks, "rank against rank")
    return Table("collective_spread", columns, about, title, [*cut, *meetings.notes])


def slowest_ranks(traces: TraceSet, run: str | None = None, kind: str | None = None) -> Table:
    """Which ranks of a run the others waited for, and how long each waited itself.

    Over all collectives that two ranks at least took part in, the ranks that waited least first: they come late. Where
    the clocks of ranks differ, go by `collective_us`: who comes late has the least. Left out, and
    counted in a note, are collectives whose kernels neither overlap nor end within 0.1 ms of one another.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.

    Raises:
        AnalysisError: there is no such run.
    """
    ranks = traces.of_run(run)
    meetings = Meetings([Attendance.of(trace) for trace in ranks], kind)
    found: dict[str, list[int]] = {}
    for met in meetings.verified.values():
        first, latest = met.first, met.last
        for part in met.parts.values():
            sums = found.setdefault(part.trace.name, [0, 0, 0, 0, 0])
            one = (1, part.start == latest, part.start == first, latest - part.start, part.end - part.start)
            found[part.trace.name] = [total + more for total, more in zip(sums, one, strict=True)]
    numbers = {trace.name: trace.rank for trace in ranks}
    rows = [
        (name, numbers[name], count, late, early, wait / 1e3, wait / count / 1e3, dur / 1e3)
        for name, (count, late, early, wait, dur) in sorted(found.items(), key=lambda item: (item[1][3], item[0]))
    ]
    about = SLOWEST_RANKS
    columns = {column: [row[place] for row in rows] for place, column in enumerate(about)}
    title = _titled("Ranks", ranks, "who the others waited for")
    return Table("slowest_ranks", columns, about, title, meetings.notes)


def _titled(what: str, ranks: TraceSet, how: str) -> str:
    run = f" of {ranks[0].run}" if ranks[0].run else ""
    return ranks.titled(f"{what}{run}: {how}")


class Meetings:
    """The collectives that more than one rank of a run took part in.

    Args:
        attendances: what each rank took part in.
        kind: only collectives of this kind.
    """

    def __init__(self, attendances: Sequence[Attendance], kind: str | None = None) -> None:
        self.attendances = attendances
        self._kind = kind

    @cached_property
    def _matched(self) -> dict[str, Met]:
        """Key of each -> what the ranks say of it."""
        zero = min(rank.offset_ns for rank in self.attendances)
        met: dict[str, Met] = {}
        for rank in self.attendances:
            shift = rank.offset_ns - zero
            for one, start, end in rank.held:
                there = met.setdefault(one.key, Met())
                there.said.append(one)
                start, end = start + shift, end + shift
                there.parts[rank.name] = there.parts.get(rank.name, Part(rank, start, end)).and_also(start, end)
        return {key: one for key, one in met.items() if len(one.parts) > 1 and self._kind in (None, one.kind)}

    @cached_property
    def verified(self) -> Mapping[str, Met]:
        """Those whose kernels show that they are one collective."""
        return {key: one for key, one in self._matched.items() if one.is_verified}

    @property
    def _cut(self) -> int:
        """Number of those that are in the windows of some of their ranks only."""
        cut = {key for rank in self.attendances for key in rank.cut}
        return len(cut & self.verified.keys())

    @property
    def lacking(self) -> int:
        """Number of those that ranks of their group, or of the job, may have taken part in that are not here."""
        job = max((rank.world_size or 0 for rank in self.attendances), default=0)
        return sum(
            one.group_size > len(one.parts) if one.group_size else job > len(self.attendances)
            for one in self.verified.values()
        )

    @property
    def notes(self) -> list[str]:
        """What was left out, and where ranks are missing."""
        found = list(self.verified.values())
        notes = []
        if left_out := len(self._matched) - len(found):
            notes.append(
                f"left out {left_out:,} of {len(self._matched):,} collectives: the kernels of their ranks neither "
                f"overlap nor end within {END_TOLERANCE_NS / 1e6:g} ms of one another"
            )
        if self._cut:
            notes.append(f"{self._cut:,} of {len(found):,} collectives are in the window on some of their ranks only")
        lacking = sum((one.group_size or 0) > len(one.parts) for one in found)
        if lacking:
            notes.append(f"{lacking:,} of {len(found):,} collectives lack ranks of their groups, which may be the last")
        ranks = len(self.attendances)
        job = max((rank.world_size or 0 for rank in self.attendances), default=0)
        if job > ranks and any(one.group_size is None for one in found):
            notes.append(f"{ranks:,} of the job's {job:,} ranks are compared; others may be the last")
        return notes


def _held(w: Window) -> Iterator[tuple[Collective, int, int]]:
    """The collectives with kernels in a window, and the first start and last end of these kernels, ns."""
    c = w.core.columns
    for one in w.core.collectives.nodes:
        rows = np.array(one.rows)
        rows = rows[w.holds(rows)]
        if len(rows):
            yield one, int(c.start_ns[rows].min()), int(c.end_ns[rows].max())
