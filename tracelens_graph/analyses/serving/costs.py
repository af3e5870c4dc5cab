"""What a step of a server costs by what is in it: least squares over its steps, with standard errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.serving.iterations import Served, no_iterations, served_in
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.batches import PHASES
from tracelens_graph.graph.classes import launches_graphs
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.thread_blocks import grids_in_blocks
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Rows

STEP_COSTS = TableSchema(
    "step_costs",
    "What a step of a server costs at least, and per token, request and token of context.",
    {
        "phase": Column.key("phase of the iterations; all for those of every phase", "phase"),
        "term": Column.key(
            "fixed, or what each further one of it costs; a generation token is a place of the captured batch, empty "
            "ones included",
            "per",
        ),
        "ns": Column("least-squares estimate of the time in which its GPU events run", "ns", heading="ns"),
        "std_error": Column("its standard error, what a straight line misses included", "ns", heading="std. error ns"),
        "mean": Column("mean of that number over the iterations", "", heading="mean of it"),
        "percent": Column("share of the mean time: the estimate times that mean", "%", heading="% of GPU time"),
        "iterations": Column.count("iterations that it is estimated from", "iterations"),
        "r2": Column("share of the variance of the times that all terms of the phase explain", "", heading="R2"),
    },
    counts="iteration",
)


_FEWEST = 8
_ALIKE = 0.98
"""Share of the variance of a number that others explain, from which on their costs cannot be separated."""


def step_costs(g: Core | Window) -> Table:
    """Fixed cost of a step, and cost per token, request and token of context, by phase; a least-squares fit.

    The time in which GPU events of a step run is explained by tokens of prompts, tokens of answers (empty places of a
    captured batch count as such), tokens that are attended to (keys) and requests. What the GPU waits for the host
    comes on top; `phases` has it. A number that hardly varies, or that others explain to 98 %, is left out, and a
    note says so: the data do not show what it costs. So is one whose cost comes out below 0. Where no capture and no
    annotation says which size a graph was captured for, the grids of its norms do, which have a block for each row;
    where these are not recorded, costs of answers and requests are left out, because the places of a batch follow a
    stair. Standard errors are those of least squares, or those by clusters of steps of one size, whichever are
    greater: what a straight line misses is alike in these. Phases with few steps, less than 8 or than three for each
    term, say nothing.
    """
    w = window_of(g)
    served = served_in(w)
    title = w.titled("What a step of a server costs")
    if not len(served):
        return STEP_COSTS.empty(title, no_iterations(w))
    records: list[dict[str, Any]] = []
    notes: list[str] = []
    for phase in (*PHASES, "all"):
        steps = (served.busy_ns[:-1] > 0) & ((served.phases == phase) | (phase == "all"))
        if phase == "all" and len({record["phase"] for record in records}) == 1 == len(set(served.phases.tolist())):
            continue
        fit = costs_of(served, steps)
        records += [{"phase": phase, **line} for line in fit.lines]
        notes += [f"{phase}: {note}" for note in fit.notes if steps.any()]
    return STEP_COSTS.of_records(records, title, notes)


@dataclass(frozen=True)
class Fit:
    """What a least-squares fit says: a line for each term, and what it cannot say."""

    lines: list[dict[str, Any]]
    notes: list[str]


def costs_of(served: Served, steps: Mask) -> Fit:
    """What some steps cost, by what is in them."""
    y = served.busy_ns[:-1][steps].astype(float)
    rough = served.of_unknown_size & steps
    places = served.generation_tokens + np.nan_to_num(served.padding)
    places[rough] = _sizes(served, np.flatnonzero(rough))
    terms: Mapping[str, np.ndarray] = {
        "context token": served.context_tokens[steps], "generation token": places[steps],
        "key": served.keys[steps], "request": served.requests[steps],
    }  # fmt: skip
    notes: list[str] = []
    if is_unclear := bool(np.isnan(places[rough]).any()):
        terms = {"context token": terms["context token"]}
        notes.append(
            f"{int(rough.sum()):,} steps replay graphs of unknown captured sizes, whose empty places cost as much as "
            "others: costs of answers and requests cannot be separated; captures that are joined say the sizes "
            "(--capture)"
        )
    elif rough.any():
        notes.append(f"captured sizes of {int(rough.sum()):,} steps are taken from the grids of their norms")
    terms = {name: values for name, values in terms.items() if np.isfinite(values).all()}
    if len(y) < _FEWEST:
        return Fit([], [f"{len(y)} steps are too few to separate costs", *notes])
    kept, left_out = _separable(terms)
    cluster = np.unique(np.nan_to_num([served.context_tokens[steps], places[steps]]), axis=1, return_inverse=True)[1]
    fit = _not_below_0(kept, y, cluster)
    notes += [*left_out, *fit.notes]
    if not fit.lines:
        return Fit([], [*notes, "no number varies enough to separate costs"])
    if "key" not in terms and not is_unclear:
        notes.append("annotations do not give keys, so what tokens of context cost is part of the other costs")
    return Fit(fit.lines, notes)


def _separable(terms: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """The numbers whose costs can be separated, and why others are left out."""
    kept: dict[str, np.ndarray] = {}
    notes = []
    for name, values in terms.items():
        if len(values) < 3 * (len(kept) + 2):
            notes.append(f"too few steps for the cost of a {name}")
        elif np.ptp(values) <= 1e-3 * np.abs(values).max():
            if values.any():
                notes.append(f"the number of {name}s hardly varies, so its cost is part of the fixed one")
        elif _explained(kept, values) > _ALIKE:
            notes.append(f"the number of {name}s follows from those of the terms, so its cost is in theirs")
        else:
            kept[name] = values
    return kept, notes


def _not_below_0(terms: Mapping[str, np.ndarray], y: np.ndarray, cluster: Codes) -> Fit:
    """A fit without the terms whose costs come out below 0, the clearest of them first; no lines without any term."""
    kept, notes = dict(terms), list[str]()
    while kept:
        lines = list(_lines(kept, y, cluster))
        least = min(lines[1:], key=lambda line: line["ns"] / max(line["std_error"], 1e-9))
        if least["ns"] >= 0:
            return Fit(lines, notes)
        notes.append(f"the cost of a {least['term']} comes out below 0, so it is left out")
        del kept[least["term"]]
    return Fit([], notes)


def _solved(columns: Mapping[str, np.ndarray], y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least squares with a constant: coefficients, residuals, and the matrix, whose columns are scaled to 1."""
    matrix = np.column_stack([np.ones(len(y)), *(values / np.abs(values).max() for values in columns.values())])
    coefficients = np.linalg.lstsq(matrix, y, rcond=None)[0]
    return coefficients, y - matrix @ coefficients, matrix


