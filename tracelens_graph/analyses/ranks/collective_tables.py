"""Tables of the collectives of a job: one by one, those that have something in common, and those not matched."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tracelens_graph.analyses.ranks import COLUMNS as OF_RANKS
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
from tracelens_graph.analyses.shared.grouping import first_rows
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.tables.column import About, Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes

_BANDWIDTHS: About = {
    "algbw_gb_s": Column(
        "algorithm bandwidth: size of the message over the latency, GB of 10^9 bytes; absent without sizes",
        "GB/s",
    ),
    "busbw_gb_s": Column(
        "bus bandwidth: algorithm bandwidth times the factor of NCCL's tests for its kind, against the link rate",
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
        "group_ranks": Column.text("ranks of that group, JSON; absent where not recorded", drop_priority=3),
        "source_rank": Column("number of the rank that sends; absent unless both ends of a transfer are known"),
        "target_rank": Column("number of the rank that receives; absent likewise"),
        "sequence": Column("number of the collective in its group; absent where not recorded"),
        "step": Column("number of the step in which most ranks launched it; absent outside of steps", heading="step"),
        "ranks": Column("ranks whose traces have it", heading="ranks"),
        "group_size": Column("ranks of the process group; absent where not recorded"),
        "hosts": Column("hosts of these ranks; absent where not known"),
        "start_us": Column(
            "when the first rank began, from the first start of a trace, clocks corrected", "us", Role.time
        ),
        "last_start_us": Column("when the last rank began", "us", Role.time),
        "start_skew_us": Column("last start less first start", "us", heading="start skew us"),
        "recorded_start_skew_us": Column("the same with clocks as recorded", "us"),
        "wait_us": Column.total("sum over its ranks of the time until the last one came", "us", heading="wait us"),
        "latency_us": Column(
            "how long it took the rank that came last: communication without waiting", "us", heading="latency us"
        ),
        "shortest_us": Column("shortest duration on any rank", "us", Role.min),
        "longest_us": Column("longest duration on any rank", "us", Role.max),
        "duration_spread_us": Column("longest less shortest duration", "us", drop_priority=2),
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
    reads=OF_RANKS,
)

COLLECTIVE_KINDS = TableSchema(
    "collective_kinds",
    "What collectives of equal kind and size, or of one process group and kind, cost.",
    {
        "kind": Column.key("kind of collective", "kind"),
        "ranks": Column.key("ranks of the process group; of several groups the most", "ranks", cells="number"),
        "message_bytes": Column.key(
            "size of the message; absent where not recorded, or where sizes differ", cells="number"
        ),
        "group": Column.text(
            "what the program calls the process group, else its name; absent where not recorded, or of several groups"
        ),
        "group_ranks": Column.text("ranks of that group, JSON; absent where not recorded", drop_priority=3),
        "recorded_ranks": Column("most ranks whose traces have one of them", drop_priority=2),
        "count": Column.count("collectives", heading="count"),
        "message": Column.text("the size of the message, with its unit", heading="message"),
        "latency_ms": Column.total(
            "sum of their latencies: how long the ranks that came last took",
            "ms",
            heading="latencies ms",
            figure="latency_ms",
        ),
        "wait_ms": Column.total("sum over all ranks of the time until the last one came", "ms", figure="wait_ms"),
        "transfer_ms": Column.total("sum of the time from then on until the first rank left", "ms", drop_priority=1),
        "end_skew_ms": Column.total("sum of the time after the first rank left", "ms", drop_priority=2),
        "wait_percent": Column("waiting as share of these three", "%", drop_priority=0),
        "mean_wait_us": Column("mean over collectives and ranks of waiting", "us", Role.mean, heading="mean wait us"),
        "longest_wait_us": Column("longest that one rank waited", "us", Role.max),
        "last_trace": Column.text(
            "name of the trace that was waited for longest: waiting counts for the rank that came last", drop_priority=2
        ),
        "last_rank": Column("number of that rank; absent where not recorded", drop_priority=0),
        "last_wait_ms": Column("waiting for that rank, summed over the others", "ms", drop_priority=0),
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
    reads=OF_RANKS,
)

UNMATCHED_COLLECTIVES = TableSchema(
    "unmatched_collectives",
    "Which parts of collectives match those of no other rank, and why.",
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
        "reason": Column.text("why it matches those of no other rank", heading="reason"),
        "key": Column.text("key of the collective"),
        "uid": Column.uid("its first kernel, in the trace of the rank"),
    },
)

_UNITS = ("B", "KB", "MB", "GB", "TB")


# --- one by one ------------------------------------------------------------------------------------------------------


def rank_collectives(traces: TraceSet, run: str | None = None, kind: str | None = None, top: int = 20) -> Table:
    """What each collective of a run cost: waiting, communication, bandwidth, and who came last.

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
    return answered(traces, run, "Collectives", lambda figures: collectives_table(figures, kind, top))


