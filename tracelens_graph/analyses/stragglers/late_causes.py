"""Why ranks came late to collectives: what each did since the one before that the median rank did not.

A rank that comes late once comes late to whatever follows, until something makes it and the others wait for the same;
so only lateness that was not there at the collective before counts. Between these two collectives all ranks run the
same program, so the reason is the difference to the same stretch on the rank with the median start.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.diagnosis.finding import percent
from tracelens_graph.analyses.ranks.figures import DELAYS_ADD_UP, Figures
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
from tracelens_graph.analyses.shared.grouping import first_rows
from tracelens_graph.analyses.stragglers.origins import Origin, Origins
from tracelens_graph.analyses.stragglers.reasons import (
    EARLIER,
    EVEN,
    EVEN_NS,
    OTHERS,
    OWN,
    UNKNOWN,
    UNNAMED,
    Reason,
    in_words,
    reason_of,
)
from tracelens_graph.analyses.stragglers.segments import Arrivals
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

LATE_ARRIVALS = TableSchema(
    "late_arrivals",
    "Who came late to each collective, and why.",
    {
        "collective": Column.key("number of the collective, by first start", heading="#"),
        "kind": Column.text("kind of collective", heading="kind"),
        "step": Column("number of the step in which most ranks launched it; absent outside of steps", heading="step"),
        "trace": Column.text("name of the trace of the rank that came last, or late beside it"),
        "rank": Column("number of that rank; absent where not recorded", heading="rank", drop_priority=0),
        "late_us": Column(
            "how much later it came than the median of the earlier ranks", "us", heading="late us", drop_priority=0
        ),
        "new_us": Column.total("the part of it that is new since the collective before", "us", heading="new us"),
        "since": Column("number of the collective before; absent for the beginning of the step"),
        "reason": Column.text("one word for the reason: see the docs", heading="reason", drop_priority=0),
        "what": Column.text(
            "what the rank did that the median rank did not, or did longer", heading="what", drop_priority=0, wraps=True
        ),
        "evidence": Column.text("its time against that of the median rank"),
        "median_trace": Column.text("name of the trace of the rank with the median start, which it is compared with"),
        "key": Column.text("key of the collective on the late rank"),
        "uid": Column.instance(
            "the call or GPU event on the late rank with most of the difference; without one, its kernel"
        ),
    },
)

LATE_RANKS = TableSchema(
    "late_ranks",
    "Which ranks come late to which collectives, how often, by how much, and why.",
    {
        "trace": Column.key("name of the rank's trace"),
        "rank": Column("number of the rank; absent where not recorded", heading="rank", drop_priority=0),
        "kind": Column.key("kind of collective", "kind"),
        "times_late": Column.count(
            "collectives of the kind to which it came last, or late together with the last, by more than ranks usually "
            "differ",
            heading="late",
        ),
        "collectives": Column("collectives of the kind that it took part in together with others", heading="of"),
        "percent_late": Column("share of these to which it came late", "%", heading="% late"),
        "median_late_us": Column(
            "median of how much later it came than the median of the earlier ranks",
            "us",
            Role.spread,
            heading="median late us",
        ),
        "late_ms": Column.total(f"sum of how much later it came; {DELAYS_ADD_UP}", "ms"),
        "new_ms": Column.total(
            "sum of the parts of it that are new since the collective before", "ms", heading="new ms"
        ),
        "reason": Column.text("the reason with most of this new lateness", heading="reason", drop_priority=-1),
        "percent_reason": Column("its share of the new lateness", "%", heading="% of new"),
        "times_reason": Column.count("late arrivals for this reason", heading="times", drop_priority=1),
        "median_new_us": Column("median of their new lateness", "us", Role.spread, heading="median new us"),
        "what": Column.text(
            "what the rank did in the worst case of this reason", heading="what", drop_priority=-1, wraps=True
        ),
        "evidence": Column.text("its time there against that of the median rank"),
        "collective": Column("number of the collective of this case"),
        "uid": Column.instance("the call or GPU event of this case"),
    },
)


FOLLOWED = (OTHERS, OWN, UNKNOWN)
"""Reasons that lie elsewhere, or in other programs: where the delay began is looked for."""

MOST_EXPLAINED = 2_000
"""So many late arrivals are explained, the latest first."""


MOST_EVENTS = 2_000_000
"""Jobs are run again, and delays followed from rank to rank, where they have no more events than this."""


def are_few(traces: TraceSet) -> bool:
    """Whether traces have no more than `MOST_EVENTS` events together."""
    return sum(one.info.events for one in traces) <= MOST_EVENTS


def late_arrivals(
    figures: Figures,
    traces: TraceSet,
    top: int = 0,
    shown: MatchedCollectives | None = None,
    causes: JobCauses | None = None,
) -> Table:
    """One row per collective and rank that came late to it, the most new lateness first; see `LATE_ARRIVALS`.

    Args:
        figures: what each collective cost.
        traces: the same ranks, with whole graphs; those of ranks that are neither late nor median are not analysed.
        top: number of rows; 0 for all.
        shown: collectives of windows of the same ranks, such as of a step: these alone have rows, by number.
        causes: what bound the points of these ranks, where that is known.

    Raises:
        AnalysisError: `top` is negative, or the traces are not those of the figures.
    """
    rows, notes = _explained(figures, traces, None if shown is None else _numbers_in(shown, figures.matched), causes)
    rows.sort(key=lambda row: (-row["new_us"], -row["late_us"], row["collective"]))
    first, more = first_rows(rows, top)
    number = len(traces)
    title = f"Late arrivals of {number:,} rank{'s' * (number != 1)}"
    notes = [*more, *notes, *notes_on_matching(shown or figures.matched)]
    return LATE_ARRIVALS.of_records(first, title, notes)


def _numbers_in(shown: MatchedCollectives, matched: MatchedCollectives) -> dict[int, int]:
    """For collectives of whole traces their numbers in windows of these; those that the windows lack are left out."""

    def parts_of(one: MatchedCollectives, parts: np.ndarray) -> list[tuple[int, int]]:
        return [(int(one.trace[part]), one.parts.collective(part).uids[0]) for part in parts.tolist()]

    there = np.flatnonzero(shown.number >= 0)
    numbers = dict(zip(parts_of(shown, there), shown.number[there].tolist(), strict=True))
    last = enumerate(parts_of(matched, matched.last_part)) if len(matched) else ()
    return {collective: numbers[part] for collective, part in last if part in numbers}


def _explained(
    figures: Figures, traces: TraceSet, numbers: Mapping[int, int] | None, causes: JobCauses | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of late arrivals, of all collectives or of those that have a number, and what is left out."""
    m = figures.matched
    if len(traces) != len(m.ranks):
        raise AnalysisError(f"there are {len(traces):,} traces, but the collectives are of {len(m.ranks):,} ranks")
    arrivals = Arrivals(figures, traces)
    origins = cache(lambda: Origins(JobCauses(traces, m) if causes is None else causes))
    late_parts = _late_parts(figures, numbers)
    explained = {part for part, late_ns in late_parts[:MOST_EXPLAINED] if late_ns >= EVEN_NS}
    # Pair by pair, as graphs of ranks may have to be read again.
    pairs = {part: (of := int(m.trace[part]), arrivals.median_of(int(m.number[part]), of)) for part in explained}
    is_followed = arrivals.is_held or are_few(traces)
    rows: list[dict[str, Any]] = []
    for part, late_ns in sorted(late_parts, key=lambda one: pairs.get(one[0], (-1, -1))):
        collective, ordinal = int(m.number[part]), int(m.trace[part])
        reason, median, since = Reason(EVEN if late_ns < EVEN_NS else UNKNOWN, 0), -1, None
        if part in explained and arrivals.is_known(collective, ordinal):
            late = arrivals.stretch(collective, ordinal, late_ns)
            reason, median, since = reason_of(arrivals, late), late.median.rank.ordinal, late.since
            if reason.word in FOLLOWED and late.blamed.rank.on_gpu and is_followed:
                first = late.blamed.rank.first_row(collective)
                reason = _followed(arrivals, reason, origins().of(ordinal, first, late_ns), ordinal)
        if part == m.last_part[collective] or reason.word not in (*UNNAMED, OTHERS):
            row = _row(arrivals, part, late_ns, median, reason) | {"since": since}
            if numbers is not None:
                row |= {"collective": numbers[collective], "since": None if since is None else numbers.get(since)}
            rows.append(row)
    beyond = sum(late_ns >= EVEN_NS for _, late_ns in late_parts[MOST_EXPLAINED:])
    notes = [] if is_followed else ["of so many events, delays are not followed to the ranks where they began"]
    if not beyond:
        return rows, notes
    return rows, [*notes, f"{beyond:,} late arrivals are not explained, only the latest {MOST_EXPLAINED:,}"]


