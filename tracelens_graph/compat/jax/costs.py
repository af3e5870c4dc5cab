"""TraceLens's tables of JAX kernels with performance models: products, convolutions, attention.

TraceLens makes a row for each name of a kernel of an instruction that it has a model for. What the instruction costs
counts once here, with the kernel name that takes most of its time; its other kernels, which prepare and finish, have
rows without work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tracelens_graph.analyses.performance.perf_rows import RATES, stats, work_columns
from tracelens_graph.analyses.performance.perf_sheets import PERF_SHEET
from tracelens_graph.analyses.shared.call_columns import by_time
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, text_codes
from tracelens_graph.compat.cells import thread_columns
from tracelens_graph.compat.jax.kernels import STATISTICS, Instruction, Kernels, arrays, details
from tracelens_graph.compat.jax.rules import JAX_KEYS
from tracelens_graph.graph.arrays import quotients
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.hlo import instruction
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.scalar_types import known
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows


def sheet_of(category: str) -> str:
    """Name of the table of a category."""
    return f"op_{'_'.join(category.lower().split())}"


def op_sheets(w: Window) -> dict[str, Table]:
    """A table for each category with kernels of instructions that have a model."""
    kernels = Kernels.of(w)
    models = [_cost(one) for one in kernels.instructions]
    has = np.array([one is not None for one in models], bool)[kernels.instruction]
    categories = np.array(kernels.categories, object)
    work = _charged(kernels, models)
    return {
        sheet_of(category): _sheet(sheet_of(category), kernels, np.flatnonzero(places), models, work)
        for category in JAX_KEYS
        if (places := has & (categories == category)).any()
    }


# --- what instructions cost --------------------------------------------------------------------------------------


def _cost(one: Instruction) -> Cost | None:
    try:
        cost = instruction(one.arguments, CallContext())
    except CannotModel:
        return None
    if cost.unit != "matrix":
        return None
    return replace(cost, params=_params(one, cost))


def _params(one: Instruction, cost: Cost) -> Mapping[str, Any]:
    if cost.sheet == "GEMM":
        return _of_product(one, cost)
    return _of_convolution(one) if cost.sheet.startswith("CONV") else _of_attention(one, cost)


def _of_product(one: Instruction, cost: Cost) -> Mapping[str, Any]:
    sizes = cost.params
    is_call = "(gemm)" in one.does
    return {
        **{name: sizes.get(name) for name in ("B", "M", "N", "K")},
        "bias": is_call and len(one.dims) > 2,
        "dtype_A_B": list(sizes.get("dtype_A_B", ())),
        "simulation_dtype": cost.precision or None,
    }


def _of_convolution(one: Instruction) -> Mapping[str, Any]:
    """The sizes of the forward pass, whatever of it is computed."""
    target = one.target
    texts = (one.facts.input, one.facts.filter) if one.facts else ("", "")
    operands = [found[0] if (found := arrays(text)) else ("", []) for text in texts]
    made = one.results[0] if one.results else ("", [])
    source, kernel, result = (*operands, made)
    if target.endswith("BackwardInput"):
        source, result = result, source
    elif target.endswith("BackwardFilter"):
        kernel, result = result, kernel
    return {
        "convNd": f"conv{max(len(source[1]) - 2, 0)}d",
        "input_shape": source[1],
        "filter_shape": kernel[1],
        "output_shape": result[1],
        "bias": bool(target) and len(one.dims) > 2,
        "bytes_per_element": _bytes(source[0]),
        "transposed_conv": False,
    }


_BIAS = 3
"""Position of the bias among the operands of TransformerEngine's attention: behind queries, keys and values, which are
empty where they are packed into one another."""


def _of_attention(one: Instruction, cost: Cost) -> Mapping[str, Any]:
    sizes = dict(cost.params)
    causal = sizes.pop("causal", None)
    dtype = one.types[0] if one.types else ""
    return {
        **sizes,
        "bias": len(one.dims) > _BIAS and prod(one.dims[_BIAS]) > 0,
        "dtype_A_B": [dtype] * 2,
        "causal": causal,
        "flash_impl": True,
        "fused": True,
        "bytes_per_element": _bytes(dtype),
    }


def _bytes(type_: str) -> int | None:
    return -(-known(type_).bits // 8) or None


# --- who has the work of an instruction ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    """Operations and bytes of kernels, NaN for those without."""

    flops: np.ndarray
    bytes: np.ndarray


def _charged(kernels: Kernels, models: list[Cost | None]) -> _Work:
    """The work of each instance of an instruction, in equal parts to its kernels of the name with most time."""
    c = kernels.core.columns
    name, of = c.name[kernels.rows].astype(np.int64), kernels.instruction
    group, first = group_by(of, name)
    time = Groups(group, kernels.dur_ns, len(first)).sum
    most = np.full(len(models), -1, np.int64)
    # Ascending, as what is written last stays: the name with the most time.
    for at in np.argsort(time, kind="stable").tolist():
        most[of[first[at]]] = name[first[at]]
    main = np.flatnonzero((most[of] == name) & np.array([one is not None for one in models], bool)[of])
    _, instance, launches = np.unique(c.owner[kernels.rows[main]], return_inverse=True, return_counts=True)
    share = 1 / launches[instance.reshape(-1)]
    flops, moved = (np.full(len(kernels), np.nan) for _ in range(2))
    known = [(cost.flops, np.nan if cost.bytes is None else cost.bytes) if cost else (0, 0) for cost in models]
    table = np.array(known, float)
    flops[main], moved[main] = table[of[main], 0] * share, table[of[main], 1] * share
    return _Work(flops, moved)


# --- the tables --------------------------------------------------------------------------------------------------


def _sheet(name: str, kernels: Kernels, places: Rows, models: list[Cost | None], work: _Work) -> Table:
    chosen, flops, moved = kernels.take(places), work.flops[places], work.bytes[places]
    params = text_codes([json.dumps(one.params) if one else "" for one in models])
    group, first = group_by(text_codes(chosen.names), params[chosen.instruction], (~np.isnan(work.flops))[places])
    c, count = chosen.core.columns, len(first)
    costs = [models[at] for at in chosen.instruction[first].tolist()]
    sizes = dict.fromkeys(size for cost in costs if cost for size in cost.params)
    columns: dict[str, Cells] = {"name": [chosen.names[at] for at in first.tolist()]}
    columns |= {f"param: {size}": [cost.params.get(size) if cost else None for cost in costs] for size in sizes}
    columns |= work_columns([_part(*one) for one in zip(costs, flops[first], moved[first], strict=True)], "_first")
    us = chosen.dur_ns / 1e3
    for rate, done in zip(RATES, (moved, flops), strict=True):
        columns |= stats(rate, Groups(group, quotients(done / 1e6, us), count))
    threads = thread_columns(chosen.core, chosen.rows[first])
    columns |= {f"{column}_first": cells for column, cells in threads.items()}
    time = Groups(group, chosen.dur_ns, count)
    found = details(columns["name"], time, [{}] * count)
    columns["kernel_details__summarize_kernel_stats"] = [[entry] for entry in found]
    of = [chosen.instructions[at] for at in chosen.instruction[first].tolist()]
    columns |= {"Input Dims_first": [one.dims for one in of], "Input type_first": [one.types for one in of]}
    columns |= stats("Kernel Time (µs)", time, STATISTICS, 1e-3)
    columns |= {"name_count": time.count, "UID_first": c.uid[chosen.rows[first]]}
    columns = by_time(columns, "Kernel Time (µs)_sum", c.uid[chosen.rows[first]])
    title = kernels.window.titled(f"Cost and rates of kernels: {name.removeprefix('op_')}")
    return PERF_SHEET.table(columns, title, name=name)


def _part(cost: Cost | None, flops: float, moved: float) -> Cost | None:
    """The cost of an instruction with a kernel's part of its work; None for a kernel without."""
    if cost is None or np.isnan(flops):
        return None
    return replace(cost, flops=round(flops), bytes=None if np.isnan(moved) else round(moved))
