"""Findings about single operations: their time, what bounds them, their share of the roof, and what holds them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.finding import Finding, shown_ms
from tracelens_graph.analyses.performance.judged_ops import JudgedOp, judged_ops
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.devices import Architecture


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
        arch: the device; None for the one that the trace describes.
    """
    found = list(judged_ops(w, arch).expensive(limits.WORTH_REPORTING_PERCENT))
    yield from map(_operation, found[: limits.OPERATIONS])


def _operation(op: JudgedOp) -> Finding:
    share, calls, device = op.percent_of_roof, op.calls, op.ops.device
    evidence: dict[str, Any] = {
        "ms": op.us / 1e3, "percent": op.row["Percentage (%)"], "percent_of": "gpu_time", "calls": calls,
        "uid": op.uid, "op": op.name, "bound": op.bound, "device": device.name if device else "",
    }  # fmt: skip
    named = {
        "flops_per_byte": op.row["FLOPS/Byte"], "tflops_s": op.rates.tflops_s, "tb_s": op.rates.tb_s,
        "percent_of_roof": share,
    }  # fmt: skip
    evidence |= {name: value for name, value in named.items() if value is not None}
    mean = op.row.get("Pct Roofline_mean")
    if share is not None and mean is not None and abs(mean - share) >= limits.APART_POINTS:
        evidence["mean_percent_of_roof"] = mean
    if share is None or share < limits.NEAR_ROOF_PERCENT:
        evidence["held_back_by"] = ", ".join(one.name for one in op.reasons)
    text = (
        f"{op.title}: {shown_ms(op.us * 1e3)} in {calls:,} call{'s'[: calls > 1]}, {op.row['Percentage (%)']:.1f} % of"
        f" the GPU time; {'; '.join(filter(None, (op.roof_text(), op.reasons_text)))}"
    )
    advice = tuple(dict.fromkeys(one.advice for one in op.reasons if one.advice))
    ask = f"tracelens-graph tree TRACE --uid {op.uid} --up"
    return Finding("operation", f"{text} [uid {op.uid}]", evidence, "fact", advice, ask, f"operation@{op.signature}")