def _followed(arrivals: Arrivals, reason: Reason, origin: Origin | None, ordinal: int) -> Reason:
    """The reason of a late arrival where the delay began: on the late rank, or on one that it waited for."""
    if origin is None:
        return reason
    if origin.ordinal == ordinal:
        return replace(reason, word=origin.word, what=origin.what)
    name = arrivals.traces[origin.ordinal].name
    because = in_words(origin.word, origin.what)
    return replace(reason, word=OTHERS, what=f"waited for {name}: {because}")


LATE_BESIDE_PERCENT = 25.0
"""Who comes before the last rank is late, too, if it comes this share as late, and after half of the ranks."""


def _late_parts(figures: Figures, numbers: Container[int] | None) -> list[tuple[int, int]]:
    """Parts of the ranks that came last, or late beside these and not by chance, and how late: the latest first."""
    m = figures.matched
    part, later = figures.later_ns
    last, of_last = figures.held_up_ns
    number = m.number[part]
    is_last = part == m.last_part[number]
    least = np.maximum(np.maximum(EVEN_NS, LATE_BESIDE_PERCENT / 100 * of_last), figures.chance_ns)
    behind_half = np.arange(len(part)) - m.first[number] >= m.count[number] // 2
    chosen = np.flatnonzero(np.where(is_last, last[number] >= 0, behind_half & (later >= least[number])))
    chosen = chosen[np.lexsort((number[chosen], -later[chosen]))]
    found = zip(part[chosen].tolist(), later[chosen].tolist(), strict=True)
    return [one for one in found if numbers is None or int(m.number[one[0]]) in numbers]


