"""All points of the ranks of a job on one clock, in one list: what ranks that are asked one by one are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracelens_graph.analyses.critical_path.bridges import bridged
from tracelens_graph.analyses.critical_path.causes import Causes, bound_alone, check_gpu_work, ends_of, unbound
from tracelens_graph.analyses.critical_path.collective_points import (
    CollectivePoints,
    PartPoints,
    collective_points,
    parts_on_gpu,
    recorded_root,
)
from tracelens_graph.analyses.critical_path.job_causes import Steps, joined_steps
from tracelens_graph.analyses.critical_path.points import RankPoints, rank_points
from tracelens_graph.analyses.critical_path.rerun import forward, in_order
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.strangers import of_one_job
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import gpu_steps
from tracelens_graph.utils.arrays import Ns, Rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointCauses(Causes):
    """The points of several ranks.

    Attributes:
        traces, matched: the ranks, and which of their collectives are one.
        ordinal: per point its rank's place in `traces`.
        first_point, ranks: per rank its first point, and its points.
        worst_negative_ns: how far the worst of the edges between ranks leads back.
    """

    traces: TraceSet
    matched: MatchedCollectives | None
    ordinal: Rows
    first_point: Rows
    ranks: Sequence[RankPoints]
    worst_negative_ns: int

    def core(self, ordinal: int) -> Core:
        """The graph of a rank."""
        return self.traces[ordinal].core


def causes(traces: TraceSet, matched: MatchedCollectives | None = None) -> JointCauses:
    """The points of some ranks of one job and what bound each of them.

    Args:
        traces: the ranks.
        matched: which of their collectives are one, and on which clock they are; by default they are matched.

    Raises:
        AnalysisError: no rank has a GPU event.
    """
    if matched is None and len(traces) > 1:
        matched, ours = of_one_job(traces.with_graphs(lambda core: core), whole=traces)
        traces = ours or traces
    matched = None if matched is None else bridged(matched)
    ranks = [rank_points(one.core) for one in traces]
    check_gpu_work(len(rank.gpu_rows) for rank in ranks)

    first = np.cumsum([0, *(len(rank.time) for rank in ranks)])
    time = np.concatenate([_on_clock(traces, matched, at, rank.time) for at, rank in enumerate(ranks)])
    found = CollectivePoints(len(time))
    if matched is not None:
        parts = _part_points(matched, ranks, first, traces)
        found = collective_points(matched, parts, time, lambda one: _root(matched, one, traces))
    made = bound_alone(unbound(_together(ranks, first, time), lambda _, same: same, lambda _: found))
    own = np.repeat(np.arange(len(ranks)), np.diff(first))
    known = {name: getattr(made, name) for name in Causes.__dataclass_fields__}
    return JointCauses(
        **known, traces=traces, matched=matched, ordinal=np.concatenate((own, found.ordinal)), first_point=first[:-1],
        ranks=ranks, worst_negative_ns=found.worst_ns,
    )  # fmt: skip


def _together(ranks: Sequence[RankPoints], first: Rows, time: Ns) -> RankPoints:
    """The points of all ranks as those of one."""
    role, row, kind = (np.concatenate([getattr(rank, name) for rank in ranks]) for name in ("role", "row", "kind"))
    before, after = (
        np.concatenate([getattr(rank, name) + start for rank, start in zip(ranks, first, strict=False)])
        for name in ("before", "after")
    )
    return replace(ranks[0], time=time, role=role, row=row, before=before, after=after, kind=kind)


def _part_points(matched: MatchedCollectives, ranks: Sequence[RankPoints], first: Rows, traces: TraceSet) -> PartPoints:
    """Where each part of a collective starts and ends among the points of all ranks."""
    part = parts_on_gpu(matched)
    start, end, single = np.zeros(len(part), np.int64), np.zeros(len(part), np.int64), np.ones(len(part), bool)
    for ordinal, of in positions_by(matched.trace[part]):
        kernels = [matched.parts.kernels(one) for one in part[of].tolist()]
        start[of], end[of], single[of] = (
            one + add
            for one, add in zip(
                ends_of(ranks[ordinal], kernels, traces[ordinal].core), (*2 * [first[ordinal]], 0), strict=True
            )
        )
    return PartPoints(part, start, end, single)


def _root(matched: MatchedCollectives, part: int, traces: TraceSet) -> int | None:
    return recorded_root(traces[int(matched.trace[part])].core, matched.parts.kernels(part))


def _on_clock(traces: TraceSet, matched: MatchedCollectives | None, ordinal: int, time: np.ndarray) -> np.ndarray:
    if matched is None:
        return time + traces[ordinal].offset_ns
    return np.asarray(matched.clock_ns(ordinal, time), np.int64)


def steps_of(causes: JointCauses, time: np.ndarray | None = None) -> Steps:
    """The steps in which ranks launched GPU work.

    Args:
        causes: the points of the ranks.
        time: other moments of the points, by default those recorded.
    """
    moment = causes.time if time is None else time
    found = []
    for ordinal, one in enumerate(causes.traces):
        end = moment[causes.first_point[ordinal] + causes.ranks[ordinal].gpu_end]
        for number, mark, of in gpu_steps(one.core, causes.ranks[ordinal].gpu_rows):
            found.append(
                (
                    number,
                    int(
                        _on_clock(causes.traces, causes.matched, ordinal, one.core.columns.start_ns[mark : mark + 1])[0]
                    ),
                    int(end[of].max()),
                )
            )
    return joined_steps(found)


def replayed(causes: Causes, weight: np.ndarray) -> np.ndarray:
    """Moments of all points with these weights; a point that follows from nothing keeps its own."""
    return forward(causes.before, causes.after, weight, in_order(causes), causes.time)
