"""Tables of the ranks of a job: how evenly they work, whom the others waited for, and in which step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.late_ranks.late_causes import ADDED_UP
from tracelens_graph.analyses.ranks import COLUMNS as OF_RANKS
from tracelens_graph.analyses.ranks.attendance import read_together
from tracelens_graph.analyses.ranks.collective_tables import made, of_kind, question_notes, run_titled
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.lateness import HELD_UP
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

RANK_BALANCE = TableSchema(
    "rank_balance",
    "How evenly the ranks of a job work, wait and communicate.",
    {
        "trace": Column.key("name of the rank's trace"),
        "rank": Column("number of the rank; absent where not recorded", heading="rank"),
        "host": Column("number of its host; absent where not known", heading="host", drop_priority=3),
        "span_ms": Column(
            "from the first to the last GPU event; of a trace without any its steps, else its collectives",
            "ms",
            heading="span ms",
        ),
        "computing_ms": Column(
            "time in which computation runs on the GPU; absent without GPU work", "ms", heading="compute ms"
        ),
        "collectives": Column.count(
            "collectives that it took part in together with others", heading="collectives", drop_priority=2
        ),
        "wait_ms": Column.total("sum of the time until the last rank came", "ms", heading="wait ms", figure="wait_ms"),
        "transfer_ms": Column.total(
            "sum of the time from then on until the first rank left after all had come", "ms", heading="transfer ms"
        ),
        "end_skew_ms": Column.total("sum of the time after that", "ms"),
        "exposed_ms": Column(
            "part of its collectives in which it does not compute, counted once where they overlap",
            "ms",
            heading="exposed ms",
            drop_priority=0,
        ),
        "exposed_wait_ms": Column("waiting in which it does not compute, counted once where waits overlap", "ms"),
        "times_last": Column.count("collectives to which no rank came later", heading="last"),
        "held_up_ms": Column.total(
            f"sum of how much later than the median of the others it came, where it was the last; {ADDED_UP}",
            "ms",
            heading="held up ms",
            figure="held_up_ms",
        ),
        "percent_last": Column("share of its collectives to which it came last", "%"),
        "bubble_ms": Column(
            "of a pipeline stage: time of its steps in which it neither computes nor communicates; "
            "waiting for a transfer counts as doing nothing; absent for ranks that send and receive "
            "nothing, and without GPU work",
            "ms",
            heading="bubble ms",
            figure="bubble_ms",
        ),
        "exchanged_bytes": Column(
            "what it got in uneven all-to-alls, such as tokens for its experts; absent where there are none",
            "bytes",
            figure="exchanged_bytes",
        ),
        "unmatched": Column.count("parts of collectives that are of no other rank's"),
    },
    figure="rank",
)

RANK_STEPS = TableSchema(
    "rank_steps",
    "How long each rank waited in each step, and for whom.",
    {
        "trace": Column.key("name of the rank's trace", "trace"),
        "rank": Column("number of the rank; absent where not recorded"),
        "step": Column.key("number of the step", "step", cells="number"),
        "device_step_ms": Column(
            "length of the step on the device: from the first start of its GPU work to that of the "
            "next step; of the last one to its last GPU end. On the host it is that of its "
            "`ProfilerStep`, see `host_step_ms` of `overview`",
            "ms",
            heading="device step ms",
        ),
        "collectives": Column.count("collectives launched in it, with others"),
        "wait_ms": Column.total("sum of the time until the last rank came", "ms", heading="wait ms"),
        "transfer_ms": Column.total(
            "sum of the time from then on until the first rank left after all had come", "ms", heading="transfer ms"
        ),
        "exposed_wait_ms": Column(
            "part of the waiting in which it does not compute, counted once where waits overlap",
            "ms",
            heading="exposed wait ms",
        ),
        "times_last": Column.count("collectives to which it came last", heading="last"),
        "held_up_ms": Column.total(
            f"sum of how much later than the median of the others it came to these; {ADDED_UP}",
            "ms",
            heading="held up ms",
        ),
    },
    ordered=True,
)

SLOWEST_RANKS = TableSchema(
    "slowest_ranks",
    "Which ranks the others wait for.",
    {
        "trace": Column.key("name of the rank's trace"),
        "rank": Column("number of the rank; absent where not recorded", drop_priority=0),
        "collectives": Column.count("collectives that it took part in together with others"),
        "times_last": Column.count("collectives to which no rank came later"),
        "times_first": Column.count("collectives to which no rank came earlier"),
        "wait_us": Column.total("sum of the time from its own starts to the last starts, or to its own ends", "us"),
        "mean_wait_us": Column("the same per collective", "us", Role.mean),
        "collective_us": Column.total("sum of the durations of the collectives, waiting included", "us"),
    },
    reads=OF_RANKS,
)


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
    return RANK_BALANCE.of_records(rows, title, [HELD_UP, *m.notes])


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
    return RANK_STEPS.of_records(rows, "Waiting by rank and step", notes)


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
    return SLOWEST_RANKS.of_records(rows, title, question_notes(figures, kind))


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
