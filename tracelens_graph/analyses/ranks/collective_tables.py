"""Tables of the collectives of a job: one by one, by kind and size, by process group, and those that were not matched.

A column is made in one place, for whichever table has it, and only for a table that has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks import COLUMNS as OF_RANKS
from tracelens_graph.analyses.ranks.attendance import Attendance, read_together
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.analyses.shared.grouping import first_rows
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.tables.column import About, Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_BANDWIDTHS: About = {
    "algbw_gb_s": Column(
        "algorithm bandwidth: size of the message over the latency, GB of 10^9 bytes; absent without sizes",
        "GB/s",
    ),
    "busbw_gb_s": Column(
        "bus bandwidth: algorithm bandwidth times the factor of NCCL's tests for its kind, to be held against the link",
        "GB/s",
    ),
    "peak_gb_s": Column("rate of the links of the device within a host; absent where not known", "GB/s"),
    "percent_of_peak": Column("bus bandwidth as share of that rate", "%"),
}

RANK_COLLECTIVES = TableSchema(
    "rank_collectives",
    "What each collective of a job cost: waiting, communication, bandwidth, and who came last.",
    {
        "collective": Column.key("number of the collective, by first start", heading="#"),
        "kind": Column.text("kind of collective", heading="kind"),
        "group": Column.text(
            "what the program calls its process group, else the group's name; absent where not recorded"
        ),
        "sequence": Column("number of the collective in its group; absent where not recorded"),
        "step": Column("number of the step in which most ranks launched it; absent outside of steps", heading="step"),
        "ranks": Column("ranks whose traces have it", heading="ranks"),
        "group_size": Column("ranks of the process group; absent where not recorded"),
        "hosts": Column("hosts of these ranks; absent where not known"),
        "start_us": Column(
            "when the first rank began, from the first start of a trace, clocks corrected", "us", Role.time
        ),
        "start_skew_us": Column("last start less first start", "us", heading="start skew us"),
        "recorded_start_skew_us": Column("the same with clocks as recorded", "us"),
        "wait_us": Column.total("sum over its ranks of the time until the last one came", "us", heading="wait us"),
        "latency_us": Column(
            "how long it took the rank that came last: communication without waiting", "us", heading="latency us"
        ),
        "shortest_us": Column("shortest duration on any rank", "us", Role.min),
        "end_skew_us": Column("last end less first end", "us"),
        "message_bytes": Column("size of the message by the rule of its kind; absent where not recorded", "bytes"),
        **_BANDWIDTHS,
        "overlapped_us": Column.total(
            "sum over its ranks of the time in which the same rank computes on the GPU, memory sets "
            "counted as computing; absent without GPU work",
            "us",
        ),
        "exposed_us": Column.total("sum over its ranks of the time in which the same rank does not compute", "us"),
        "last_trace": Column.text("name of the trace of the rank that came last"),
        "last_rank": Column("number of that rank; absent where not recorded", heading="last rank"),
        "key": Column.text("key of the collective on the rank that came last"),
    },
)

COLLECTIVE_KINDS = TableSchema(
    "collective_kinds",
    "What collectives of equal kind and size cost.",
    {
        "kind": Column.key("kind of collective", "kind"),
        "ranks": Column.key("ranks that take part", "ranks", cells="number"),
        "message_bytes": Column.key("size of the message; absent where not recorded", cells="number"),
        "count": Column.count("collectives", heading="count"),
        "message": Column.text("the size of the message for people", heading="message"),
        "latency_ms": Column.total(
            "sum of their latencies: how long the ranks that came last took",
            "ms",
            heading="latency ms",
            figure="latency_ms",
        ),
        "wait_ms": Column.total("sum over all ranks of the time until the last one came", "ms", figure="wait_ms"),
        "mean_wait_us": Column("mean over collectives and ranks of that time", "us", Role.mean, heading="mean wait us"),
        "median_latency_us": Column("median of the latencies", "us", Role.spread),
        "median_start_skew_us": Column("median of last start less first start", "us", Role.spread),
        "median_busbw_gb_s": Column(
            "median of the bus bandwidths, GB of 10^9 bytes",
            "GB/s",
            Role.spread,
            heading="bus GB/s",
            figure="bus_gb_s",
            drop_priority=0,
        ),
        "peak_gb_s": Column(
            "rate of the links of the device within a host; absent where not known", "GB/s", heading="peak GB/s"
        ),
        "percent_of_peak": Column("median bus bandwidth as share of that rate", "%", Role.spread, heading="% of peak"),
    },
    figure="kind",
)

UNMATCHED_COLLECTIVES = TableSchema(
    "unmatched_collectives",
    "Which parts of collectives are of no other rank's, and why.",
    {
        "trace": Column.key("name of the rank's trace", "trace"),
        "rank": Column("number of the rank; absent where not recorded"),
        "kind": Column.text("kind of collective", heading="kind"),
        "group": Column.text(
            "what the program calls its process group, else the group's name; absent where not recorded"
        ),
        "sequence": Column("number of the collective in its group; absent where not recorded", heading="sequence"),
        "step": Column("number of the step that launched it; absent outside of steps", heading="step"),
        "start_us": Column(
            "when it began, on the clock of the collectives that were matched", "us", Role.time, heading="start us"
        ),
        "duration_us": Column.total("how long it took", "us", heading="duration us"),
        "reason": Column.text("why it is of no other rank's", heading="reason"),
        "key": Column.text("key of the collective"),
        "uid": Column.uid("its first kernel, in the trace of the rank"),
    },
)

COLLECTIVE_SPREAD = TableSchema(
    "collective_spread",
    "How far apart the ranks begin each collective, and who comes last.",
    {
        "kind": Column.text("kind of collective", drop_priority=0),
        "group": Column.text(
            "what the program calls its process group, else the group's name; absent where not recorded"
        ),
        "sequence": Column("number of the collective in its group; absent where not recorded"),
        "collective": Column.key("key of the collective on the rank that came last"),
        "ranks": Column("ranks whose traces have it"),
        "first_start_us": Column(
            "start of the rank that came first, from the first start of a trace of the run", "us", Role.time
        ),
        "last_start_us": Column("start of the rank that came last", "us", Role.time),
        "start_skew_us": Column("last start less first start", "us", drop_priority=0),
        "end_skew_us": Column("last end less first end", "us", drop_priority=2),
        "wait_us": Column.total(
            "sum over the ranks of the time from their own start to the last one, or to their own end", "us"
        ),
        "shortest_us": Column("duration on the rank where it was shortest", "us", Role.min),
        "longest_us": Column("duration on the rank where it was longest", "us", Role.max),
        "duration_spread_us": Column("greatest less smallest duration", "us", drop_priority=2),
        "last_trace": Column.text("name of the trace of the rank that came last", drop_priority=2),
        "last_rank": Column("number of that rank; absent where not recorded", drop_priority=0),
    },
    reads=OF_RANKS,
)

WAITS_BY_GROUP = TableSchema(
    "waits_by_group",
    "How long the ranks of each process group wait for one another.",
    {
        "group": Column.key("what the program calls the process group, else its name; absent where not recorded"),
        "group_ranks": Column.text("ranks of the group, JSON; absent where not recorded", drop_priority=3),
        "kind": Column.key("kind of collective"),
        "ranks": Column("most ranks whose traces have one of them", drop_priority=2),
        "collectives": Column.count("collectives"),
        "wait_us": Column.total("sum over collectives and ranks of the time until the last rank came", "us"),
        "transfer_us": Column.total("sum of the time from then on until the first rank left", "us", drop_priority=1),
        "end_skew_us": Column.total("sum of the time after the first rank left", "us", drop_priority=2),
        "wait_percent": Column("waiting as share of these three", "%", drop_priority=0),
        "mean_wait_us": replace(Column("waiting per collective and rank", "us", Role.mean), drop_priority=1),
        "longest_wait_us": Column("longest that one rank waited", "us", Role.max),
        "last_trace": Column.text(
            "name of the trace that was waited for longest: waiting counts for the rank that came last", drop_priority=2
        ),
        "last_rank": Column("number of that rank; absent where not recorded", drop_priority=0),
        "last_wait_us": Column("waiting for that rank, summed over the others", "us", drop_priority=0),
    },
    reads=OF_RANKS,
)


_UNITS = ("B", "KB", "MB", "GB", "TB")
_Makers = Mapping[str, Callable[[], Any]]


# --- one by one ------------------------------------------------------------------------------------------------------


def rank_collectives(figures: Figures, kind: str | None = None, top: int = 0) -> Table:
    """One row per collective, those with the most waiting first; see `RANK_COLLECTIVES`.

    Args:
        figures: what each collective cost.
        kind: only collectives of this kind, such as `allreduce`.
        top: number of rows; 0 for all.

    Raises:
        AnalysisError: `top` is negative.
    """
    at, notes = _most_waiting(figures.meetings, kind, top)
    columns = made(RANK_COLLECTIVES, _of_each(figures, at))
    title = _titled(figures, "Collectives")
    return RANK_COLLECTIVES.table(columns, title, [*notes, *figures.meetings.notes])


def collective_spread(traces: TraceSet, run: str | None = None, kind: str | None = None, top: int = 20) -> Table:
    """How far apart the ranks of a run began each collective, how long they took, and who came last.

    Collectives that two ranks at least took part in, those with the most waiting first; clocks of several hosts are
    corrected. What could not be matched is left out and counted in a note.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.
        top: number of collectives; 0 for all.

    Raises:
        AnalysisError: there is no such run, or `top` is negative.
    """
    ranks = traces.of_run(run)
    figures = Figures(Meetings(read_together(ranks)))
    at, cut = _most_waiting(figures.meetings, kind, top)
    makers = _of_each(figures, at)
    columns = made(COLLECTIVE_SPREAD, {**makers, "collective": makers["key"]})
    title = run_titled("Collectives", ranks, "rank against rank")
    return COLLECTIVE_SPREAD.table(columns, title, [*cut, *question_notes(figures, kind)])


def _most_waiting(m: Meetings, kind: str | None, top: int) -> tuple[np.ndarray, list[str]]:
    """Numbers of the collectives of a kind, or of all, those with the most waiting first, and what is cut."""
    chosen = of_kind(m, kind)
    return first_rows(chosen[np.argsort(-m.total_wait_ns[chosen], kind="stable")], top)


def _of_each(figures: Figures, at: np.ndarray) -> _Makers:
    """Columns of some collectives by name."""
    m = figures.meetings
    last = [m.parts.collective(part) for part in m.last_part[at].tolist()]
    late = [m.attendances[trace] for trace in m.trace[m.last_part[at]].tolist()]

    def us(ns: np.ndarray) -> list[float]:
        return (ns[at] / 1e3).tolist()

    def known(values: np.ndarray, form: type = float) -> list[Any]:
        return [_known(value, form) for value in values[at].tolist()]

    def computing() -> np.ndarray:
        return m.reduced(np.add, figures.computing_ns)

    def is_measured() -> np.ndarray:
        on_gpu = np.array([one.has_gpu_work for one in m.attendances], bool)[m.trace]
        return m.reduced(np.logical_or, on_gpu)

    def overlapped() -> list[float | None]:
        return [ns if there else None for ns, there in zip(us(computing()), is_measured()[at].tolist(), strict=True)]

    return {
        "collective": at.tolist,
        "kind": lambda: [m.kind[one] for one in at.tolist()],
        "group": lambda: [one.group_description or one.group for one in last],
        "sequence": lambda: [one.sequence for one in last],
        "step": lambda: [figures.step[one] for one in at.tolist()],
        "ranks": m.count[at].tolist,
        "group_size": lambda: [size or None for size in m.group_size[at].tolist()],
        "hosts": lambda: [figures.hosts[one] for one in at.tolist()],
        "start_us": lambda: us(m.first_start_ns),
        "first_start_us": lambda: us(m.first_start_ns),
        "last_start_us": lambda: us(m.last_start_ns),
        "start_skew_us": lambda: us(m.last_start_ns - m.first_start_ns),
        "recorded_start_skew_us": lambda: us(m.recorded_start_skew_ns),
        "wait_us": lambda: us(m.total_wait_ns),
        "latency_us": lambda: us(figures.latency_ns),
        "shortest_us": lambda: us(m.shortest_ns),
        "longest_us": lambda: us(m.longest_ns),
        "duration_spread_us": lambda: us(m.longest_ns - m.shortest_ns),
        "end_skew_us": lambda: us(m.last_end_ns - m.first_end_ns),
        "message_bytes": lambda: known(figures.size, int),
        "algbw_gb_s": lambda: known(figures.algorithm_bandwidth),
        "busbw_gb_s": lambda: known(figures.bus_bandwidth),
        "peak_gb_s": lambda: known(figures.peak),
        "percent_of_peak": lambda: known(100 * figures.bus_bandwidth / figures.peak),
        "overlapped_us": overlapped,
        "exposed_us": lambda: us(m.reduced(np.add, m.end_ns - m.start_ns) - computing()),
        "last_trace": lambda: [one.name for one in late],
        "last_rank": lambda: [one.rank for one in late],
        "key": lambda: [one.key for one in last],
    }


# --- by what they have in common -------------------------------------------------------------------------------------


def collective_kinds(figures: Figures) -> Table:
    """One row per kind, number of ranks and size of the message, the most time first; see `COLLECTIVE_KINDS`."""
    m = figures.meetings
    ranks = np.where(m.group_size > 0, m.group_size, m.count).tolist()
    sizes: list[int | None] = [_known(size, int) for size in figures.size.tolist()]
    rows = []
    for (kind, number, size), at in _alike(zip(m.kind, ranks, sizes, strict=True), np.arange(len(m))):
        named = {"kind": kind, "ranks": number, "message_bytes": size,
                 "message": "" if size is None else shown_bytes(size)}  # fmt: skip
        rows.append(named | made(COLLECTIVE_KINDS, _of_several(figures, at), but=named))
    rows.sort(
        key=lambda row: (-row["latency_ms"] - row["wait_ms"], row["kind"], row["ranks"], row["message_bytes"] or 0)
    )
    title = f"{_titled(figures, 'Kinds of collectives')}, over {m.part}"
    return COLLECTIVE_KINDS.of_records(rows, title)


def waits_by_group(traces: TraceSet, run: str | None = None, kind: str | None = None) -> Table:
    """How long the ranks of each process group waited for one another, by kind of collective.

    One row per process group and kind, those with the most waiting first. A process group is told by its ranks; by its
    name where these are not recorded.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.

    Raises:
        AnalysisError: there is no such run.
    """
    ranks = traces.of_run(run)
    figures = Figures(Meetings(read_together(ranks)))
    m, groups = figures.meetings, figures.groups
    rows = []
    for (group, name), at in _alike(zip(groups.number.tolist(), m.kind, strict=True), of_kind(m, kind)):
        names = [found for found in (groups.name[one] for one in at.tolist()) if found is not None]
        named = {
            "group": min(names, default=None),
            "group_ranks": json.dumps(groups.ranks[group]) if groups.ranks[group] else None,
            "kind": name,
        }
        rows.append(named | made(WAITS_BY_GROUP, _of_several(figures, at), but=named))
    rows.sort(key=lambda row: (-row["wait_us"], row["kind"], row["group"] or "", row["group_ranks"] or ""))
    title = run_titled("Process groups", ranks, "how long their ranks waited")
    return WAITS_BY_GROUP.of_records(rows, title, question_notes(figures, kind))


def _alike(keys: Iterable[tuple[Any, ...]], chosen: np.ndarray) -> list[tuple[tuple[Any, ...], np.ndarray]]:
    """The chosen of some collectives by their keys, in the order in which these come first."""
    members: dict[Hashable, list[int]] = {}
    of = list(keys)
    for one in chosen.tolist():
        members.setdefault(of[one], []).append(one)
    return [(key, np.array(some)) for key, some in members.items()]  # type: ignore[misc]


def _of_several(figures: Figures, at: np.ndarray) -> _Makers:
    """Figures of some collectives taken together, by name."""
    m = figures.meetings
    wait, transfer, end_skew = (int(ns[at].sum()) for ns in (m.total_wait_ns, m.total_transfer_ns, m.total_end_skew_ns))
    total = wait + transfer + end_skew
    awaited, awaited_ns = _awaited(m, at)

    def busbw() -> float | None:
        return _median(figures.bus_bandwidth[at])

    def peak() -> float | None:
        return _median(figures.peak[at])

    return {
        "count": lambda: len(at),
        "collectives": lambda: len(at),
        "ranks": lambda: int(m.count[at].max()),
        "latency_ms": lambda: int(figures.latency_ns[at].sum()) / 1e6,
        "wait_ms": lambda: wait / 1e6,
        "wait_us": lambda: wait / 1e3,
        "transfer_us": lambda: transfer / 1e3,
        "end_skew_us": lambda: end_skew / 1e3,
        "wait_percent": lambda: 100 * wait / total if total else None,
        "mean_wait_us": lambda: wait / int(m.count[at].sum()) / 1e3,
        "longest_wait_us": lambda: int(m.longest_wait_ns[at].max()) / 1e3,
        "median_latency_us": lambda: _median(figures.latency_ns[at] / 1e3),
        "median_start_skew_us": lambda: _median((m.last_start_ns - m.first_start_ns)[at] / 1e3),
        "median_busbw_gb_s": busbw,
        "peak_gb_s": peak,
        "percent_of_peak": lambda: _share(busbw(), peak()),
        "last_trace": lambda: awaited.name,
        "last_rank": lambda: awaited.rank,
        "last_wait_us": lambda: awaited_ns / 1e3,
    }


def _awaited(m: Meetings, at: np.ndarray) -> tuple[Attendance, int]:
    """The rank that most was waited for at some collectives, and how long."""
    last = m.trace[m.last_part[at]]
    by_rank = sum_by_group(last, m.total_wait_ns[at], len(m.attendances))
    late = int(np.argmax(np.where(np.isin(np.arange(len(by_rank)), last), by_rank, -1)))
    return m.attendances[late], int(by_rank[late])


# --- those that were not matched -------------------------------------------------------------------------------------


def unmatched_collectives(figures: Figures) -> Table:
    """One row per part of a collective that is of no other rank's, by start; see `UNMATCHED_COLLECTIVES`."""
    m = figures.meetings
    rows = []
    for part, reason in m.unmatched:
        rank, one = m.attendances[m.trace[part]], m.parts.collective(part)
        rows.append(
            {
                "trace": rank.name,
                "rank": rank.rank,
                "kind": one.kind,
                "group": one.group_description or one.group,
                "sequence": one.sequence,
                "step": m.step_of(part),
                "start_us": m.start_ns[part] / 1e3,
                "duration_us": (m.end_ns - m.start_ns)[part] / 1e3,
                "reason": reason,
                "key": one.key,
                "uid": one.uids[0],
            }
        )
    rows.sort(key=lambda row: (row["start_us"], row["trace"]))
    return UNMATCHED_COLLECTIVES.of_records(rows, _titled(figures, "Unmatched collectives"))


