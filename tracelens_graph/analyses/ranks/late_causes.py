"""Why ranks came late to collectives: what each did since the one before that the median rank did not.

A rank that comes late once comes late to whatever follows, until something makes it and the others wait for the same;
so only lateness that was not there at the collective before counts. Between these two collectives all ranks run the
same program, so the reason is the difference to the same stretch on the rank with the median start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import brief, percent, shown_ms
from tracelens_graph.analyses.idle.host_states import (
    ALLOCATION,
    COPY_TO_DEVICE,
    DATA_LOADER,
    LAUNCH,
    PROFILER,
    PYTHON,
    SYNCHRONIZATION,
)
from tracelens_graph.analyses.places.python_lines import frames_with_line
from tracelens_graph.analyses.ranks.chains import Share
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.host_labels import UNRECORDED, Label, Spent
from tracelens_graph.analyses.ranks.segments import Arrivals, Late
from tracelens_graph.analyses.shared.first_rows import first_rows
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.schema import Kind
from tracelens_graph.schema.tables.ranks import LATE_ARRIVALS, LATE_RANKS
from tracelens_graph.table import Table, columns_of

EVEN_NS = 20_000
"""Ranks differ by this much without a reason worth a name."""
EVEN_PERCENT = 1.0
"""Or by this share of the time since the collective before."""
EXPLAINED_PERCENT = 30.0
"""Share of the new lateness that a difference must account for to be called its reason."""
MOST_EXPLAINED = 2_000
"""So many late arrivals are explained, the latest first."""

EARLIER, EVEN, UNKNOWN = "earlier", "even", "unknown"

_OF_STATE: Mapping[int, str] = {
    DATA_LOADER: "data_loader", PROFILER: "profiler", SYNCHRONIZATION: "synchronization",
    COPY_TO_DEVICE: "host_to_device_copy", ALLOCATION: "allocation", LAUNCH: "op", PYTHON: "python",
    UNRECORDED: "unrecorded",
}  # fmt: skip

REASONS: Mapping[str, str] = {
    "data_loader": "waiting for the next batch, or making it",
    "profiler": "the profiler's own code",
    "synchronization": "calls that wait for the GPU",
    "host_to_device_copy": "copies to the device that hold the host",
    "allocation": "allocating or releasing memory",
    "op": "host time in ops and launch calls",
    "python": "Python, in no op and no call",
    "unrecorded": "host time of which nothing is recorded",
    "slower_kernels": "the same GPU work took longer",
    "more_gpu_work": "GPU work that the median rank did not have",
    "other_collective": "a collective or transfer with other ranks",
    EARLIER: "no new lateness: the rank was as late at the collective before, or when the recording began",
    EVEN: "no more than ranks differ anyhow",
    UNKNOWN: "no difference in the traces accounts for it",
}
"""Reason of a late arrival -> what it means."""


@dataclass(frozen=True)
class _Found:
    reason: str
    what: str = ""
    evidence: str = ""
    row: int = -1


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
        raise AnalysisError(f"there are {len(traces):,} traces, but the collectives are of {len(m.attendances):,} ranks")
    last, later = figures.held_up_ns()
    order = np.lexsort((np.arange(len(m)), -later))
    order = order[last[order] >= 0]
    arrivals, rows = Arrivals(figures, traces), []
    for place, meeting in enumerate(order.tolist()):
        late_ns, ordinal = int(later[meeting]), int(last[meeting])
        late, found = None, _Found(EVEN if late_ns < EVEN_NS else UNKNOWN)
        if late_ns >= EVEN_NS and place < MOST_EXPLAINED:
            late = arrivals.explain(meeting, ordinal, late_ns)
            found = _reason(arrivals, late)
        rows.append(_row(arrivals, meeting, ordinal, late_ns, late, found))
    unexplained = int((later[order][MOST_EXPLAINED:] >= EVEN_NS).sum())
    notes = [f"{unexplained:,} late arrivals are not explained, only the latest {MOST_EXPLAINED:,}"] if unexplained else []
    return rows, notes


def _row(
    arrivals: Arrivals, meeting: int, ordinal: int, late_ns: int, late: Late | None, found: _Found
) -> dict[str, Any]:
    m, trace = arrivals.figures.meetings, arrivals.traces[ordinal]
    other = None if late is None else arrivals.traces[late.median.ordinal]
    part = m.parts.collective(int(m.last_part[meeting]))
    return {
        "collective": meeting,
        "kind": m.kind[meeting],
        "step": arrivals.figures.step[meeting],
        "trace": trace.name,
        "rank": trace.rank,
        "late_us": late_ns / 1e3,
        "new_us": 0.0 if late is None else late.new_ns / 1e3,
        "reason": found.reason,
        "what": found.what,
        "evidence": found.evidence,
        "median_trace": "" if other is None else other.name,
        "key": part.key,
        "uid": int(trace.core.columns.uid[found.row]) if found.row >= 0 else part.uids[0],
    }


# --- the reason of one late arrival ----------------------------------------------------------------------------------


def _reason(arrivals: Arrivals, late: Late) -> _Found:
    blamed, median = late.blamed, late.median
    least = max(EVEN_NS, EVEN_PERCENT / 100 * (median.end_ns - median.start_ns))
    if late.new_ns < least:
        return _Found(EARLIER if late.late_ns - late.new_ns >= least else EVEN)
    shares = [
        arrivals.ranks[side.ordinal].chains.shares(side.chain, side.start_ns) for side in (blamed, median)
    ]
    more = shares[0] - shares[1]
    by_cause = {
        Share.host: _host_reason, Share.computation: _gpu_reason, Share.copy: _gpu_reason,
        Share.communication: _communication_reason,
    }  # fmt: skip
    for share in np.argsort(-more, kind="stable").tolist():
        if more[share] < EXPLAINED_PERCENT / 100 * late.new_ns:
            break
        found = by_cause[Share(share)](arrivals, late) if Share(share) in by_cause else None
        if found is not None:
            return found
    return _Found(UNKNOWN)


def _host_reason(arrivals: Arrivals, late: Late) -> _Found | None:
    """The state in which the host of the late rank spent more time than the other, and the call with most of that."""
    mine, others = (
        arrivals.ranks[side.ordinal].host.within(*side.host_ns) for side in (late.blamed, late.median)
    )
    more = {label: spent.ns - others.get(label, Spent()).ns for label, spent in mine.items()}
    more |= {label: -spent.ns for label, spent in others.items() if label not in mine}
    by_state: dict[int, int] = {}
    for (state, _), ns in more.items():
        by_state[state] = by_state.get(state, 0) + ns
    state = max(by_state, key=lambda one: by_state[one])
    if by_state[state] < EXPLAINED_PERCENT / 100 * late.new_ns:
        return None
    label: Label = max((one for one in more if one[0] == state), key=lambda one: more[one])
    spent, other = mine[label], others.get(label, Spent()).ns
    core = arrivals.ranks[late.blamed.ordinal].core
    what = _where(core, spent.row) if spent.row >= 0 else "nothing is recorded"
    return _Found(_OF_STATE[state], what, _compared(arrivals, late, spent.ns, other), spent.row)


def _gpu_reason(arrivals: Arrivals, late: Late) -> _Found | None:
    """Whether the GPU work between took longer, or there was more of it; and the work that differs most."""
    mine, others = (
        arrivals.ranks[side.ordinal].kernels.within(*side.host_ns) for side in (late.blamed, late.median)
    )
    slower: dict[str, float] = {}
    extra: dict[str, float] = {}
    for name, (count, ns, _) in mine.items():
        count_other, ns_other, _ = others.get(name, (0, 0, -1))
        both = min(count, count_other)
        slower[name] = both * (ns / count - ns_other / count_other) if both else 0.0
        extra[name] = (count - count_other) * ns / count
    for name, (count_other, ns_other, _) in others.items():
        if name not in mine:
            extra[name] = -float(ns_other)
    longer, added = sum(slower.values()), sum(extra.values())
    if max(longer, added) < EXPLAINED_PERCENT / 100 * late.new_ns:
        return None
    by = slower if longer >= added else extra
    name = max((one for one in mine), key=lambda one: by[one])
    count, ns, row = mine[name]
    count_other, ns_other, _ = others.get(name, (0, 0, -1))
    core = arrivals.ranks[late.blamed.ordinal].core
    what = brief(name) + _in(core, row)
    total, total_other = (sum(ns for _, ns, _ in side.values()) for side in (mine, others))
    evidence = (
        f"GPU work since {_compared(arrivals, late, total, total_other)}; of this kind {count:,} of "
        f"{shown_ms(ns)} against {count_other:,} of {shown_ms(ns_other)}"
    )
    return _Found("slower_kernels" if longer >= added else "more_gpu_work", what, evidence, row)


def _communication_reason(arrivals: Arrivals, late: Late) -> _Found | None:
    """The collective with other ranks that took most of the late rank's chain."""
    blamed = late.blamed
    chains, core = arrivals.ranks[blamed.ordinal].chains, arrivals.ranks[blamed.ordinal].core
    row = chains.longest(blamed.chain, blamed.start_ns, Share.communication)
    if row < 0:
        return None
    at = core.collectives.of_row.get(row)
    one = None if at is None else core.collectives.nodes[at]
    group = one and (one.group_description or one.group)
    what = brief(core.names[core.columns.name[row]]) if one is None else one.kind + (f" of group {group}" if group else "")
    return _Found("other_collective", what, f"it took {shown_ms(int(core.columns.dur_ns[row]))}", row)


