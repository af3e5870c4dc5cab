"""Culprits: late ranks with one cause, what they are called together, and what they cost by a replay."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracelens_graph.analyses.diagnosis.finding import percent, shown_ms
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.stragglers.names import called, teams, when
from tracelens_graph.analyses.stragglers.reasons import GPU_REASONS, LINK, OF_STATE, SLOW_HOST, in_words
from tracelens_graph.analyses.stragglers.slowdown import Slowdown
from tracelens_graph.graph.trace_set import rank_number
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
            "new lateness of the latest of them in each step, over the recording", "ms", heading="late ms"
        ),
        "step_ms": Column("the same per step in which they are late", "ms", Role.mean, heading="a step ms"),
        "cost_ms": Column(
            "what the recording takes longer for them alone, by a replay; absent where it is not replayed",
            "ms",
            heading="cost ms",
            drop_priority=2,
        ),
        "percent": Column(
            "share of the recording; where it is not replayed, of the mean time that the ranks were recorded",
            "%",
            Role.share,
            heading="%",
        ),
        "what": Column.text("what the worst of them did longer", heading="what", drop_priority=-1, wraps=True),
    },
)

APART = 1.5
"""What a culprit costs is named where its lateness is so many times as much, or as little."""

LEAST_COST = 0.005
"""Share of a step that host time of a culprit must cost."""

_OF_HOST = (SLOW_HOST, *(word for word in OF_STATE.values() if word not in ("synchronization", "host_to_device_copy")))
"""Reasons that the host's own time shows."""


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
        late_ns: new lateness over the recording, of the latest of them in each step.
        percent: its share of the mean span of the ranks.
        step_ns: the same per step in which they are late.
        cost_ns: what the recording takes longer for them alone, by a replay; None without one.
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
    step_ns: int
    cost_ns: int | None = None
    also: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reasons in words."""
        return "; also ".join((in_words(self.reason, self.what), *self.also))

    @property
    def text(self) -> str:
        """Who, when, by how much and why, for people."""
        is_cost = self.cost_ns is not None and not 1 / APART < self.cost_ns / max(self.late_ns, 1) < APART
        ns = self.cost_ns if is_cost and self.cost_ns is not None else self.late_ns
        a_step = ns / max(self.late_ns, 1) * self.step_ns
        in_all = f"{shown_ms(ns)} ({ns / max(self.late_ns, 1) * self.percent:.1f} % of the recording)"
        is_once = not self.steps or self.step_ns == self.late_ns
        by = in_all if is_once else f"{shown_ms(a_step)} a step, {in_all} in all"
        return f"{self.who}{self.when}, by {by}: {self.why}"


def culprits_table(culprits: Sequence[Culprit], m: MatchedCollectives, notes: Sequence[str]) -> Table:
    """One row per culprit, the most expensive first; see `CULPRITS`."""
    records = [
        {"who": one.who, "ranks": json.dumps([rank_number(m.ranks, place) for place in one.places]),
         "in_turn": one.moves, "steps": json.dumps(list(one.steps)), "reason": one.reason, "late_ms": one.late_ns / 1e6,
         "step_ms": one.step_ns / 1e6, "cost_ms": None if one.cost_ns is None else one.cost_ns / 1e6,
         "percent": one.percent, "what": "; also ".join((one.what, *one.also))}
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
        late = first.late_ns + one.late_ns
        of_ranks[key] = replace(
            first, steps=struck, when=when(struck, steps), late_ns=late, percent=first.percent + one.percent,
            step_ns=round(late / max(len(struck), 1)), also=(*first.also, in_words(one.reason, one.what)),
        )  # fmt: skip
    return sorted(of_ranks.values(), key=lambda one: -one.late_ns)


def proven(found: Sequence[Culprit], even: Slowdown, figures: Figures) -> list[Culprit]:
    """Culprits that cost the job something by a replay, and those that only the replay shows.

    Late ranks whose work hides behind other work, or that differ from others by no more than chance, cost nothing.

    Args:
        found: late ranks by what they have in common.
        even: the job against its ideal, where all ranks have even work.
        figures: what each collective cost.
    """
    names, shared = figures.names, teams(figures)
    kept: list[Culprit] = []
    for one in found:
        if places := _costly(one, even):
            moves = one.moves and len(places) > 1
            who = one.who if places == one.places else called(names, places, moves, shared)
            what = one.what
            if one.reason in (*GPU_REASONS, SLOW_HOST):  # what all work shares shows over the whole recording only
                reason, of_all = even.why(max(places, key=lambda place: even.workers[place]))
                what = of_all if reason == one.reason else what
            share = percent(one.late_ns, even.length_ns * even.work.steps)
            changed = replace(one, places=places, who=who, moves=moves, what=what, percent=share)
            kept.append(replace(changed, cost_ns=even.cost_ns(places)))
    kept = [one for one in kept if one.reason in GPU_REASONS or _is_saved(one, kept, even)]
    known = {place for one in kept for place in one.places}
    more: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in sorted(even.culprits):
        reason, what = even.why(place)
        if place not in known and reason != LINK:  # a link is of several ranks, and none of them is slow itself
            more[reason, "" if reason in GPU_REASONS else what.partition(",")[0]].append(place)
    steps = tuple(sorted({step for step in figures.step if step is not None}))
    for (reason, _), slow in more.items():
        like = next((at for at, one in enumerate(kept) if one.reason == reason in GPU_REASONS), None)
        if like is not None:
            places = tuple(sorted({*kept[like].places, *slow}))
            who = called(names, places, False, shared)
            kept[like] = replace(kept[like], places=places, who=who, moves=False, cost_ns=even.cost_ns(places))
            continue
        cost = even.cost_ns(slow)
        worst = max(slow, key=lambda place: even.workers[place])
        kept.append(
            Culprit(
                tuple(slow), called(names, slow, False, shared), steps, "", False, reason, even.why(worst)[1], cost,
                percent(cost, even.length_ns * even.work.steps), round(cost / max(len(steps), 1)), cost,
            )
        )  # fmt: skip
    return kept


def _costly(one: Culprit, even: Slowdown) -> tuple[int, ...]:
    """The places of a culprit that cost the job something; all if their host does so only together, else none."""
    if one.reason in GPU_REASONS:
        return tuple(place for place in one.places if even.excess(place) >= even.by_chance and even.why(place)[0])
    kind = "host" if one.reason in _OF_HOST else None
    is_few = len(one.places) <= even.most_replays
    places: tuple[int, ...] = ()
    if is_few and not one.moves:
        places = tuple(place for place in one.places if even.excess(place, kind) >= LEAST_COST)
    return places or (one.places if even.alone(one.places, kind) >= LEAST_COST else ())


def _is_saved(one: Culprit, culprits: Sequence[Culprit], even: Slowdown) -> bool:
    """Whether a repair of a culprit saves what its host time must cost, once the other culprits are repaired."""
    others = {place for other in culprits for place in other.places} - {*one.places}
    return even.saved(one.places, sorted(others)) >= LEAST_COST
