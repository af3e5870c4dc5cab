"""How much slower a job is than it would be with even work: the slowdown S, and who and what accounts for it.

The definitions are those of Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis"
(OSDI 2025). In the ideal job every operation of a type takes the same: computation its mean, communication the median
of its transfers, which begin when the last of its peers has come. S is the length of the job over that of the ideal
job. That of a type, stage or data-parallel rank is the length of the ideal job in which only its operations keep the
times that they took, over that of the ideal job. A worker has the lower one of its stage and its data-parallel rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tracelens_graph.analyses.critical_path.job_causes import job_causes
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.stragglers.job_work import work_of_job
from tracelens_graph.analyses.stragglers.operations import work_of_parquet
from tracelens_graph.analyses.stragglers.reasons import LINK, MORE, in_words
from tracelens_graph.analyses.stragglers.work import Work
from tracelens_graph.errors import AnalysisError
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Rows

SLOWEST_SHARE = 0.03
"""Share of the workers that M_W repairs."""

WORTH_A_REASON = 0.01
"""Excess from which a slowdown is explained."""

NO_FASTER = 0.005
"""A job that takes less than the ideal one by more than this share has no slowdown."""

SPREADS, USUAL_SHARE = 3.0, 0.75
"""A worker stands out by so many standard deviations of the others, and by this share of their excess."""

LEAST_SHARE = 1 / 3
"""Workers with less than this share of the excess of the slowest do not account for it."""

MOST_STEPPED, LEAST_REPLAYS = 10_000_000, 64
"""Workers are replayed alone while all replays go through no more edges than this, and at least so many workers are."""

SLOWDOWN = TableSchema(
    "slowdown",
    "How much slower a job is than with even work, and which types of operations, stages and workers account for it.",
    {
        "of": Column.key("job, type, stage, dp_rank, or worker", heading="of"),
        "name": Column.key(
            "type of operations, number of the stage or dp rank, or name of the worker", heading="name", drop_priority=0
        ),
        "stage": Column("pipeline stage", heading="stage", drop_priority=1),
        "dp_rank": Column("data-parallel rank: number of the pipeline", heading="dp rank", drop_priority=1),
        "slowdown": Column(
            "length of the job over that of the ideal job, where all operations of a type take the same; in rows other "
            "than the job, only the operations of the row keep their times; a worker of a pipeline has the lower value "
            "of its stage and its dp rank",
            heading="slowdown",
            drop_priority=0,
            figure="slowdown",
        ),
        "lost_ms": Column(
            "how much longer than ideal a step takes because of it", "ms", heading="lost ms a step", drop_priority=0
        ),
        "reason": Column.text(
            "for a worker that takes at least 1 % longer: the type of operations with most of the excess, and how they "
            "differ",
            heading="reason",
            drop_priority=0,
        ),
        "what": Column.text(
            "the calls, kernels or transfers with most of it, and where they stand",
            heading="what",
            drop_priority=0,
            wraps=True,
        ),
    },
)


Name = TypeVar("Name", str, int)


@dataclass(frozen=True, eq=False)
class Slowdown:
    """The slowdown of a job against its ideal, and who and what accounts for it."""

    work: Work

    @cached_property
    def length_ns(self) -> float:
        """Mean length of a step with the recorded times."""
        return self.work.length_ns(self._kept())

    @cached_property
    def ideal_ns(self) -> float:
        """Mean length of a step of the ideal job."""
        return self.work.length_ns(~self._kept())

    @property
    def job(self) -> float:
        """S of the job."""
        return self.length_ns / self.ideal_ns

    @cached_property
    def types(self) -> dict[str, float]:
        """Type of operations -> its slowdown."""
        return {name: self._with_only(self._kept(kind=at)) for at, name in enumerate(self.work.kinds)}

    @cached_property
    def stages(self) -> dict[int, float]:
        """Pipeline stage -> its slowdown."""
        return self._of_workers(self.work.stage)

    @cached_property
    def dp_ranks(self) -> dict[int, float]:
        """Data-parallel rank -> its slowdown."""
        return self._of_workers(self.work.dp_rank)

    @cached_property
    def workers(self) -> np.ndarray:
        """The slowdown of each worker: the lower one of its stage and its data-parallel rank."""
        pairs = zip(self.work.stage.tolist(), self.work.dp_rank.tolist(), strict=True)
        several = len(self.stages) > 1
        return np.array([min(self.stages[one], self.dp_ranks[other]) if several else self.dp_ranks[other]
                         for one, other in pairs])  # fmt: skip

    @cached_property
    def most_replays(self) -> int:
        """How many workers are replayed alone, so that the time for all of them grows with the edges only."""
        return max(LEAST_REPLAYS, MOST_STEPPED // max(self.work.edges, 1))

    def _kept(self, workers: Sequence[int] | Rows | Mask | None = None, kind: int | None = None) -> Mask:
        """Operations of some workers, or all, and of a type, or all types: a mask of workers and types."""
        kept = np.zeros((len(self.work.workers), len(self.work.kinds)), bool)
        rows = slice(None) if workers is None else np.array(workers, None if len(workers) else np.int64)
        kept[rows, slice(None) if kind is None else kind] = True
        return kept

    @cached_property
    def by_workers(self) -> float | None:
        """M_W: which share of the excess goes with the slowest 3 % of the workers, at least one; None without any."""
        count = int(np.ceil(SLOWEST_SHARE * len(self.workers)))
        slowest = np.argsort(-self.workers, kind="stable")[:count]
        return self._share_without(slowest)

    @cached_property
    def by_last_stage(self) -> float | None:
        """M_S: which share of the excess goes with the last pipeline stage; None without stages, or any excess."""
        if len(self.stages) < 2:
            return None
        return self._share_without(self.work.stage == max(self.stages))

    def why(self, worker: int) -> tuple[str, str]:
        """The reason of a worker's slowdown, and the work with most of it; empty below 1 %, and of chance."""
        if self.workers[worker] < 1 + WORTH_A_REASON:
            return "", ""
        work = self.work
        kinds = np.flatnonzero(self.work.excess_ns[worker]).tolist() or [0]
        if len(kinds) > 1 and len(work.workers) > self.most_replays:
            kinds = [int(self.work.excess_ns[worker].argmax())]
        kind = kinds[0]
        if len(kinds) > 1:
            kind = max(kinds, key=lambda one: self._with_only(self._kept([worker], one)))
        return work.explain(worker, kind)

    @cached_property
    def by_chance(self) -> float:
        """The excess of workers below which none stands out from the others.

        That is what the lower half has at most, and by how much more than these differ a worker must have.
        """
        low = np.sort(self.workers - 1)[: (len(self.workers) + 1) // 2]
        usual = float(low[-1])
        spread = 1.48 * float(np.median(usual - low))
        return usual + max(WORTH_A_REASON, SPREADS * spread, USUAL_SHARE * usual)

    @cached_property
    def culprits(self) -> list[int]:
        """Places of the workers that account for most of the excess, the slowest first.

        These stand out from the others, for a reason, and have at least a third of the excess of the slowest.
        """
        order = np.argsort(-self.workers, kind="stable")
        least = max(self.by_chance, LEAST_SHARE * float(self.workers.max() - 1))
        found = [at for at in order.tolist() if self.workers[at] - 1 >= least]
        # A worker of a pipeline may have that of others of its stage, and of its data-parallel rank.
        if len(self.stages) > 1:
            found = [at for at in found[: self.most_replays] if self._with_only(self._kept([at])) - 1 >= least]
        return [at for at in found if self.why(at)[0]]

    def line(self, lacking: bool = False, known: Mapping[int, tuple[str, str]] | None = None) -> str:
        """S, and which workers account for it, in a sentence; empty where most collectives are not covered.

        Args:
            lacking: whether ranks are missing, which is a caveat.
            known: places of workers -> their reason, and the work with most of it, where something else shows them.
        """
        if not self.work.is_covered:
            return ""
        found = self._line(known or {})
        return f"{found}; ranks that are missing are taken to hold nobody up" if lacking else found

    def _line(self, known: Mapping[int, tuple[str, str]]) -> str:
        text = f"slowdown: {self.job:.2f} times the ideal job, in which ranks share all work evenly"
        if self.job < 1 - NO_FASTER:
            of_late = ", but the job is faster without what makes ranks late" if known else ""
            return f"slowdown: none is found: by the replay the job would not be faster with even work{of_late}"
        found = sorted(known, key=lambda at: -self.workers[at]) or self.culprits
        if self.job < 1 + WORTH_A_REASON or not (found or (found := self._behind_links)):
            return text
        why = {at: known.get(at) or self.why(at) for at in found}
        reason, what = why[found[0]]
        if reason == LINK:  # a link is of several ranks, and none of them is slow itself
            kind, _, _ = what.partition(":")
            return f"{text}; slow transfers of {kind} alone {self.types.get(kind, self.job):.2f}"
        if (stage := self._stage_of(found, reason)) is not None:
            names = [f"stage {stage} (of 0 to {max(self.stages)}) alone {self.stages[stage]:.2f}"]
            return f"{text}; {names[0]}: uneven stages, {in_words(reason, what)}"
        parts = []
        for because, same in groupby(found[:3], key=lambda at: in_words(*why[at]) if why[at][0] else ""):
            names = [f"{self.work.workers[at]} alone {self.workers[at]:.2f}" for at in same]
            parts.append(", ".join(names) + f": {because}" * bool(because))
        more = f"; and {len(found) - 3:,} more" if len(found) > 3 else ""
        return f"{text}; {'; '.join(parts)}{more}"

    @property
    def _behind_links(self) -> list[int]:
        """The slowest worker, where it is so for transfers of a kind that account for most of the excess."""
        worst = int(np.argmax(self.workers))
        reason, what = self.why(worst)
        excess = self.types.get(what.partition(":")[0], 1.0) - 1
        return [worst] if reason == LINK and 2 * excess >= self.job - 1 else []

    def _stage_of(self, workers: Sequence[int], reason: str) -> int | None:
        """The stage whose workers these are, all of several, or one with more work; None for any others."""
        stages = {int(self.work.stage[at]) for at in workers}
        stage = stages.pop()
        count = int((self.work.stage == stage).sum())
        is_whole = count == len(workers) and (count > 1 or reason == MORE)
        return stage if is_whole and not stages and len(self.stages) > 1 else None

    def _with_only(self, kept: Mask) -> float:
        return self.work.length_ns(kept) / self.ideal_ns

    def _of_workers(self, group: Codes) -> dict[int, float]:
        """Slowdown of each group of workers; of many those between the replayed ones are interpolated.

        Half of the replayed ones are those with most excess, the others lie at equal distances among the rest.
        """
        groups, place = np.unique(group, return_inverse=True)
        excess = np.bincount(place, self.work.excess_ns.sum(axis=1))
        order = np.argsort(excess, kind="stable")
        low = max(len(groups) - self.most_replays // 2, 0)
        spread = np.linspace(0, low, self.most_replays - self.most_replays // 2).astype(np.int64)
        at = np.arange(len(groups))
        if len(groups) > self.most_replays:
            at = np.unique(np.concatenate((spread, at[low:])))
        replayed = [self._with_only(self._kept(place == one)) for one in order[at].tolist()]
        found = np.empty(len(groups))
        found[order] = np.interp(np.arange(len(groups)), at, replayed)
        return dict(zip(groups.tolist(), found.tolist(), strict=True))

    def _share_without(self, repaired: Rows | Mask) -> float | None:
        excess = self.length_ns - self.ideal_ns
        return (self.length_ns - self.work.length_ns(~self._kept(repaired))) / excess if excess > 0 else None

    def table(self, known: Mapping[int, tuple[str, str]] | None = None) -> Table:
        """One row for the job, then per type, stage, data-parallel rank and worker, the slowest first.

        Args:
            known: places of workers -> their reason, and the work with most of it, where something else shows them.
        """
        rows = [self._row("job", "", self.job)]
        for name, value in _slowest(self.types):
            rows.append(self._row("type", name, value))
        if len(self.stages) > 1:
            rows += [self._row("stage", str(stage), value, stage=stage) for stage, value in _slowest(self.stages)]
            rows += [self._row("dp_rank", str(rank), value, dp_rank=rank) for rank, value in _slowest(self.dp_ranks)]
        work = self.work
        for at in np.argsort(-self.workers, kind="stable").tolist():
            where = {"stage": int(work.stage[at]), "dp_rank": int(work.dp_rank[at])} if len(self.stages) > 1 else {}
            reason, what = (known or {}).get(at) or self.why(at)
            rows.append(
                self._row("worker", work.workers[at], float(self.workers[at]), **where)
                | {"reason": reason, "what": what}
            )
        return SLOWDOWN.of_records(
            rows, "Slowdown against even work", [*self.measures(), *self._sampled(), *work.notes]
        )

    def _sampled(self) -> list[str]:
        """How many workers are replayed, where not all are."""
        count = len(np.unique(self.work.dp_rank))
        if count <= self.most_replays:
            return []
        return [
            f"{self.most_replays:,} of {count:,} workers are replayed alone, those with most excess among them; "
            f"others are interpolated by their excess"
        ]

    def _row(self, of: str, name: str, slowdown: float, **where: int) -> dict[str, object]:
        return {
            "of": of, "name": name, "stage": None, "dp_rank": None, "slowdown": slowdown,
            "lost_ms": (slowdown - 1) * self.ideal_ns / 1e6, "reason": "", "what": "", **where,
        }  # fmt: skip

    def measures(self) -> list[str]:
        """M_W and M_S in words."""
        count, slowest = len(self.workers), int(np.ceil(SLOWEST_SHARE * len(self.workers)))
        of = {"M_W": (self.by_workers, f"the slowest 3 % of the workers, {slowest:,} of {count:,},"),
              "M_S": (self.by_last_stage, "the last stage")}  # fmt: skip
        if self.job < 1 - NO_FASTER:
            return ["a slowdown below 1 is none: by the replay the job would not be faster with even work"]
        if self.job < 1 + WORTH_A_REASON:
            return []
        less = ", as the others have less than even work"
        return [
            f"{name}: repairing {whom} removes {100 * share:.0f} % of the excess{less * (share > 1 + WORTH_A_REASON)}"
            for name, (share, whom) in of.items()
            if share is not None
        ]

    def sizes(self) -> str:
        """How many workers, stages, data-parallel ranks and steps there are."""
        steps = max(self.work.mean_of, self.work.steps)
        counts = {
            "worker": len(self.workers),
            "stage": len(self.stages),
            "data-parallel rank": len(self.dp_ranks),
            "step": steps,
        }
        return ", ".join(f"{count:,} {what}{'s' * (count > 1)}" for what, count in counts.items())

    def times(self) -> str:
        """How long a step takes, and would take with even work."""
        return f"a step takes {self.length_ns / 1e6:,.1f} ms, with even work {self.ideal_ns / 1e6:,.1f} ms"

    def tables(self) -> list[Table]:
        """All tables."""
        return [self.table(), self.heat_map()]

    def heat_map(self) -> Table:
        """The slowdown of each worker: a row per pipeline stage, a column per data-parallel rank."""
        work = self.work
        columns: dict[str, list[object]] = {"stage": list(self.stages)}
        for rank in self.dp_ranks:
            columns[f"dp {rank}"] = [
                next(iter(self.workers[(work.stage == stage) & (work.dp_rank == rank)].tolist()), None)
                for stage in self.stages
            ]
        return Table("slowdown_map", columns, title="Slowdown of each worker, by stage and data-parallel rank")


def _slowest(found: Mapping[Name, float]) -> list[tuple[Name, float]]:
    return sorted(found.items(), key=lambda one: -one[1])


def slowdown(ranks: Any, matched: MatchedCollectives | None = None) -> Slowdown:
    """How much slower a job is than with even work.

    Args:
        ranks: the traces of its ranks, loaded whole, or `JobCauses`; or the path of a parquet file with one row per
            operation of a job, see `work_of_parquet`.
        matched: which collectives of the ranks are one; by default they are matched.

    Raises:
        AnalysisError: there is one rank alone, or no GPU work.
        MissingExtraError: pyarrow is not installed, and the operations are in a parquet file.
        TraceError: a parquet file holds no operations.
    """
    if isinstance(ranks, str | Path):
        return Slowdown(work_of_parquet(str(ranks)))
    job = job_causes(ranks, matched)
    if len(job.traces) < 2:
        raise AnalysisError("slowdown: there is one rank, and ranks are compared with one another")
    return Slowdown(work_of_job(job))
