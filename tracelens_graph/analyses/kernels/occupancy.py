"""How well kernels fill a device: blocks per multiprocessor, occupancy, tensor cores.

Figures are those of PyTorch's profiler plugin for TensorBoard. The efficiency of a kernel is the share of the
multiprocessors that its grid gives a block at least: `min(blocks / multiprocessors, 1)`. Its occupancy is what the
profiler estimated. Both are weighted by duration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import GPU_TIME, fitting_names, percent
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by
from tracelens_graph.analyses.timeline.step_breakdown import step_bounds
from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.graph.arrays import quotients
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import length_before, merge, sum_by_group
from tracelens_graph.graph.thread_blocks import device_properties, multiprocessors, thread_blocks
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask, Rows

_BLOCKS = Column("blocks of the grid by multiprocessors of the device, mean weighted by duration")
_OCCUPANCY = Column("occupancy as the profiler estimated it, mean weighted by duration; absent where not recorded", "%")

KERNEL_OCCUPANCY = TableSchema(
    "kernel_occupancy",
    "How well each kernel fills the device: blocks per multiprocessor, occupancy, tensor cores.",
    {
        "name": Column.key("name of the kernel"),
        "tensor_cores": Column("whether its name says that it uses tensor cores or matrix cores", role=Role.flag),
        "kernels": Column.count("kernels"),
        "gpu_time_us": GPU_TIME,
        "mean_us": Column("mean of the durations", "us", Role.mean),
        "max_us": Column("longest", "us", drop_priority=5),
        "min_us": Column("shortest", "us", drop_priority=5),
        "blocks_per_sm": _BLOCKS,
        "sm_efficiency_percent": Column(
            "share of the multiprocessors that get at least one block, mean weighted by duration", "%"
        ),
        "occupancy_percent": _OCCUPANCY,
        "percent": Column.share("share of the sum over all kernels"),
        "uid": Column.uid("the longest"),
    },
    counts="kernel",
)

DEVICE_USE = TableSchema(
    "device_use",
    "How well each device is used: the share of time with a kernel, multiprocessors, occupancy, tensor cores.",
    {
        "device": Column.key("number of the device"),
        "name": Column.text("what it is called"),
        "multiprocessors": Column("how many it has"),
        "time_ms": Column(
            "time of all steps, see `step_breakdown`; without steps from the first kernel to the end of the last", "ms"
        ),
        "kernel_ms": Column("part of it in which a kernel runs, one of communication, too", "ms"),
        "utilization_percent": Column("kernel_ms as share of time_ms", "%"),
        "sm_efficiency_percent": Column(
            "mean share of the multiprocessors with at least one block, over time_ms; of kernels that overlap, the "
            "time of each counts",
            "%",
        ),
        "occupancy_percent": _OCCUPANCY,
        "tensor_core_percent": Column("share of the kernels' time in those that use tensor cores by their names", "%"),
    },
)

_TENSOR_CORES = re.compile(
    r"[hs]884|[hs]1688|c1688|i8816|i?16816|161616|hmma|imma_|w?gmma|nvjet|tensorop|MmaTensorOp|wmma|dgrad_1x1_stride_2x2"
    r"|first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1|direct_group|xmma_(?!\w*ffma)|_MI\d+x\d+|mfma|xdl(?:ops)?_"
    r"|igemm_\w{1,12}_gtcx|(?:b|ge)mm_(?:Mx)?(?:E\dm\d|Bfloat16|Fp16)_|matmul_ogs|gemm_fusion_dot|fused_moe_kernel"
    r"|flash_(?:fwd|bwd)|fmha_cutlass\w_\w{1,8}_\w{0,20}sm[78]|fmhaSm\d|fmha_(?:fwd|bwd)_hd\d"
    r"|Fmha(?:Fwd(?:SplitKV|PagedKV)?|BwdDQDKDV)Kernel|(?:^|_)attn_(?:fwd|bwd)(?:\.kd)?$|bwd_kernel_(?:dk_dv|dq|fuse)"
    r"|kernel_unified_attention",
    re.ASCII,
)
"""Names of kernels that use tensor cores or matrix cores: the instruction's shape or name, or families built on them.

