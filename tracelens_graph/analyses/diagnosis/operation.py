"""How a single operation does: its time, what bounds it, how far below its roof it is, and what holds it back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.finding import Finding, brief, shown_ms
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.performance.perf_tables import COMMUNICATION_LINE, unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import Reached, reached
from tracelens_graph.analyses.performance.roofline_summary import NO_MODEL
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.thread_blocks import multiprocessors, thread_blocks
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.perf.roofs import roofline, traffic_us
from tracelens_graph.perf.shortfalls import USUAL_TILE, Work, reasons

_TILE = re.compile(r"(?:MT|bt|tile(?:size)?_?)(\d{1,4})x(\d{1,4})")
"""Tiles in names of kernels that are no library's own spelling."""
_BOUNDS = {"COMPUTE_BOUND": "compute-bound", "MEMORY_BOUND": "memory-bound", "LINK_BOUND": "bound by the link"}
_ABOVE_ROOF = {
    "compute-bound": "its time, types or device cannot be right, unless its algorithm computes less",
    "memory-bound": "its time, sizes or device cannot be right, unless its data lies in a cache",
    "bound by the link": "its time, sizes or device cannot be right",
}
"""What bounds an operation -> what a share above 100 % means."""


def leading_operation(w: Window) -> bool:
    """Whether one operation computes for nearly all GPU time: a trace of that operation."""
    c = w.core.columns
    owned = w.gpu_rows[(c.owner[w.gpu_rows] >= 0) & (gpu_classes(w.core, w.gpu_rows) == COMPUTATION)]
    time = sum_by_group(c.name[c.owner[owned]], c.dur_ns[owned], len(w.core.names))
    whole = int(c.dur_ns[w.gpu_rows].sum())
    return whole > 0 and int(time.max(initial=0)) >= limits.ONE_OPERATION_PERCENT / 100 * whole


def operations(w: Window, arch: Architecture | None) -> Iterator[Finding]:
    """A finding for each operation with much of the GPU time, the most first.

    Args:
        w: the window.
        arch: the device; None for the one that the trace describes.
    """
    device, missing = device_of(w, arch)
    rows = [row for row in unified_perf_summary(w, arch=device).records() if row["name"] not in _NO_OPERATIONS]
    for row in rows[: limits.OPERATIONS]:
        if row["Percentage (%)"] >= limits.WORTH_REPORTING_PERCENT:
            yield _operation(w, row, device, missing)


_NO_OPERATIONS = (COMMUNICATION_LINE, NO_LAUNCH)


def device_of(w: Window, arch: Architecture | None) -> tuple[Architecture | None, str]:
    """The device whose rates count, or why none is known."""
    found = arch or detect(w.core.info.metadata.get("deviceProperties"))
    return (None, found) if isinstance(found, str) else (found, "")


def products_below_roof(w: Window, arch: Architecture | None) -> float | None:
    """Time at the roof of all products as share of their time, %; None where it is not far below, or not known."""
    device, _ = device_of(w, arch)
    if device is None:
        return None
    rows = [row for row in unified_perf_summary(w, arch=device).records() if row["op category"] == "GEMM"]
    known = [(row["Kernel Time (µs)_sum"], share) for row in rows if (share := reached(row).percent_of_roof)]
    time = sum(us for us, _ in known)
    percent = sum(us * share for us, share in known) / time if time else 100.0
    return percent if percent < limits.FAR_BELOW_ROOF_PERCENT else None


def _operation(w: Window, row: Mapping[str, Any], device: Architecture | None, missing: str) -> Finding:
    us, calls, uid = float(row["Kernel Time (µs)_sum"]), int(row["operation_count"]), int(row["ex_UID"])
    rates, bound = reached(row), _BOUNDS.get(str(row.get("Roofline Bound")), "")
    evidence: dict[str, Any] = {
        "ms": us / 1e3, "percent": row["Percentage (%)"], "percent_of": "gpu_time", "calls": calls, "uid": uid,
        "op": row["name"], "bound": bound, "device": device.name if device else "",
    }  # fmt: skip
    named = {"flops_per_byte": row["FLOPS/Byte"], "tflops_s": rates.tflops_s, "tb_s": rates.tb_s}
    evidence |= {name: value for name, value in named.items() if value is not None}
    text = (
        f"{' '.join((brief(row['name']), *_shapes(row)))}: {shown_ms(us * 1e3)} in {calls:,} call{'s'[: calls > 1]}, "
    )
    text += f"{row['Percentage (%)']:.1f} % of the GPU time; "
    share, mean = rates.percent_of_roof, row.get("Pct Roofline_mean")
    if share is None and device and (moving := _moving_us(w, row, device)) and us:
        share, bound = 100 * moving * calls / us, _BOUNDS["MEMORY_BOUND"]
        evidence["bound"] = bound
    if share is None or device is None:
        text += f"how far below its roof is not known: {_why(w, row, device, missing)}"
    else:
        evidence["percent_of_roof"] = share
        text += f"{bound}, {_digits(share)} % of the roof of {device.name}{_rate(row, bound, rates, device)}"
        if share > 100:
            text += f", more than it can be: {_ABOVE_ROOF[bound]}"
        if mean is not None and abs(mean - share) >= _APART:
            evidence["mean_percent_of_roof"] = mean
            text += f", {_digits(mean)} % in the mean of the calls"
    advice: tuple[str, ...] = ()
    if share is None or share < limits.NEAR_ROOF_PERCENT:
        found = list(reasons(_work(w, row, device)))[: limits.REASONS]
        evidence["held_back_by"] = ", ".join(one.name for one in found)
        advice = tuple(dict.fromkeys(one.advice for one in found if one.advice))
        if found:
            text += (
                f"; {'held back' if share else 'what sizes and launches show'}: {'; '.join(one.text for one in found)}"
            )
        elif share is not None:
            text += (
                "; its sizes show no reason: tiles, occupancy and access of the kernel are left, which counters show"
            )
    ask = f"tracelens-graph tree TRACE --uid {uid} --up"
    return Finding("operation", f"{text} [uid {uid}]", evidence, advice=advice, ask_next=ask)


