"""The work of a recorded job as operations that could be even, run again in the ranks' own times and in even ones.

Each rank answers where it is read how its collectives follow from one another with any type of its operations as
recorded and all others even; see `even_on_rank`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.meetings import Again
from tracelens_graph.analyses.critical_path.path import followed_paths
from tracelens_graph.analyses.critical_path.rerun import NEVER, Reach, incomplete_ranks
from tracelens_graph.analyses.stragglers.even_on_rank import IDEAL, RECORDED, Even, reach_on
from tracelens_graph.analyses.stragglers.ideals import KINDS, ideals
from tracelens_graph.analyses.stragglers.rank_work import pipelines
from tracelens_graph.analyses.stragglers.work import Work
from tracelens_graph.analyses.stragglers.work_reasons import WorkReasons
from tracelens_graph.utils.arrays import Codes, Mask

HELD_UP = 0.01
"""Ranks hold up the others if these end sooner without them by this share of the recording."""


Others = Callable[[JobCauses, Codes, list[Even]], list[Even]]
"""What operations would take instead, from the ranks, their stages, and what they would take where work is even."""


def work_of_job(job: JobCauses, instead: Others | None = None) -> Work:
    """The operations of recorded ranks.

    Args:
        job: the ranks.
        instead: what they would take; by default that of even work.
    """
    apart = _apart(job)
    count = len(job.traces)
    nowhere = np.zeros(count, np.int64)
    pipeline, stage = (nowhere, nowhere) if job.matched is None else pipelines(job.matched)
    kinds, even = ideals(job, apart, stage, between_programs=True)
    if instead is not None:
        kinds, even = list(KINDS), instead(job, stage, even)
    reach, of_kind = _reach(job, even)
    again = job.meetings.again(reach, through=True)
    # Where the path begins that bounds the recording: ranks that began to record before do not lengthen it.
    end = max(one.last_ns for at, one in enumerate(job.known) if not apart[at] and one.last_ns is not None)
    path = critical_path(job) if end == job.last_ns else followed_paths(job.until(end), [(None, None, end)])[0]
    begin = int(path.start_ns.min())
    steps = max(len(job.steps.number), 1)
    excess = np.array([[of_kind[at].get(kind, 0) for kind in range(len(kinds))] for at in range(count)])

    def length_ns(kept: Mask) -> float:
        return (_last_end(again, [_weights(one) for one in kept], apart, apart) - begin) / steps

    return Work(
        kinds=kinds,
        workers=[one.name for one in job.traces],
        stage=stage,
        dp_rank=pipeline if stage.any() else np.arange(count),
        excess_ns=excess,
        length_ns=length_ns,
        explain=WorkReasons(job, kinds, even, is_judged=instead is not None).of,
        edges=sum(len(one.target) for one in reach.values()),
        steps=steps,
        notes=job.notes,
        is_covered=job.is_covered,
    )


def _weights(kept: Mask) -> str:
    """The name of the weights of a rank some of whose types of operations are as recorded: all, none, or one."""
    if kept.all():
        return RECORDED
    return str(int(np.argmax(kept))) if kept.any() else IDEAL


def _reach(job: JobCauses, even: Sequence[Even]) -> tuple[dict[int, Reach], dict[int, dict[int, int]]]:
    """Per rank how it follows from the others, and its excess by type of operations."""
    found = dict(job.ask(reach_on, list(zip(job.given, even, strict=True))))
    return {at: one[0] for at, one in found.items()}, {at: one[1] for at, one in found.items()}


def _last_end(again: Again, weights: str | Sequence[str], without: Mask, apart: Mask) -> int:
    """When the last GPU event ends, but for ranks apart."""
    return max(end for rank, _, end in again.ends(weights, without) if not apart[rank] and end > NEVER // 2)


def _apart(job: JobCauses) -> Mask:
    """Ranks for which nobody waits in any replay, and whose ends do not count: their recordings lack collectives.

    Where the others do wait for them these ranks count, too.
    """
    none = np.zeros(len(job.traces), bool)
    if job.matched is None or not (apart := incomplete_ranks(job.matched)).any():
        return none
    again = job.meetings.again(_reach(job, [Even()] * len(none))[0], through=True)
    begin = min(one.first_ns for at, one in enumerate(job.known) if not apart[at] and one.first_ns is not None)
    as_recorded, freed = (_last_end(again, RECORDED, without, apart) for without in (none, apart))
    return apart & (freed - begin > (1 - HELD_UP) * (as_recorded - begin))
