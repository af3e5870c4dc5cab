"""Tables of the ranks of a job: how long a step takes, how evenly they work, and whom the others waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks import COLUMNS as OF_RANKS
from tracelens_graph.analyses.ranks.collective_tables import answered, notes_of, number_of_ranks, of_kind
from tracelens_graph.analyses.ranks.figures import DELAYS_ADD_UP, HELD_UP, Figures
from tracelens_graph.analyses.ranks.link_delays import LinkDelays
from tracelens_graph.analyses.ranks.links import Links
from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.intervals import Intervals, length_before, merge, union
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes

RANK_TIMES = TableSchema(
    "rank_times",
    "How long a step of a job takes, and how much of it is communication and waiting.",
    {
        "time": Column.key("what is measured", "time"),
        "mean_ms": Column(
            "mean over steps on the device and ranks; without steps over the ranks, from first to "
            "last GPU event. The last step of a recording ends with its last GPU event, so it lacks "
            "the pause before the next one",
            "ms",
            heading="ms",
            figure="ms",
        ),
        "percent": Column("share of the steps", "%", heading="%", figure="percent"),
        "most_ms": Column(
            "mean over the steps of the rank that has the most", "ms", heading="most ms", figure="most_ms"
        ),
        "most_trace": Column.text("name of the trace of that rank", "most on"),
        "least_ms": Column("mean over the steps of the rank that has the least", "ms", heading="least ms"),
        "least_trace": Column.text("name of the trace of that rank", "least on"),
        "meaning": Column.text("what it is, in words"),
    },
    ordered=True,
)


ROW_MEANING = {
    "step": "a step on the device of a rank; without steps the time from first to last GPU event",
    "computing": "computation runs on the GPU; of ranks with GPU work alone, as nothing shows when the host computes",
    "communication": "communication runs, waiting included",
    "exposed": "communication runs and no computation on the GPU",
    "waiting": "a collective runs, but other ranks have not come",
    "exposed_waiting": "waiting, and no computation runs on the GPU",
    "copying": "neither computation nor communication runs, but other work of the GPU, mostly copies and fills; of "
    "ranks with GPU work alone",
    "idle": "nothing runs on the GPU, which waits for its host; of ranks with GPU work alone. With computing, exposed "
    "and copying it is their whole step",
}
"""Row of `rank_times` -> what it is."""
_OF_GPU = ("computing", "copying", "idle")


def times_table(figures: Figures) -> Table:
    """Times of a step, mean over steps and ranks; see `RANK_TIMES`."""
    m = figures.matched
    ranks = [(rank, _times_ns(figures, trace)) for trace, rank in enumerate(m.ranks)]
    ranks = [(rank, ns) for rank, ns in ranks if ns["step"]]
    if any(rank.steps for rank, _ in ranks):  # the others have no step to measure
        ranks = [(rank, ns) for rank, ns in ranks if rank.steps]
    # How long a step takes on the host says nothing of the device.
    with_gpu = [(rank, ns) for rank, ns in ranks if rank.has_gpu_work]
    ranks = with_gpu or ranks
    rows = []
    for name, meaning in ROW_MEANING.items() if ranks else ():
        of = with_gpu if name in _OF_GPU else ranks
        row: dict[str, Any] = dict.fromkeys(RANK_TIMES) | {"time": name, "meaning": meaning}
        if of:
            total, whole = (sum(ns[one] for _, ns in of) for one in (name, "step"))
            by_rank = [(ns[name] / _steps(rank), rank.name) for rank, ns in of]
            most, least = (pick(by_rank, key=lambda one: one[0]) for pick in (max, min))
            row |= {
                "mean_ms": total / sum(_steps(rank) for rank, _ in of) / 1e6,
                "percent": 100 * total / whole,
                "most_ms": most[0] / 1e6,
                "most_trace": most[1],
                "least_ms": least[0] / 1e6,
                "least_trace": least[1],
            }
        rows.append(row)
    where = "on the device of a rank" if with_gpu else "on the host of a rank"
    title = f"Times of a step {where}, mean over all steps of {number_of_ranks(figures)}"
    if not any(one.steps for one in m.ranks):
        title = f"Times of {m.part}, mean of {number_of_ranks(figures)}"
    return RANK_TIMES.of_records(rows, title)


def _steps(rank: RankCollectives) -> int:
    return max(len(rank.steps), 1)


def _times_ns(figures: Figures, trace: int) -> dict[str, int]:
    """The times of one rank, summed over its steps; without any, of its GPU work, else of its collectives."""
    m = figures.matched
    rank, own = m.ranks[trace], m.parts.of_rank(trace)
    span, computing = np.array(rank.measured_ns), rank.gpu.computing
    start = m.parts.own_start_ns[own]
    communicating = union(merge(start, m.parts.own_end_ns[own]), rank.gpu.communicating)
    waiting = merge(start, start + m.wait_ns[own])  # what was not matched waits for nobody

    def within(*some: Intervals) -> int:
        """How long any of some things happens."""
        return int(np.diff(length_before(union(*some), span))[0])

    active, busy = within(communicating, rank.gpu.busy), within(communicating, computing)
    return {
        "step": int(span[1] - span[0]),
        "computing": within(computing),
        "communication": within(communicating),
        "exposed": busy - within(computing),
        "waiting": within(waiting),
        "exposed_waiting": within(waiting, computing) - within(computing),
        "copying": active - busy,
        "idle": int(span[1] - span[0]) - active,
    }


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
            "time in its collectives in which it does not compute; overlaps count once",
            "ms",
            heading="exposed ms",
            drop_priority=0,
        ),
        "exposed_wait_ms": Column("time in which it waits and does not compute; overlaps count once", "ms"),
        "times_last": Column.count("collectives to which it came last; ties go to the smallest rank", heading="last"),
        "times_among_last": Column.count("collectives to which no rank came later", drop_priority=3),
        "times_first": Column.count("collectives to which no rank came earlier", drop_priority=3),
        "held_up_ms": Column.total(
            f"how much later than the median of the others it came, summed over collectives to which it came last, "
            f"without delays by slow links; {DELAYS_ADD_UP}",
            "ms",
            heading="held up ms",
            figure="held_up_ms",
        ),
        "percent_last": Column("share of its collectives to which it came last", "%"),
        "bubble_ms": Column(
            "of a pipeline stage: time of its steps in which it neither computes nor communicates, waits for transfers "
            "included; absent for ranks that send and receive nothing, and without GPU work",
            "ms",
            heading="bubble ms",
            figure="bubble_ms",
        ),
        "exchanged_bytes": Column(
            "what it received in uneven all-to-alls, such as tokens for its experts; absent where there are none",
            "bytes",
            figure="exchanged_bytes",
        ),
        "unmatched": Column.count("its collectives that match those of no other rank"),
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
            "time in which it waits and does not compute; overlaps count once",
            "ms",
            heading="exposed wait ms",
        ),
        "times_last": Column.count("collectives to which it came last", heading="last"),
        "held_up_ms": Column.total(
            f"how much later than the median of the others it came to these, summed, without delays by slow links; "
            f"{DELAYS_ADD_UP}",
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
    return answered(
        traces, run, "Ranks", lambda figures: balance_table(figures, LinkDelays(Links(figures)), kind, late_first)
    )


def balance_table(figures: Figures, delays: LinkDelays, kind: str | None = None, late_first: bool = False) -> Table:
    """`rank_balance` of collectives whose figures are known, by default in the order of the ranks."""
    m, chosen = figures.matched, of_kind(figures, kind)
    rows = []
    for trace, rank in enumerate(m.ranks):
        every = m.parts.of_rank(trace)
        exchanged, bubble = figures.exchanged_bytes[every], figures.bubble_ns(trace)
        unmatched = every[m.number[every] < 0]
        if kind is not None:
            of_kind_too = [part for part in unmatched.tolist() if m.parts.form_of(part).kind == kind]
            unmatched = np.array(of_kind_too, np.int64)
        own = every[np.isin(m.number[every], chosen)]
        if late_first and not len(own):
            continue
        parts = np.concatenate((own, unmatched))
        computing = rank.gpu.computing
        of_rank = _of_parts(figures, delays, trace, own)
        rows.append({
            **of_rank,
            "host": m.hosts[trace],
            "span_ms": (rank.span_ns[1] - rank.span_ns[0]) / 1e6,
            "computing_ms": int((computing[1] - computing[0]).sum()) / 1e6 if rank.has_gpu_work else None,
            "exposed_ms": figures.exposed_ns(trace, m.parts.own_start_ns[parts], m.parts.own_end_ns[parts]) / 1e6,
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


def rank_steps(figures: Figures, delays: LinkDelays) -> Table:
    """One row per rank and step; see `RANK_STEPS`."""
    m = figures.matched
    rows = []
    for trace, rank in enumerate(m.ranks):
        own = m.parts.of_rank(trace)
        own = own[m.number[own] >= 0]
        place = dict(positions_by(np.array(rank.step_of, np.int64)[m.node[own]]))
        for at, step in enumerate(rank.steps):
            known = _of_parts(figures, delays, trace, own[place.get(at, own[:0])])
            known |= {"step": step.number, "device_step_ms": (step.end_ns - step.start_ns) / 1e6}
            rows.append({name: known[name] for name in RANK_STEPS})
    notes = [HELD_UP] if rows else ["the traces have no steps (ProfilerStep#n)"]
    return RANK_STEPS.of_records(rows, "Waiting by rank and step", notes)


def _of_parts(figures: Figures, delays: LinkDelays, trace: int, parts: Codes) -> dict[str, Any]:
    """What some matched parts of a rank come to, by name."""
    m, rank = figures.matched, figures.matched.ranks[trace]
    at = m.number[parts]
    last, _ = figures.held_up_ns
    holds, later = delays.held_up_ns
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
        "held_up_ms": int(later[at][holds[at] == trace].sum()) / 1e6,
    }
