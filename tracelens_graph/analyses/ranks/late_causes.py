"""Why ranks came late to collectives: what each did since the one before that the median rank did not.

A rank that comes late once comes late to whatever follows, until something makes it and the others wait for the same;
so only lateness that was not there at the collective before counts. Between these two collectives all ranks run the
same program, so the reason is the difference to the same stretch on the rank with the median start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import percent
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.reasons import EVEN, EVEN_NS, UNKNOWN, UNNAMED, Reason, reason_of
from tracelens_graph.analyses.ranks.segments import Arrivals
from tracelens_graph.analyses.shared.first_rows import first_rows
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.schema.tables.ranks import LATE_ARRIVALS, LATE_RANKS
from tracelens_graph.table import Table, columns_of

MOST_EXPLAINED = 2_000
"""So many late arrivals are explained, the latest first."""


def late_arrivals(figures: Figures, traces: TraceSet, top: int = 0) -> Table:
    """One row per collective to which one rank came last, the most new lateness first; see `LATE_ARRIVALS`.

    Args:
        figures: what each collective cost.
        traces: the same ranks, with whole graphs; those of ranks that are neither late nor median are not read.
        top: number of rows; 0 for all.

    Raises:
        AnalysisError: `top` is negative, or the traces are not those of the figures.
    """
    rows, notes = _explained(figures, traces)
    rows.sort(key=lambda row: (-row["new_us"], -row["late_us"], row["collective"]))
    shown, more = first_rows(rows, top)
    number = len(traces)
    title = f"Late arrivals of {number:,} rank{'s' * (number != 1)}"
    return Table("late_arrivals", columns_of(shown, LATE_ARRIVALS), LATE_ARRIVALS, title,
                 [*more, *notes, *figures.meetings.notes])  # fmt: skip


def _explained(figures: Figures, traces: TraceSet) -> tuple[list[dict[str, Any]], list[str]]:
    m = figures.meetings
    if len(traces) != len(m.attendances):
        raise AnalysisError(
            f"there are {len(traces):,} traces, but the collectives are of {len(m.attendances):,} ranks"
        )
    last, later = figures.held_up_ns()
    order = np.lexsort((np.arange(len(m)), -later))
    order = order[last[order] >= 0]
    arrivals, rows = Arrivals(figures, traces), []
    for place, meeting in enumerate(order.tolist()):
        late_ns, ordinal = int(later[meeting]), int(last[meeting])
        reason, median = Reason(EVEN if late_ns < EVEN_NS else UNKNOWN, 0), -1
        if late_ns >= EVEN_NS and place < MOST_EXPLAINED:
            late = arrivals.explain(meeting, ordinal, late_ns)
            reason, median = reason_of(arrivals, late), late.median.ordinal
        rows.append(_row(arrivals, meeting, ordinal, late_ns, median, reason))
    unexplained = int((later[order][MOST_EXPLAINED:] >= EVEN_NS).sum())
    notes = (
        [f"{unexplained:,} late arrivals are not explained, only the latest {MOST_EXPLAINED:,}"] if unexplained else []
    )
    return rows, notes


def _row(arrivals: Arrivals, meeting: int, ordinal: int, late_ns: int, median: int, reason: Reason) -> dict[str, Any]:
    m, trace = arrivals.figures.meetings, arrivals.traces[ordinal]
    part = m.parts.collective(int(m.last_part[meeting]))
    return {
        "collective": meeting,
        "kind": m.kind[meeting],
        "step": arrivals.figures.step[meeting],
        "trace": trace.name,
        "rank": trace.rank,
        "late_us": late_ns / 1e3,
        "new_us": reason.new_ns / 1e3,
        "reason": reason.word,
        "what": reason.what,
        "evidence": reason.evidence,
        "median_trace": arrivals.traces[median].name if median >= 0 else "",
        "key": part.key,
        "uid": int(trace.core.columns.uid[reason.row]) if reason.row >= 0 else part.uids[0],
    }


def late_ranks(arrivals: Table, figures: Figures) -> Table:
    """One row per rank and kind of collectives to which it came last, the most new lateness first; see `LATE_RANKS`.

    Args:
        arrivals: all late arrivals, see `late_arrivals`.
        figures: what each collective cost.
    """
    m = figures.meetings
    place = {rank.name: at for at, rank in enumerate(m.attendances)}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in arrivals.records():
        groups.setdefault((row["trace"], row["kind"]), []).append(row)
    kinds = np.array(m.kind)
    rows = []
    for (name, kind), late in groups.items():
        took_part = np.unique(m.meeting[(m.trace == place[name]) & (m.meeting >= 0)])
        by_reason: dict[str, float] = {}
        for row in late:
            by_reason[row["reason"]] = by_reason.get(row["reason"], 0.0) + row["new_us"]
        new = sum(by_reason.values())
        named = [one for one in by_reason if one not in UNNAMED] or list(by_reason)
        reason = max(named, key=lambda one: by_reason[one])
        example = max((row for row in late if row["reason"] == reason), key=lambda row: row["new_us"])
        together = int((kinds[took_part] == kind).sum())
        rows.append(
            {
                "trace": name,
                "rank": example["rank"],
                "kind": kind,
                "times_last": len(late),
                "collectives": together,
                "share_last": percent(len(late), together),
                "median_late_us": float(np.median([row["late_us"] for row in late])),
                "late_ms": sum(row["late_us"] for row in late) / 1e3,
                "new_ms": new / 1e3,
                "reason": reason,
                "reason_share": percent(by_reason[reason], new),
                "what": example["what"],
                "uid": example["uid"],
            }
        )
    rows.sort(key=lambda row: (-row["new_ms"], -row["late_ms"], row["trace"], row["kind"]))
    return Table("late_ranks", columns_of(rows, LATE_RANKS), LATE_RANKS, "Late ranks", arrivals.notes)
