"""How operations do: what bounds each, how far below its roof it is, and what keeps it there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.finding import percent_text
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.performance.perf_tables import (
    COMMUNICATION_LINE,
    attributed_calls,
    example_uids,
    rows_of_calls,
    unified_perf_summary,
)
from tracelens_graph.analyses.performance.roofline_points import Reached, positive, reached
from tracelens_graph.analyses.performance.roofline_summary import NO_MODEL, WINDOWED, Roofed, roofed
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.shared.grouping import Groups, group_by
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.thread_blocks import device_properties, grid_in_blocks, multiprocessors, sizes
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, detect, taken_for
from tracelens_graph.perf.occupancy import Occupancy, theoretical_occupancy
from tracelens_graph.perf.roofs import roofline, traffic_us
from tracelens_graph.perf.scalar_types import known
from tracelens_graph.perf.shortfalls import USUAL_TILE, Reason, Work, reasons
from tracelens_graph.tables.names import fitted, short_name
from tracelens_graph.utils.texts import cut_middle, quoted

_Made = TypeVar("_Made")
_TILE = re.compile(r"(?:MT|bt|tile(?:size)?_?)(\d{1,4})x(\d{1,4})")
"""Tiles in names of kernels that are no library's own spelling."""
_BOUNDS = {"COMPUTE_BOUND": "compute-bound", "MEMORY_BOUND": "memory-bound", "LINK_BOUND": "bound by the link"}
_ABOVE_ROOF = {
    "compute-bound": "its time, types or device cannot be right, unless its algorithm computes less",
    "memory-bound": "its time, sizes or device cannot be right, unless its data lies in a cache",
    "bound by the link": "its time, sizes or device cannot be right",
}
"""What bounds an operation -> what a share above 100 % means."""
_LONGEST_ID = 200
"""Characters of a name in an id."""
_SHAPES = 4
"""Inputs whose sizes are shown."""
_NAME_WIDTH = 60


def device_of(w: Window, arch: Architecture | None) -> tuple[Architecture | None, str]:
    """The device whose rates count, or why none is known."""
    found = arch or detect(w.core.info.metadata.get("deviceProperties"))
    return (None, found) if isinstance(found, str) else (found, "")


def device_notes(w: Window, arch: Architecture | None, without: str) -> list[str]:
    """Of the device whose rates count: what it was taken for, or what is not known without one, and why there is none.

    Args:
        without: what a table lacks without a device, in words.
    """
    _, missing = device_of(w, arch)
    taken = "" if arch else taken_for(w.core.info.metadata.get("deviceProperties"))
    return [f"{without}: {missing}"] if missing else [taken] if taken else []


