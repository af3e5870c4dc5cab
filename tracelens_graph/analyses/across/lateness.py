"""Whether the ranks of a job wait for one that comes late to its collectives; proven by matched collectives only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tracelens_graph.analyses.across.ranks import Attendance, Meetings
from tracelens_graph.analyses.diagnosis.finding import percent, shown_ms
from tracelens_graph.analyses.diagnosis.thresholds import WORTH_SAYING_PERCENT


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


def lateness(attendances: Sequence[Attendance], span_ns: float) -> Lateness | None:
    """Which rank the others wait for, if every rank is there and the collectives are verified.

    A collective is held up by its last rank, by the time from the median start of the others to its own. The rank that
    holds up the others most is late if that is WORTH_SAYING_PERCENT of the mean GPU span.

    Args:
        attendances: the ranks.
        span_ns: mean length of their GPU spans.

    Returns:
        None for a single trace, or where the traces have no collectives in common.
    """
    if len(attendances) < 2:
        return None
    meetings = Meetings(attendances)
    found = list(meetings.verified.values())
    if not found:
        left_out = "; ".join(meetings.notes)
        return Lateness(None, f"no rank is proven late: {left_out}") if left_out else None
    if meetings.lacking:
        return Lateness(
            None, f"no rank is proven late: ranks are missing in {meetings.lacking:,} of {len(found):,} collectives"
        )
    held_up: dict[str, float] = {}
    for met in found:
        others = [part.start for part in met.parts.values() if part.trace.name != met.late.name]
        held_up[met.late.name] = held_up.get(met.late.name, 0.0) + met.last - float(np.median(others))
    name = max(held_up, key=lambda one: held_up[one])
    last = [met for met in found if met.late.name == name]
    worst = max(last, key=lambda met: met.last - met.first)
    evidence: dict[str, int | float | str] = {
        "ms": held_up[name] / 1e6, "percent": percent(held_up[name], span_ns), "collectives": len(found),
        "times_last": len(last), "longest_skew_ms": (worst.last - worst.first) / 1e6, "trace": name,
    }  # fmt: skip
    if (share := percent(held_up[name], span_ns)) < WORTH_SAYING_PERCENT:
        return Lateness(
            None, f"no rank is late: {name}, the latest, holds up the others for {share:.1f} % of the time", evidence
        )
    text = (
        f"late: {name}: it came last to {len(last):,} of {len(found):,} collectives and held the others up for"
        f" {shown_ms(held_up[name])} ({share:.1f} % of the mean GPU span), up to"
        f" {shown_ms(worst.last - worst.first)} in one {worst.kind if worst.kind != 'unknown' else 'collective'}"
    )
    return Lateness(name, text, evidence)
