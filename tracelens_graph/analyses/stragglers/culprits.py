"""Culprits: late ranks with one cause, and what they are called together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracelens_graph.analyses.diagnosis.finding import shown_ms
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.stragglers.names import when
from tracelens_graph.analyses.stragglers.reasons import in_words
from tracelens_graph.graph.ranks import rank_number
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

CULPRITS = TableSchema(
    "culprits",
    "Who makes the ranks of a job wait, and why: late ranks together, by what they share.",
    {
        "who": Column.key(
            "the late ranks: a host, stage or group, if all of it is late, and their numbers",
            "who",
            drop_priority=-1,
            wraps=True,
        ),
        "ranks": Column.text("their numbers, JSON; of ranks without numbers their places", drop_priority=3),
        "in_turn": Column("whether they are late in turn, not together", drop_priority=3),
        "steps": Column.text("numbers of the steps in which they are late, JSON", drop_priority=3),
        "reason": Column.text("one word for the reason: see the docs", heading="reason", drop_priority=0),
        "late_ms": Column.total(
            "what the recording takes longer for them, once no other is late, by a replay; without one new lateness of "
            "the latest of them in each step",
            "ms",
            heading="late ms",
        ),
        "step_ms": Column("the same per step in which they are late", "ms", Role.mean, heading="a step ms"),
        "percent": Column(
            "share of the recording; where it is not replayed, of the mean time that the ranks were recorded",
            "%",
            Role.share,
            heading="%",
        ),
        "what": Column.text("what the worst of them did longer", heading="what", drop_priority=-1, wraps=True),
    },
)


@dataclass(frozen=True)
class Culprit:
    """What makes the ranks of a job wait.

    Attributes:
        places: places of the late ranks in the job.
        who: what they are called together.
        steps: numbers of the steps in which they are late, ascending; empty where steps are not known.
        when: the same in words; empty for all steps.
        moves: whether they are late in turn, not together.
        reason: a word of `REASONS`.
        what: the call or the work of the worst case; where no reasons were looked for, how often it came last.
        late_ns: what the recording takes longer for them, once no other is late, by a replay; without one new lateness
            over the recording, of the latest of them in each step.
        percent: its share of the recording; without a replay of the mean span of the ranks.
        of: what it is a share of, in words.
        is_at_least: whether it may be more.
        is_mended: whether that is so once slow links are mended.
        also: further reasons of the same ranks in words, that with more lateness first.
    """

    places: tuple[int, ...]
    who: str
    steps: tuple[int, ...]
    when: str
    moves: bool
    reason: str
    what: str
    late_ns: int
    percent: float
    of: str
    is_at_least: bool = False
    is_mended: bool = False
    also: tuple[str, ...] = ()

    @property
    def step_ns(self) -> int:
        """What they cost per step in which they are late."""
        return round(self.late_ns / max(len(self.steps), 1))

    @property
    def why(self) -> str:
        """The reasons in words."""
        return "; also ".join((in_words(self.reason, self.what), *self.also))

    @property
    def text(self) -> str:
        """Who, when, by how much and why, for people."""
        in_all = f"{shown_ms(self.late_ns)} ({self.percent:.1f} % of {self.of})"
        is_once = not self.steps or self.step_ns == self.late_ns
        by = in_all if is_once else f"{shown_ms(self.step_ns)} a step, {in_all} in all"
        then = ", once slow links are mended" * self.is_mended
        return f"{self.who}{self.when}, by {'at least ' * self.is_at_least}{by}{then}: {self.why}"


def culprits_table(culprits: Sequence[Culprit], m: MatchedCollectives, notes: Sequence[str]) -> Table:
    """One row per culprit, the most expensive first; see `CULPRITS`."""
    records = [
        {"who": one.who, "ranks": json.dumps([rank_number(m.ranks, place) for place in one.places]),
         "in_turn": one.moves, "steps": json.dumps(list(one.steps)), "reason": one.reason, "late_ms": one.late_ns / 1e6,
         "step_ms": one.step_ns / 1e6, "percent": one.percent, "what": "; also ".join((one.what, *one.also))}
        for one in culprits
    ]  # fmt: skip
    return CULPRITS.of_records(records, "Culprits", notes)


def joined(found: Sequence[Culprit], steps: Sequence[int]) -> list[Culprit]:
    """One culprit for all that the same ranks come late for, the most expensive first.

    Args:
        found: culprits by their causes.
        steps: the numbers of all steps.
    """
    of_ranks: dict[tuple[tuple[int, ...], bool], Culprit] = {}
    for one in sorted(found, key=lambda one: -one.late_ns):
        key = one.places, one.moves
        if key not in of_ranks:
            of_ranks[key] = one
            continue
        first = of_ranks[key]
        struck = tuple(sorted({*first.steps, *one.steps}))
        of_ranks[key] = replace(
            first, steps=struck, when=when(struck, steps), late_ns=first.late_ns + one.late_ns,
            percent=first.percent + one.percent, also=(*first.also, in_words(one.reason, one.what)),
        )  # fmt: skip
    return sorted(of_ranks.values(), key=lambda one: -one.late_ns)
