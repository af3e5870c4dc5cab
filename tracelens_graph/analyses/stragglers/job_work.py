"""The work of a recorded job as operations that could be even: what each GPU event, transfer and host stretch takes.

Ranks that run the same kernels at the same place of a step take the mean of these in the ideal job; what is left
between ranks that run others, as the stages of a pipeline do, is spread evenly. Transfers of equal collectives take the
median. Host time between two calls takes the median of equal stretches; the published definition leaves it out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import median_low
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.critical_path import steps_of
from tracelens_graph.analyses.critical_path.lanes import Lane, Lanes, compared_by, lanes
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.rerun import (
    in_order,
    incomplete_ranks,
    replayed,
    weights,
    without_arrivals,
)
from tracelens_graph.analyses.critical_path.walk import followed
from tracelens_graph.analyses.diagnosis.finding import brief, percent
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT
from tracelens_graph.analyses.shared.common_factor import CLOCK, agreed_factor
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION as COMPUTES
from tracelens_graph.analyses.shared.gpu_work import gpu_classes
from tracelens_graph.analyses.stragglers.rank_work import HostLabels, Label, Spent, pipelines
from tracelens_graph.analyses.stragglers.reasons import (
    LARGER,
    LINK,
    MORE,
    MOST_PERCENT,
    OF_STATE,
    PART,
    SLOW_HOST,
    SLOWER,
    around,
    called,
    most_by_chance,
)
from tracelens_graph.analyses.stragglers.slow_hosts import slow_hosts
from tracelens_graph.analyses.stragglers.work import Work
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import step_number
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

COMPUTATION, HOST = "computation", "host"

HELD_UP = 0.01
"""Ranks hold up the others if these end sooner without them by this share of the recording."""

_FEW, _ONE_OF, _MOST_LOOKED_AT, _MOST_STEPS = 8, 10, 32, 4
"""So many stretches of the host, or one of so many, are few; how many are looked at, and of how many steps."""

_MOST_NAMES = 3
"""Kernels with most of an excess, whose inputs are looked at."""

MORE_OFTEN = 1.05
"""What runs more often than this many times as often as on the median rank is more work."""


def work_of_job(causes: Causes, between_programs: bool = True) -> Work:
    """The operations of recorded ranks.

    Args:
        causes: the points of the ranks.
        between_programs: spread work evenly also over ranks that run different programs, as stages of a pipeline do.
    """
    recorded, apart = weights(causes), np.zeros(len(causes.traces), bool)
    if between_programs:
        recorded, apart = _without_incomplete(causes, recorded)
    ideal = recorded.copy()
    kinds = [COMPUTATION, HOST]
    kind = np.full(len(recorded), -1)
    of_ranks = [{} if apart[ordinal] else lanes(causes, ordinal) for ordinal in range(len(causes.traces))]
    pipeline, stage = pipelines(causes.matched) if causes.matched is not None else (np.zeros(1, int), np.zeros(1, int))
    for code, what in enumerate(("gpu", "host")):
        for edge, even in _evened(of_ranks, what, stage):
            # Host time is no work that others could do: a delay would be gone, not shared.
            ideal[edge] = even if what == "gpu" else np.minimum(even, recorded[edge])
            kind[edge] = code
    if between_programs:
        _spread(of_ranks, ideal)
        _limit(of_ranks, stage, ideal)
    for name, edge in _transfers(causes):
        if name not in kinds:
            kinds.append(name)
        ideal[edge], kind[edge] = int(np.median(recorded[edge])), kinds.index(name)
    worker = causes.ordinal[causes.after]
    edges = cache(lambda: dict(positions_by(worker * (len(kinds) + 1) + kind)))  # those without a kind are one before
    there = ~apart[causes.ordinal]
    ends = np.flatnonzero((causes.role == Role.gpu_end) & there)
    steps = steps_of(causes)
    # Where the path begins that bounds the recording: ranks that began to record before do not lengthen it.
    path = followed(causes, int(ends[np.argmax(causes.time[ends])]), None) if between_programs else ends[:0]
    begin = int(causes.time[causes.before[path]].min() if len(path) else causes.time[there].min())
    return Work(
        before=causes.before,
        after=causes.after,
        order=in_order(causes),
        given=causes.time,
        recorded=recorded,
        ideal=ideal,
        kind=kind,
        worker=worker,
        kinds=kinds,
        workers=[one.name for one in causes.traces],
        stage=stage,
        dp_rank=pipeline if stage.any() else np.arange(len(causes.traces)),
        ends=ends,
        step=np.zeros(len(ends), np.int64),
        begin_ns=begin,
        steps=max(len(steps.number), 1),
        notes=causes.notes,
        is_covered=causes.matched is None or 2 * len(np.unique(causes.collective)) >= len(causes.matched),
        explain=lambda of, code: explained(
            causes,
            (recorded, ideal),
            edges().get(of * (len(kinds) + 1) + code, np.empty(0, np.int64)),
            of,
            kinds[code],
        ),
    )


def _without_incomplete(causes: Causes, recorded: Ns) -> tuple[Ns, Mask]:
    """Weights with which nobody waits for ranks whose recordings lack collectives, and these ranks.

    Where the others do wait for them these ranks count, too, except foreign ones.
    """
    m = causes.matched
    none = np.zeros(len(causes.traces), bool)
    for apart in (none, none) if m is None else (incomplete_ranks(m), m.is_foreign):
        freed = without_arrivals(causes, recorded, apart)
        ends = np.flatnonzero((causes.role == Role.gpu_end) & ~apart[causes.ordinal])
        as_recorded, without = (int(replayed(causes, one)[ends].max()) for one in (recorded, freed))
        begin = int(causes.time[~apart[causes.ordinal]].min())
        if without - begin > (1 - HELD_UP) * (as_recorded - begin):
            break
    return freed, apart


def explained(causes: Causes, ns: tuple[Ns, Ns], edge: Rows, worker: int, kind: str) -> tuple[str, str]:
    """How some operations of a kind on a rank differ from even ones, and the work with most of that.

    Both are empty where none takes longer, or the same kernels do so by no more than chance.

    Args:
        causes: the points of the ranks.
        ns: how long each edge takes, and takes in the ideal job.
        edge: the edges of the operations.
        worker: place of the rank.
        kind: the type of the operations.
    """
    excess = ns[0] - ns[1]
    every, edge = edge, edge[excess[edge] > 0]
    if not len(edge):
        return "", ""
    if kind == HOST:
        longest = edge[np.argsort(-excess[edge], kind="stable")]
        few = longest[: max(_FEW, len(longest) // _ONE_OF)]
        # A factor shows in all stretches, a call in those that hold it.
        if 2 * excess[few].sum() < excess[edge].sum() and (what := _slow_hosts(causes)[worker]):
            return SLOW_HOST, what
        return _of_host(causes, edge, few[:_MOST_LOOKED_AT], excess, worker)
    core = causes.core(worker)
    row = causes.row[causes.after[edge]]
    codes, place = np.unique(core.columns.name[row], return_inverse=True)
    sums = np.bincount(place, excess[edge])
    most = np.argsort(-sums, kind="stable")[:_MOST_NAMES].tolist()
    rows = [int(row[at[np.argmax(excess[edge[at]])]]) for at in (np.flatnonzero(place == one) for one in most)]
    words = [_of_computation(causes, worker, one) if kind == COMPUTATION else LINK for one in rows]
    # Kernels with other inputs show that those without recorded inputs have others, too.
    first = words.index(LARGER) if LARGER in words and words[0] == SLOWER else 0
    word, what = words[first], brief(core.names[codes[most[first]]]) + around(core, rows[first])
    if kind != COMPUTATION:
        return LINK, f"{kind}: {what}"
    if word == SLOWER:
        name = core.columns.name[causes.row[causes.after[every]]]
        if excess[every].sum() < most_by_chance(ns[0][every], ns[1][every], name):
            return "", ""
        if factor := _factors(causes)[worker]:
            what = f"all kernels {factor:.2f}x: {CLOCK}"
    return word, what


def _of_host(causes: Causes, every: Rows, few: Rows, excess: Ns, worker: int) -> tuple[str, str]:
    """What the host of a rank did on a few edges most of the time; its share of the excess of every edge of the steps
    with most of it, where that is small against what other ranks do in the same steps."""
    core, shift = causes.core(worker), causes.on_clock(worker, 0)
    host, longest, sums = _labels(causes)[worker], dict[Label, Spent](), Counter[Label]()
    for edge in few.tolist():
        span = (int(causes.time[point[edge]]) - shift for point in (causes.before, causes.after))
        label, spent = max(host.within(*span).items(), key=lambda one: one[1].ns)
        longest.setdefault(label, spent)
        sums[label] += int(excess[edge])
    label = max(sums, key=lambda one: sums[one])
    what = called(core, longest[label])
    of_step = {int(mark): int(excess[every[at]].sum()) for mark, at in positions_by(_step_marks(causes, every, worker))}
    takes, more = np.zeros(len(causes.ranks), np.int64), 0
    for mark in sorted(of_step, key=lambda one: -of_step[one])[:_MOST_STEPS]:
        more += of_step[mark]
        takes += [_in_step(causes, one, label, core, mark) for one in range(len(takes))]
    longer = int(takes[worker]) - median_low(np.delete(takes, worker).tolist())
    if longer < MOST_PERCENT / 100 * more:
        what += f", {percent(max(longer, 0), more):.0f} {PART}"
    return OF_STATE.get(label[0], "op"), what


def _step_marks(causes: Causes, edge: Rows, worker: int) -> Rows:
    """Rows of the steps of some edges on the host of a rank; -1 for none."""
    found: Rows = causes.core(worker).step[causes.row[causes.after[edge]]]
    return found


def _in_step(causes: Causes, ordinal: int, label: Label, core: Core, mark: int) -> int:
    """How long a rank spent with a label in the step that is a mark on another rank, or in all, ns."""
    c = causes.core(ordinal).columns
    span = int(c.start_ns.min()), int(c.end_ns.max())
    if mark >= 0:
        number = step_number(core.names[core.columns.name[mark]])
        own = causes.core(ordinal)
        marks = np.unique(own.step)
        same = [one for one in marks[marks >= 0].tolist() if step_number(own.names[c.name[one]]) == number]
        span = (int(c.start_ns[same[0]]), int(c.end_ns[same[0]])) if same else (0, 0)
    return _labels(causes)[ordinal].within(*span).get(label, Spent()).ns


_LABELS: WeakKeyDictionary[Causes, list[HostLabels]] = WeakKeyDictionary()


def _labels(causes: Causes) -> list[HostLabels]:
    """What the host of each rank did; looked for the first time only."""
    if causes not in _LABELS:
        _LABELS[causes] = [HostLabels(causes.core(ordinal)) for ordinal in range(len(causes.ranks))]
    return _LABELS[causes]


def _of_computation(causes: Causes, worker: int, row: int) -> str:
    """How the kernels like one differ from those of all ranks: in number, in the sizes of their inputs, or in time."""
    core = causes.core(worker)
    name, known = core.names[core.columns.name[row]], _KERNELS.setdefault(causes, {})
    if name not in known:
        known[name] = _kernels_named(causes, name)
    of = known[name]
    if of.number[worker] > MORE_OFTEN * of.median:
        return MORE
    own = of.inputs[worker]
    is_known_elsewhere = any(other and (other != own or ranks > 1) for other, ranks in of.ranks.items())
    return LARGER if is_known_elsewhere and (not own or of.ranks[own] < 2) else SLOWER


class _Kernels(NamedTuple):
    """Kernels of one name: per rank how many, and the inputs of their ops; of these how many ranks have them."""

    number: list[int]
    median: float
    inputs: list[frozenset[str]]
    ranks: Counter[frozenset[str]]


_KERNELS: WeakKeyDictionary[Causes, dict[str, _Kernels]] = WeakKeyDictionary()
"""Kernels by name, looked for on all ranks the first time only."""


def _kernels_named(causes: Causes, name: str) -> _Kernels:
    counts, inputs = [], []
    for ordinal, rank in enumerate(causes.ranks):
        core = causes.core(ordinal)
        c, rows = core.columns, rank.gpu_rows
        rows = rows[np.array([one == name for one in core.names], bool)[c.name[rows]]]
        owner = c.owner[rows][c.owner[rows] >= 0]
        counts.append(len(rows))
        inputs.append(frozenset(core.argsets[one][0] for one in np.unique(c.argset[owner]).tolist() if one >= 0))
    return _Kernels(counts, float(np.median(counts)), inputs, Counter(inputs))


_SLOW_HOSTS: WeakKeyDictionary[Causes, list[str]] = WeakKeyDictionary()


def _slow_hosts(causes: Causes) -> list[str]:
    """See `slow_hosts`; looked for the first time only."""
    if causes not in _SLOW_HOSTS:
        _SLOW_HOSTS[causes] = slow_hosts([causes.core(ordinal) for ordinal in range(len(causes.ranks))])
    return _SLOW_HOSTS[causes]


_FACTORS: WeakKeyDictionary[Causes, list[float | None]] = WeakKeyDictionary()
"""What `_factors` has found."""


def _factors(causes: Causes) -> list[float | None]:
    """Per rank by which factor all its kernels take longer than on the median rank; None where they do not agree."""
    if causes in _FACTORS:
        return _FACTORS[causes]
    of_name: dict[str, dict[int, tuple[float, int]]] = defaultdict(dict)
    for ordinal, rank in enumerate(causes.ranks):
        core = causes.core(ordinal)
        c, rows = core.columns, rank.gpu_rows[gpu_classes(core, rank.gpu_rows) == COMPUTES]
        for code, at in positions_by(c.name[rows]):
            ns = c.dur_ns[rows[at]]
            of_name[core.names[code]][ordinal] = float(np.median(ns)), int(ns.sum())
    items: list[list[tuple[float, int, int]]] = [[] for _ in causes.ranks]
    for code, of_rank in enumerate(of_name.values()):
        usual = sorted(median for median, _ in of_rank.values())[(len(of_rank) - 1) // 2]
        for ordinal, (median, ns) in of_rank.items():
            if len(of_rank) > 1 and usual and median:
                items[ordinal].append((median / usual, ns, code))
    factors = [agreed_factor(*map(np.array, zip(*some, strict=True))) if some else None for some in items]
    _FACTORS[causes] = found = [factor if factor and factor > 1 else None for factor in factors]
    return found


SAME_SHARE = 0.5
"""A rank that does this share of the same as others, from the beginning and to the end, is compared with them in it."""


def _evened(of_ranks: Sequence[Lanes], what: str, stage: Codes) -> list[tuple[Rows, Ns]]:
    """Edges of lanes that do the same, and what they take where all take the same."""
    by_place: dict[int, dict[tuple[str, ...], dict[int, list[Lane]]]] = {}
    for ordinal, found in enumerate(of_ranks):
        for (_, of, place), lane in found.items():
            if of == what:
                same = by_place.setdefault(place, {}).setdefault(tuple(lane.names), {})
                same.setdefault(ordinal, []).append(lane)
    even = []
    for signatures in by_place.values():
        joined: dict[tuple[str, ...], list[tuple[Lane, Rows]]] = {}
        for names, ranks in signatures.items():
            home, position = _home(names, ranks, signatures, stage)
            members = [lane for lanes_of in ranks.values() for lane in lanes_of]
            joined.setdefault(home, []).extend((lane, position) for lane in members)
            if what == "gpu" and home != names and _stages(signatures[home], stage) >= _stages(ranks, stage):
                # What no other rank of the stage runs is not spread over them: none of it is even work.
                further = [lane.edge[(position < 0) & (lane.takes >= 0)] for lane in members]
                even += [(edge, np.zeros(len(edge), np.int64)) for edge in further]
        for home, compared in joined.items():
            even += _typical(compared, len(home), what)
    return even


def _stages(ranks: Iterable[int], stage: Codes) -> set[int]:
    return {int(stage[one]) for one in ranks}


def _home(
    names: tuple[str, ...],
    ranks: Mapping[int, object],
    signatures: Mapping[tuple[str, ...], Mapping[int, object]],
    stage: Codes,
) -> tuple[tuple[str, ...], Rows]:
    """The names that those of a lane are compared with, and the place of each among them; -1 for none.

    These are its own where other ranks have the same; else the most alike of more ranks.
    """
    best, most = names, (np.arange(len(names)), SAME_SHARE * len(names))
    for other, of in signatures.items():
        if len(of) > len(ranks) and (len(ranks) < 2 or _stages(of, stage) == _stages(ranks, stage)):
            place = _common(names, other)
            if (count := int((place >= 0).sum())) >= most[1]:
                best, most = other, (place, count + 1)
    return best, most[0]


def _common(names: Sequence[str], other: Sequence[str]) -> Rows:
    """Per name the place of the same one in others, counted from the beginning, then from the end; -1 for none."""
    shorter = min(len(names), len(other))
    first = next((at for at in range(shorter) if names[at] != other[at]), shorter)
    last = next((at for at in range(shorter - first) if names[-1 - at] != other[-1 - at]), shorter - first)
    place = np.full(len(names), -1)
    place[:first] = np.arange(first)
    place[len(names) - last :] = np.arange(len(other) - last, len(other))
    return place


def _typical(members: Sequence[tuple[Lane, Rows]], length: int, what: str) -> list[tuple[Rows, Ns]]:
    """Edges of lanes, and what they take where all of a place take the same: the mean, or of host time the median."""
    takes = np.full((len(members), length), -1)
    for at, (lane, place) in enumerate(members):
        takes[at, place[place >= 0]] = lane.takes[place >= 0]
    own = np.zeros((len(members), length), bool)
    for at, (lane, place) in enumerate(members):
        own[at, place[place >= 0]] = lane.own[place >= 0]
    takes[own != own[0]] = -1
    count = (takes >= 0).sum(axis=0)
    if what == "gpu":
        typical = np.rint(np.where(takes >= 0, takes, 0).sum(axis=0) / np.maximum(count, 1)).astype(np.int64)
    else:
        # Unknown times are sorted behind all others.
        ascending = np.sort(np.where(takes >= 0, takes, np.iinfo(np.int64).max), axis=0)
        typical = ascending[np.maximum(count - 1, 0) // 2, np.arange(length)]
    even = []
    for at, (lane, place) in enumerate(members):
        known = np.flatnonzero(place >= 0)
        known = known[takes[at, place[known]] >= 0]
        even.append((lane.edge[known], typical[place[known]]))
    return even


def _spread(of_ranks: Sequence[Lanes], ideal: Ns) -> None:
    """Scale GPU work so that all ranks have equally much of it in a step."""
    edges: dict[int, dict[int, list[np.ndarray]]] = {}
    for ordinal, found in enumerate(of_ranks):
        for (step, what, _), lane in found.items():
            if what == "gpu":
                edges.setdefault(step, {}).setdefault(ordinal, []).append(lane.edge[lane.takes >= 0])
    for by_rank in edges.values():
        joined = {ordinal: np.concatenate(parts) for ordinal, parts in by_rank.items()}
        totals = {ordinal: int(ideal[edge].sum()) for ordinal, edge in joined.items()}
        even = float(np.mean(list(totals.values())))
        for ordinal, edge in joined.items():
            if totals[ordinal] and totals[ordinal] != even:
                ideal[edge] = np.rint(ideal[edge] * (even / totals[ordinal])).astype(np.int64)


def _limit(of_ranks: Sequence[Lanes], stage: Codes, ideal: Ns) -> None:
    """Let the host of a stage take no longer between two calls than that of any other stage does anywhere."""
    most: dict[int, dict[tuple[object, ...], int]] = {}
    of_stages = [
        (int(stage[at]), lane)
        for at, found in enumerate(of_ranks)
        for (_, of, _), lane in found.items()
        if of == "host"
    ]
    if len({one for one, _ in of_stages}) < 2:
        return
    for one, lane in of_stages:
        longest = most.setdefault(one, {})
        for key, takes in zip(compared_by(lane, "host"), lane.takes.tolist(), strict=True):
            longest[key] = max(longest.get(key, -1), takes)
            longest[key[1:]] = max(longest.get(key[1:], -1), takes)
    for one, lane in of_stages:
        others = [longest for other, longest in most.items() if other != one]
        limit = np.array([_longest(others, key) for key in compared_by(lane, "host")], np.int64)
        known = limit >= 0
        ideal[lane.edge[known]] = np.minimum(ideal[lane.edge[known]], limit[known])


def _longest(others: Sequence[Mapping[tuple[object, ...], int]], key: tuple[object, ...]) -> int:
    longest = max(one.get(key, -1) for one in others)
    return longest if longest >= 0 else max(one.get(key[1:], -1) for one in others)


def _transfers(causes: Causes) -> list[tuple[str, np.ndarray]]:
    """Kind of collectives, and the edges on which equal ones of all ranks move data."""
    moves = np.flatnonzero(causes.kind == Edge.transfer)
    groups: dict[tuple[object, ...], list[int]] = {}
    for ordinal, of in positions_by(causes.ordinal[causes.after[moves]]):
        held = collectives_of(causes.core(ordinal))
        for edge in moves[of].tolist():
            at = held.of_row.get(int(causes.row[causes.after[edge]]), -1)
            if at < 0:
                continue
            one = held.nodes[at]
            size = one.in_bytes if one.kind in POINT_TO_POINT else (one.in_bytes, one.out_bytes)
            groups.setdefault((one.kind, size, one.group_size), []).append(edge)
    return [(str(key[0]), np.array(edges)) for key, edges in groups.items()]
