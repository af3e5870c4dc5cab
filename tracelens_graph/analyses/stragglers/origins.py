"""Where delays of ranks began, however many transfers and collectives away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.stragglers.even_on_rank import HOST, Even, way_on
from tracelens_graph.analyses.stragglers.ideals import ideals
from tracelens_graph.analyses.stragglers.rank_work import pipelines
from tracelens_graph.analyses.stragglers.reasons import EXPLAINED_PERCENT
from tracelens_graph.analyses.stragglers.work_reasons import WorkReasons


@dataclass(frozen=True)
class Origin:
    """Where a delay began: the rank, a word of `REASONS`, and the work with most of it."""

    ordinal: int
    word: str
    what: str


class Origins:
    """Where delays of ranks began, however many transfers and collectives away.

    Args:
        job: the ranks, and what bound their points.
    """

    def __init__(self, job: JobCauses) -> None:
        self._job = job

    @cached_property
    def _ideals(self) -> tuple[list[str], list[Even]]:
        count = len(self._job.traces)
        stage = np.zeros(count, np.int64) if self._job.matched is None else pipelines(self._job.matched)[1]
        return ideals(self._job, np.zeros(count, bool), stage, between_programs=False)

    @cached_property
    def _reasons(self) -> WorkReasons:
        return WorkReasons(self._job, *self._ideals)

    @cached_property
    def _shared_ns(self) -> Mapping[int, int]:
        """Step -> host time beyond the usual that at least half of the ranks spend in it: they are not late by that."""
        of_steps: dict[int, dict[int, int]] = {}
        for ordinal, (did, even) in enumerate(zip(self._job.did, self._ideals[1], strict=True)):
            for key, lane in did.lanes.items():
                if key[1] == "host":
                    there = even.lanes[key] >= 0
                    of_step = of_steps.setdefault(key[0], {})
                    more = int((lane.takes[there] - even.lanes[key][there]).sum())
                    of_step[ordinal] = of_step.get(ordinal, 0) + more
        ranks = len(self._job.traces)
        return {step: sorted(of.values())[(len(of) - 1) // 2] for step, of in of_steps.items() if 2 * len(of) > ranks}

    def of(self, ordinal: int, row: int, late_ns: int) -> Origin | None:
        """Where the delay of a GPU event began; None where no excess on the way to it accounts for it.

        The way goes back over what bound each point, up to where all ranks met.

        Args:
            ordinal: place of the rank.
            row: the GPU event.
            late_ns: how late it is.
        """
        job, m = self._job, self._job.meetings
        passed: dict[tuple[int, int], list[int]] = {}
        sums: dict[tuple[int, int], int] = {}
        steps: dict[int, set[int]] = {}
        rank, begin = ordinal, -1 - row
        while True:
            asked = job.given[rank], self._ideals[1][rank], begin, late_ns - sum(sums.values())
            ((_, way),) = job.traces.ask(way_on, {rank: asked})
            for kind, edges in way.edges.items():
                passed.setdefault((rank, kind), []).extend(edges)
                sums[rank, kind] = sums.get((rank, kind), 0) + way.ns[kind]
            steps.setdefault(rank, set()).update(way.steps)
            if way.part < 0 or sum(sums.values()) >= late_ns:
                break
            point = int(m.met[m.first[rank] + way.part])
            if job.matched is not None and job.matched.count[m.found.collective[point]] == len(job.traces):
                break
            last = int(m.last[point])
            rank = m.rank(last)
            begin = last - int(m.first[rank])
        if not sums:
            return None
        for rank, kind in sums:
            if kind == HOST:
                sums[rank, kind] -= sum(max(self._shared_ns.get(step, 0), 0) for step in steps[rank])
        key = max(sums, key=lambda one: sums[one])
        if sums[key] < EXPLAINED_PERCENT / 100 * late_ns:
            return None
        word, what = self._reasons.of(*key, passed[key])
        return Origin(key[0], word, what) if word else None
