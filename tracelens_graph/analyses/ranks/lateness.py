"""Whether the ranks of a job wait for one that comes late to its collectives; proven by matched collectives only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import percent, shown_ms
from tracelens_graph.analyses.diagnosis.thresholds import WORTH_REPORTING_PERCENT
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.meetings import ALONE
from tracelens_graph.graph.collective_kinds import UNKNOWN
from tracelens_graph.graph.intervals import sum_by_group

ADDED_UP = "one delay counts in each collective that it delays, so this is not time to win"
"""What has to be said of a sum of delays. What an end of them would gain, `what_if(..., repair=...)` tells."""

HELD_UP = f"held up ms: {ADDED_UP}"
"""The same below a table."""


@dataclass(frozen=True)
class Lateness:
    """What matched collectives tell of late ranks.

    Attributes:
        late: name of the rank that the others wait for; None if none is proven late.
        text: the line, for people.
        evidence: the numbers behind it; keys end in the unit.
    """

    late: str | None
    text: str
    evidence: Mapping[str, int | float | str] = field(default_factory=dict)


def lateness(figures: Figures, span_ns: float, for_a_reason: frozenset[str] = frozenset()) -> Lateness | None:
    """Which rank the others wait for, if every rank is there and the collectives are verified.

    A collective is held up by its last rank, by the time from the median start of the others to its own. The rank that
    holds up the others most is late if that, summed over its collectives, is WORTH_SAYING_PERCENT of the mean GPU span,
    and if most ranks hold up the others less than half as much. One that is late of itself goes before one that holds
    up the others up to twice as much but only passes lateness on.

    Args:
        figures: what each collective cost.
        span_ns: mean length of the GPU spans of the ranks.
        for_a_reason: names of the ranks that are known to be late of themselves, and do not only pass lateness on.

    Returns:
        None for a single trace, or where the traces have no collectives in common.
    """
    meetings = figures.meetings
    attendances = meetings.attendances
    if len(attendances) < 2:
        return None
    if not len(meetings):
        doubtful = [why for _, why in meetings.unmatched if why != ALONE]
        return Lateness(None, f"no rank is proven late: {'; '.join(meetings.notes)}") if doubtful else None
    if lacking := meetings.lacking:
        return Lateness(
            None, f"no rank is proven late: ranks are missing in {lacking:,} of {len(meetings):,} collectives"
        )
    if untold := meetings.untold_clocks:
        return Lateness(None, f"no rank is proven late: how far the clocks of {untold:,} hosts are apart is not known")
    late, later_ns = figures.held_up_ns
    held_up = sum_by_group(late[late >= 0], later_ns[late >= 0], len(attendances))
    blamed = np.array([one.name in for_a_reason for one in attendances], bool) & (2 * held_up >= held_up.max())
    worst = int(np.argmax(np.where(blamed, held_up, -1) if blamed.any() else held_up))
    name, held_up_ns = attendances[worst].name, int(held_up[worst])
    last = np.flatnonzero(meetings.trace[meetings.last_part] == worst)
    by = later_ns[last]
    longest, kind = (int(by.max()), meetings.kind[last[np.argmax(by)]]) if len(last) else (0, UNKNOWN)
    share = percent(held_up_ns, span_ns)
    evidence: dict[str, int | float | str] = {
        "ms": held_up_ns / 1e6, "percent": share, "collectives": len(meetings), "times_last": len(last),
        "longest_skew_ms": longest / 1e6, "trace": name,
    }  # fmt: skip
    if share < WORTH_REPORTING_PERCENT:
        return Lateness(
            None,
            f"no rank is late: the delays by {name}, the latest, add up to {share:.1f} % of the GPU span",
            evidence,
        )
    if not blamed.any() and 2 * int((2 * held_up >= held_up_ns).sum()) > len(attendances):
        turns = (
            "no rank is late more than others: they take turns, and the delays by each add up to at most"
            f" {shown_ms(held_up_ns)}"
        )
        return Lateness(None, turns, evidence)
    text = (
        f"late: {name}: it came last to {len(last):,} of {len(meetings):,} collectives and held the others up by up to"
        f" {shown_ms(longest)} in one {kind if kind != UNKNOWN else 'collective'}; these delays add up to"
        f" {shown_ms(held_up_ns)}, {ADDED_UP}"
    )
    return Lateness(name, text, evidence)