def _row(arrivals: Arrivals, at: int, late_ns: int, median: int, reason: Reason) -> dict[str, Any]:
    m = arrivals.figures.matched
    collective, trace, part = int(m.number[at]), arrivals.traces[int(m.trace[at])], m.parts.collective(at)
    return {
        "collective": collective,
        "kind": m.kind[collective],
        "step": arrivals.figures.step[collective],
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
    """One row per rank and kind of collectives that it came late to, the most new lateness first; see `LATE_RANKS`.

    Args:
        arrivals: all late arrivals, see `late_arrivals`; those that are `even` do not count.
        figures: what each collective cost.
    """
    m = figures.matched
    ordinal = {rank.name: at for at, rank in enumerate(m.ranks)}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in arrivals.records():
        if row["reason"] != EVEN:
            groups.setdefault((row["trace"], row["kind"]), []).append(row)
    kinds = np.array(m.kind)
    rows = []
    for (name, kind), late in groups.items():
        took_part = m.number[(m.trace == ordinal[name]) & (m.number >= 0)]
        together = int((kinds[took_part] == kind).sum())
        new_us: dict[str, float] = {}
        for row in late:
            new_us[row["reason"]] = new_us.get(row["reason"], 0.0) + row["new_us"]
        named = [one for one in new_us if one not in UNNAMED]
        reason = max(named or new_us, key=lambda one: new_us[one])
        of_reason = [row for row in late if row["reason"] == reason]
        example = max(of_reason, key=_weight)
        rows.append(
            {
                "trace": name,
                "rank": example["rank"],
                "kind": kind,
                "times_late": len(late),
                "collectives": together,
                "percent_late": percent(len(late), together),
                "median_late_us": float(np.median([row["late_us"] for row in late])),
                "late_ms": sum(row["late_us"] for row in late) / 1e3,
                "new_ms": sum(new_us.values()) / 1e3,
                "reason": reason,
                "percent_reason": percent(new_us[reason], sum(new_us.values())),
                "times_reason": len(of_reason),
                "median_new_us": float(np.median([row["new_us"] for row in of_reason])),
                "what": example["what"],
                "evidence": example["evidence"],
                "collective": example["collective"],
                "uid": example["uid"],
            }
        )
    rows.sort(key=lambda row: (-row["new_ms"], -row["late_ms"], row["trace"], row["kind"]))
    return LATE_RANKS.of_records(rows, "Late ranks", arrivals.notes)


def _weight(row: dict[str, Any]) -> tuple[bool, float]:
    """How well a late arrival stands for others of its reason: those with more detail come first."""
    return bool(row["what"]), row["late_us" if row["reason"] == EARLIER else "new_us"]
