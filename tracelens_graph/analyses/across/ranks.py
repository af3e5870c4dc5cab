"""The ranks of a run side by side: how far apart they began their collectives, who came last, and who waited."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.gathering import gathered, read_alone
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.analyses.ranks.process_groups import ProcessGroups
from tracelens_graph.analyses.shared.first_rows import first_rows
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.schema.tables.across import COLLECTIVE_SPREAD, SLOWEST_RANKS, WAITS_BY_GROUP
from tracelens_graph.tables.table import Table, columns_of


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
    m = _meetings(ranks)
    wait, longest = m.reduced(np.add, m.wait_ns), m.reduced(np.maximum, m.end_ns - m.start_ns)
    chosen = _of_kind(m, kind)
    at, cut = first_rows(chosen[np.argsort(-wait[chosen], kind="stable")], top)
    last = [m.parts.collective(part) for part in m.last_part[at].tolist()]
    late = [m.attendances[trace] for trace in m.trace[m.last_part[at]].tolist()]
    times = {
        "first_start_us": m.first_start_ns,
        "last_start_us": m.last_start_ns,
        "start_skew_us": m.last_start_ns - m.first_start_ns,
        "end_skew_us": m.last_end_ns - m.first_end_ns,
        "wait_us": wait,
        "shortest_us": m.shortest_ns,
        "longest_us": longest,
        "duration_spread_us": longest - m.shortest_ns,
    }
    columns = {
        "kind": [m.kind[one] for one in at.tolist()],
        "group": [one.group_description or one.group for one in last],
        "sequence": [one.sequence for one in last],
        "collective": [one.key for one in last],
        "ranks": m.count[at].tolist(),
        **{name: (ns[at] / 1e3).tolist() for name, ns in times.items()},
        "last_trace": [one.name for one in late],
        "last_rank": [one.rank for one in late],
    }
    title = _titled("Collectives", ranks, "rank against rank")
    return Table("collective_spread", columns, COLLECTIVE_SPREAD, title, [*cut, *_notes(m, kind)])


def slowest_ranks(traces: TraceSet, run: str | None = None, kind: str | None = None) -> Table:
    """Which ranks of a run the others waited for, and how long each waited itself.

    Over all collectives that two ranks at least took part in, the ranks that waited least first: they come late. Where
    clocks cannot be compared, go by `collective_us`: who comes late has the least.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.

    Raises:
        AnalysisError: there is no such run.
    """
    ranks = traces.of_run(run)
    m = _meetings(ranks)
    parts = np.flatnonzero(np.isin(m.meeting, _of_kind(m, kind)))
    at, trace = m.meeting[parts], m.trace[parts]
    start, end = m.start_ns[parts], m.end_ns[parts]
    number = len(m.attendances)
    count, last, first, wait, dur = (
        sum_by_group(trace, values, number)
        for values in (np.ones(len(parts), np.int64), start == m.last_start_ns[at], start == m.first_start_ns[at],
                       m.wait_ns[parts], end - start)
    )  # fmt: skip
    there = np.flatnonzero(count)
    there = there[np.lexsort((np.array([m.attendances[place].name for place in there.tolist()], str), wait[there]))]
    columns = {
        "trace": [m.attendances[place].name for place in there.tolist()],
        "rank": [m.attendances[place].rank for place in there.tolist()],
        "collectives": count[there].tolist(),
        "times_last": last[there].tolist(),
        "times_first": first[there].tolist(),
        "wait_us": (wait[there] / 1e3).tolist(),
        "mean_wait_us": (wait[there] / count[there] / 1e3).tolist(),
        "collective_us": (dur[there] / 1e3).tolist(),
    }
    title = _titled("Ranks", ranks, "who the others waited for")
    return Table("slowest_ranks", columns, SLOWEST_RANKS, title, _notes(m, kind))


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
    m = _meetings(ranks)
    groups = ProcessGroups.of(m)
    wait, longest = m.reduced(np.add, m.wait_ns), m.reduced(np.maximum, m.wait_ns)
    transfer, end_skew = m.reduced(np.add, m.transfer_ns), m.reduced(np.add, m.end_skew_ns)
    members: dict[tuple[int, str], list[int]] = {}
    for one in _of_kind(m, kind).tolist():
        members.setdefault((int(groups.number[one]), m.kind[one]), []).append(one)
    rows: list[dict[str, Any]] = []
    for (group, name), some in members.items():
        at = np.array(some)
        total = int((wait + transfer + end_skew)[at].sum())
        late, late_ns = _awaited(m, at, wait)
        names = [found for found in (groups.name[one] for one in some) if found is not None]
        rows.append(
            {
                "group": min(names, default=None),
                "group_ranks": json.dumps(groups.ranks[group]) if groups.ranks[group] else None,
                "kind": name,
                "ranks": int(m.count[at].max()),
                "collectives": len(at),
                "wait_us": int(wait[at].sum()) / 1e3,
                "transfer_us": int(transfer[at].sum()) / 1e3,
                "end_skew_us": int(end_skew[at].sum()) / 1e3,
                "wait_percent": 100 * int(wait[at].sum()) / total if total else None,
                "mean_wait_us": int(wait[at].sum()) / int(m.count[at].sum()) / 1e3,
                "longest_wait_us": int(longest[at].max()) / 1e3,
                "last_trace": m.attendances[late].name,
                "last_rank": m.attendances[late].rank,
                "last_wait_us": late_ns / 1e3,
            }
        )
    rows.sort(key=lambda row: (-row["wait_us"], row["kind"], row["group"] or "", row["group_ranks"] or ""))
    about = WAITS_BY_GROUP
    title = _titled("Process groups", ranks, "how long their ranks waited")
    return Table("waits_by_group", columns_of(rows, about), about, title, _notes(m, kind))


def _awaited(m: Meetings, at: np.ndarray, wait: np.ndarray) -> tuple[int, int]:
    """The rank that most was waited for at some collectives, and how long."""
    by_rank = sum_by_group(m.trace[m.last_part[at]], wait[at], len(m.attendances))
    took_part = np.isin(np.arange(len(by_rank)), m.trace[m.last_part[at]])
    late = int(np.argmax(np.where(took_part, by_rank, -1)))
    return late, int(by_rank[late])


def _meetings(ranks: TraceSet) -> Meetings:
    return Meetings(gathered([read_alone(one) for one in ranks]))


def _of_kind(m: Meetings, kind: str | None) -> np.ndarray:
    """Numbers of the collectives of a kind, or of all."""
    return np.flatnonzero(np.array([kind in (None, one) for one in m.kind], bool))


def _notes(m: Meetings, kind: str | None) -> list[str]:
    """What was not matched, and of windows what only some ranks have in theirs.

    Nothing of a single rank, or where no rank has the kind: there is a better reason why there are no rows.
    """
    kinds = {one.kind for rank in m.attendances for one, _, _ in rank.held}
    if len(m.attendances) < 2 or (kind is not None and kind not in kinds):
        return []
    outside = {key for rank in m.attendances for key in rank.cut}
    cut = sum(any(one.key in outside for one in m.said(at)) for at in range(len(m))) if outside else 0
    told = [f"{cut:,} of {len(m):,} collectives are in the window on some of their ranks only"] if cut else []
    return [*m.notes, *told]


def _titled(what: str, ranks: TraceSet, how: str) -> str:
    run = f" of {ranks[0].run}" if ranks[0].run else ""
    return ranks.titled(f"{what}{run}: {how}")
