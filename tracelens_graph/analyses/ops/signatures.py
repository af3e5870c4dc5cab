"""Signatures of ops: what each set of arguments costs, and which modules it belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.shared.call_columns import SIGNATURE, argument_codes, argument_texts
from tracelens_graph.analyses.shared.gpu_work import GPU_EVENTS, GPU_TIME, fitting_names, modules_of, names_of, percent
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, smallest, text_codes
from tracelens_graph.graph.arrays import distinct, expanded, quotients
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import nearest_above, outermost, rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.perf.roofs import Roof, roofline
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

EVERY = "*"
"""In place of the name of an op: all ops."""

_OP = Column.key("name of the op")

OP_SIGNATURES = TableSchema(
    "op_signatures",
    "What each set of arguments of an op costs.",
    {
        "op": _OP,
        **SIGNATURE,
        "calls": Column.count("number of calls with GPU work"),
        "gpu_events": Column.count("number of their GPU events"),
        "gpu_time_us": Column.total("sum over calls of the time in which their GPU events run", "us", compared="main"),
        "min_us": Column("least time of a call", "us"),
        "median_us": Column("median time of a call", "us"),
        "max_us": Column("greatest time of a call", "us"),
        "percent": Column.share("share of the GPU time of all rows"),
        "gflops": Column("floating-point operations of a call", "GFLOP"),
        "moved_mb": Column("least traffic of a call to and from memory", "MiB"),
        "flops_per_byte": Column("operations per byte moved", "FLOP/B"),
        "compute_spec": Column.text("units that compute it, and in which precision"),
        "tflops_per_s": Column("mean over calls of the operations per second of GPU time", "TFLOP/s", Role.mean),
        "tb_per_s": Column("mean over calls of the bytes moved per second of GPU time", "TB/s", Role.mean),
        "roofline_us": Column("least time of a call at the device's rates", "us"),
        "bound": Column.text("COMPUTE_BOUND or MEMORY_BOUND; LINK_BOUND of a copy between host and device"),
        "percent_of_roof": Column("mean over calls of least time / GPU time", "%", Role.mean),
        "no_model": Column.text("why no performance model applies, where there is one"),
        "uid": Column.uid("the first of the calls"),
    },
)

MODULES_OF_SIGNATURE = TableSchema(
    "modules_of_signature",
    "Which modules an op with certain shapes works for.",
    {
        "op": _OP,
        "input_dims": SIGNATURE["input_dims"],
        "module": Column.key("innermost nn.Module around the work; absent for none"),
        "inside": Column.key("the nn.Module around that one"),
        "backward": Column("whether it is work of the backward pass", role=Role.flag),
        "gpu_events": GPU_EVENTS,
        "gpu_time_us": GPU_TIME,
        "percent": Column("share of the GPU time of the op with these sizes", "%"),
        "uid": Column.uid("the first call of the module"),
    },
)


def op_signatures(g: Core | Window, op: str | None = None) -> Table:
    """Cost, rates and share of the roofline for each set of arguments of an op, the greatest time first.

    Every GPU event counts for one op, as in `unified_perf_summary`: the outermost whose performance model covers it,
    else the one that launched it. The device is the one that the trace names; without it there is no roofline.

    Args:
        op: name of the op; * for all; None for the one with the most GPU time.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    chosen = unified(core)
    given = w.holds(core.gpu_rows) & (chosen.owner >= 0)
    gpu, owner = core.gpu_rows[given], chosen.owner[given]
    op = op or _longest_op(core, gpu, owner)
    mine = fitting_names(core, lambda name: op in (EVERY, name))[c.name[owner]]
    gpu = gpu[mine]
    rows, of = distinct(owner[mine])
    ns = union_length_by_group(of, c.start_ns[gpu], c.end_ns[gpu], len(rows))
    estimates = [_estimate(chosen.codes.get(row), chosen.costs, chosen.reasons) for row in rows.tolist()]
    arguments = argument_codes(core)[c.argset[rows]]
    group, first = group_by(
        c.name[rows], arguments, text_codes([(*_figures(cost), reason) for cost, reason in estimates])
    )
    each = Groups(group, ns, len(first))
    time = each.sum
    per_s = _mean(quotients(1e9, ns), group, len(first))
    costs, reasons = [estimates[i][0] for i in first.tolist()], [estimates[i][1] for i in first.tolist()]
    flops, moved = (np.array([_figures(cost)[i] for cost in costs], float) for i in (0, 1))
    arch = detect(core.info.metadata.get("deviceProperties"))
    roofs = [_roof(cost, arch) for cost in costs]
    least = np.array([np.nan if roof is None else roof.time_us for roof in roofs])
    uid = smallest(group, c.uid[rows], len(first))
    columns: dict[str, Cells] = {
        "op": names_of(core, rows[first]),
        **argument_texts(core, c.argset[rows[first]]),
        "calls": np.bincount(group, minlength=len(first)),
        "gpu_events": np.bincount(group[of], minlength=len(first)),
        "gpu_time_us": time / 1e3,
        "min_us": each.min / 1e3,
        "median_us": each.median / 1e3,
        "max_us": each.max / 1e3,
        "percent": percent(time, int(time.sum())),
        "gflops": flops / 1e9,
        "moved_mb": moved / 2**20,
        "flops_per_byte": quotients(flops, moved),
        "compute_spec": [(cost.compute_spec or None) if cost else None for cost in costs],
        "tflops_per_s": flops / 1e12 * per_s,
        "tb_per_s": moved / 1e12 * per_s,
        "roofline_us": least,
        "bound": [roof.bound if roof else None for roof in roofs],
        "percent_of_roof": 100 * least / 1e6 * per_s,
        "no_model": reasons,
        "uid": uid,
    }
    order = np.lexsort((uid, -time))
    title = w.titled(f"Signatures of {op}" if op not in (None, EVERY) else "Signatures")
    return OP_SIGNATURES.table(columns, title).take(order)


