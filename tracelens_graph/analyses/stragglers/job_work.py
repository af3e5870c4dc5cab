"""The work of a recorded job as operations that could be even: what each GPU event, transfer and host stretch takes.

Ranks that run the same kernels at the same place of a step take the mean of these in the ideal job; what is left
between ranks that run others, as the stages of a pipeline do, is spread evenly. Transfers of equal collectives take the
median. Host time between two calls takes the median of equal stretches; the published definition leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.causes import causes as causes_of_ranks
from tracelens_graph.analyses.critical_path.critical_path import steps_of
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.rerun import Lane, in_order, lanes, weights
from tracelens_graph.analyses.diagnosis.finding import brief
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT
from tracelens_graph.analyses.stragglers.rank_work import HostLabels, pipelines
from tracelens_graph.analyses.stragglers.reasons import EXPLAINED_PERCENT, LARGER, LINK, MORE, OF_STATE, SLOWER, around
from tracelens_graph.analyses.stragglers.slowdown import Work
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.utils.arrays import Ns, Rows

COMPUTATION, HOST = "computation", "host"

MORE_OFTEN = 1.05
"""What runs more often than this many times as often as on the median rank is more work."""


def work_of_job(causes: Causes) -> Work:
    """The operations of recorded ranks.

    Args:
        causes: the points of the ranks.
    """
    recorded = weights(causes)
    ideal = recorded.copy()
    kinds = [COMPUTATION, HOST]
    kind = np.full(len(recorded), -1)
    of_ranks = [lanes(causes, ordinal) for ordinal in range(len(causes.traces))]
    for code, what in enumerate(("gpu", "host")):
        for edge, even in _evened(of_ranks, what):
            # Host time is no work that others could do: a delay would be gone, not shared.
            ideal[edge] = even if what == "gpu" else np.minimum(even, recorded[edge])
            kind[edge] = code
    _spread(causes, of_ranks, ideal)
    for name, edge in _transfers(causes):
        if name not in kinds:
            kinds.append(name)
        ideal[edge], kind[edge] = int(np.median(recorded[edge])), kinds.index(name)
    pipeline, stage = pipelines(causes.matched) if causes.matched is not None else (np.zeros(1, int), np.zeros(1, int))
    ends = np.flatnonzero(causes.role == Role.gpu_end)
    steps = steps_of(causes)
    begin = int(steps.start_ns[0]) if len(steps.number) else int(causes.time.min())
    return Work(
        before=causes.before,
        after=causes.after,
        order=in_order(causes),
        given=causes.time,
        recorded=recorded,
        ideal=ideal,
        kind=kind,
        worker=causes.ordinal[causes.after],
        kinds=kinds,
        workers=[one.name for one in causes.traces],
        stage=stage,
        dp_rank=pipeline if stage.any() else np.arange(len(causes.traces)),
        ends=ends,
        step=np.zeros(len(ends), np.int64),
        begin_ns=begin,
        steps=max(len(steps.number), 1),
        notes=causes.notes,
        explain=lambda worker, code: _explained(
            causes,
            recorded - ideal,
            np.flatnonzero((kind == code) & (causes.ordinal[causes.after] == worker)),
            worker,
            kinds[code],
        ),
    )


def _explained(causes: Causes, excess: Ns, edge: Rows, worker: int, kind: str) -> tuple[str, str]:
    """How some operations of a kind on a rank differ from even ones, and the work with most of that."""
    edge = edge[excess[edge] > 0]
    if not len(edge):
        return "", ""
    if kind == HOST:
        return _of_host(causes, int(edge[np.argmax(excess[edge])]), worker)
    core = causes.core(worker)
    row = causes.row[causes.after[edge]]
    codes, place = np.unique(core.columns.name[row], return_inverse=True)
    sums = np.bincount(place, excess[edge])
    at = np.flatnonzero(place == int(sums.argmax()))
    longest = int(row[at[np.argmax(excess[edge[at]])]])
    what = brief(core.names[codes[int(sums.argmax())]]) + around(core, longest)
    if kind != COMPUTATION:
        return LINK, f"{kind}: {what}"
    return _of_computation(causes, worker, longest), what


def _of_host(causes: Causes, edge: int, worker: int) -> tuple[str, str]:
    """What the host of a rank did on an edge most of the time."""
    core, shift = causes.core(worker), causes.on_clock(worker, 0)
    span = (int(causes.time[point[edge]]) - shift for point in (causes.before, causes.after))
    spent = HostLabels(core).within(*span)
    (state, _), most = max(spent.items(), key=lambda one: one[1].ns)
    row = most.row
    return OF_STATE.get(state, "op"), brief(core.names[core.columns.name[row]]) + around(core, row) if row >= 0 else ""


def _of_computation(causes: Causes, worker: int, row: int) -> str:
    """How the kernels like one differ from those of all ranks: in number, in the sizes of their inputs, or in time."""
    counts, inputs = [], []
    for ordinal in range(len(causes.traces)):
        core, name = causes.core(ordinal), causes.core(worker).names[causes.core(worker).columns.name[row]]
        c, rows = core.columns, causes.ranks[ordinal].gpu_rows
        rows = rows[np.array([one == name for one in core.names], bool)[c.name[rows]]]
        owner = c.owner[rows][c.owner[rows] >= 0]
        counts.append(len(rows))
        inputs.append({core.argsets[one][0] for one in np.unique(c.argset[owner]).tolist() if one >= 0})
    if counts[worker] > MORE_OFTEN * float(np.median(counts)):
        return MORE
    others = [one for ordinal, one in enumerate(inputs) if ordinal != worker and one]
    return LARGER if others and inputs[worker] not in others else SLOWER


def _evened(of_ranks: list[dict[tuple[int, str, int], Lane]], what: str) -> list[tuple[np.ndarray, Ns]]:
    """Edges of lanes that do the same, and what they take where all take the same."""
    groups: dict[tuple[int, tuple[str, ...]], list[Lane]] = {}
    for found in of_ranks:
        for place, lane in found.items():
            if place[1] == what:
                groups.setdefault((place[2], tuple(lane.names)), []).append(lane)
    even = []
    for same in groups.values():
        takes = np.stack([lane.takes for lane in same])
        known = (takes >= 0).all(axis=0) & (same[0].own == [lane.own for lane in same]).all(axis=0)
        if what == "gpu":
            typical = np.rint(takes.mean(axis=0)).astype(np.int64)
        else:
            typical = np.sort(takes, axis=0)[(len(takes) - 1) // 2]
        even += [(lane.edge[known], typical[known]) for lane in same]
    return even


def _spread(causes: Causes, of_ranks: list[dict[tuple[int, str, int], Lane]], ideal: Ns) -> None:
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


@dataclass(frozen=True)
class Origin:
    """Where a delay began: the rank, a word of `REASONS`, and the work with most of it."""

    ordinal: int
    word: str
    what: str


class Origins:
    """Where delays of ranks began, however many transfers and collectives away.

    Args:
        traces: the ranks.
        matched: which of their collectives are one.
    """

    def __init__(self, traces: TraceSet, matched: MatchedCollectives) -> None:
        self._traces, self._matched = traces, matched

    @cached_property
    def _causes(self) -> Causes:
        return causes_of_ranks(self._traces, self._matched)

    @cached_property
    def _work(self) -> Work:
        return work_of_job(self._causes)

    @cached_property
    def _excess(self) -> Ns:
        return self._work.recorded - self._work.ideal

    def of(self, ordinal: int, row: int, late_ns: int) -> Origin | None:
        """Where the delay of a GPU event began; None where no excess on the way to it accounts for it.

        The way goes back over what bound each point, up to where all ranks met.

        Args:
            ordinal: place of the rank.
            row: the GPU event.
            late_ns: how late it is.
        """
        causes, work = self._causes, self._work
        met = len(causes.time) - len(causes.collective)
        rank = causes.ranks[ordinal]
        point = int(causes.first_point[ordinal] + rank.gpu_start[np.searchsorted(rank.gpu_rows, row)])
        passed: dict[tuple[int, int], list[int]] = {}
        sums: dict[tuple[int, int], int] = {}
        total = 0
        while total < late_ns and (edge := int(causes.binding[point])) >= 0:
            kind = int(work.kind[edge])
            if kind >= 0 and (more := int(self._excess[edge])):
                key = int(causes.ordinal[point]), kind
                passed.setdefault(key, []).append(edge)
                sums[key] = sums.get(key, 0) + more
                total += more
            point = int(causes.before[edge])
            if point >= met and self._matched.count[causes.collective[point - met]] == len(self._traces):
                break
        if not sums:
            return None
        key = max(sums, key=lambda one: sums[one])
        if sums[key] < EXPLAINED_PERCENT / 100 * late_ns:
            return None
        edges = np.array(passed[key])
        word, what = _explained(causes, self._excess, edges, key[0], work.kinds[key[1]])
        return Origin(key[0], word, what) if word else None