def collectives_table(figures: Figures, kind: str | None = None, top: int = 0) -> Table:
    """`rank_collectives` of collectives whose figures are known."""
    wait = figures.matched.total_wait_ns
    chosen = of_kind(figures, kind)
    at, cut = first_rows(chosen[np.argsort(-wait[chosen], kind="stable")], top)
    known = {**figures.columns, "collective": figures.columns["number"]}

    def cells(name: str) -> list[Any]:
        if name in known:
            return [known[name][one] for one in at.tolist()]
        ns = known[name.removesuffix("us") + "ns"]
        return [None if ns[one] is None else ns[one] / 1e3 for one in at.tolist()]

    columns = {name: cells(name) for name in RANK_COLLECTIVES}
    title = f"Collectives of {number_of_ranks(figures)}"
    return RANK_COLLECTIVES.table(columns, title, [*cut, *notes_of(figures, kind)])


# --- those that have something in common -----------------------------------------------------------------------------


def collective_kinds(
    traces: TraceSet, run: str | None = None, kind: str | None = None, by: Literal["size", "group"] = "size"
) -> Table:
    """What collectives cost that have something in common, and how long the ranks waited for one another in them.

    One row per kind, number of ranks and size of the message, the most time first; or one per process group and kind,
    the most waiting first. A process group is known by its ranks, by its name where these are not recorded.

    Args:
        traces: the traces, in order. Of a window, the kernels in it count.
        run: name of a run; by default that of the last trace.
        kind: only collectives of this kind, such as `allreduce`.
        by: whether collectives of one size are put together, or those of one process group.

    Raises:
        AnalysisError: there is no such run.
    """
    what = "Kinds of collectives" if by == "size" else "Process groups"
    return answered(traces, run, what, lambda figures: kinds_table(figures, kind, by))


def kinds_table(figures: Figures, kind: str | None = None, by: Literal["size", "group"] = "size") -> Table:
    """`collective_kinds` of collectives whose figures are known."""
    m, columns = figures.matched, figures.columns
    title = f"Kinds of collectives of {number_of_ranks(figures)}, over {m.part}"
    chosen, notes = of_kind(figures, kind), notes_of(figures, kind)
    if by == "size":
        alike = _alike(zip(m.kind, figures.ranks.tolist(), columns["message_bytes"], strict=True), chosen)
        rows = [_of_several(figures, at) for at in alike]
        rows.sort(
            key=lambda row: (-row["latency_ms"] - row["wait_ms"], row["kind"], row["ranks"], row["message_bytes"] or 0)
        )
        return COLLECTIVE_KINDS.of_records(rows, title, notes)
    rows = [_of_several(figures, at) for at in _alike(zip(columns["process_group"], m.kind, strict=True), chosen)]
    rows.sort(key=lambda row: (-row["wait_ms"], row["kind"], row["group"] or "", row["group_ranks"] or ""))
    table = COLLECTIVE_KINDS.of_records(rows, title, notes)
    # Headings are for collectives of one size.
    return replace(table, about={name: replace(column, heading=None) for name, column in table.about.items()})


def _alike(keys: Iterable[Hashable], chosen: Codes) -> list[Codes]:
    """The chosen of some collectives, those of one key together, in the order in which keys come first."""
    members: dict[Hashable, list[int]] = {}
    of = list(keys)
    for one in chosen.tolist():
        members.setdefault(of[one], []).append(one)
    return [np.array(some) for some in members.values()]


