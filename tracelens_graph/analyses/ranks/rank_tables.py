"""Tables of the collectives of a job: instance by instance, by kind and size, and by rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.lateness import HELD_UP
from tracelens_graph.analyses.shared.first_rows import first_rows
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.schema.tables.ranks import (
    COLLECTIVE_KINDS,
    RANK_BALANCE,
    RANK_COLLECTIVES,
    UNMATCHED_COLLECTIVES,
)
from tracelens_graph.tables.table import Table, columns_of

_UNITS = ("B", "KB", "MB", "GB", "TB")


def rank_collectives(figures: Figures, kind: str | None = None, top: int = 0) -> Table:
    """One row per collective, those with the most waiting first; see `RANK_COLLECTIVES`.

    Args:
        figures: what each collective cost.
        kind: only collectives of this kind, such as `allreduce`.
        top: number of rows; 0 for all.

    Raises:
        AnalysisError: `top` is negative.
    """
    m = figures.meetings
    per_part = np.where(m.meeting >= 0, m.meeting, 0)
    is_in = m.meeting >= 0
    wait = sum_by_group(per_part[is_in], m.wait_ns[is_in], len(m))
    computing = sum_by_group(per_part[is_in], figures.computing_ns[is_in], len(m))
    on_gpu = np.array([one.has_gpu_work for one in m.attendances], bool)[m.trace]
    measured = sum_by_group(per_part[is_in], on_gpu[is_in].astype(np.int64), len(m)) > 0
    duration = sum_by_group(per_part[is_in], (m.end_ns - m.start_ns)[is_in], len(m))
    raw = m.recorded_start_skew_ns
    order = np.lexsort((np.arange(len(m)), -wait))
    if kind is not None:
        order = order[np.array([m.kind[at] == kind for at in order.tolist()], bool)]
    shown, notes = first_rows(order, top)
    rows = []
    for at in shown.tolist():
        last = m.parts.collective(int(m.last_part[at]))
        rank = m.attendances[m.trace[m.last_part[at]]]
        rows.append(
            {
                "collective": at,
                "kind": m.kind[at],
                "group": last.group_description or last.group,
                "sequence": last.sequence,
                "step": figures.step[at],
                "ranks": int(m.count[at]),
                "group_size": int(m.group_size[at]) or None,
                "hosts": figures.hosts[at],
                "start_us": m.first_start_ns[at] / 1e3,
                "start_skew_us": (m.last_start_ns[at] - m.first_start_ns[at]) / 1e3,
                "recorded_start_skew_us": raw[at] / 1e3,
                "wait_us": wait[at] / 1e3,
                "latency_us": figures.latency_ns[at] / 1e3,
                "shortest_us": m.shortest_ns[at] / 1e3,
                "end_skew_us": (m.last_end_ns[at] - m.first_end_ns[at]) / 1e3,
                "message_bytes": _known(figures.size[at], int),
                "algbw_gb_s": _known(figures.algorithm_bandwidth[at]),
                "busbw_gb_s": _known(figures.bus_bandwidth[at]),
                "peak_gb_s": _known(figures.peak[at]),
                "percent_of_peak": _known(100 * figures.bus_bandwidth[at] / figures.peak[at]),
                "overlapped_us": computing[at] / 1e3 if measured[at] else None,
                "exposed_us": (duration[at] - computing[at]) / 1e3,
                "last_trace": rank.name,
                "last_rank": rank.rank,
                "key": last.key,
            }
        )
    about = RANK_COLLECTIVES
    return Table("rank_collectives", columns_of(rows, about), about, _titled(figures, "Collectives"),
                 [*notes, *m.notes])  # fmt: skip


def collective_kinds(figures: Figures) -> Table:
    """One row per kind, number of ranks and size of the message, the most time first; see `COLLECTIVE_KINDS`."""
    m = figures.meetings
    groups: dict[tuple[str, int, int | None], list[int]] = {}
    for one in range(len(m)):
        bytes_: int | None = _known(figures.size[one], int)
        groups.setdefault((m.kind[one], int(m.group_size[one]) or int(m.count[one]), bytes_), []).append(one)
    rows: list[dict[str, Any]] = []
    for (kind, ranks, size), members in groups.items():
        at = np.array(members)
        of = np.isin(m.meeting, at)
        bus, peak = _median(figures.bus_bandwidth[at]), _median(figures.peak[at])
        rows.append(
            {
                "kind": kind,
                "ranks": ranks,
                "message_bytes": size,
                "count": len(at),
                "message": "" if size is None else shown_bytes(size),
                "latency_ms": int(figures.latency_ns[at].sum()) / 1e6,
                "wait_ms": int(m.wait_ns[of].sum()) / 1e6,
                "mean_wait_us": float(m.wait_ns[of].mean()) / 1e3,
                "median_latency_us": _median(figures.latency_ns[at] / 1e3),
                "median_start_skew_us": _median((m.last_start_ns - m.first_start_ns)[at] / 1e3),
                "median_busbw_gb_s": bus,
                "peak_gb_s": peak,
                "percent_of_peak": None if bus is None or peak is None else 100 * bus / peak,
            }
        )
    rows.sort(
        key=lambda row: (-row["latency_ms"] - row["wait_ms"], row["kind"], row["ranks"], row["message_bytes"] or 0)
    )
    about = COLLECTIVE_KINDS
    title = f"{_titled(figures, 'Kinds of collectives')}, over {m.part}"
    return Table("collective_kinds", columns_of(rows, about), about, title)


def rank_balance(figures: Figures) -> Table:
    """One row per rank, in their order; see `RANK_BALANCE`."""
    m = figures.meetings
    last, later = figures.held_up_ns
    rows = []
    for trace, rank in enumerate(m.attendances):
        own = np.flatnonzero((m.trace == trace) & (m.meeting >= 0))
        computing = rank.gpu.computing
        every = np.flatnonzero(m.trace == trace)
        start, end = (times[every] - m.parts.shift_ns[trace] for times in (m.parts.start_ns, m.parts.end_ns))
        mine = last == trace
        rows.append(
            {
                "trace": rank.name,
                "rank": rank.rank,
                "host": m.hosts[trace],
                "span_ms": (rank.span_ns[1] - rank.span_ns[0]) / 1e6,
                "computing_ms": int((computing[1] - computing[0]).sum()) / 1e6 if rank.has_gpu_work else None,
                "collectives": len(own),
                "wait_ms": int(m.wait_ns[own].sum()) / 1e6,
                "transfer_ms": int(m.transfer_ns[own].sum()) / 1e6,
                "end_skew_ms": int(m.end_skew_ns[own].sum()) / 1e6,
                "exposed_ms": figures.exposed_ns(trace, start, end) / 1e6,
                "exposed_wait_ms": figures.exposed_wait_ns(trace, own) / 1e6,
                "times_last": int(mine.sum()),
                "held_up_ms": int(later[mine].sum()) / 1e6,
                "percent_last": 100 * int(mine.sum()) / len(own) if len(own) else 0.0,
                "bubble_ms": None if (bubble := figures.bubble_ns(trace)) is None else bubble / 1e6,
                "exchanged_bytes": _sum(figures.exchanged_bytes[m.trace == trace]),
                "unmatched": int(((m.trace == trace) & (m.meeting < 0)).sum()),
            }
        )
    about = RANK_BALANCE
    number = len(m.attendances)
    title = f"{number:,} rank{'s' * (number != 1)}, over {m.part}"
    return Table("rank_balance", columns_of(rows, about), about, title, [HELD_UP, *m.notes])


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


def _titled(figures: Figures, what: str) -> str:
    number = len(figures.meetings.attendances)
    return f"{what} of {number:,} rank{'s' * (number != 1)}"


def _known(value: Any, form: type = float) -> Any:
    return None if np.isnan(value) else form(value)


def _sum(values: np.ndarray) -> int | None:
    known = values[~np.isnan(values)]
    return int(known.sum()) if len(known) else None


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
