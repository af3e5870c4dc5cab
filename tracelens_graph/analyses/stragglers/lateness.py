"""Which rank of a job the others wait for, and why, in words; proven by matched collectives only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import percent, shown_ms
from tracelens_graph.analyses.diagnosis.thresholds import WORTH_REPORTING_PERCENT
from tracelens_graph.analyses.ranks.figures import Figures, held_up_by
from tracelens_graph.analyses.ranks.matched_collectives import ALONE
from tracelens_graph.analyses.stragglers.reasons import OWN, REASONS, UNNAMED
from tracelens_graph.graph.collective_kinds import UNKNOWN
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Ns

ADDED_UP = "one delay counts again in every collective that it delays, so a repair saves less"
"""What holds of a sum of delays. What an end of them would gain, `what_if(..., repair=...)` tells."""

DELAYS_ADD_UP = f"{ADDED_UP}: `ranks --what-if repair=RANK` says how much"
"""The same in the definition of a column."""

HELD_UP = f"held up ms: {ADDED_UP}"
"""The same below a table."""


@dataclass(frozen=True)
class Lateness:
    """What matched collectives tell of stragglers.

    Attributes:
        late: name of the rank that the others wait for; None if none is proven late.
        text: the line, for people.
    """

    late: str | None
    text: str


def lateness(
    figures: Figures, for_a_reason: frozenset[str] = frozenset(), by_links_ns: Ns | None = None
) -> Lateness | None:
    """Which rank the others wait for, if every rank is there and the collectives are verified.

    A collective is held up by its last rank, by the time from the median start of the others to its own. The rank that
    holds up the others most is late if that, summed over its collectives, is WORTH_REPORTING_PERCENT of the mean span,
    and if most ranks hold up the others less than half as much. One that is late of itself goes before one that holds
    up the others up to twice as much but only passes lateness on.

    Args:
        figures: what each collective cost.
        for_a_reason: names of the ranks that are known to be late of themselves, and do not only pass lateness on.
        by_links_ns: how much later each part of a collective began for slow links, which is no fault of its rank.

    Returns:
        None for a single trace, or where the traces have no collectives in common.
    """
    matched, span_ns = figures.matched, _mean_span_ns(figures)
    ranks = matched.ranks
    if len(ranks) < 2 or not span_ns:
        return None
    if not len(matched):
        doubtful = [why for _, why in matched.unmatched if why != ALONE]
        return Lateness(None, f"no rank is proven late: {'; '.join(matched.notes)}") if doubtful else None
    if lacking := matched.lacking:
        return Lateness(
            None, f"no rank is proven late: ranks are missing in {lacking:,} of {len(matched):,} collectives"
        )
    if unknown := matched.unknown_clocks:
        return Lateness(None, f"no rank is proven late: how far the clocks of {unknown:,} hosts are apart is not known")
    start_ns = matched.start_ns if by_links_ns is None else matched.start_ns - by_links_ns
    late, later_ns = held_up_by(matched, start_ns)
    held_up = sum_by_group(late[late >= 0], later_ns[late >= 0], len(ranks))
    blamed = np.array([one.name in for_a_reason for one in ranks], bool) & (2 * held_up >= held_up.max())
    worst = int(np.argmax(np.where(blamed, held_up, -1) if blamed.any() else held_up))
    name, held_up_ns = ranks[worst].name, int(held_up[worst])
    last = np.flatnonzero(late == worst)
    by = later_ns[last]
    longest, kind = (int(by.max()), matched.kind[last[np.argmax(by)]]) if len(last) else (0, UNKNOWN)
    share = percent(held_up_ns, span_ns)
    if share < WORTH_REPORTING_PERCENT:
        return Lateness(
            None,
            f"no rank is late: the delays by {name}, the latest, add up to {share:.1f} % of the GPU span",
        )
    if not blamed.any() and 2 * int((2 * held_up >= held_up_ns).sum()) > len(ranks):
        turns = (
            "no rank is late more than others: they take turns, and the delays by each add up to at most"
            f" {shown_ms(held_up_ns)}"
        )
        return Lateness(None, turns)
    text = (
        f"late: {name}: it came last to {len(last):,} of {len(matched):,} collectives and held the others up by up to"
        f" {shown_ms(longest)} in one {kind if kind != UNKNOWN else 'collective'}, from their median start to its own;"
        f" these delays add up to {shown_ms(held_up_ns)}, {ADDED_UP}"
    )
    return Lateness(name, text)


def _mean_span_ns(figures: Figures) -> float:
    spans = [end - start for start, end in (rank.span_ns for rank in figures.matched.ranks)]
    return float(np.mean(spans)) if spans else 0.0


def why_late(ranks: Table, figures: Figures, of: str) -> str:
    """Why a rank is late, as one line for people; empty if it is late by no more than ranks differ anyhow.

    A reason is worth the line from WORTH_REPORTING_PERCENT of the mean span of the ranks on.

    Args:
        ranks: the stragglers, see `late_ranks`.
        figures: what each collective cost.
        of: name of the rank.
    """
    least_ms = WORTH_REPORTING_PERCENT / 100 * _mean_span_ns(figures) / 1e6
    rows = [row for row in ranks.records() if row["trace"] == of]
    named = [row for row in rows if row["reason"] not in UNNAMED and row["new_ms"] >= least_ms]
    other = [row for row in rows if row["late_ms"] >= least_ms and row["reason"] != OWN]
    if not (named or other):
        return ""
    row = named[0] if named else max(other, key=lambda one: one["late_ms"])
    late = f"{row['trace']} is late in {row['percent_late']:.0f} % of {row['kind']}"
    if row["reason"] in UNNAMED:
        return f"{late} by {shown_ms(row['median_late_us'] * 1e3)} (median): {in_words(row)}"
    again = (
        f", anew in {row['times_reason']:,} of {row['times_late']:,}" if row["times_reason"] < row["times_late"] else ""
    )
    return f"{late}{again} by {shown_ms(row['median_new_us'] * 1e3)} (median): {in_words(row)}"


def in_words(row: Mapping[str, Any]) -> str:
    """The reason that a row of `late_ranks` gives."""
    if row["reason"] in UNNAMED:
        return str(row["what"] or REASONS[row["reason"]])
    return row["reason"].replace("_", " ") + (f" ({row['what']})" if row["what"] else "")
