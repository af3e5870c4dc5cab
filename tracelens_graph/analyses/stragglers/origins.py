"""Where delays of ranks began, however many transfers and collectives away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.causes import causes as causes_of_ranks
from tracelens_graph.analyses.critical_path.lanes import lanes
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.stragglers.job_work import HOST, explained, work_of_job
from tracelens_graph.analyses.stragglers.reasons import EXPLAINED_PERCENT
from tracelens_graph.analyses.stragglers.work import Work
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import step_number
from tracelens_graph.utils.arrays import Ns


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
        causes: what bound their points, where that is known.
    """

    def __init__(self, traces: TraceSet, matched: MatchedCollectives, causes: Causes | None = None) -> None:
        self._traces, self._matched, self._known = traces, matched, causes

    @cached_property
    def _causes(self) -> Causes:
        return causes_of_ranks(self._traces, self._matched) if self._known is None else self._known

    @cached_property
    def _work(self) -> Work:
        return work_of_job(self._causes, between_programs=False)

    @cached_property
    def _excess(self) -> Ns:
        return self._work.recorded - self._work.ideal

    @cached_property
    def _shared_ns(self) -> Mapping[int, int]:
        """Step -> host time beyond the usual that at least half of the ranks spend in it: they are not late by that."""
        of_steps: dict[int, dict[int, int]] = {}
        host = self._work.kind == self._work.kinds.index(HOST)
        for ordinal in range(len(self._traces)):
            for (step, what, _), lane in lanes(self._causes, ordinal).items():
                if what == "host":
                    edge = lane.edge[host[lane.edge]]
                    of_step = of_steps.setdefault(step, {})
                    of_step[ordinal] = of_step.get(ordinal, 0) + int(self._excess[edge].sum())
        ranks = len(self._traces)
        return {step: sorted(of.values())[(len(of) - 1) // 2] for step, of in of_steps.items() if 2 * len(of) > ranks}

    def _step(self, point: int) -> int:
        core = self._causes.core(int(self._causes.ordinal[point]))
        mark = int(core.step[self._causes.row[point]])
        number = step_number(core.names[core.columns.name[mark]]) if mark >= 0 else None
        return 0 if number is None else number

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
        for one, edges in passed.items():
            if work.kinds[one[1]] == HOST:
                steps = {self._step(int(causes.after[edge])) for edge in edges}
                sums[one] -= sum(max(self._shared_ns.get(step, 0), 0) for step in steps)
        key = max(sums, key=lambda one: sums[one])
        if sums[key] < EXPLAINED_PERCENT / 100 * late_ns:
            return None
        ns = work.recorded, work.ideal
        word, what = explained(causes, ns, np.array(passed[key]), key[0], work.kinds[key[1]])
        return Origin(key[0], word, what) if word else None