# --- what tables share -----------------------------------------------------------------------------------------------


def of_kind(m: Meetings, kind: str | None) -> np.ndarray:
    """Numbers of the collectives of a kind, or of all."""
    return np.flatnonzero(np.array([kind in (None, one) for one in m.kind], bool))


def question_notes(figures: Figures, kind: str | None) -> list[str]:
    """What was not matched, and of windows what only some ranks have in theirs.

    Nothing of a single rank, or where no rank has the kind: there is a better reason why there are no rows.
    """
    m = figures.meetings
    kinds = {one.kind for rank in m.attendances for one, _, _ in rank.held}
    if len(m.attendances) < 2 or (kind is not None and kind not in kinds):
        return []
    outside = {key for rank in m.attendances for key in rank.cut}
    cut = sum(any(one.key in outside for one in m.said(at)) for at in range(len(m))) if outside else 0
    told = [f"{cut:,} of {len(m):,} collectives are in the window on some of their ranks only"] if cut else []
    return [*m.notes, *told]


def run_titled(what: str, ranks: TraceSet, how: str) -> str:
    """The title of a table of the ranks of a run."""
    run = f" of {ranks[0].run}" if ranks[0].run else ""
    return ranks.titled(f"{what}{run}: {how}")


def _titled(figures: Figures, what: str) -> str:
    number = len(figures.meetings.attendances)
    return f"{what} of {number:,} rank{'s' * (number != 1)}"


def made(about: About, makers: _Makers, but: Container[str] = ()) -> dict[str, Any]:
    """The columns of a table, or the cells of a row, but for some that are known already."""
    return {name: makers[name]() for name in about if name not in but}


def _known(value: float, form: type = float) -> Any:
    return None if np.isnan(value) else form(value)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None else 100 * part / whole


def _median(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def shown_bytes(size: float) -> str:
    """A size for people, in powers of 1,000.

    >>> shown_bytes(33_554_432)
    '33.6 MB'
    """
    power = 0
    while size >= 999.5 and power < len(_UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_UNITS[power]}"
