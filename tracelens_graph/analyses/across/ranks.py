"""The ranks of a run side by side: how far apart they began their collectives, and who came last.

Ranks are put on one clock by the absolute starts of their traces. A rank that waits for the last one runs its kernel
meanwhile, so ends lie close together where clocks agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.schema.tables.across import COLLECTIVE_SPREAD, SLOWEST_RANKS
from tracelens_graph.table import Table, columns_of


@dataclass(frozen=True)
class Part:
    """One rank's part of a collective; times in ns on the clock of the run."""

    trace: TraceMember
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
    def late(self) -> TraceMember:
        """The rank that came last; of several the one with the smallest number, else name."""
        late = [part.trace for part in self.parts.values() if part.start == self.last]
        return min(late, key=lambda one: (one.rank is None, one.rank or 0, one.name))


def collective_spread(traces: TraceSet, run: str | None = None, kind: str | None = None, top: int = 20) -> Table:
    """How far apart the ranks of a run began each collective, how long they took, and who came last.

    Collectives that two ranks at least took part in, those with the most waiting first. Where ends lie apart, clocks
    differ, or ranks do not wait for one another; durations do not depend on clocks.

    Args:
        traces: the traces, in order.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.
        top: number of collectives.

    Raises:
        AnalysisError: there is no such run.
    """
    ranks = traces.of_run(run)
    rows = []
    for key, met in _meetings(ranks, kind).items():
        first, latest, durations = met.first, met.last, [part.end - part.start for part in met.parts.values()]
        ends = [part.end for part in met.parts.values()]
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
            "end_skew_us": (max(ends) - min(ends)) / 1e3,
            "wait_us": wait / 1e3,
            "shortest_us": min(durations) / 1e3,
            "longest_us": max(durations) / 1e3,
            "duration_spread_us": (max(durations) - min(durations)) / 1e3,
            "last_trace": met.late.name,
            "last_rank": met.late.rank,
        }
        rows.append(((-wait, first, key), said))
    chosen = [said for _, said in sorted(rows, key=lambda row: row[0])[:top]]
    about = COLLECTIVE_SPREAD
    columns = columns_of(chosen, about)
    return Table("collective_spread", columns, about, _titled("Collectives", ranks, "rank against rank"))


def slowest_ranks(traces: TraceSet, run: str | None = None, kind: str | None = None) -> Table:
    """Which ranks of a run the others waited for, and how long each waited itself.

    Over all collectives that two ranks at least took part in, the ranks that waited least first: they come late. Where
    the clocks of ranks differ, go by `collective_us`: who comes late has the least.

    Args:
        traces: the traces, in order.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.

    Raises:
        AnalysisError: there is no such run.
    """
    ranks = traces.of_run(run)
    found: dict[str, list[int]] = {}
    for met in _meetings(ranks, kind).values():
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
    return Table("slowest_ranks", columns, about, _titled("Ranks", ranks, "who the others waited for"))


def _titled(what: str, ranks: TraceSet, how: str) -> str:
    run = f" of {ranks[0].run}" if ranks[0].run else ""
    return f"{what}{run}: {how}"


def _meetings(ranks: TraceSet, kind: str | None) -> dict[str, Met]:
    """Key of each collective that more than one rank took part in -> what the ranks say of it."""
    zero = min(trace.offset_ns for trace in ranks)
    met: dict[str, Met] = {}
    for trace in ranks:
        shift = trace.offset_ns - zero
        for one in trace.core.collectives.nodes:
            there = met.setdefault(one.key, Met())
            there.said.append(one)
            start, end = one.start_ns + shift, one.end_ns + shift
            there.parts[trace.name] = there.parts.get(trace.name, Part(trace, start, end)).and_also(start, end)
    return {key: one for key, one in met.items() if len(one.parts) > 1 and kind in (None, one.kind)}