Sources: the list of PyTorch's profiler plugin, the names of CUTLASS and cuBLAS (`tensorop`, `nvjet`), of TensorRT-LLM
(`bmm_E4m3_`, `fmhaSm100`), of Tensile (`MI`, the matrix instruction), Composable Kernel (`xdl`, `FmhaFwdKernel`),
aiter (`fmha_fwd_hd128`) and MIOpen (`gtcx`, its xdlops kernels), and of what is written in Triton with its `dot`.
"""


_AT_ONCE = 20_000
"""Kernels whose arguments are held at a time."""


@dataclass(frozen=True)
class _Shapes:
    """How kernels were launched; NaN for what was not recorded.

    Attributes:
        rows: rows of the kernels of a window.
        blocks_per_sm: blocks of each by multiprocessors.
        occupancy: estimated occupancy of each, percent.
        tensor_cores: whether each uses them, by its name.
        sized: whether the multiprocessors of its device are recorded.
    """

    rows: Rows
    blocks_per_sm: np.ndarray
    occupancy: np.ndarray
    tensor_cores: Mask
    sized: Mask

    def mean(self, values: np.ndarray, core: Core, group: np.ndarray, groups: int) -> np.ndarray:
        """Mean of values by group, weighted by duration; NaN where none is known, or all durations are 0."""
        known = np.flatnonzero(~np.isnan(values))
        weight = core.columns.dur_ns[self.rows[known]]
        total = np.bincount(group[known], weights=values[known] * weight, minlength=groups)
        whole = np.bincount(group[known], weights=weight, minlength=groups)
        return quotients(total, whole)


def kernel_occupancy(g: Core | Window) -> Table:
    """Kernels by name, and how well they fill the device; the greatest time first."""
    w = window_of(g)
    core, c = w.core, w.core.columns
    shapes = w.once(_shapes)
    rows = shapes.rows
    longest_first = np.lexsort((c.uid[rows], -c.dur_ns[rows]))
    group, first = group_by(c.name[rows[longest_first]])
    group = group[np.argsort(longest_first)]
    times = Groups(group, c.dur_ns[rows], len(first))
    stands = rows[longest_first[first]]
    filled = np.minimum(shapes.blocks_per_sm, 1)
    columns: dict[str, Cells] = {
        "name": [core.names[code] for code in c.name[stands].tolist()],
        "tensor_cores": shapes.tensor_cores[longest_first[first]].tolist(),
        "kernels": times.count,
        "gpu_time_us": times.sum / 1e3,
        "mean_us": times.mean / 1e3,
        "max_us": times.max / 1e3,
        "min_us": times.min / 1e3,
        "blocks_per_sm": shapes.mean(shapes.blocks_per_sm, core, group, len(first)),
        "sm_efficiency_percent": 100 * shapes.mean(filled, core, group, len(first)),
        "occupancy_percent": shapes.mean(shapes.occupancy, core, group, len(first)),
        "percent": percent(times.sum, int(times.sum.sum())),
        "uid": c.uid[stands],
    }
    table = KERNEL_OCCUPANCY.table(
        columns,
        w.titled("Kernels and how they fill the device"),
        _notes(shapes, {"are left out of blocks and SM efficiency": np.ones(len(rows), bool)}),
    )
    return table.take(np.lexsort((c.uid[stands], -times.sum)))


def device_use(g: Core | Window) -> Table:
    """How well each device is used, over the time of the steps."""
    w = window_of(g)
    core, c = w.core, w.core.columns
    shapes = w.once(_shapes)
    rows = shapes.rows
    devices, of = np.unique(c.device[rows], return_inverse=True)
    _, begin, end = step_bounds(w)
    start, stop, groups = c.start_ns[rows], c.end_ns[rows], len(devices)
    steps = merge(begin, end)
    if not len(steps[0]) and len(rows):
        steps = np.array([start.min()]), np.array([stop.max()])
    # Each device gets a stretch of time of its own, so that one union serves all.
    low = int(start.min(initial=0))
    stretch = int(stop.max(initial=0)) - low + 1
    union = merge(start - low + of * stretch, stop - low + of * stretch)
    device = union[0] // stretch
    first, last = (ends - device * stretch + low for ends in union)
    busy = sum_by_group(device, length_before(steps, last) - length_before(steps, first), groups)
    time = np.full(groups, int((steps[1] - steps[0]).sum()))
    duration = c.dur_ns[rows]
    inside = length_before(steps, stop) - length_before(steps, start)
    filled = np.nan_to_num(np.minimum(shapes.blocks_per_sm, 1)) * inside
    known = np.bincount(of, ~np.isnan(shapes.blocks_per_sm), minlength=len(devices)) > 0
    efficiency = percent(np.bincount(of, filled, minlength=len(devices)), time)
    properties, count = device_properties(core), multiprocessors(core)
    columns: dict[str, Cells] = {
        "device": devices,
        "name": [properties.get(device, {}).get("name") for device in devices.tolist()],
        "multiprocessors": [count.get(device) for device in devices.tolist()],
        "time_ms": time / 1e6,
        "kernel_ms": busy / 1e6,
        "utilization_percent": percent(busy, time),
        "sm_efficiency_percent": np.where(known, efficiency, np.nan),
        "occupancy_percent": shapes.mean(shapes.occupancy, core, of, len(devices)),
        "tensor_core_percent": percent(
            sum_by_group(of, duration * shapes.tensor_cores, len(devices)), sum_by_group(of, duration, len(devices))
        ),
    }
    notes = _notes(shapes, {"count as 0 in SM efficiency": known[of], "have no SM efficiency": ~known[of]})
    return DEVICE_USE.table(columns, w.titled("How devices are used"), notes)


def _shapes(w: Window) -> _Shapes:
    core, c = w.core, w.core.columns
    rows = w.rows_of_kind(Kind.Kernel)
    count = multiprocessors(core)
    blocks, occupancy = np.full((2, len(rows)), np.nan)
    uids = c.uid[rows]
    order, events = np.argsort(uids), core.details.each(uids.tolist())
    with suppress(TraceLensGraphError):  # there is no file any more to look into
        while some := dict(islice(events, _AT_ONCE)):
            here = order[np.searchsorted(uids, list(some), sorter=order)]
            grids = thread_blocks(core, rows[here], some) / np.array(
                [count.get(device, np.nan) for device in c.device[rows[here]].tolist()]
            )
            for place, event in zip(here.tolist(), some.values(), strict=True):
                args = event.get("args")
                if isinstance(args, dict):
                    blocks[place] = _number(args.get("blocks per SM"))
                    occupancy[place] = _number(args.get("est. achieved occupancy %"))
            blocks[here] = np.where(np.isnan(blocks[here]) & (grids > 0), grids, blocks[here])
    sized = np.isin(c.device[rows], list(count))
    return _Shapes(rows, blocks, occupancy, fitting_names(core, _TENSOR_CORES.search)[c.name[rows]], sized)


def _number(value: Any) -> float:
    """A number that is not negative; NaN for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
    return float(value) if is_number else np.nan


def _notes(shapes: _Shapes, effects: Mapping[str, Mask]) -> list[str]:
    """How many kernels lack blocks per multiprocessor and why, and what that means for each."""
    lacking = np.isnan(shapes.blocks_per_sm)
    reasons = {"without a recorded grid": shapes.sized, "on a device of unknown size": ~shapes.sized}
    return [
        f"{count:,} of {len(lacking):,} kernels, {why}, {effect}"
        for why, for_that in reasons.items()
        for effect, on in effects.items()
        if (count := int(np.count_nonzero(lacking & for_that & on)))
    ]
