"""Operations of a job with their recorded and their ideal times, and how long a step takes with some of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.critical_path.rerun import forward
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows


@dataclass(frozen=True, eq=False, repr=False)
class Work:
    """Operations of a job and what each waits for, as points and edges; see `forward`.

    Attributes:
        before, after: per edge its points.
        order: points in an order in which every edge leads forward.
        given: moments of points that no edge leads to, ns.
        recorded, ideal: per edge how long it took, and takes in the ideal job, ns.
        kind: per edge the place of its type of operation in `kinds`; -1 for what is no operation.
        worker: per edge the place of its worker.
        kinds: names of the types.
        workers: names of the workers.
        stage, dp_rank: per worker its pipeline stage and data-parallel rank.
        ends, step: points that end a step, and the place of that step; a step lasts to the last of its ends.
        begin_ns: when the steps begin.
        steps: how many steps lie one behind the other up to those ends.
        notes: what a reader must know.
        is_covered: whether most collectives are among the operations; waits for those on the host are host time.
        explain: the reason and the work with most of the excess of a type of operations of a worker, by their places.
    """

    before: Rows
    after: Rows
    order: Rows
    given: Ns
    recorded: Ns
    ideal: Ns
    kind: Codes
    worker: Codes
    kinds: Sequence[str]
    workers: Sequence[str]
    stage: Codes
    dp_rank: Codes
    ends: Rows
    step: Codes
    begin_ns: int = 0
    steps: int = 1
    notes: Sequence[str] = ()
    is_covered: bool = True
    explain: Callable[[int, int], tuple[str, str]] | None = None

    def length_ns(self, kept: Mask) -> float:
        """Mean length of a step in which some edges keep their recorded times, and all others the ideal ones."""
        weight = np.where(kept | (self.kind < 0), self.recorded, self.ideal)
        moment = forward(self.before, self.after, weight, self.order, self.given)
        last = np.full(int(self.step.max()) + 1, self.begin_ns)
        np.maximum.at(last, self.step, moment[self.ends])
        return (float(last.mean()) - self.begin_ns) / self.steps
