"""Model FLOPs utilisation: what share of a device's peak the products, convolutions and attention of a step use.

A. Chowdhery et al., PaLM: Scaling Language Modeling with Pathways, appendix B, https://arxiv.org/abs/2204.02311: the
FLOPs that a model needs by the time that it takes and the peak of the device. What activation checkpointing computes
again does not count. Where a step computes in several precisions, the peak is that of their mix: all FLOPs by the time
that each precision takes at its own peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import ABOVE_ROOF
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.timeline.steps import step_summary
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.perf.cost import Cost
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Ns, Rows

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.perf.devices import Architecture

MODEL_FLOPS = TableSchema(
    "model_flops",
    "What share of the device's peak each step uses: model FLOPs utilisation (MFU).",
    {
        "name": Column.key("the step, or `(all)`: the steps together, without steps the GPU span"),
        "time_ms": Column(
            "its time on the device, from end to end; the window's time before the first step and after the last "
            "counts for these steps",
            "ms",
        ),
        "calls": Column.count(
            "calls of products, convolutions and attention with a model, without those computed again"
        ),
        "tflop": Column("their operations by their models; a multiply-add counts as two", "TFLOP", compared="main"),
        "tflops_s": Column("these by the time", "TFLOP/s"),
        "peak_tflops_s": Column("the device's peak for the mix of their precisions", "TFLOP/s"),
        "mfu_percent": Column("tflops_s as share of the peak: model FLOPs utilisation", "%"),
    },
    ordered=True,
)


@dataclass(frozen=True)
class ModelFlops:
    """Calls that matrix units compute, and that no activation checkpointing computes again.

    Attributes:
        rows: of the ops.
        step: row of the step that launched each, -1 for none.
        flops: operations of each.
        at_peak_ns: the time that they take at the device's peak for their precision.
    """

    rows: Rows
    step: Rows
    flops: np.ndarray
    at_peak_ns: Ns

    def utilisation(self, whole_ns: int) -> float | None:
        """Model FLOPs utilisation in some time, percent; None without any such calls."""
        return 100 * float(self.at_peak_ns.sum()) / whole_ns if len(self.rows) and whole_ns else None


def model_flops_of(w: Window, arch: Architecture) -> ModelFlops:
    """The calls of a window that count, by the models of its extension."""
    core, chosen = w.core, unified(w)
    peaks = np.array([_peak(cost, arch) for cost in chosen.costs] + [0.0])
    flops = np.array([float(cost.flops) for cost in chosen.costs] + [0.0])
    inside = w.holds(core.gpu_rows) & (chosen.owner >= 0)
    rows, first = np.unique(chosen.owner[inside], return_index=True)
    code = np.array([max(chosen.codes.get(row, -1), -1) for row in rows.tolist()], np.int64)
    counts = (peaks[code] > 0) & ~autograd_of(core).recompute[rows]
    rows, code, event = rows[counts], code[counts], core.gpu_rows[inside][first[counts]]
    return ModelFlops(rows, core.gpu_step[event], flops[code], flops[code] / peaks[code] / 1e3)


def _peak(cost: Cost, arch: Architecture) -> float:
    """TFLOP/s of the device for what its matrix units compute; 0 for what does not count, or has no rate."""
    rate = arch.rate(cost.compute_spec) if cost.unit == "matrix" and cost.flops > 0 and cost.precision else None
    return rate.tflops if rate else 0.0


def model_flops(g: Core | Window, arch: Architecture | str | None = None) -> Table:
    """Model FLOPs utilisation of each step, and of all steps together.

    Where the file begins with GPU work of the step before, only the steps without it are measured, as in a report.

    Args:
        arch: the device, or its name; None for the one that the trace describes.

    Returns:
        One row per step, and `(all)`. No rows without GPU events, or where the device is not known.
    """
    from tracelens_graph.analyses.diagnosis.account import account_of
    from tracelens_graph.analyses.diagnosis.outside_steps import steps_alone
    from tracelens_graph.analyses.performance.judged_ops import device_of
    from tracelens_graph.perf.devices import architecture

    w = window_of(g)
    device, missing = device_of(w, architecture(arch) if isinstance(arch, str) else arch)
    title = w.titled("Model FLOPs utilisation")
    if device is None or not len(w.gpu_rows):
        return MODEL_FLOPS.empty(title, [missing or "no GPU events were recorded"])
    alone = steps_alone(w)
    w = narrow(w, step=alone[0]) if alone else w
    found, steps = model_flops_of(w, device), step_summary(w, top_ops=0)
    step = np.array([row["uid"] for row in steps.records() if row["uid"] is not None], np.int64)
    account = account_of(w)
    time = np.append(np.asarray(steps["device_step_ms"], float)[: len(step)] * 1e6, account.window_ns)
    if len(step) and account.devices == 1:
        time[0] += account.before_ns
        time[-2] += max(account.window_ns - np.nansum(time[:-1]), 0)
    uid = np.append(w.core.columns.uid, -1)[found.step]
    own = [*(uid == one for one in step.tolist()), np.ones(len(uid), bool)]
    calls = np.array([int(one.sum()) for one in own])
    flops = np.array([float(found.flops[one].sum()) for one in own])
    at_peak = np.array([float(found.at_peak_ns[one].sum()) for one in own])
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "name": [*list(steps["name"])[: len(step)], "(all)"], "time_ms": time / 1e6, "calls": calls,
            "tflop": flops / 1e12, "tflops_s": flops / time / 1e3,
            "peak_tflops_s": np.where(at_peak > 0, flops / at_peak / 1e3, np.nan),
            "mfu_percent": np.where(calls > 0, 100 * at_peak / time, np.nan),
        }  # fmt: skip
    above = np.nanmax(columns["mfu_percent"], initial=0) > 100
    notes = [
        f"peaks are those of {device.name}",
        *([f"more than 100 % cannot be: {ABOVE_ROOF}"] * bool(above)),
        *([alone[1].text] if alone else unlinked_notes(w, left_out=True)),
    ]  # fmt: skip
    return MODEL_FLOPS.table(columns, title, notes)
