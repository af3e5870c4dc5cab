"""TraceLens's tables of a JAX profile: the timeline of each GPU, and kernels one by one and summed up.

A kernel is its own launcher there, so direct and subtree time are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.ops.ops import ARGUMENTS
from tracelens_graph.analyses.shared.call_columns import by_time, statistic
from tracelens_graph.analyses.shared.gpu_work import SHARE
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, shares, text_codes
from tracelens_graph.analyses.timeline.timeline import GPU_TIMELINE, times_by_group, unlinked_notes
from tracelens_graph.compat.jax.costs import op_sheets
from tracelens_graph.compat.jax.kernels import STATISTICS, Kernels, details, pids
from tracelens_graph.compat.jax.rules import XLA
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.registry import schema_of
from tracelens_graph.tables.column import FIVE, About, Column, Role, shown, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_TIME = "the durations of the kernels"

_NAME = Column.key("name of the kernel", "kernel")

_CATEGORY = Column.key("TraceLens's category of the kernel, by its name and its instruction", "category")

_PER_GPU = Column("sum divided by the number of GPUs with kernels", "ms", heading="ms per GPU")

_ARGUMENTS: About = {
    "Input Dims": replace(ARGUMENTS["Input Dims"], definition="sizes of the operands of the instruction"),
    "Input type": replace(ARGUMENTS["Input type"], definition="types of the operands, as XLA calls them"),
    "Input Strides": replace(ARGUMENTS["Input Strides"], definition="strides of the operands, in elements"),
    "Concrete Inputs": replace(ARGUMENTS["Concrete Inputs"], definition="empty: operands are arrays"),
}

_DETAILS = "target of a custom call, operands, result, and where in the program it comes from; `NA` if not known"

GPU_EVENTS_AVERAGES = TableSchema(
    "gpu_events_averages",
    "Where the time of a GPU went, averaged over all GPUs.",
    {name: GPU_TIMELINE[name] for name in ("type", "time ms", "percent")},
)

KERNEL_LAUNCHERS = TableSchema(
    "kernel_launchers",
    "Every kernel with the operands of its instruction, and how long it waited after its launch.",
    {
        "name": _NAME,
        "UID": Column.instance("uid of the kernel"),
        "op category": _CATEGORY,
        "total_direct_kernel_time": Column.total("duration of the kernel", "us", "us"),
        "total_subtree_kernel_time": Column.total("the same", "us"),
        "direct_kernel_count": Column("1"),
        "pid": Column("number of the GPU, from 1 on", heading="GPU"),
        "tid": Column("number of the stream", heading="stream"),
        **_ARGUMENTS,
        "kernel_details": Column.listed(f"name and duration (us) of the kernel; of its instruction the {_DETAILS}"),
        "GPU_kernel_launch_latency": Column(
            "from the start of the launch to that of the kernel", "us", heading="latency us"
        ),
    },
)

DF_XLA_PERF = TableSchema(
    "df_xla_perf",
    "Every kernel that XLA wrote itself, with the bytes of its operands.",
    {
        **KERNEL_LAUNCHERS,
        "total_input_bytes": Column.total(
            "bytes of all operands; absent where the size of a type is not known", "B", "operands B"
        ),
    },
)

KERNEL_LAUNCHERS_SUMMARY = TableSchema(
    "kernel_launchers_summary",
    "Which kernels the GPU time goes to.",
    {
        "name": _NAME,
        "total_direct_kernel_time_sum": Column.total(f"sum of {_TIME}", "us"),
        "total_subtree_kernel_time_sum": Column.total("the same", "us"),
        "total_direct_kernel_time_ms": Column.total(f"sum of {_TIME}", "ms", "GPU ms", compared="main"),
        "total_subtree_kernel_time_ms": Column.total("the same", "ms"),
        "Count": Column.count("kernels", "kernels"),
        "Categories": Column("categories of the kernels, sorted", role=Role.text, heading="category", cells="list"),
        **SHARE,
        "time ms per gpu": _PER_GPU,
    },
)

XLA_SUMMARY = TableSchema(
    "xla_summary",
    "Which kernels that XLA wrote itself the GPU time goes to.",
    {
        **KERNEL_LAUNCHERS_SUMMARY,
        "name": Column.key("name of the kernel without the number that XLA puts behind it", "kernel"),
    },
)

KERNEL_LAUNCHERS_SUMMARY_BY_CATEGORY = TableSchema(
    "kernel_launchers_summary_by_category",
    "Which kinds of kernels the GPU time goes to.",
    {
        "op category": _CATEGORY,
        **{
            name: KERNEL_LAUNCHERS_SUMMARY[name]
            for name in ("Count", "total_direct_kernel_time_ms", *SHARE, "time ms per gpu")
        },
    },
)

_DIRECT = statistics("total_direct_kernel_time_{}", _TIME, "us", (*FIVE, "sum"))

KERNEL_LAUNCHERS_UNIQUE_ARGS = TableSchema(
    "kernel_launchers_unique_args",
    "Which kernels with which operands the GPU time goes to.",
    {
        "name": _NAME,
        "op category": _CATEGORY,
        **_ARGUMENTS,
        "operation_count": Column.count("kernels", "kernels"),
        **shown(_DIRECT, total_direct_kernel_time_mean="mean us", total_direct_kernel_time_sum="sum us"),
        **statistics("total_subtree_kernel_time_{}", _TIME, "us", (*FIVE, "sum")),
        "ex_UID": Column.instance("uid of the first of the kernels"),
        "kernel_details_summary": Column.listed(
            f"count and statistics of the kernels; of their instruction the {_DETAILS}"
        ),
        **SHARE,
    },
)


def gpu_timeline(w: Window) -> Table:
    """The timeline of each GPU with work, by its number."""
    gpus, times = w.once(_times)
    columns: dict[str, list[object]] = {name: [] for name in ("type", "time ms", "percent", "gpu_pid")}
    for at, pid in enumerate(gpus):
        for name, time in times.items():
            columns["type"].append(name)
            columns["time ms"].append(time[at] / 1e6)
            columns["percent"].append(_percent(time[at], times["total_time"][at]))
            columns["gpu_pid"].append(pid)
    about = {name: GPU_TIMELINE[name] for name in columns}
    return Table("gpu_timeline", columns, about, w.titled("GPU timeline of each GPU"), unlinked_notes(w, False))


def gpu_events_averages(w: Window) -> Table:
    """The mean of these timelines; a GPU without work is not counted."""
    gpus, times = w.once(_times)
    mean = {name: float(time.mean()) for name, time in times.items()} if gpus else {}
    columns: dict[str, list[object]] = {
        "type": list(mean),
        "time ms": [time / 1e6 for time in mean.values()],
        "percent": [_percent(time, mean["total_time"]) for time in mean.values()],
    }
    return GPU_EVENTS_AVERAGES.table(columns, w.titled("Mean of the timelines of all GPUs"))


def _times(w: Window) -> tuple[list[int], Mapping[str, np.ndarray]]:
    rows = w.gpu_rows
    gpus, of = np.unique(pids(w.core, rows), return_inverse=True)
    return gpus.tolist(), times_by_group(w.core, rows, of, len(gpus))


def _percent(time: float, total: float) -> float:
    return 100 * time / total if total else float("nan")


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


def _each(kernels: Kernels) -> dict[str, Cells]:
    c, us = kernels.core.columns, kernels.dur_ns / 1e3
    facts = [one.details() for one in kernels.instructions]
    each = zip(kernels.names, us.tolist(), kernels.instruction.tolist(), strict=True)
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
        "kernel_details": [[{"name": name, "dur": dur, **facts[at]}] for name, dur, at in each],
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


SHEETS: Mapping[str, Callable[[Window], Table]] = {
    "gpu_timeline": gpu_timeline,
    "gpu_events_averages": gpu_events_averages,
    "kernel_launchers": kernel_launchers,
    "kernel_launchers_summary": kernel_launchers_summary,
    "kernel_launchers_summary_by_category": kernel_launchers_summary_by_category,
    "kernel_launchers_unique_args": kernel_launchers_unique_args,
    "df_xla_perf": df_xla_perf,
    "xla_summary": xla_summary,
}
"""The tables that are there whatever the profile holds."""


def jax_tables(g: Core | Window) -> dict[str, Table]:
    """TraceLens's tables of a JAX profile: those of `SHEETS`, and one for each category with performance models."""
    w = window_of(g)
    return {**{name: table(w) for name, table in SHEETS.items()}, **op_sheets(w)}
