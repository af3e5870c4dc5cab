"""Operations of a job by worker and type, and how long a step takes with some of them as recorded, all others ideal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracelens_graph.utils.arrays import Codes, Mask, Ns


@dataclass(frozen=True, eq=False, repr=False)
class Work:
    """Operations of a job with their recorded and their ideal times.

    Attributes:
        kinds: names of the types of operations.
        workers: names of the workers.
        stage, dp_rank: per worker its pipeline stage and data-parallel rank.
        excess_ns: per worker and type what its operations take longer than in the ideal job, ns.
        length_ns: mean length of a step in which the operations of some workers and types, as a mask of both, keep
            their recorded times, and all others take the ideal ones.
        explain: the reason and the work with most of the excess of a type of operations of a worker, by their places.
        edges: how many edges a replay goes through.
        steps: how many steps lie one behind the other in that length, which is for one.
        mean_of: how many steps that length is the mean of, where none lies behind the other.
        notes: what a reader must know.
        took_ns: how long all steps took as recorded.
        is_covered: whether most collectives are among the operations; waits for those on the host are host time.
    """

    kinds: Sequence[str]
    workers: Sequence[str]
    stage: Codes
    dp_rank: Codes
    excess_ns: Ns
    length_ns: Callable[[Mask], float]
    explain: Callable[[int, int], tuple[str, str]]
    edges: int
    steps: int = 1
    mean_of: int = 1
    notes: Sequence[str] = ()
    took_ns: float = 0.0
    is_covered: bool = True
