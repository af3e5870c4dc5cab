"""Who waited in which step, and for whom: waits of a job as a matrix of ranks and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.ranks.attendance import Attendance
from tracelens_graph.analyses.ranks.job import Job

MOST_RANKS, MOST_STEPS = 512, 200
"""Rows and columns; of more ranks some are chosen, of more steps neighbours are put together."""

LEAST_SHARE = 0.01
"""Share of a step from which on it matters that the others are held up."""

WHOLE = "whole recording"
"""What stands for a step where traces have none."""

_FIGURES = ("exposed_wait_ms", "held_up_ms", "device_step_ms")


@dataclass(frozen=True, eq=False)
class WaitMap:
    """Waits of ranks in steps.

    Attributes:
        ranks: places of the ranks in the attendances, one per row.
        labels: what to call them.
        steps: what to call the steps, one per column.
        wait_ms: exposed waiting, NaN where the rank has no such step.
        step_ms: duration of the step on the rank.
        held_up_ms: how long the rank held up the others.
        all_held_up_ms: for each row its sum over all steps.
        late: for each column the row that held up the others most, -1 where nobody did for more than `LEAST_SHARE`.
        notes: what is not shown.
    """

    ranks: list[int]
    labels: list[str]
    steps: list[str]
    wait_ms: np.ndarray
    step_ms: np.ndarray
    held_up_ms: np.ndarray
    all_held_up_ms: np.ndarray
    late: np.ndarray
    notes: list[str]

    @classmethod
    def of(cls, job: Job) -> WaitMap:
        """Those of a job, from its tables `rank_steps` and, without steps, `rank_balance`."""
        attendances = job.meetings.attendances
        names, matrices = _matrices(job)
        held = np.nansum(matrices["held_up_ms"], axis=1)
        rows = chosen(held, MOST_RANKS)
        notes = []
        if len(rows) < len(attendances):
            notes.append(
                f"{len(rows):,} of {len(attendances):,} ranks are drawn: those that hold up the others most, and others"
                " at equal distances"
            )
        together = -(-len(names) // MOST_STEPS)
        if together > 1:
            notes.append(f"each column is the mean of up to {together:,} steps, of {len(names):,}")
            matrices = {name: _means(matrix, together) for name, matrix in matrices.items()}
            names = [_span(names[at : at + together]) for at in range(0, len(names), together)]
        shown = {name: matrix[rows] for name, matrix in matrices.items()}
        return cls(
            rows.tolist(),
            [rank_labels(attendances)[row] for row in rows.tolist()],
            names,
            shown["exposed_wait_ms"],
            shown["device_step_ms"],
            shown["held_up_ms"],
            held[rows],
            _late(shown["held_up_ms"], shown["device_step_ms"]),
            notes,
        )


def _matrices(job: Job) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of steps, and each of `_FIGURES` by rank and step."""
    attendances = job.meetings.attendances
    if not any(rank.steps for rank in attendances):
        table = job.table("rank_balance")
        columns = dict(zip(_FIGURES, ("exposed_wait_ms", "held_up_ms", "span_ms"), strict=True))
        return [WHOLE], {name: np.array(table[column], float)[:, None] for name, column in columns.items()}
    table = job.table("rank_steps")
    keys = step_keys(attendances)
    flat = [key for of_rank in keys for key in of_rank]
    known, column = np.unique(np.array(flat, np.int64), return_inverse=True)
    row = np.repeat(np.arange(len(attendances)), [len(of_rank) for of_rank in keys])
    found = {}
    for name in _FIGURES:
        matrix = np.full((len(attendances), len(known)), np.nan)
        matrix[row, column] = np.array(table[name], float)
        found[name] = matrix
    return [str(key) for key in known.tolist()], found


def step_keys(attendances: Sequence[Attendance]) -> list[list[int]]:
    """What stands for the steps of each rank: their numbers; where one has none, or twice the same, their places."""
    numbers = [[one.number for one in rank.steps] for rank in attendances]
    if any(None in of_rank or len(set(of_rank)) < len(of_rank) for of_rank in numbers):
        return [list(range(len(of_rank))) for of_rank in numbers]
    return [[number for number in of_rank if number is not None] for of_rank in numbers]


def rank_labels(attendances: Sequence[Attendance]) -> list[str]:
    """Names of ranks for an axis, all different: their numbers, or where these do not tell them apart those of traces.

    Names are as the traces tell them.
    """
    numbers = [rank.rank for rank in attendances]
    if None not in numbers and len(set(numbers)) == len(numbers):
        return [f"rank {number}" for number in numbers]
    return [rank.name for rank in attendances]


def chosen(weights: np.ndarray, most: int) -> np.ndarray:
    """Places to show of many, ascending: up to half of them for their weight, the others at equal distances."""
    if len(weights) <= most:
        return np.arange(len(weights))
    first = np.argsort(-weights, kind="stable")[: most // 2]
    first = first[weights[first] > 0]
    rest = np.setdiff1d(np.arange(len(weights)), first)
    evenly = rest[np.linspace(0, len(rest) - 1, most - len(first)).round().astype(np.int64)]
    return np.union1d(first, evenly)


def _means(matrix: np.ndarray, together: int) -> np.ndarray:
    """Means of neighbouring columns; NaN where all of them are."""
    lacking = -matrix.shape[1] % together
    padded = np.pad(matrix, ((0, 0), (0, lacking)), constant_values=np.nan)
    blocks = padded.reshape(len(matrix), -1, together)
    known = (~np.isnan(blocks)).sum(axis=2)
    total: np.ndarray = np.where(known > 0, np.nansum(blocks, axis=2) / np.maximum(known, 1), np.nan)
    return total


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}"


def _late(held_up_ms: np.ndarray, step_ms: np.ndarray) -> np.ndarray:
    if not held_up_ms.size:
        return np.full(held_up_ms.shape[1], -1)
    known = np.nan_to_num(held_up_ms)
    row, columns = known.argmax(axis=0), np.arange(known.shape[1])
    durations = np.nan_to_num(step_ms[row, columns])
    late: np.ndarray = np.where(known[row, columns] > LEAST_SHARE * durations, row, -1)
    return late