def _digits(share: float) -> str:
    return f"{share:.1f}" if share >= 1 else f"{share:.2g}"


_APART = 1.0
"""Points by which a ratio of totals and a mean of ratios differ where both are shown."""


def _shapes(row: Mapping[str, Any]) -> list[str]:
    """`[4097, 4097] [4097, 4097]` and `(bf16)`, as far as they are recorded."""
    dims = [f"[{', '.join(map(str, one))}]" for one in row["Input Dims"] or () if isinstance(one, list | tuple) and one]
    spec = str(row["Compute Spec"] or "").rpartition("_")[2]
    return [*dims[:_SHAPES], *(["..."] if len(dims) > _SHAPES else []), *([f"({spec})"] if spec else [])]


_SHAPES = 4
"""Inputs whose sizes are shown."""


def _rate(row: Mapping[str, Any], bound: str, rates: Reached, device: Architecture) -> str:
    """` (375 of 708 TFLOP/s)`: what was reached of the rate that bounds."""
    is_compute, is_memory = (bound == _BOUNDS[one] for one in ("COMPUTE_BOUND", "MEMORY_BOUND"))
    if is_compute and rates.tflops_s and (rate := device.rate(row["Compute Spec"])):
        return f" ({rates.tflops_s:,.3g} of {rate.tflops:,.4g} TFLOP/s)"
    bandwidth = device.value("memory_bandwidth_gbps")
    if is_memory and rates.tb_s and bandwidth:
        return f" ({rates.tb_s:,.3g} of {bandwidth / 1e3:,.3g} TB/s)"
    return ""


def _moving_us(w: Window, row: Mapping[str, Any], device: Architecture) -> float | None:
    """The least time of a call that moves data and computes nothing."""
    chosen = unified(w)
    code = chosen.codes.get(w.core.row(int(row["ex_UID"])), -1)
    return traffic_us(chosen.costs[code], device) if code >= 0 else None


def _why(w: Window, row: Mapping[str, Any], device: Architecture | None, missing: str) -> str:
    """Why no share of the roof is known."""
    chosen = unified(w)
    code = chosen.codes.get(w.core.row(int(row["ex_UID"])))
    if code is None:
        return NO_MODEL
    if code < 0:
        return chosen.reasons[-1 - code]
    if device is None:
        return f"{missing} (--arch)"
    found = roofline(chosen.costs[code], device)
    return found if isinstance(found, str) else "it has no time"


def _work(w: Window, row: Mapping[str, Any], device: Architecture | None) -> Work:
    calls, moved = int(row["operation_count"]), row["Data Moved (MB)"]
    kernels = [str(one["name"]) for one in row["kernel_details_summary"] or ()]
    return Work(
        str(row["name"]), str(row["op category"] or ""),
        [one if isinstance(one, list | tuple) and _are_sizes(one) else () for one in row["Input Dims"] or ()],
        [str(one) for one in row["Input type"] or ()],
        [one if isinstance(one, list | tuple) and _are_sizes(one) else () for one in row["Input Strides"] or ()],
        row["perf_params"] or {},
        next((tile for name in kernels if (tile := _tile(name))), USUAL_TILE),
        row["Kernel Time (µs)_sum"] / calls,
        moved * 2**20 if moved else None,
        _units(w, device),
        _blocks(w, int(row["ex_UID"])),
    )  # fmt: skip


def _are_sizes(sizes: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _tile(name: str) -> tuple[int, int] | None:
    parsed = parse_name(name)
    if parsed and parsed.tile and len(parsed.tile) > 1:
        return parsed.tile[0], parsed.tile[1]
    found = _TILE.search(name)
    return (int(found[1]), int(found[2])) if found else None


def _units(w: Window, device: Architecture | None) -> int | None:
    """Multiprocessors or compute units: the device's, the trace's, or those of a device that has the name."""
    if device and (units := device.value("compute_units")):
        return int(units)
    if recorded := multiprocessors(w.core):
        return next(iter(recorded.values()))
    named = detect([{"name": device.name}]) if device else ""
    units = None if isinstance(named, str) else named.value("compute_units")
    return int(units) if units else None


def _blocks(w: Window, uid: int) -> int | None:
    """Thread blocks that the longest kernel of a call was launched with; None where not recorded."""
    core, c = w.core, w.core.columns
    row = core.row(uid)
    low, high = np.searchsorted(core.gpu_rows, (row, int(c.last[row]) + 1))
    own = core.gpu_rows[low:high]
    if not len(own):
        return None
    return int(thread_blocks(core, own[[c.dur_ns[own].argmax()]])[0]) or None
