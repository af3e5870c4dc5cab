"""Findings, comparisons and jobs for tests of what is drawn of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from handmade import small_trace, span
from made_jobs import collective, rank
from made_jobs import job as made_job

from corpus import loaded, traces_named
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.rank_collectives import GpuTime, RankCollectives, Step
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate


@dataclass
class Line:
    topic: str
    text: str
    evidence: dict[str, Any] = field(default_factory=dict)
    ask_next: str = ""
    severity: str = "fact"
    advice: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.topic


MODELS = traces_named("tracelens/h100/qwen1.5-0.5b", "tracelens/h100/vit-nsfw", "tracelens/h100/bert-small")


def pair_of(path: Path) -> Diff:
    """One model on two devices."""
    return diff(loaded(path), loaded(Path(str(path).replace("h100", "mi300"))), ("h100", "mi300"))


def small_diff() -> Diff:
    """The small trace against one whose GEMM has another name and takes longer, and which calls one op more."""
    other = small_trace()
    for event in other["traceEvents"]:
        if event["name"] == "gemm":
            event |= {"name": "Cijk_gemm", "dur": 70.25}
    other["traceEvents"] += [
        span("cpu_op", "aten::more", 5000, 50),
        span("cuda_runtime", "cudaLaunchKernel", 5001, 5, correlation=999),
        span("kernel", "more_kernel", 5100, 10, 0, 7, device=0, stream=7, correlation=999),
    ]
    return diff(load_core(small_trace()), load_core(other))


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


def hostile(name: str) -> Sequence[RankCollectives]:
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