def _compared(arrivals: Arrivals, late: Late, ns: int, other_ns: int) -> str:
    return f"{shown_ms(ns)} against {shown_ms(other_ns)} on {arrivals.traces[late.median.ordinal].name}"


def _where(core: Core, row: int) -> str:
    """A call, and where it stands: the op, the module and the line of Python around it."""
    c = core.columns
    return brief(core.names[c.name[row]]) + _in(core, row)


def _in(core: Core, row: int) -> str:
    c, lines = core.columns, core.everything.once(_lines)
    above = ancestors(c, row)
    own = core.names[c.name[row]]
    found = []
    for fits in (
        lambda one: c.kind[one] == Kind.Op, lambda one: c.kind[one] == Kind.Module, lambda one: bool(lines[one]),
    ):  # fmt: skip
        one = next((one for one in above if fits(one)), -1)
        name = core.names[c.name[one]] if one >= 0 else ""
        if name and name != own and name not in found:
            found.append(name)
    return "".join(f", in {brief(name.removeprefix('nn.Module: '))}" for name in found)


def _lines(everything: Any) -> np.ndarray:
    return frames_with_line(everything.core, without="torch/")


# --- by rank ---------------------------------------------------------------------------------------------------------


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
        rest = (EARLIER, EVEN)
        named = [one for one in by_reason if one not in rest] or list(by_reason)
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
