"""One table per family of operations: sizes, cost and rates of every call, nested ones too.

An op inside another modelled op is in its family's table as well, so these tables do not add up; the unified one does.
An op inside an op of its own name, as overloads call one another (`aten::abs` in `aten::abs`), is part of that call:
under one name a GPU event counts once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.ops.kernel_details import detail_columns
from tracelens_graph.analyses.ops.launchers import OpCalls
from tracelens_graph.analyses.ops.ops import ARGUMENTS, KERNEL_DETAILS, KERNEL_DETAILS_SHORT, OPS_UNIQUE_ARGS, PLACE
from tracelens_graph.analyses.performance.perf_rows import CostedCalls, stats, time_about, time_columns, work_columns
from tracelens_graph.analyses.performance.unified import Modelled, arguments_of, modelled
from tracelens_graph.analyses.shared.call_columns import argument_cells, by_time, place_columns
from tracelens_graph.analyses.shared.gpu_work import IS_RECOMPUTE
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, text_codes
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.arrays import distinct, distinct_pairs, expanded
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import outermost
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import model_named
from tracelens_graph.tables.column import FIVE, About, Column, Role, shown, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

RATES: About = {
    **statistics("TB/s_{}", "the bytes moved per second of GPU busy time", "TB/s", FIVE),
    **statistics("TFLOPS/s_{}", "the operations per second of GPU busy time", "TFLOP/s", FIVE),
}

ROOF_SHARES = shown(
    statistics("Pct Roofline_{}", "the time at the roof as share of the GPU busy time", "%", FIVE),
    Pct_Roofline_mean="% of roof",
)

COST: About = {
    "GFLOPS": Column("floating-point operations of a call; a multiply-add counts as two", "GFLOP", heading="GFLOP"),
    "Data Moved (MB)": Column("least traffic of a call to and from memory: each tensor once", "MiB", heading="MiB"),
    "FLOPS/Byte": Column("operations per byte moved", "FLOP/B"),
    "Compute Spec": Column.text("units that compute it, and in which precision"),
    "Roofline Time": Column("time at the roof: the larger of operations / rate and bytes / bandwidth", "us"),
    "Roofline Bound": Column.text(
        "COMPUTE_BOUND or MEMORY_BOUND; LINK_BOUND of a copy between host and device", "bound"
    ),
}

PERF_SHEET = TableSchema(
    "perf_sheet",
    "What calls of a family of operations should cost and what they reached.",
    {
        "name": Column.key("the operation", "op"),
        "num_kernels": replace(OPS_UNIQUE_ARGS["num_kernels"], heading=None),
        "is_recompute": IS_RECOMPUTE,
        **{f"{name}_first": COST[name] for name in ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte")},
        **RATES,
        "TB/s_mean": replace(RATES["TB/s_mean"], heading="TB/s"),
        "TFLOPS/s_mean": replace(RATES["TFLOPS/s_mean"], heading="TFLOP/s"),
        **{f"{name}_first": column for name, column in PLACE.items()},
        "Compute Spec": COST["Compute Spec"],
        "Roofline Time (µs)_first": COST["Roofline Time"],
        "Roofline Bound_first": COST["Roofline Bound"],
        **ROOF_SHARES,
        "kernel_details__summarize_kernel_stats": KERNEL_DETAILS,
        "trunc_kernel_details": KERNEL_DETAILS_SHORT,
        **{f"{name}_first": replace(column, heading=None, role=Role.value) for name, column in ARGUMENTS.items()},
        **shown(
            statistics("Kernel Time (µs)_{}", "GPU busy time of all GPU events below a call", "us", (*FIVE, "sum")),
            Kernel_Time___s__mean="mean us",
            Kernel_Time___s__sum="sum us",
        ),
        "name_count": Column.count("calls", "calls"),
        "UID_first": Column.instance("uid of the first call"),
        "param: ": Column("a size that operations and bytes follow from"),
    },
)


_FORWARD, _BACKWARD = "_fwd", "_bwd"
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class _Members:
    """Calls of one family: rows of ops, and which estimate each has."""

    rows: np.ndarray
    cost: np.ndarray
    costs: list[Cost]
    below: np.ndarray
    """Pairs (position in rows, row whose GPU events count): the op itself, or the backward ops of a forward op."""

    @property
    def is_backward(self) -> np.ndarray:
        """Per row whether the estimate is of the backward pass of the op."""
        found = np.zeros(len(self.rows), bool)
        at, row = self.below.T
        found[at[row != self.rows[at]]] = True
        return found


def perf_sheets(
    g: Core | Window,
    *,
    arch: Architecture | None = None,
    recompute: bool = False,
    by_kernel_count: bool = False,
    as_recorded: bool = False,
) -> dict[str, Table]:
    """Cost and rates by family of operations, such as `GEMM` or `CONV_bwd`; families without calls are left out.

    Args:
        g: the graph, or a window of it; GPU events outside of it do not count. Models, and what else predicts times,
            are those of its extension.
        arch: the device, for columns of the roofline.
        recompute: separate recomputation of activations from the rest.
        by_kernel_count: separate calls with different numbers of GPU events.
        as_recorded: kernel details with durations and streams as the file spells them.
    """
    w = window_of(g)
    extension = extension_of(w)
    tables = {}
    for sheet, found in sorted(_families(w.core, modelled(w), extension.all_models).items()):
        members = _not_in_themselves(w.core, found)
        calls, kept = _calls(w, members)
        if len(calls):
            costed = CostedCalls(calls, members.cost[kept], members.costs, arch)
            backward = members.is_backward[kept]
            tables[sheet] = _sheet(sheet, w, costed, recompute, by_kernel_count, backward, as_recorded)
    return tables


def _families(core: Core, found: Modelled, models: Mapping[str, OpModel]) -> dict[str, _Members]:
    """Calls by family; the backward passes of forward ops with a formula for them are families of their own."""
    c = core.columns
    sheets: dict[str, list[np.ndarray]] = {}
    moved = np.array([cost.sheet for cost in found.costs] + [""], object)[np.maximum(found.code, -1)]
    for code in distinct(c.name[found.rows])[0].tolist():
        model = found.models[code]
        if model is not None and model.sheet:
            at = np.flatnonzero((c.name[found.rows] == code) & found.applies)
            for sheet in dict.fromkeys(moved[at].tolist()):
                sheets.setdefault(sheet or model.sheet, []).append(at[moved[at] == sheet])
    families = {}
    for sheet, parts in sheets.items():
        at = np.sort(np.concatenate(parts))
        rows = found.rows[at]
        families[sheet] = _Members(rows, found.code[at], found.costs, np.stack((np.arange(len(rows)), rows), axis=1))
    for sheet in sheets:
        if sheet.endswith(_FORWARD):
            name = sheet.removesuffix(_FORWARD) + _BACKWARD
            own = families.get(name)
            backward = _backward_of(core, families[sheet].rows, models, own.rows if own else _NOTHING)
            if backward is not None:
                families[name] = _joined(own, backward)
    return families


def _backward_of(core: Core, rows: np.ndarray, models: Mapping[str, OpModel], own: np.ndarray) -> _Members | None:
    """Forward ops as calls of their backward pass, unless ops below that have a model of it (rows `own`, ascending)."""
    c = core.columns
    costs: list[Cost] = []
    known: dict[tuple[int, int], int] = {}
    picked: list[int] = []
    codes: list[int] = []
    below: list[tuple[int, int]] = []
    for row in rows.tolist():
        model = model_named(core.names[c.name[row]], models)
        formula = model.backward if model else None
        backward = autograd_of(core).backward_of(row) if formula else []
        if formula is None or not backward or _any_below(core, backward, own):
            continue
        key = (int(c.name[row]), int(c.argset[row]))
        if key not in known:
            try:
                costs.append(formula(arguments_of(core, row), CallContext()))
                known[key] = len(costs) - 1
            except CannotModel:
                known[key] = -1
        if known[key] >= 0:
            below += [(len(picked), op) for op in backward]
            picked.append(row)
            codes.append(known[key])
    if not picked:
        return None
    return _Members(np.array(picked), np.array(codes), costs, np.array(below, np.int64).reshape(-1, 2))


def _any_below(core: Core, tops: Sequence[int], rows: np.ndarray) -> bool:
    low, high = np.searchsorted(rows, tops), np.searchsorted(rows, core.columns.last[tops], "right")
    return bool((high > low).any())


def _joined(first: _Members | None, second: _Members) -> _Members:
    if first is None:
        return second
    return _Members(
        np.concatenate((first.rows, second.rows)),
        np.concatenate((first.cost, second.cost + len(first.costs))),
        [*first.costs, *second.costs],
        np.concatenate((first.below, second.below + np.array((len(first.rows), 0)))),
    )


def _not_in_themselves(core: Core, members: _Members) -> _Members:
    """Without calls inside a call of the same name."""
    c = core.columns
    kept = outermost(c.name[members.rows], members.rows, c.last[members.rows])
    if len(kept) == len(members.rows):
        return members
    place = np.full(len(members.rows), -1, np.int64)
    place[kept] = np.arange(len(kept))
    at, row = members.below.T
    inside = place[at] >= 0
    return _Members(
        members.rows[kept], members.cost[kept], members.costs, np.stack((place[at[inside]], row[inside]), axis=1)
    )


def _calls(w: Window, members: _Members) -> tuple[OpCalls, np.ndarray]:
    """The calls that have GPU events in the window, and their positions among the members."""
    c, gpu = w.core.columns, w.linked_gpu_rows
    low, high = np.searchsorted(gpu, members.below[:, 1]), np.searchsorted(gpu, c.last[members.below[:, 1]], "right")
    events, of = expanded(low, high)
    member, event = distinct_pairs(members.below[of, 0], gpu[events])
    kept, of = np.unique(member, return_inverse=True)
    in_file = np.argsort(c.uid[members.rows[kept]], kind="stable")
    return OpCalls.ordered(w, in_file, members.rows[kept], event, of), kept[in_file]


def _sheet(
    sheet: str,
    w: Window,
    found: CostedCalls,
    recompute: bool,
    by_kernel_count: bool,
    backward: Mask,
    as_recorded: bool,
) -> Table:
    calls, core, c, models = found.calls, w.core, w.core.columns, extension_of(w).time_models
    params = [json.dumps(cost.params, sort_keys=True, default=str) for cost in found.costs]
    keys = [c.name[calls.rows], text_codes(params)[found.cost] if params else found.cost]
    again = autograd_of(core).recompute[calls.rows] if recompute else None
    if again is not None:
        keys.append(again)
    if by_kernel_count:
        keys.append(calls.count)
    group, first = group_by(*keys)
    rows, costs = calls.rows[first], found.of_first(first)
    names = dict.fromkeys(name for cost in costs if cost for name in cost.params)
    columns: dict[str, Cells] = {"name": [core.names[i] for i in c.name[rows].tolist()]}
    for name in names:
        columns[f"param: {name}"] = [cost.params.get(name) if cost else None for cost in costs]
    if by_kernel_count:
        columns["num_kernels"] = calls.count[first]
    if again is not None:
        columns["is_recompute"] = again[first].tolist()
    columns |= work_columns(costs, "_first")
    for name, values in found.rates.items():
        columns |= stats(name, Groups(group, values, len(first)))
    columns |= place_columns(core, rows, "_first")
    columns["Compute Spec"] = [cost.compute_spec if cost else "" for cost in costs]
    if found.arch:
        roofs = found.roof_of_first(first)
        columns["Roofline Time (µs)_first"] = [roof.time_us if roof else None for roof in roofs]
        columns["Roofline Bound_first"] = [roof.bound if roof else None for roof in roofs]
        columns |= stats("Pct Roofline", Groups(group, found.percent_of_roof, len(first)))
    columns |= time_columns(found, group, first, models, backward)
    details, notes = detail_columns(
        calls, group, first, "kernel_details__summarize_kernel_stats", as_recorded=as_recorded
    )
    columns |= details
    columns |= argument_cells(core, c.argset[rows], "_first")
    columns |= stats("Kernel Time (µs)", Groups(group, calls.direct_ns, len(first)), (*FIVE, "sum"), 1e-3)
    columns["name_count"] = np.bincount(group, minlength=len(first))
    columns["UID_first"] = c.uid[rows]
    columns = by_time(columns, "Kernel Time (µs)_sum", c.uid[rows])
    title = w.titled(f"Cost and rates: {sheet}")
    return PERF_SHEET.table(columns, title, notes, more=dict(time_about(models)), name=sheet)
