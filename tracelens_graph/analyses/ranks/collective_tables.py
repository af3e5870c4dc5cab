"""Tables of the collectives of a job: one by one, by kind and size, by process group, and those that were not matched.

A column is made in one place, for whichever table has it, and only for a table that has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.attendance import Attendance, read_together
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.analyses.shared.first_rows import first_rows
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.schema.tables.across import COLLECTIVE_SPREAD, WAITS_BY_GROUP
from tracelens_graph.schema.tables.ranks import COLLECTIVE_KINDS, RANK_COLLECTIVES, UNMATCHED_COLLECTIVES
from tracelens_graph.tables.column import About
from tracelens_graph.tables.table import Table, columns_of

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
    return Table("rank_collectives", columns, RANK_COLLECTIVES, title, [*notes, *figures.meetings.notes])


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
    return Table("collective_spread", columns, COLLECTIVE_SPREAD, title, [*cut, *question_notes(figures, kind)])


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
    return Table("collective_kinds", columns_of(rows, COLLECTIVE_KINDS), COLLECTIVE_KINDS, title)


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
    columns = columns_of(rows, WAITS_BY_GROUP)
    return Table("waits_by_group", columns, WAITS_BY_GROUP, title, question_notes(figures, kind))


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
    about = UNMATCHED_COLLECTIVES
    return Table("unmatched_collectives", columns_of(rows, about), about, _titled(figures, "Unmatched collectives"))


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
