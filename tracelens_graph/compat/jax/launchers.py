"""TraceLens's tables of the kernels of a JAX profile, one by one and summed up.

A kernel is its own launcher there, so direct and subtree time are one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.call_columns import by_time, statistic
from tracelens_graph.analyses.shared.grouping import Cells, group_by, shares, text_codes
from tracelens_graph.analyses.shared.statistics import Groups
from tracelens_graph.compat.jax.kernels import Kernels
from tracelens_graph.compat.jax.rules import XLA
from tracelens_graph.graph.window import Window
from tracelens_graph.registry import schema_of
from tracelens_graph.tables.table import Table

STATISTICS = ("mean", "median", "std", "min", "max", "sum")

_NUMBER = re.compile(r"(?:[._]\d+)+(?=(?:\.kd)?$)")
"""The numbers that XLA puts behind a name that is taken, and what else of a kernel's name stands behind them."""


def kernel_launchers(w: Window) -> Table:
    """Every kernel."""
    return _table("kernel_launchers", w, _each(Kernels.of(w)))


def kernel_launchers_summary(w: Window) -> Table:
    """Time by name of kernel."""
    kernels = Kernels.of(w)
    return _table("kernel_launchers_summary", w, _summary(kernels, kernels.names))


def kernel_launchers_summary_by_category(w: Window) -> Table:
    """Time by category of kernel."""
    kernels = Kernels.of(w)
    group, first = group_by(text_codes(kernels.categories))
    time = Groups(group, kernels.dur_ns, len(first)).sum
    columns: dict[str, Cells] = {
        "op category": [kernels.categories[at] for at in first.tolist()],
        "Count": np.bincount(group, minlength=len(first)),
        "total_direct_kernel_time_ms": time / 1e6,
    }
    columns = by_time(columns, "total_direct_kernel_time_ms", kernels.core.columns.uid[kernels.rows[first]])
    return _table("kernel_launchers_summary_by_category", w, _with_shares(columns, kernels))


def kernel_launchers_unique_args(w: Window) -> Table:
    """Time by name of kernel and operands of the instruction."""
    kernels = Kernels.of(w)
    c = kernels.core.columns
    group, first = group_by(c.name[kernels.rows], text_codes(kernels.categories), kernels.operands)
    time = Groups(group, kernels.dur_ns, len(first))
    of = [kernels.instructions[at] for at in kernels.instruction[first].tolist()]
    columns: dict[str, Cells] = {
        "name": [kernels.names[at] for at in first.tolist()],
        "op category": [kernels.categories[at] for at in first.tolist()],
        **_arguments(kernels.take(first)),
        "operation_count": time.count,
    }
    for which in STATISTICS:
        for what in ("direct", "subtree"):
            columns[f"total_{what}_kernel_time_{which}"] = statistic(time, which) / 1e3
    columns["ex_UID"] = c.uid[kernels.rows[first]]
    more = [one.details() for one in of]
    columns["kernel_details_summary"] = [[entry] for entry in details(columns["name"], time, more)]
    columns = by_time(columns, "total_direct_kernel_time_sum", c.uid[kernels.rows[first]])
    columns |= shares(np.asarray(columns["total_direct_kernel_time_sum"], float))
    return _table("kernel_launchers_unique_args", w, columns)


def df_xla_perf(w: Window) -> Table:
    """Every kernel that XLA wrote itself, with the bytes of its operands."""
    kernels = of_xla(w)
    read = [kernels.instructions[at].input_bytes for at in kernels.instruction.tolist()]
    return _table("df_xla_perf", w, {**_each(kernels), "total_input_bytes": read})


def xla_summary(w: Window) -> Table:
    """Time of these kernels by name without number."""
    kernels = of_xla(w)
    return _table("xla_summary", w, _summary(kernels, [_NUMBER.sub("", name) for name in kernels.names]))


def of_xla(w: Window) -> Kernels:
    """The kernels that XLA wrote itself."""
    kernels = Kernels.of(w)
    return kernels.take(np.flatnonzero(np.array(kernels.categories, object) == XLA))


def details(names: Cells, time: Groups, more: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What groups of kernels took: name, further facts, count and statistics of each group."""
    figures: dict[str, np.ndarray] = {
        "total_duration_us": time.sum,
        "mean_duration_us": time.mean,
        "median_duration_us": time.median,
        "std_dev_duration_us": time.std(ddof=0),
        "min_duration_us": time.min,
        "max_duration_us": time.max,
    }
    counts = time.count.tolist()
    values = zip(*((figure / 1e3).tolist() for figure in figures.values()), strict=True)
    return [
        {"name": name, **facts, "count": count, **dict(zip(figures, row, strict=True))}
        for name, facts, count, row in zip(names, more, counts, values, strict=True)
    ]


def _each(kernels: Kernels) -> dict[str, Cells]:
    c, us = kernels.core.columns, kernels.dur_ns / 1e3
    facts = [one.details() for one in kernels.instructions]
    told = zip(kernels.names, us.tolist(), kernels.instruction.tolist(), strict=True)
    return {
        "name": kernels.names,
        "UID": c.uid[kernels.rows],
        "op category": kernels.categories,
        "total_direct_kernel_time": us,
        "total_subtree_kernel_time": us,
        "direct_kernel_count": np.ones(len(kernels), np.int64),
        "pid": kernels.pids,
        "tid": c.stream[kernels.rows].astype(np.int64),
        **_arguments(kernels),
        "kernel_details": [[{"name": name, "dur": dur, **facts[at]}] for name, dur, at in told],
        "GPU_kernel_launch_latency": kernels.latency_us,
    }


def _arguments(kernels: Kernels) -> dict[str, Cells]:
    """Operands of the instructions; HLO has no operands that are plain values."""
    of = [kernels.instructions[at] for at in kernels.instruction.tolist()]
    return {
        "Input Dims": [one.dims for one in of],
        "Input type": [one.types for one in of],
        "Input Strides": [one.strides for one in of],
        "Concrete Inputs": [[] for _ in of],
    }


def _summary(kernels: Kernels, names: list[str]) -> dict[str, Cells]:
    group, first = group_by(text_codes(names))
    time = Groups(group, kernels.dur_ns, len(first)).sum
    kinds: list[set[str]] = [set() for _ in range(len(first))]
    for at, category in zip(group.tolist(), kernels.categories, strict=True):
        kinds[at].add(category)
    columns: dict[str, Cells] = {"name": [names[at] for at in first.tolist()]}
    for suffix, unit in (("sum", 1e3), ("ms", 1e6)):
        for what in ("direct", "subtree"):
            columns[f"total_{what}_kernel_time_{suffix}"] = time / unit
    columns |= {"Count": np.bincount(group, minlength=len(first)), "Categories": [sorted(one) for one in kinds]}
    uid = kernels.core.columns.uid[kernels.rows[first]]
    return _with_shares(by_time(columns, "total_direct_kernel_time_sum", uid), kernels)


def _with_shares(columns: dict[str, Cells], kernels: Kernels) -> dict[str, Cells]:
    """The columns with shares of the time, and the time by GPU."""
    time = np.asarray(columns["total_direct_kernel_time_ms"], float)
    return {**columns, **shares(time), "time ms per gpu": time / max(kernels.gpus, 1)}


def _table(name: str, w: Window, columns: dict[str, Cells]) -> Table:
    schema = schema_of(name)
    return schema.table(columns, w.titled(schema.answers.removesuffix(".")))