def modules_of_signature(g: Core | Window, op: str | None = None, input_dims: str | None = None) -> Table:
    """The modules with the GPU work of an op with given input sizes, the greatest time first.

    The work of an op is all that was launched below it. Work of a backward pass belongs to the module that called
    the forward op.

    Args:
        op: name of the op; None for the op and sizes that launched the most GPU time.
        input_dims: sizes of its inputs as JSON, such as `[[128,64],[64]]`; None for all.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    sizes = [argset[0] or None for argset in core.argsets] + [None]
    if op is None:
        op, input_dims = _largest(w, sizes, input_dims)
    gpu, row, key = _below(w, op, sizes, input_dims)
    ns = sum_by_group(key, c.dur_ns[gpu], int(key.max(initial=-1)) + 1)
    module, backward = modules_of(core, gpu)
    inside = np.where(module >= 0, nearest_above(c, module, (Kind.Module,)), -1)
    group, first = group_by(key, _name(core, module), _name(core, inside), backward)
    time, whole = sum_by_group(group, c.dur_ns[gpu], len(first)), ns[key[first]]
    uid = smallest(group, np.where(module >= 0, c.uid[module], -1), len(first))
    dims = argument_texts(core, c.argset[row[first]])["input_dims"]
    columns: dict[str, Cells] = {
        "op": names_of(core, row[first]),
        "input_dims": dims,
        "module": names_of(core, module[first]),
        "inside": names_of(core, inside[first]),
        "backward": backward[first].tolist(),
        "gpu_events": np.bincount(group, minlength=len(first)),
        "gpu_time_us": time / 1e3,
        "percent": percent(time, whole),
        "uid": [one if one >= 0 else None for one in uid.tolist()],
    }
    order = np.lexsort((uid, -time, key[first], -whole))
    title = w.titled(f"Modules of {op}" if op else "Modules of a signature")
    return MODULES_OF_SIGNATURE.table(columns, title).take(order)


def _largest(w: Window, sizes: Sequence[str | None], dims: str | None) -> tuple[str | None, str | None]:
    """Name and sizes of the ops that launched the most GPU time; `dims` narrows the choice."""
    core, c = w.core, w.core.columns
    gpu = w.gpu_rows[c.owner[w.gpu_rows] >= 0]
    gpu = gpu[_fits(sizes, dims)[c.argset[c.owner[gpu]]]]
    if not len(gpu):
        return None, dims
    owner = c.owner[gpu]
    group, first = group_by(c.name[owner], text_codes(sizes)[c.argset[owner]])
    row = owner[
        first[np.lexsort((smallest(group, owner, len(first)), -sum_by_group(group, c.dur_ns[gpu], len(first))))[0]]
    ]
    return core.names[c.name[row]], sizes[c.argset[row]]


def _below(
    w: Window, op: str | None, sizes: Sequence[str | None], dims: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """GPU events below calls of an op: row of each, of the outermost such call, and a code for its sizes.

    An event counts once for each of the sizes of the calls above it.
    """
    core, c = w.core, w.core.columns
    calls = rows_of_kind(c, (Kind.Op,))
    calls = calls[fitting_names(core, lambda name: name == op)[c.name[calls]] & _fits(sizes, dims)[c.argset[calls]]]
    # What lies within a call with the same sizes has no events that this one has not.
    calls = calls[outermost(text_codes(sizes)[c.argset[calls]], calls, c.last[calls])]
    low, high = np.searchsorted(w.gpu_rows, calls), np.searchsorted(w.gpu_rows, c.last[calls], "right")
    events, of = expanded(low, high)
    row, gpu = calls[of], w.gpu_rows[events]
    key, _ = group_by(text_codes(sizes)[c.argset[row]])
    _, once = group_by(key, gpu)
    return gpu[once], row[once], key[once]


def _fits(sizes: Sequence[str | None], dims: str | None) -> np.ndarray:
    """For each argument set whether it has these sizes; the last entry is that of no arguments."""
    return np.array([dims is None or (text or "").replace(" ", "") == dims.replace(" ", "") for text in sizes])


def _longest_op(core: Core, gpu: np.ndarray, owner: np.ndarray) -> str | None:
    """Name of the op with the most GPU time, None without any."""
    c = core.columns
    codes, of = distinct(c.name[owner])
    ns = sum_by_group(of, c.dur_ns[gpu], len(codes)).tolist()
    times = [(-time, core.names[code]) for time, code in zip(ns, codes.tolist(), strict=True)]
    return min(times)[1] if times else None


def _estimate(code: int | None, costs: list[Cost], reasons: list[str]) -> tuple[Cost | None, str | None]:
    """Estimate of a call, or why there is none; neither without a model."""
    if code is None:
        return None, None
    return (costs[code], None) if code >= 0 else (None, reasons[-1 - code])


def _figures(cost: Cost | None) -> tuple[float, float, float, str]:
    """What separates estimates: FLOPs, bytes, bytes over the link to the host, NaN where not known; the rate."""
    if cost is None:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN, ""
    moved, linked = (_UNKNOWN if size is None else float(size) for size in (cost.bytes, cost.link_bytes))
    return float(cost.flops), moved, linked, cost.compute_spec


_UNKNOWN = float("nan")
"""One object, so that tuples that hold it are equal."""


def _roof(cost: Cost | None, arch: Architecture | str) -> Roof | None:
    found = roofline(cost, arch) if cost and isinstance(arch, Architecture) else None
    return found if isinstance(found, Roof) else None


def _mean(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Mean by group of the values that are not NaN; NaN without any."""
    there = ~np.isnan(values)
    total = np.bincount(group[there], weights=values[there], minlength=groups)
    count = np.bincount(group[there], minlength=groups)
    return quotients(total, count)


def _name(core: Core, rows: np.ndarray) -> np.ndarray:
    """Codes of names of rows; -1 for -1."""
    return np.where(rows >= 0, core.columns.name[rows], -1)