@dataclass(frozen=True)
class JudgedOp:
    """Calls of an operation with equal arguments.

    Attributes:
        ops: all operations of the window.
        row: its record in `unified_perf_summary`.
    """

    ops: JudgedOps
    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the operation; of one that only launched a kernel that of the kernel behind it."""
        return str(self.row["name"])

    @property
    def us(self) -> float:
        """GPU time of all calls."""
        return float(self.row["Kernel Time (µs)_sum"])

    @property
    def calls(self) -> int:
        """Number of calls."""
        return int(self.row["operation_count"])

    @property
    def uid(self) -> int:
        """The first call."""
        return int(self.row["ex_UID"])

    @cached_property
    def rates(self) -> Reached:
        """What its calls reach."""
        return reached(self.row)

    @cached_property
    def cost(self) -> Cost | str:
        """What its model says of a call, or why there is none."""
        chosen = unified(self.ops.w)
        code = chosen.codes.get(self.ops.w.core.row(self.uid))
        if code is None:
            return NO_MODEL
        return chosen.costs[code] if code >= 0 else chosen.reasons[-1 - code]

    @cached_property
    def _moving_us(self) -> float | None:
        """The least time of a call that moves data and computes nothing."""
        device = self.ops.device
        return traffic_us(self.cost, device) if device and isinstance(self.cost, Cost) else None

    @cached_property
    def percent_of_roof(self) -> float | None:
        """Time at the roof as share of the time; None where it is not known."""
        if self.ops.device is None or not self.us:
            return None
        share = self.rates.percent_of_roof
        if share is None and self._moving_us:
            return 100 * self._moving_us * self.calls / self.us
        return share

    @property
    def mean_percent_of_roof(self) -> float:
        """The mean of the calls' shares, in which short calls count as much as long ones; NaN where it is not known."""
        mean = positive(self.row.get("Pct Roofline_mean")) or self.percent_of_roof
        return float("nan") if mean is None else float(mean)

    @property
    def won_ns(self) -> int | None:
        """Time above that at the roof, 0 at least; None where it is not known."""
        share = self.percent_of_roof
        return None if share is None else round(max(10 * self.us * (100 - share), 0.0))

    @property
    def bound(self) -> str:
        """What bounds it: `compute-bound`, `memory-bound`, `bound by the link`; empty where that is not known."""
        found = _BOUNDS.get(str(self.row.get("Roofline Bound")), "")
        return _BOUNDS["MEMORY_BOUND"] if not found and self.percent_of_roof is not None else found

    @cached_property
    def short_name(self) -> str:
        """Its name as far as there is room for it."""
        return quoted(fitted(self.name, _NAME_WIDTH))

    @cached_property
    def title(self) -> str:
        """Its name with sizes of its inputs and the precision, for people."""
        return " ".join(filter(None, (self.short_name, self.inputs)))

    @cached_property
    def inputs(self) -> str:
        """Sizes of its inputs, and the precision, for people; empty for none."""
        dims = [f"[{', '.join(map(str, one))}]" for one in self._dims if one]
        spec = str(self.row["Compute Spec"] or "").rpartition("_")[2]
        return " ".join([*dims[:_SHAPES], *(["..."] if len(dims) > _SHAPES else []), *([f"({spec})"] if spec else [])])

    @cached_property
    def signature(self) -> str:
        """The same for ids: `aten::mm[4096x4096,4096x11008,bf16]`."""
        name, _, kernel = self.name.removesuffix(" (Synthetic Op)").partition("->")
        dims = ["x".join(map(str, one)) for one in self._dims if one]
        types = [precision for one in self._types if (precision := known(one).precision)]
        named = [*dims[:_SHAPES], *([f"+{len(dims) - _SHAPES}"] if len(dims) > _SHAPES else []), *types[:1]]
        return "->".join(filter(None, (cut_middle(name, _LONGEST_ID), short_name(kernel)))) + (
            f"[{','.join(named)}]" if named else ""
        )

    def roof_text(self, of_all: float | None = None) -> str:
        """What bounds it and how far below its roof it is, or why that is not known.

        Args:
            of_all: the share of the roof of several such operations together, to be shown instead of its own.
        """
        share, device, mean = self.percent_of_roof, self.ops.device, self.row.get("Pct Roofline_mean")
        if share is None or device is None:
            return f"how far below its roof is not known: {self._why}"
        if of_all is not None:
            return f"{self.bound}, {percent_text(of_all)} % of the roof of {device.name}"
        text = f"{self.bound}, {percent_text(share)} % of the roof of {device.name}{self._rate(device)}"
        if share > 100:
            text += f", more than it can be: {_ABOVE_ROOF[self.bound]}"
        if mean is not None and abs(mean - share) >= limits.APART_POINTS:
            text += f", {percent_text(mean)} % as the mean of the calls"
        if self.work.attention and max(share, mean or 0) > 100:
            text += f"; calls may see only a part of the keys, {WINDOWED}"
        return text

    def _rate(self, device: Architecture) -> str:
        """` (375 of 708 TFLOP/s)`: what was reached of the rate that bounds."""
        bandwidth = device.value("memory_bandwidth_gbps")
        unit = "TOP/s" if "int" in str(self.row["Compute Spec"]) else "TFLOP/s"
        if self.bound == "compute-bound" and self.rates.tflops_s and (rate := device.rate(self.row["Compute Spec"])):
            return f" ({self.rates.tflops_s:,.3g} of {rate.tflops:,.4g} {unit})"
        if self.bound == "memory-bound" and self.rates.tb_s and bandwidth:
            return f" ({self.rates.tb_s:,.3g} of {bandwidth / 1e3:,.3g} TB/s)"
        return ""

    @property
    def _why(self) -> str:
        """Why no share of the roof is known."""
        if isinstance(self.cost, str):
            return self.cost
        if self.ops.device is None:
            return f"{self.ops.missing} (ask -p arch=NAME, report --arch NAME; `model architectures` lists names)"
        found = roofline(self.cost, self.ops.device)
        return found if isinstance(found, str) else "it has no time"

    @cached_property
    def reasons(self) -> list[Reason]:
        """What its sizes, its launch and its kernel's name show that keeps it below its roof; none near the roof."""
        share = self.percent_of_roof
        if share is not None and share >= limits.NEAR_ROOF_PERCENT:
            return []
        return list(reasons(self.work))[: limits.REASONS]

    @property
    def reasons_text(self) -> str:
        """The reasons in words, or that there are none; empty near the roof."""
        share = self.percent_of_roof
        if self.reasons:
            intro = "held back" if share else "what sizes and launches show"
            return f"{intro}: {'; '.join(one.text for one in self.reasons)}"
        if share is not None and share < limits.NEAR_ROOF_PERCENT:
            return "its sizes show no reason: tiles, occupancy and access of the kernel are left, which counters show"
        return ""

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels of its calls, the one with most time over all of them first."""
        core = self.ops.w.core
        return [core.names[core.columns.name[event]] for event in self.ops.ran.get(self.uid, ())]

    @cached_property
    def work(self) -> Work:
        """Its sizes, and how the kernel with most of its time was launched."""
        moved, launch = self.row["Data Moved (MB)"], self.ops.launches.get(self.uid, _Launch())
        return Work(
            self.name, str(self.row["op category"] or ""), self._dims, self._types,
            _sizes_of(self.row["Input Strides"]), self.row["perf_params"] or {},
            next((tile for name in self.kernels if (tile := _tile(name))), USUAL_TILE),
            self.us / self.calls, moved * 2**20 if moved else None, self.ops.units, launch.blocks,
            launch.kernel, launch.made_for, launch.occupancy, self.ops.capability, self.bound == "memory-bound",
        )  # fmt: skip

    @cached_property
    def _dims(self) -> list[Sequence[int]]:
        return _sizes_of(self.row["Input Dims"])

    @property
    def _types(self) -> list[str]:
        return [str(one) for one in self.row["Input type"] or ()]


@dataclass(frozen=True)
class _Launch:
    """How the kernel with most time in some calls was launched; None for what is not known.

    Attributes:
        kernel: its name.
        blocks: number of thread blocks that the calls are launched with for half of their time, at most.
        occupancy: what of it can be resident on a multiprocessor.
    """

    kernel: str = ""
    blocks: int | None = None
    occupancy: Occupancy | None = None

    @property
    def made_for(self) -> str:
        """The architecture that the kernel was written for, by its name."""
        parsed = parse_name(self.kernel)
        return (parsed and parsed.arch) or ""


class JudgedOps:
    """The operations of a window, the most expensive first, without communication and GPU work without a launch.

    Attributes:
        w: the window.
        device: whose rates count; None where it is not known.
        missing: why it is not.
    """

    def __init__(self, w: Window, arch: Architecture | None) -> None:
        self.w = w
        self.device, self.missing = device_of(w, arch)
        records = unified_perf_summary(w, arch=self.device).records()
        left_out = (COMMUNICATION_LINE, NO_LAUNCH)
        self._ops = [JudgedOp(self, row) for row in records if row["name"] not in left_out]

    def __iter__(self) -> Iterator[JudgedOp]:
        return iter(self._ops)

    def expensive(self, least_percent: float = limits.MUCH_PERCENT) -> Iterator[JudgedOp]:
        """Those with so much of the GPU time, at least."""
        return (one for one in self._ops if one.row["Percentage (%)"] >= least_percent)

    @cached_property
    def units(self) -> int | None:
        """Multiprocessors or compute units: the device's, the trace's, or those of a device that has the name."""
        if self.device and (units := self.device.value("compute_units")):
            return int(units)
        if recorded := multiprocessors(self.w.core):
            return next(iter(recorded.values()))
        named = detect([{"name": self.device.name}]) if self.device else ""
        units = None if isinstance(named, str) else named.value("compute_units")
        return int(units) if units else None

    @cached_property
    def _properties(self) -> Mapping[str, Any]:
        return next(iter(device_properties(self.w.core).values()), {})

    @cached_property
    def capability(self) -> str:
        """Architecture of the device as kernels' names have it, `sm90` or `gfx94`; empty where not recorded."""
        major, minor = (self._properties.get(f"compute{one}") for one in ("Major", "Minor"))
        if type(major) is not int or type(minor) is not int:
            return ""
        return f"gfx{major}{minor}" if self._properties.get("warpSize") == _WAVE else f"sm{major}{minor}"

    @cached_property
    def ran(self) -> Mapping[int, list[int]]:
        """uid of the first call -> row of a GPU event of each kernel, that of the kernel with most time first."""
        c, (uids, gpu) = self.w.core.columns, self._events
        kernel, at = group_by(uids, c.name[gpu])
        at = at[np.argsort(-Groups(kernel, c.dur_ns[gpu], len(at)).sum, kind="stable")]
        found: dict[int, list[int]] = defaultdict(list)
        for uid, event in zip(uids[at].tolist(), gpu[at].tolist(), strict=True):
            found[uid].append(event)
        return found

    @cached_property
    def _events(self) -> tuple[np.ndarray, np.ndarray]:
        """For each GPU event the uid of the first call of its operation, and its row."""
        calls, alone = attributed_calls(self.w)
        row, first = rows_of_calls(calls, alone, False)
        return example_uids(calls, alone, first)[row[calls.of]], calls.gpu

    @cached_property
    def launches(self) -> Mapping[int, _Launch]:
        """uid of the first call -> how its leading kernel was launched, of operations with much of the time."""
        core, c = self.w.core, self.w.core.columns
        leading = {op.uid: self.ran[op.uid][0] for op in self.expensive() if op.uid in self.ran}
        typical = dict(zip(leading, self._typical(list(leading)), strict=True))
        rows = np.unique([*leading.values(), *(row for some in typical.values() for row in some)]).astype(np.int64)
        try:
            events = core.details.events(c.uid[rows].tolist())
        except TraceError:  # the file is gone
            events = {}
        counted = {row: prod(self._grid(row, events.get(int(c.uid[row]), {})) or [0]) for row in rows.tolist()}
        return {
            uid: self._launch(row, events.get(int(c.uid[row]), {}), [counted[one] for one in typical[uid]])
            for uid, row in leading.items()
        }

    def _typical(self, uids: list[int]) -> Iterator[list[int]]:
        """GPU events of each operation, one at each of some equal parts of its time, from short events to long ones.

        Calls of one operation whose sizes are not recorded may differ in everything.
        """
        of, gpu = self._events
        order = np.lexsort((self.w.core.columns.dur_ns[gpu], of))
        until, of = np.cumsum(self.w.core.columns.dur_ns[gpu[order]]), of[order]
        for uid in uids:
            start, end = np.searchsorted(of, (uid, uid + 1))
            before = until[start - 1] if start else 0
            parts = before + (until[end - 1] - before) * (2 * np.arange(_TYPICAL) + 1) // (2 * _TYPICAL)
            yield gpu[order[np.searchsorted(until[start:end], parts) + start]].tolist()

    def _grid(self, row: int, event: Mapping[str, Any]) -> list[int] | None:
        core, parent = self.w.core, int(self.w.core.columns.parent[row])
        args = event.get("args")
        launch = core.names[core.columns.name[parent]] if parent >= 0 else ""
        return grid_in_blocks(args, launch) if isinstance(args, dict) else None

    def _launch(self, row: int, event: Mapping[str, Any], blocks: list[int]) -> _Launch:
        """How a kernel was launched; the thread blocks are those of the middle one of some, where most are known."""
        core, c = self.w.core, self.w.core.columns
        found = event.get("args")
        args: Mapping[str, Any] = found if isinstance(found, dict) else {}
        grid = self._grid(row, event)
        block = sizes(args.get("block"))
        fits = theoretical_occupancy(
            self._properties,
            prod(block) if block else None,
            args.get("registers per thread"),
            args.get("shared memory"),
            prod(grid) if grid else None,
        )
        middle = sorted(min(count, 2**62) or 2**62 for count in blocks)[len(blocks) // 2]
        known_blocks = None if middle == 2**62 else middle
        return _Launch(core.names[c.name[row]], known_blocks, None if isinstance(fits, str) else fits)


_TYPICAL = 9
"""Launches by which an operation is judged."""
_WAVE = 64
"""Threads that AMD's devices for data centres run together."""


def judged_ops(w: Window, arch: Architecture | None) -> JudgedOps:
    """The operations of a window; computed once per device."""
    return _once(w, JudgedOps, device_of(w, arch)[0])


def roofed_by(w: Window, device: Architecture) -> Roofed:
    """The GPU events of a window under the roofline of a device; computed once."""
    return _once(w, roofed, device)


def _once(w: Window, make: Callable[[Window, Any], _Made], device: Architecture | None) -> _Made:
    """`make(w, device)`, computed once; a device is no key of what a window keeps."""
    kept: list[tuple[Architecture | None, _Made]] = w.once(_nothing, make)
    for known_device, found in kept:
        if known_device is device:
            return found
    kept.append((device, make(w, device)))
    return kept[-1][1]


def _nothing(w: Window, make: Callable[..., Any]) -> list[Any]:
    return []


def _sizes_of(cells: Any) -> list[Sequence[int]]:
    """Sizes or strides of inputs; of an input without any, or with damaged ones, none."""
    found = (one if isinstance(one, list | tuple) else () for one in cells or ())
    return [one if all(isinstance(size, int) for size in one) else () for one in found]


def _tile(name: str) -> tuple[int, int] | None:
    parsed = parse_name(name)
    if parsed and parsed.tile and len(parsed.tile) > 1:
        return parsed.tile[0], parsed.tile[1]
    found = _TILE.search(name)
    return (int(found[1]), int(found[2])) if found else None