def _explained(columns: Mapping[str, np.ndarray], y: np.ndarray) -> float:
    residual = _solved(columns, y)[1]
    return 1 - float(residual @ residual) / float(((y - y.mean()) ** 2).sum())


_NORM = re.compile("norm", re.IGNORECASE)
_LOOKED_AT = 64
"""Sizes of batches that are looked at to find those of captured graphs, and kernels of each."""


def _sizes(served: Served, steps: Rows) -> np.ndarray:
    """The captured sizes of graphs that steps replay, by the grids of their norms, which have a block for each row.

    One step is looked at of each number of tokens, or of some; NaN for all where grids do not show the size of one.
    """
    tokens = served.tokens[steps]
    unknown = np.full(len(steps), np.nan)
    if not len(steps) or not np.isfinite(tokens).all():
        return unknown
    counts, first = np.unique(tokens, return_index=True)
    at = np.unique(np.linspace(0, len(counts) - 1, min(len(counts), _LOOKED_AT)).round().astype(np.int64))
    sizes = np.array([_size(served, int(steps[step])) for step in first[at].tolist()], float)
    if (sizes < counts[at]).any() or (np.diff(sizes) < 0).any():
        return unknown
    return sizes[np.searchsorted(counts[at], tokens)]


def _size(served: Served, step: int) -> int:
    """The least grid of a norm that a step replays; 0 where none is recorded."""
    core, rows = served.window.core, served.window.gpu_rows[served.group == step]
    c, launch = core.columns, core.columns.parent[rows]
    rows = rows[(launch >= 0) & launches_graphs(core, np.maximum(launch, 0))]
    rows = rows[fitting(core.names, c.name[rows], _NORM.search)][:_LOOKED_AT] if len(rows) else rows
    return min((grid[0] for grid in grids_in_blocks(core, rows) if grid and grid[1:] == [1, 1]), default=0)


def _lines(columns: Mapping[str, np.ndarray], y: np.ndarray, cluster: Codes) -> Iterator[dict[str, Any]]:
    coefficients, residual, matrix = _solved(columns, y)
    spread = float(((y - y.mean()) ** 2).sum())
    variance = float(residual @ residual) / (len(y) - len(coefficients))
    inverse = np.linalg.pinv(matrix.T @ matrix)
    scores = np.zeros((int(cluster.max()) + 1, len(coefficients)))
    np.add.at(scores, cluster, matrix * residual[:, None])
    by_cluster = inverse @ (scores.T @ scores) @ inverse
    errors = np.sqrt(np.maximum(np.maximum(np.diag(inverse) * variance, np.diag(by_cluster)), 0))
    scales = [1.0, *(float(np.abs(values).max()) for values in columns.values())]
    means = [np.nan, *(float(values.mean()) for values in columns.values())]
    for name, estimate, error, scale, mean in zip(
        ("fixed", *columns), coefficients.tolist(), errors.tolist(), scales, means, strict=True
    ):
        times = 1.0 if np.isnan(mean) else mean
        yield {
            "term": name, "ns": estimate / scale, "std_error": error / scale, "mean": mean,
            "percent": 100 * estimate / scale * times / float(y.mean()), "iterations": len(y),
            "r2": 1 - float(residual @ residual) / spread if spread else np.nan,
        }  # fmt: skip
