"""Tables of the ranks of a job: how evenly they work, whom the others waited for, and in which step."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.late_ranks.late_causes import ADDED_UP
from tracelens_graph.analyses.ranks import COLUMNS as OF_RANKS
from tracelens_graph.analyses.ranks.collective_tables import answered, notes_of, number_of_ranks, of_kind
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.lateness import HELD_UP
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes

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
        "collective_ms": Column.total("sum of these three: the durations of its collectives", "ms", drop_priority=3),
        "mean_wait_us": Column(
            "waiting per collective; absent where it took part in none", "us", Role.mean, drop_priority=3
        ),
        "exposed_ms": Column(
            "part of its collectives in which it does not compute, counted once where they overlap",
            "ms",
            heading="exposed ms",
            drop_priority=0,
        ),
        "exposed_wait_ms": Column("waiting in which it does not compute, counted once where waits overlap", "ms"),
        "times_last": Column.count(
            "collectives to which it came last; of several that did the one of the smallest rank", heading="last"
        ),
        "times_among_last": Column.count("collectives to which no rank came later", drop_priority=3),
        "times_first": Column.count("collectives to which no rank came earlier", drop_priority=3),
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
    reads=OF_RANKS,
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


def rank_balance(traces: TraceSet, run: str | None = None, kind: str | None = None, late_first: bool = False) -> Table:
    """How evenly the ranks of a run work, wait and communicate, and whom the others waited for.

    One row per rank. Where clocks cannot be compared, go by `collective_ms`: who comes late has the least.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`, count.
        late_first: the ranks that waited least first, because they come late, and none that shared no collective; else
            ranks by their numbers.

    Raises:
        AnalysisError: there is no such run.
    """
    return answered(traces, run, "Ranks", lambda figures: balance_table(figures, kind, late_first))


def balance_table(figures: Figures, kind: str | None = None, late_first: bool = False) -> Table:
    """`rank_balance` of collectives whose figures are known, by default in the order of the ranks."""
    m, chosen = figures.meetings, of_kind(figures, kind)
    rows = []
    for trace, rank in enumerate(m.attendances):
        every = np.flatnonzero(m.trace == trace)
        exchanged, bubble = figures.exchanged_bytes[every], figures.bubble_ns(trace)
        unmatched = every[m.meeting[every] < 0]
        if kind is not None:
            unmatched = np.array(
                [part for part in unmatched.tolist() if m.parts.collective(part).kind == kind], np.int64
            )
        own = every[np.isin(m.meeting[every], chosen)]
        if late_first and not len(own):
            continue
        parts = np.concatenate((own, unmatched))
        start, end = (times[parts] - m.parts.shift_ns[trace] for times in (m.parts.start_ns, m.parts.end_ns))
        computing = rank.gpu.computing
        of_rank = _of_parts(figures, trace, own)
        rows.append({
            **of_rank,
            "host": m.hosts[trace],
            "span_ms": (rank.span_ns[1] - rank.span_ns[0]) / 1e6,
            "computing_ms": int((computing[1] - computing[0]).sum()) / 1e6 if rank.has_gpu_work else None,
            "exposed_ms": figures.exposed_ns(trace, start, end) / 1e6,
            "percent_last": 100 * of_rank["times_last"] / len(own) if len(own) else 0.0,
            "bubble_ms": None if bubble is None else bubble / 1e6,
            "exchanged_bytes": None if np.isnan(exchanged).all() else int(np.nansum(exchanged)),
            "unmatched": len(unmatched),
        })  # fmt: skip
    notes = notes_of(figures, kind)
    if late_first:
        rows.sort(key=lambda row: (row["wait_ms"], row["trace"]))
    else:
        notes = [HELD_UP, *notes]
    return RANK_BALANCE.of_records(rows, f"{number_of_ranks(figures)}, over {m.part}", notes)


def rank_steps(figures: Figures) -> Table:
    """One row per rank and step; see `RANK_STEPS`."""
    m = figures.meetings
    rows = []
    for trace, rank in enumerate(m.attendances):
        own = np.flatnonzero((m.trace == trace) & (m.meeting >= 0))
        place = np.array(rank.step_of, np.int64)[m.node[own]]
        for at, step in enumerate(rank.steps):
            known = _of_parts(figures, trace, own[place == at])
            known |= {"step": step.number, "device_step_ms": (step.end_ns - step.start_ns) / 1e6}
            rows.append({name: known[name] for name in RANK_STEPS})
    notes = [HELD_UP] if rows else ["the traces have no steps (ProfilerStep#n)"]
    return RANK_STEPS.of_records(rows, "Waiting by rank and step", notes)


def _of_parts(figures: Figures, trace: int, parts: Codes) -> dict[str, Any]:
    """What some matched parts of a rank come to, by name."""
    m, rank = figures.meetings, figures.meetings.attendances[trace]
    at = m.meeting[parts]
    last, later = figures.held_up_ns
    wait, transfer, end_skew = (int(ns[parts].sum()) for ns in (m.wait_ns, m.transfer_ns, m.end_skew_ns))
    return {
        "trace": rank.name,
        "rank": rank.rank,
        "collectives": len(parts),
        "wait_ms": wait / 1e6,
        "transfer_ms": transfer / 1e6,
        "end_skew_ms": end_skew / 1e6,
        "collective_ms": (wait + transfer + end_skew) / 1e6,
        "mean_wait_us": wait / len(parts) / 1e3 if len(parts) else None,
        "exposed_wait_ms": figures.exposed_wait_ns(trace, parts) / 1e6,
        "times_last": int((last[at] == trace).sum()),
        "times_among_last": int((m.start_ns[parts] == m.last_start_ns[at]).sum()),
        "times_first": int((m.start_ns[parts] == m.first_start_ns[at]).sum()),
        "held_up_ms": int(later[at][last[at] == trace].sum()) / 1e6,
    }
