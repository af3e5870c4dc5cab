"""Jobs for tests of what is drawn of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from made_jobs import collective, rank
from made_jobs import job as made_job

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.rank_collectives import Attendance, GpuTime, Step
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

HOSTILE = "</script><script>document.title = 'owned'</script><img src=x onerror=alert(1)> %{x} $\\alpha$ \x1b[31m"


def late_job() -> Job:
    """Four ranks of which the third is late in every step."""
    run = simulate(ranks=4, steps=3, layers=1, late_rank=2, late_us=6000)
    return Job(TraceSet.of([load_core(one.trace) for one in run.ranks]))


def large(ranks: int, steps: int, per_step: int) -> Job:
    """A job with steps in which every rank computes in short bursts."""
    made = []
    for one in made_job(3, ranks=ranks, collectives=steps * per_step, sequences=True).ranks:
        starts = [one.held[at * per_step][1] for at in range(steps)]
        ends = [*starts[1:], one.held[-1][2]]
        bursts = np.arange(starts[0], ends[-1], 50_000)
        gpu = GpuTime((bursts, bursts + 30_000), (bursts, bursts + 30_000))
        made.append(
            replace(
                one,
                steps=tuple(Step(at, *span) for at, span in enumerate(zip(starts, ends, strict=True))),
                step_of=tuple(at // per_step for at in range(steps * per_step)),
                gpu=gpu,
            )
        )
    return Job(made)


def hostile(name: str) -> Sequence[Attendance]:
    """Two ranks in whose traces everything is called by one name."""
    held = [
        (collective(at, name, 4096, group=name, group_description=name, key=f"coll:0:-:{at}"), at * 5000, at * 5000 + 9)
        for at in range(4)
    ]
    steps = (Step(0, 0, 20_000),)
    gpu = GpuTime((np.array([0]), np.array([20_000])), (np.array([0]), np.array([700])))
    return [
        replace(rank(0, held, steps=steps, step_of=(0,) * 4, gpu=gpu), name=f"{name}{number}", rank=None)
        for number in range(2)
    ]
