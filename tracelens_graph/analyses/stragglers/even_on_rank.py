"""What a rank answers where it is read of its work beside even work: what takes longer, and how much that delays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.lanes import lanes
from tracelens_graph.analyses.critical_path.points import Role
from tracelens_graph.analyses.critical_path.rank_answers import (
    Given,
    KeptRank,
    kept_rank,
    own_causes,
    reach_of,
    transfers,
)
from tracelens_graph.analyses.critical_path.rerun import Reach, weights
from tracelens_graph.analyses.diagnosis.finding import brief
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION as COMPUTES
from tracelens_graph.analyses.shared.gpu_work import gpu_classes
from tracelens_graph.analyses.stragglers.rank_work import HostLabels, Label, Spent, by_name
from tracelens_graph.analyses.stragglers.reasons import around, called, most_by_chance
from tracelens_graph.analyses.stragglers.slow_hosts import HostTotals, totals_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Reader
from tracelens_graph.graph.window import step_number
from tracelens_graph.utils.arrays import Codes, Ns, Rows

COMPUTATION, HOST = 0, 1
"""Types of operations that every job has, by number; behind them transfers by kind."""

IDEAL, RECORDED = "ideal", "recorded"
"""Names of weights; with those called by the number of a type its operations alone take what they took."""

_FEW, _ONE_OF, _MOST_LOOKED_AT, _MOST_STEPS = 8, 10, 32, 4
"""So many stretches of the host, or one of so many, are few; how many are looked at, and of how many steps."""

SMALL_SHARE = 0.1
"""A step, or a reason of a rank, with less than this share of the largest is none of its own."""

_MOST_NAMES = 3
"""Kernels with most of an excess, whose inputs are looked at."""


@dataclass(frozen=True, eq=False)
class Even:
    """What the operations of a rank would take where work is even.

    Attributes:
        lanes: lane -> what each of it would take, ns; -1 for what is no operation.
        moves_ns, kind: per part of a collective what moving its data would take, -1 for nothing; and its type, -1 where
            ranks are missing in the collective, so that it takes this always.
        alone: row of a kernel that has nobody else's part -> the same of it.
    """

    lanes: Mapping[tuple[int, str, int], Ns] = field(default_factory=dict)
    moves_ns: Ns = field(default_factory=lambda: np.zeros(0, np.int64))
    kind: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    alone: Mapping[int, int] = field(default_factory=dict)


class _Evened(NamedTuple):
    """The points of a rank; per edge what it takes, would take, and its type, -1 for no operation."""

    made: Causes
    recorded: Ns
    ideal: Ns
    kind: Codes

    @property
    def excess(self) -> Ns:
        return self.recorded - self.ideal


_EVENED: WeakKeyDictionary[KeptRank, tuple[Given, Even, _Evened]] = WeakKeyDictionary()
"""What was found last of ranks that are held."""


def _evened(rank: Reader, given: Given, even: Even) -> _Evened:
    kept = rank.once(kept_rank)
    known = _EVENED.get(kept)
    if known is None or known[0] is not given or known[1] is not even:
        made = own_causes(kept, given)
        ideal, kind = (recorded := weights(made)).copy(), np.full(len(made.kind), -1)
        for key, lane in lanes(made, rank.core).items():
            takes = even.lanes.get(key, lane.takes[:0])
            there = np.flatnonzero(takes >= 0)
            ideal[lane.edge[there]] = takes[there]
            kind[lane.edge[there]] = COMPUTATION if key[1] == "gpu" else HOST
        edge, part = transfers(made)
        moves = np.flatnonzero(even.moves_ns[part] >= 0) if len(even.moves_ns) else part[:0]
        ideal[edge[moves]], kind[edge[moves]] = even.moves_ns[part[moves]], even.kind[part[moves]]
        always = edge[moves[even.kind[part[moves]] < 0]]
        runs = made.binding[kept.points.gpu_end[np.searchsorted(kept.points.gpu_rows, list(even.alone))]]
        ideal[runs] = np.minimum(recorded[runs], list(even.alone.values()))
        for edges in (always, runs):
            recorded[edges] = ideal[edges]
        _EVENED[kept] = known = given, even, _Evened(made, recorded, ideal, kind)
    return known[2]


def reach_on(rank: Reader, asked: tuple[Given, Even]) -> tuple[Reach, dict[int, int]]:
    """How the starts of a rank, and its last GPU end, follow from when the others had come; and its excess by type."""
    made, recorded, ideal, kind = found = _evened(rank, *asked)
    kinds = [one for one in np.unique(kind).tolist() if one >= 0]
    weight = {IDEAL: ideal, RECORDED: recorded} | {str(one): np.where(kind == one, recorded, ideal) for one in kinds}
    ends = [np.flatnonzero(made.role == Role.gpu_end)]
    excess = np.maximum(found.excess, 0)
    return (
        reach_of(made, rank.once(kept_rank), asked[0], weight, ends),
        {one: int(excess[kind == one].sum()) for one in kinds},
    )


class Way(NamedTuple):
    """A way back over what bound the points of a rank.

    Attributes:
        edges: type of operations -> the edges of it that take longer than they would.
        ns: how much longer all of these take.
        steps: numbers of the steps in which the host does.
        part: the part whose transfer the way has come to; -1 for none.
    """

    edges: dict[int, list[int]]
    ns: dict[int, int]
    steps: set[int]
    part: int


def way_on(rank: Reader, asked: tuple[Given, Even, int, int]) -> Way:
    """A way back from a point, until what took longer is as much as wanted.

    Args:
        rank: the rank.
        asked: of the others, even work, where the way begins, and how much is wanted, ns. It begins at the start of a
            part, or, as -1 - row, of a GPU event.
    """
    given, even, begin, wanted = asked
    made, *_ = found = _evened(rank, given, even)
    kept, excess = rank.once(kept_rank), found.excess
    met = len(made.time) - len(made.collective)
    way = Way({}, {}, set(), -1)
    if begin < 0:
        point = int(kept.points.gpu_start[np.searchsorted(kept.points.gpu_rows, -1 - begin)])
    else:
        point = int(kept.start[given.node[begin]])
    while sum(way.ns.values()) < wanted and (edge := int(made.binding[point])) >= 0:
        kind = int(found.kind[edge])
        if kind >= 0 and (more := int(excess[edge])):
            way.edges.setdefault(kind, []).append(edge)
            way.ns[kind] = way.ns.get(kind, 0) + more
            if kind == HOST:
                way.steps.update(_by_step(rank.core, made.row[made.after[[edge]]], excess[[edge]]))
        point = int(made.before[edge])
        if point >= met:
            return way._replace(part=int(made.collective[point - met]))
    return way


def _by_step(core: Core, rows: Rows, ns: Ns) -> Counter[int]:
    """Number of a step -> the sum over the rows in it; without steps all counts as one, 0."""
    found = Counter[int]()
    marks, at = np.unique(core.step[rows], return_inverse=True)
    for mark, total in zip(marks.tolist(), np.bincount(at, ns).tolist(), strict=True):
        found[(step_number(core.names[core.columns.name[mark]]) if mark >= 0 else None) or 0] += int(total)
    return found


def _marks(core: Core, steps: Collection[int]) -> Rows:
    """Rows of the steps with some numbers."""
    marks = np.unique(core.step)
    known = [step_number(core.names[core.columns.name[mark]]) if mark >= 0 else None for mark in marks.tolist()]
    return marks[[one in steps for one in known]]


class Excess(NamedTuple):
    """What takes longer on a rank than with even work.

    Attributes:
        what: the work with most of it, and what stands around that; of the GPU one each of `names`.
        names: names of the GPU work with most of it, the most first.
        label: what the host did most of the time in the few stretches with most.
        steps: numbers of the steps with most; of the GPU none where that is all of them.
        ns: by how much all takes longer, of the host in these steps.
        is_most: whether few stretches of the host have most of all.
        is_chance: whether GPU work takes longer by no more than chance.
    """

    what: list[str]
    names: Sequence[str] = ()
    label: Label | None = None
    steps: Sequence[int] = ()
    ns: int = 0
    is_most: bool = True
    is_chance: bool = False


def excess_on(rank: Reader, asked: tuple[Given, Even, int, Sequence[int] | None, Mapping[str, float]]) -> Excess | None:
    """What takes longer on a rank than with even work; None without any.

    Args:
        rank: the rank.
        asked: of the others, even work, the type of operations, the edges that are meant, None for all of the type, and
            names of GPU work that the rank has more of, ns; without any those with most excess count.
    """
    given, even, kind, edges, more = asked
    made, recorded, ideal, kinds = found = _evened(rank, given, even)
    excess, core = found.excess, rank.core
    every: Rows = np.flatnonzero(kinds == kind) if edges is None else np.array(edges, np.int64)
    edge = every[excess[every] > 0]
    if not len(edge):
        return None
    if kind == HOST:
        return _of_host(made, core, edge, excess)
    row = made.row[made.after[edge]]
    codes, place = np.unique(core.columns.name[row], return_inverse=True)
    sums = np.bincount(place, excess[edge])
    known = np.array([more.get(core.names[code], 0.0) for code in codes.tolist()])
    most_of = np.lexsort((-sums, -known))[:_MOST_NAMES].tolist()
    rows = [int(row[at[np.argmax(excess[edge[at]])]]) for at in (np.flatnonzero(place == one) for one in most_of)]
    names = [core.names[codes[one]] for one in most_of]
    what = [brief(name) + around(core, one) for name, one in zip(names, rows, strict=True)]
    name = core.columns.name[made.row[made.after[every]]]
    of_step = _by_step(core, made.row[made.after[every]], np.maximum(excess[every], 0))
    steps = sorted(step for step, ns in of_step.items() if ns >= SMALL_SHARE * max(of_step.values()))
    return Excess(
        what,
        names,
        steps=steps if len(steps) < len(of_step) else (),
        is_chance=bool(excess[every].sum() < most_by_chance(recorded[every], ideal[every], name)),
    )


def _of_host(made: Causes, core: Core, edge: Rows, excess: Ns) -> Excess:
    longest = edge[np.argsort(-excess[edge], kind="stable")]
    few = longest[: max(_FEW, len(longest) // _ONE_OF)]
    labels, found, sums = HostLabels(core), dict[Label, Spent](), Counter[Label]()
    shift = made.shift_ns
    for one in few[:_MOST_LOOKED_AT].tolist():
        span = (int(made.time[point[one]]) - shift for point in (made.before, made.after))
        label, spent = max(labels.within(*span).items(), key=lambda each: each[1].ns)
        found.setdefault(label, spent)
        sums[label] += int(excess[one])
    label = max(sums, key=lambda one: sums[one])
    most = _by_step(core, made.row[made.after[edge]], excess[edge]).most_common(_MOST_STEPS)
    return Excess(
        [called(core, found[label])],
        label=label,
        steps=[step for step, _ in most],
        ns=sum(ns for _, ns in most),
        is_most=2 * int(excess[few].sum()) >= int(excess[edge].sum()),
    )


def label_on(rank: Reader, asked: tuple[Label, Sequence[int]]) -> int:
    """How long the host of a rank spent with a label in some steps, by their numbers; without steps in all, ns."""
    label, steps = asked
    core = rank.core
    c, wanted = core.columns, _marks(core, steps)
    spans = zip(c.start_ns[wanted].tolist(), c.end_ns[wanted].tolist(), strict=True)
    every = spans if (core.step >= 0).any() else [(int(c.start_ns.min()), int(c.end_ns.max()))]
    labels = HostLabels(core)
    return sum(labels.within(*span).get(label, Spent()).ns for span in every)


def inputs_on(rank: Reader, given: Given) -> dict[tuple[int, str, int], list[str]]:
    """Lane of the GPU -> the sizes of the inputs of the ops of its events; empty where they are not recorded."""
    core, c, made = rank.core, rank.core.columns, own_causes(rank.once(kept_rank), given)
    found = {}
    for key, lane in lanes(made, rank.core).items():
        if key[1] == "gpu":
            owner = c.owner[made.row[made.after[lane.edge]]]
            codes = np.where(owner >= 0, c.argset[owner], -1).tolist()
            found[key] = [core.argsets[one][0] if one >= 0 else "" for one in codes]
    return found


def host_on(rank: Reader, _: None) -> list[HostTotals]:
    """What the host of a rank worked in the whole recording, by thread."""
    return totals_of(rank.core, HostLabels(rank.core))


class KernelsOf(NamedTuple):
    """Kernels of one name on a rank: how many, the inputs of their ops; and how long they take.

    Attributes:
        number: how many.
        inputs: sizes of the inputs of their ops.
        median_ns, ns: median and sum of the durations of those that compute; no median without any.
    """

    number: int
    inputs: frozenset[str]
    median_ns: float | None
    ns: int


def kernels_on(rank: Reader, steps: Collection[int]) -> dict[str, KernelsOf]:
    """The GPU work of a rank by name, in some steps, by their numbers; without steps in all."""
    core, rows = rank.core, rank.once(kept_rank).points.gpu_rows
    rows = rows[np.isin(core.step[rows], _marks(core, steps))] if steps else rows
    found = {}
    for name, one in by_name(core, rows).items():
        ns = one.takes[gpu_classes(core, one.rows) == COMPUTES]
        found[name] = KernelsOf(len(one.rows), one.inputs, float(np.median(ns)) if len(ns) else None, int(ns.sum()))
    return found
