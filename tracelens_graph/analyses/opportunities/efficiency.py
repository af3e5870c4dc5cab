"""Rules about single operations: how far below the roof they are and why, and what other units would take for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import account_of
from tracelens_graph.analyses.diagnosis.families import is_fused
from tracelens_graph.analyses.diagnosis.finding import percent
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.performance.judged_ops import JudgedOp, JudgedOps, judged_ops
from tracelens_graph.analyses.places.attribution import of_optimizer
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.roofs import roofline
from tracelens_graph.perf.shortfalls import is_older, on_vector_units

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_PRODUCTS = ("GEMM", "Convolution")
_WIDE = ("fp32", "tf32")
"""Precisions of products that mixed precision would replace."""


def _ops(w: Window, arch: Architecture | None) -> JudgedOps:
    return judged_ops(account_of(w).window, arch)


def below_roof(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Operations with much of the time that take longer than at their roof, each with what keeps it there."""
    for same in _by_signature(_ops(w, arch)):
        share = same[0].percent_of_roof
        if share is not None and share < limits.NEAR_ROOF_PERCENT:
            yield _of_ops("below-roof", same, "it runs at its roof")


def no_roof(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Operations with more of the time whose roof is not known."""
    for same in _by_signature(_ops(w, arch)):
        of_gpu = sum(float(one.row["Percentage (%)"]) for one in same)
        if same[0].percent_of_roof is None and of_gpu >= limits.WORTH_REPORTING_PERCENT:
            yield _of_ops("no-roof", same, "")


def _of_ops(rule: str, same: Sequence[JudgedOp], assumption: str) -> Opportunity:
    """Operations of one signature as an opportunity."""
    first = same[0]
    ns, won = sum(round(one.us * 1e3) for one in same), [one.won_ns for one in same if one.won_ns is not None]
    evidence: dict[str, float | str] = {"held_back_by": ", ".join(one.name for one in first.reasons)}
    share, calls = first.percent_of_roof, sum(one.calls for one in same)
    of_all = None if len(same) == 1 or share is None else 100 * (1 - sum(won) / ns)
    if share is not None:
        evidence |= {
            "bound": first.bound.removesuffix("-bound"),
            "percent_of_roof": share if of_all is None else of_all,
            "mean_percent_of_roof": sum(one.mean_percent_of_roof * one.calls for one in same) / calls,
        }
    why = first.reasons_text if first.reasons else ""
    facts = (first.roof_text(of_all), why, first.inputs and f"inputs {first.inputs}")
    return Opportunity(
        rule, f"{first.short_name}: {'; '.join(filter(None, facts))}", ns,
        sum(won) if won else None, assumption,
        _advice(first),
        first.uid, first.signature, calls, evidence=evidence,
    )  # fmt: skip


_ADVICE: Mapping[str, tuple[str, ...]] = {
    "GEMM": ("timed_kernels",), "Convolution": ("convolution_kernels",),
    "Flash Attention Forward": ("attention_kernels",), "Flash Attention Backward": ("attention_kernels",),
}  # fmt: skip
"""What to try with an operation of a category, where no reason says it."""


def _advice(op: JudgedOp) -> tuple[str, ...]:
    """What to try with an operation: what its reasons say, else what helps such operations."""
    if found := tuple(dict.fromkeys(one.advice for one in op.reasons if one.advice)):
        return found
    kind = str(op.row["op category"] or "")
    is_moving = op.bound == "memory-bound" and kind not in _ADVICE
    core = op.ops.w.core
    if is_moving and of_optimizer(core, np.array([core.row(op.uid)]))[0]:
        return () if "_fused_" in op.name else ("fused_optimizer",)
    return ("fusion",) if is_moving and not any(map(is_fused, op.kernels)) else _ADVICE.get(kind, ())


def _by_signature(ops: JudgedOps) -> Iterator[list[JudgedOp]]:
    """Operations with much of the time; those of equal names, sizes and types together, the most expensive first."""
    found: dict[str, list[JudgedOp]] = defaultdict(list)
    for op in ops.expensive():
        found[op.signature].append(op)
    yield from found.values()


def tensor_cores(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Products in float32 on vector units, though the device's tensor cores take them rounded to TF32."""
    ops = _ops(w, arch)
    if ops.device is None or not ops.device.value("matrix_tf32") or ops.device.value("matrix_fp32"):
        return
    found = [one for one in ops if _precision(one) == "fp32" and any(map(on_vector_units, one.kernels))]
    yield from _with_precision(
        "tensor-cores", found, "tf32", 1.0, "in float32 on vector units, not on tensor cores",
        "they reach the same share of the roof in TF32", ("tensor_cores",),
    )  # fmt: skip


def mixed_precision(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Products in float32 or TF32, for which the device has faster units in bfloat16."""
    found = [one for one in _ops(w, arch) if _precision(one) in _WIDE]
    yield from _with_precision(
        "mixed-precision", found, "bf16", 0.5, "in float32 or TF32",
        "they reach the same share of the roof in bfloat16, with half of the bytes", ("mixed_precision",),
    )  # fmt: skip


def _precision(op: JudgedOp) -> str:
    """The precision of a product that matrix units could compute; empty for all other operations."""
    is_product = op.row["op category"] in _PRODUCTS and isinstance(op.cost, Cost) and op.cost.unit == "matrix"
    return op.cost.precision if is_product and isinstance(op.cost, Cost) else ""


def _with_precision(
    rule: str, ops: Sequence[JudgedOp], precision: str, bytes_left: float, what: str, assumption: str,
    advice: tuple[str, ...],
) -> Iterator[Opportunity]:  # fmt: skip
    """What products would win in another precision, together."""
    won = {one.uid: ns for one in ops if (ns := _won_ns(one, precision, bytes_left)) > 0}
    touched = [one for one in ops if one.uid in won]
    ns = sum(round(one.us * 1e3) for one in touched)
    share = sum(float(one.row["Percentage (%)"]) for one in touched)
    if share < limits.MUCH_PERCENT:
        return
    first, calls = touched[0], sum(one.calls for one in touched)
    several = f"{calls:,} products" if calls > 1 else "1 product"
    yield Opportunity(
        rule, f"{several} {what}, {share:.1f} % of the GPU time, most of it in {first.title}", ns, sum(won.values()),
        assumption, advice, first.uid, calls=calls, evidence={"percent_of_gpu_time": share},
    )  # fmt: skip


def _won_ns(op: JudgedOp, precision: str, bytes_left: float) -> int:
    """What an operation would win in another precision, at the same share of the roof; 0 where that is not known."""
    device, cost = op.ops.device, op.cost
    if device is None or not isinstance(cost, Cost) or cost.bytes is None:
        return 0
    now = roofline(cost, device)
    then = roofline(replace(cost, precision=precision, bytes=round(cost.bytes * bytes_left)), device)
    if isinstance(now, str) or isinstance(then, str) or then.rate != f"matrix_{precision}":
        return 0
    return round(op.us * 1e3 * (1 - then.time_us / now.time_us))


def older_kernels(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Kernels that were written for an older architecture than the device, by their names."""
    by_arch: dict[str, list[JudgedOp]] = defaultdict(list)
    for op in (ops := _ops(w, arch)).expensive():
        work = op.work
        if is_older(work.made_for, work.capability) and not on_vector_units(work.kernel):
            by_arch[work.made_for].append(op)
    for older, found in by_arch.items():
        ns, first = sum(round(one.us * 1e3) for one in found), found[0]
        # What its sizes hold back stays there in newer kernels.
        known = [
            one for one in found
            if one.percent_of_roof is not None and all(reason.name == "older_kernel" for reason in one.reasons)
        ]  # fmt: skip
        won_ns = sum(round(10 * one.us * (100 - _near(one))) for one in known)
        share = percent(ns, sum(round(one.us * 1e3) for one in ops))
        what = f"kernels for {older} on a device of {ops.capability}"
        yield Opportunity(
            "older-kernels", f"{what}, {share:.1f} % of the GPU time, most of it in {first.title}", ns,
            won_ns if known else None,
            f"kernels for {ops.capability} reach {limits.NEAR_ROOF_PERCENT:.0f} % of the roof" if known else "",
            ("newer_kernels",), first.uid, older, sum(one.calls for one in found),
            evidence={"percent_of_gpu_time": share},
        )  # fmt: skip


def _near(op: JudgedOp) -> float:
    """Time that an operation takes near the roof, as share of its time, percent."""
    return min(100 * (op.percent_of_roof or 0) / limits.NEAR_ROOF_PERCENT, 100.0)