def _of_several(figures: Figures, at: Codes) -> dict[str, Any]:
    """Columns of some collectives of one kind taken together, by name."""
    m, columns = figures.matched, figures.columns
    own = m.order[expanded(m.first[at], m.first[at] + m.count[at])[0]]
    wait, transfer, end_skew = (int(ns[own].sum()) for ns in (m.wait_ns, m.transfer_ns, m.end_skew_ns))
    total = wait + transfer + end_skew
    is_of_one_group = len(np.unique(figures.groups.number[at])) == 1
    names = [name for one in at.tolist() if (name := columns["group"][one]) is not None]
    sizes = {columns["message_bytes"][one] for one in at.tolist()}
    size = sizes.pop() if len(sizes) == 1 else None
    last = m.trace[m.last_part[at]]
    late_ns = sum_by_group(last, m.total_wait_ns[at], len(m.ranks))
    late = int(np.argmax(np.where(np.isin(np.arange(len(late_ns)), last), late_ns, -1)))
    bus, peak = _median(figures.bus_bandwidth[at]), _median(figures.peak[at])
    return {
        "kind": m.kind[at[0]],
        "ranks": int(figures.ranks[at].max()),
        "message_bytes": size,
        "group": min(names, default=None) if is_of_one_group else None,
        "group_ranks": columns["group_ranks"][at[0]] if is_of_one_group else None,
        "recorded_ranks": int(m.count[at].max()),
        "count": len(at),
        "message": "" if size is None else shown_bytes(size),
        "latency_ms": int(figures.latency_ns[at].sum()) / 1e6,
        "wait_ms": wait / 1e6,
        "transfer_ms": transfer / 1e6,
        "end_skew_ms": end_skew / 1e6,
        "wait_percent": 100 * wait / total if total else None,
        "mean_wait_us": wait / len(own) / 1e3,
        "longest_wait_us": int(m.wait_ns[own].max()) / 1e3,
        "last_trace": m.ranks[late].name,
        "last_rank": m.ranks[late].rank,
        "last_wait_ms": int(late_ns[late]) / 1e6,
        "median_latency_us": _median(figures.latency_ns[at] / 1e3),
        "median_start_skew_us": _median((m.last_start_ns[at] - m.first_start_ns[at]) / 1e3),
        "median_busbw_gb_s": bus,
        "peak_gb_s": peak,
        "percent_of_peak": None if bus is None or peak is None else 100 * bus / peak,
    }


# --- those that were not matched -------------------------------------------------------------------------------------


def unmatched_collectives(figures: Figures) -> Table:
    """One row per part of a collective that matches those of no other rank, by start; see `UNMATCHED_COLLECTIVES`."""
    m = figures.matched
    rows = []
    for part, reason in m.unmatched:
        rank, one = m.ranks[m.trace[part]], m.parts.collective(part)
        start, end = m.start_ns[part], m.end_ns[part]
        rows.append({
            "trace": rank.name, "rank": rank.rank, "kind": one.kind, "group": one.group_description or one.group,
            "sequence": one.sequence, "step": m.step_of(part), "start_us": start / 1e3,
            "duration_us": (end - start) / 1e3, "reason": reason, "key": one.key, "uid": one.uids[0],
        })  # fmt: skip
    rows.sort(key=lambda row: (row["start_us"], row["trace"]))
    return UNMATCHED_COLLECTIVES.of_records(rows, f"Unmatched collectives of {number_of_ranks(figures)}")


# --- what tables of ranks share --------------------------------------------------------------------------------------


def answered(traces: TraceSet, run: str | None, what: str, table_of: Callable[[Figures], Table]) -> Table:
    """The answer to a question about the ranks of a run.

    Args:
        traces: the traces, in order.
        run: name of the run; None for that of the last trace.
        what: what the table is of, for its title.
        table_of: makes the table of what their collectives cost.
    """
    ranks = traces.of_run(run).by_rank()
    title = ranks.titled(f"{what} of {ranks[0].run}" if ranks[0].run else what)
    return replace(table_of(Figures(MatchedCollectives(ranks))), title=title)


def of_kind(figures: Figures, kind: str | None) -> Codes:
    """Numbers of the collectives of a kind, or of all."""
    return np.flatnonzero(np.array([kind in (None, one) for one in figures.matched.kind], bool))


def notes_of(figures: Figures, kind: str | None) -> list[str]:
    """Why there are no collectives of a kind; else what was not matched, and what only some ranks have in a window."""
    m = figures.matched
    outside = {key for rank in m.ranks for key in rank.cut}
    kinds = sorted({one.kind for one in m.parts.forms})
    if not kinds and not outside:
        return ["the traces have no communication kernels"]
    if kind is not None and kind not in kinds:
        return [f"no collective is of kind {kind!r}; there are {', '.join(kinds)}"]
    if len(m.ranks) < 2:
        return ["1 trace: at least two ranks are needed"]
    cut = sum(any(one.key in outside for one in m.members(at)) for at in range(len(m))) if outside else 0
    in_part = [f"{cut:,} of {len(m):,} collectives are in the window on some of their ranks only"] if cut else []
    return [*notes_on_matching(m), *in_part] or ([] if len(m) else ["no collective was found on two ranks"])


def number_of_ranks(figures: Figures) -> str:
    """How many ranks there are, in words."""
    number = len(figures.matched.ranks)
    return f"{number:,} rank{'s' * (number != 1)}"


def _median(values: np.ndarray) -> float | None:
    found = values[~np.isnan(values)]
    return float(np.median(found)) if len(found) else None


def shown_bytes(size: float) -> str:
    """A size for people, in powers of 1,000.

    >>> shown_bytes(33_554_432)
    '33.6 MB'
    """
    power = 0
    while size >= 999.5 and power < len(_UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_UNITS[power]}"
