"""Tables of the ranks of a job: how evenly they work, whom the others waited for, and in which step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.attendance import read_together
from tracelens_graph.analyses.ranks.collective_tables import made, of_kind, question_notes, run_titled
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.lateness import HELD_UP
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.schema.tables.across import SLOWEST_RANKS
from tracelens_graph.schema.tables.ranks import RANK_BALANCE, RANK_STEPS
from tracelens_graph.tables.table import Table, columns_of


def rank_balance(figures: Figures) -> Table:
    """One row per rank, in their order; see `RANK_BALANCE`."""
    m = figures.meetings
    rows = []
    for trace, rank in enumerate(m.attendances):
        every = np.flatnonzero(m.trace == trace)
        own = every[m.meeting[every] >= 0]
        start, end = (times[every] - m.parts.shift_ns[trace] for times in (m.parts.start_ns, m.parts.end_ns))
        computing = rank.gpu.computing
        bubble, exchanged = figures.bubble_ns(trace), figures.exchanged_bytes[every]
        of_rank = _of_parts(figures, trace, own)
        times_last = of_rank["times_last"]()
        named = {
            "host": m.hosts[trace],
            "span_ms": (rank.span_ns[1] - rank.span_ns[0]) / 1e6,
            "computing_ms": int((computing[1] - computing[0]).sum()) / 1e6 if rank.has_gpu_work else None,
            "exposed_ms": figures.exposed_ns(trace, start, end) / 1e6,
            "percent_last": 100 * times_last / len(own) if len(own) else 0.0,
            "bubble_ms": None if bubble is None else bubble / 1e6,
            "exchanged_bytes": None if np.isnan(exchanged).all() else int(np.nansum(exchanged)),
            "unmatched": len(every) - len(own),
        }
        rows.append(named | made(RANK_BALANCE, of_rank, but=named))
    number = len(m.attendances)
    title = f"{number:,} rank{'s' * (number != 1)}, over {m.part}"
    return Table("rank_balance", columns_of(rows, RANK_BALANCE), RANK_BALANCE, title, [HELD_UP, *m.notes])


def rank_steps(figures: Figures) -> Table:
    """One row per rank and step; see `RANK_STEPS`."""
    m = figures.meetings
    rows = []
    for trace, rank in enumerate(m.attendances):
        own = np.flatnonzero((m.trace == trace) & (m.meeting >= 0))
        place = np.array(rank.step_of, np.int64)[m.node[own]]
        for at, step in enumerate(rank.steps):
            named = {"step": step.number, "device_step_ms": (step.end_ns - step.start_ns) / 1e6}
            rows.append(named | made(RANK_STEPS, _of_parts(figures, trace, own[place == at]), but=named))
    notes = [HELD_UP] if rows else ["the traces have no steps (ProfilerStep#n)"]
    return Table("rank_steps", columns_of(rows, RANK_STEPS), RANK_STEPS, "Waiting by rank and step", notes)


def slowest_ranks(traces: TraceSet, run: str | None = None, kind: str | None = None) -> Table:
    """Which ranks of a run the others waited for, and how long each waited itself.

    Over all collectives that two ranks at least took part in, the ranks that waited least first: they come late. Where
    clocks cannot be compared, go by `collective_us`: who comes late has the least. Of several ranks that come last at
    the same time all count in `times_last`, unlike in `rank_balance`.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.

    Raises:
        AnalysisError: there is no such run.
    """
    ranks = traces.of_run(run)
    figures = Figures(Meetings(read_together(ranks)))
    m = figures.meetings
    parts = np.flatnonzero(np.isin(m.meeting, of_kind(m, kind)))
    rows = []
    for trace in range(len(m.attendances)):
        own = parts[m.trace[parts] == trace]
        if len(own):
            named = {"times_last": int((m.start_ns[own] == m.last_start_ns[m.meeting[own]]).sum())}
            rows.append(named | made(SLOWEST_RANKS, _of_parts(figures, trace, own), but=named))
    rows.sort(key=lambda row: (row["wait_us"], row["trace"]))
    title = run_titled("Ranks", ranks, "who the others waited for")
    return Table("slowest_ranks", columns_of(rows, SLOWEST_RANKS), SLOWEST_RANKS, title, question_notes(figures, kind))


def _of_parts(figures: Figures, trace: int, parts: np.ndarray) -> Mapping[str, Callable[[], Any]]:
    """What some matched parts of a rank come to, by name."""
    m, rank = figures.meetings, figures.meetings.attendances[trace]
    at = m.meeting[parts]
    last, later = figures.held_up_ns
    wait, transfer, end_skew = (int(ns[parts].sum()) for ns in (m.wait_ns, m.transfer_ns, m.end_skew_ns))
    return {
        "trace": lambda: rank.name,
        "rank": lambda: rank.rank,
        "collectives": lambda: len(parts),
        "wait_ms": lambda: wait / 1e6,
        "wait_us": lambda: wait / 1e3,
        "mean_wait_us": lambda: wait / len(parts) / 1e3,
        "transfer_ms": lambda: transfer / 1e6,
        "end_skew_ms": lambda: end_skew / 1e6,
        "collective_us": lambda: (wait + transfer + end_skew) / 1e3,
        "exposed_wait_ms": lambda: figures.exposed_wait_ns(trace, parts) / 1e6,
        "times_first": lambda: int((m.start_ns[parts] == m.first_start_ns[at]).sum()),
        "times_last": lambda: int((last[at] == trace).sum()),
        "held_up_ms": lambda: int(later[at][last[at] == trace].sum()) / 1e6,
    }
