"""Jobs of several ranks: what each took part in, without graphs, and simulated ones with the truth about them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from joint_causes import causes

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.job_causes import JobCauses, job_causes
from tracelens_graph.analyses.ranks.held import Entry, Held
from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate


def collective(
    sequence: int | None = None, kind: str = "allreduce", elements: int | None = 1024, **more: Any
) -> Collective:
    """One rank's part of a collective; its times stand beside it."""
    fields: dict[str, Any] = {
        "key": f"coll:0:-:{sequence}", "group": "0", "group_description": None, "ranks": None, "group_size": None,
        "kind": kind, "sequence": sequence, "index": 0, "dtype": "Float", "in_elements": elements,
        "out_elements": elements, "in_split": None, "out_split": None, "source_rank": None, "target_rank": None,
        "rank": None, "rows": (0,), "uids": (0,), "start_ns": 0, "end_ns": 0,
    }  # fmt: skip
    return Collective(**{**fields, **more})


def rank(number: int, held: Sequence[Entry], **more: Any) -> RankCollectives:
    """What a rank took part in."""
    told: dict[str, Any] = {"world_size": None, "host": None, "devices": 0, "offset_ns": 0, **more}
    return RankCollectives(f"rank{number}", number, held=Held.of(held), **told)


@dataclass
class Job:
    """A job with known truth.

    Attributes:
        ranks: what each rank took part in.
        identity: for each rank the true number of each collective it holds; -1 for what it ran alone.
    """

    ranks: list[RankCollectives] = field(default_factory=list)
    identity: list[list[int]] = field(default_factory=list)


def job(
    seed: int,
    ranks: int = 4,
    collectives: int = 60,
    kinds: Sequence[tuple[str, int]] = (
        ("allreduce", 1024),
        ("allreduce", 4096),
        ("_allgather_base", 64),
        ("barrier", 1),
    ),
    dropped: int = 0,
    extra: int = 0,
    offsets_ns: Sequence[int] = (),
    drifts: Sequence[float] = (),
    end_noise_ns: int = 7_000,
    sequences: bool = False,
    gap_ns: int = 800_000,
    **more: Any,
) -> Job:
    """Collectives one after another, each ended by all ranks within `end_noise_ns`.

    From a rank other than the first, `dropped` are missing and `extra` were run alone, at places by chance.
    """
    rng = random.Random(seed)
    odd = rng.randrange(1, ranks) if ranks > 1 else 0
    lost = set(rng.sample(range(collectives), dropped))
    alone = set(rng.sample(range(collectives), extra))
    held: list[list[Held]] = [[] for _ in range(ranks)]
    made = Job(identity=[[] for _ in range(ranks)])
    now = 1_000_000
    for number in range(collectives):
        kind, elements = rng.choice(kinds)
        starts = [now + rng.randrange(150_000) for _ in range(ranks)]
        end = max(starts) + 30_000 + rng.randrange(60_000)
        for place, start in enumerate(starts):
            left = end + (rng.randrange(end_noise_ns) if end_noise_ns else 0)
            if place == odd and number in lost:
                continue
            part = collective(number if sequences else None, kind, elements)
            held[place].append(
                (part, _shown(start, place, offsets_ns, drifts), _shown(left, place, offsets_ns, drifts))
            )
            made.identity[place].append(number)
        now = end + gap_ns // 2 + rng.randrange(gap_ns)
        if number in alone:
            part = collective(None, *rng.choice(kinds))
            held[odd].append(
                (part, _shown(now, odd, offsets_ns, drifts), _shown(now + 40_000, odd, offsets_ns, drifts))
            )
            made.identity[odd].append(-1)
            now += 300_000 + rng.randrange(gap_ns)
    made.ranks = [rank(place, of_rank, **more) for place, of_rank in enumerate(held)]
    return made


def _shown(moment: int, place: int, offsets_ns: Sequence[int], drifts: Sequence[float]) -> int:
    """What the clock of a rank shows at a true moment."""
    offset = offsets_ns[place] if offsets_ns else 0
    return moment + offset + round(moment * drifts[place] if drifts else 0)


@dataclass(frozen=True)
class SimulatedJob:
    """The ranks of a job.

    Attributes:
        traces: their traces.
        truth: what is true of each.
    """

    traces: TraceSet
    truth: list[dict[str, Any]]

    @cached_property
    def causes(self) -> Causes:
        """Its points and what bound them."""
        return causes(self.traces)

    @cached_property
    def job(self) -> JobCauses:
        """The same, of ranks that are asked."""
        return job_causes(self.traces)

    def __hash__(self) -> int:
        return id(self)


@cache
def simulated_job(**settings: Any) -> SimulatedJob:
    """The job that `simulate` makes with these settings."""
    run = simulate(**settings)
    traces = TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks})
    return SimulatedJob(traces, [one.truth for one in run.ranks])


KINDS = ("broadcast", "reduce", "gather", "scatter", "send", "all_to_all", "all_to_allv", "barrier")
JOBS: dict[str, dict[str, Any]] = {
    "one rank, work from before": {"unlaunched": 5},
    "launch-bound": {"tiny_kernels": 300, "batch": 2},
    "one late": {"ranks": 4, "seed": 3, "dataloader_us": 12_000.0, "dataloader_rank": 2},
    "hosts that wait": {"ranks": 4, "sync_every_step": True, "host_barrier": True},
    "copies that block": {"ranks": 2, "copy_mb": 64.0, "pageable": True, "read_loss": True},
    "pipeline": {"ranks": 4, "pipeline_parallel": 2},
    "tensor parallel": {"ranks": 4, "tensor_parallel": 2},
    "expert parallel": {"ranks": 2, "expert_parallel": 2},
    "all kinds, slow rank": {
        "ranks": 8, "program": "loop", "step_collectives": KINDS, "collective_mb": (1.0, 32.0), "slow_rank": 3,
    },
    "clocks of two hosts": {"ranks": 4, "nodes": 2, "end_noise_us": 5.0, "clock_offset_us": 700.0},
    "from mid-step on": {"ranks": 4, "late_rank": 1, "steps": 3, "recording_begins_us": 4_000.0},
    "one from mid-step on": {
        "ranks": 4, "late_rank": 1, "steps": 3, "recording_begins_us": 4_000.0, "recording_begins_rank": 1,
    },
    "no Python stacks": {"ranks": 2, "python_stacks": False, "recompute": "non_reentrant"},
}  # fmt: skip
"""Name of a job -> its options."""
