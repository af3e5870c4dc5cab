"""The verdict: what kind of run a trace shows, and what its time went to, the most expensive cause first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import account_of
from tracelens_graph.analyses.diagnosis.causes import causes_of, losses_of
from tracelens_graph.analyses.diagnosis.families import families_of, fitting, unknown_families
from tracelens_graph.analyses.diagnosis.finding import Finding, Verdict, brief, percent, shown_ms
from tracelens_graph.analyses.diagnosis.headline import (
    capture,
    headline,
    no_gpu,
    other_accelerator,
    start_up,
    too_little,
)
from tracelens_graph.analyses.diagnosis.outside_steps import unlinked
from tracelens_graph.analyses.ops.programs import compilations, programs
from tracelens_graph.analyses.performance.judged_ops import JudgedOp, judged_ops
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.window import Window, step_number, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.names import short_name

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_NAMED = 3
"""Programs that a line names."""


def on_host(w: Window) -> Iterator[Finding]:
    """Programs, steps and devices of a window without GPU events, by their time on the host."""
    core, c = w.core, w.core.columns
    found = list(programs(w).records())
    if found:
        by_name: dict[str, tuple[float, int]] = {}
        for row in found:
            ms, ran = by_name.get(row["program"], (0.0, 0))
            by_name[row["program"]] = (ms + row["host_ms"], ran + row["executions"])
        largest = sorted(by_name.items(), key=lambda item: -item[1][0])
        named = [f"{brief(name)} {shown_ms(int(ms * 1e6))} in {_times(ran)}" for name, (ms, ran) in largest[:_NAMED]]
        more = f", and {len(largest) - _NAMED:,} others" if len(largest) > _NAMED else ""
        evidence = {"programs": len(found), "host_ms": float(sum(row["host_ms"] for row in found))}
        yield Finding(
            "host_programs", f"Instructions on the host: {', '.join(named)}{more}", evidence,
            ask_next="tracelens-graph ask programs TRACE",
        )  # fmt: skip
    steps = w.rows_of_kind(Kind.Step)
    if len(steps):
        dur = c.dur_ns[steps]
        median, longest = int(np.median(dur)), int(dur.max())
        name = brief(core.names[c.name[steps[int(dur.argmax())]]])
        took = (
            f"{shown_ms(median)} in the median, {name} took {shown_ms(longest)}" if len(steps) > 1 else shown_ms(median)
        )
        yield Finding(
            "host_steps", f"{len(steps):,} {'steps' if len(steps) > 1 else 'step'} on the host: {took}",
            {"steps": len(steps), "median_ms": median / 1e6, "longest_ms": longest / 1e6},
            ask_next="tracelens-graph ask step_summary TRACE",
        )  # fmt: skip
    devices = max((row["devices"] for row in found), default=1)
    if devices > 1 and not w.title:
        yield Finding(
            "several_devices", f"Programs ran on {devices:,} devices, which are compared as ranks",
            {"devices": devices}, ask_next="tracelens-graph ranks TRACE",
        )  # fmt: skip


def _times(count: int) -> str:
    return f"{count:,} executions" if count != 1 else "1 execution"


def compiled(w: Window) -> Iterator[Finding]:
    """Programs that were compiled in a window, and how long that took."""
    found = compilations(w)
    if not found.count:
        return
    c, rows = w.core.columns, w.rows_of_kind(Kind.Step)
    often = sorted(found.of_call.items(), key=lambda item: -sum(item[1]))[:_NAMED]
    named = ", ".join(f"{brief(name)} {len(took)} x" if len(took) > 1 else brief(name) for name, took in often)
    what = "1 program" if found.count == 1 else f"{found.count:,} programs"
    text = f"Compiled {what} during the recording: {shown_ms(found.ns)}"
    whole = int(c.dur_ns[rows].sum()) if len(rows) else 0
    evidence: dict[str, int | float | str] = {"compiled": found.count, "ms": found.ns / 1e6}
    if whole:
        evidence |= {"percent": min(percent(found.ns, whole), 100.0), "percent_of": "steps"}
    yield Finding(
        "compiled", text + (f" ({named})" if named else ""), evidence,
        advice=("compile_before",), ask_next="tracelens-graph ask programs TRACE",
    )  # fmt: skip


def verdict(g: Core | Window, arch: Architecture | None = None) -> Verdict:
    """The kind of run, where its time went, and what to try.

    The first finding is the headline. Then the most expensive causes, CAUSES at most, each of WORTH_REPORTING_PERCENT
    of the time at least; then what limits the verdict, and a step that takes longer than the others. A trace that says
    too little about its run has a headline that says so, and no causes, but how its operations do, as that of a single
    operation has. If the end of the file is missing, the second
    finding says how far its GPU events reach. Of a profile of JAX it says what was compiled meanwhile, and without GPU
    events what ran on the host.

    Args:
        arch: the device that rates are compared with; None for the one that the trace describes.
    """
    w = window_of(g)
    if not len(w.gpu_rows):
        return Verdict([no_gpu(w), *(([*on_host(w), *compiled(w)]) if w.framework.compiles_programs else ())])
    first, *others = _of_gpu_work(w, arch)
    found = [first, *_cut_short(w), *others]
    advised = [replace(one, advice=fitting(w, one.advice, int(one.evidence.get("uid", -1)))) for one in found]
    return Verdict([*advised, *(compiled(w) if w.framework.compiles_programs else ())])


def _of_gpu_work(w: Window, arch: Architecture | None) -> list[Finding]:
    """The verdict on a window with GPU events, as if the file were whole."""
    if stop := other_accelerator(w) or capture(w):
        return [stop]
    account = account_of(w)
    judged = account.window
    if stop := start_up(account):
        return [stop]
    is_one = leading_operation(judged)
    if stop := too_little(account):
        is_few = len(judged.gpu_rows) < limits.FEW_GPU_EVENTS
        return [stop, *(operations(judged, arch) if is_few or is_one else ())]
    families = families_of(judged)
    first = headline(account, families, arch)
    if first.leads == ("unexplained",):
        return [first.finding, *_unknown(w), *unlinked(w)]
    unknown = list(_unknown(w))
    causes = [one for one in causes_of(w, first.leads, arch) if not _is_named_by(one, unknown)]
    server: list[Finding] = []
    if is_of_server(w.core):
        from tracelens_graph.analyses.diagnosis.server import of_server

        server, causes = of_server(w, causes)
    found = operations(judged, arch) if is_one else ()
    before, behind = [first.finding, *server, *found, *causes[:1]], causes[1 : limits.CAUSES]
    won = _opportunities(w, arch, first.leads, before)
    return [*before, *won, *behind, *unknown, *unlinked(w), *_long_step(w)]


def _opportunities(
    w: Window, arch: Architecture | None, parts: Collection[str], named: list[Finding]
) -> Iterator[Finding]:
    """What could win most of the parts that bound the run, as far as the findings have not named it.

    Args:
        arch: the device; None for the one that the trace describes.
        parts: that bound the run; what shortens others would win nothing.
        named: the findings.
    """
    if "computation" not in parts and "communication" not in parts:
        return  # what the host loses are findings themselves
    from tracelens_graph.analyses.opportunities.opportunities import found_in

    known = {
        *(one.id for one in (*named, *losses_of(w))),
        *((rule, one.evidence.get("uid")) for one in named if one.topic == "operation" for rule in _OF_ONE),
    }
    whole = account_of(w)
    found = (one for one in found_in(w, arch, parts) if one.id not in known and (one.rule, one.uid) not in known)
    for one in islice(found, limits.OPPORTUNITIES):
        won_ns = one.won_ns or 0
        share = percent(won_ns, whole.window_ns)
        if share < limits.WORTH_REPORTING_PERCENT:
            return
        gain = f"{shown_ms(won_ns)}, {share:.1f} % of the {whole.whole_text}"
        text = f"{one.what}: could win {gain}, if {one.assumption}"
        evidence = {
            "could_win_ms": won_ns / 1e6, "percent": share, "percent_of": whole.whole, "ms": one.ns / 1e6,
            "calls": one.calls, "uid": one.uid, **one.evidence,
        }  # fmt: skip
        ask = "tracelens-graph ask opportunities TRACE"
        yield Finding("opportunity", f"{text} [uid {one.uid}]", evidence, "fact", one.advice, ask, one.id)


_OF_ONE = ("below-roof", "no-roof")
"""Rules that say of an operation what a finding about it says."""


def _is_named_by(cause: Finding, unknown: list[Finding]) -> bool:
    """Whether findings about single unknown families say all that a cause says of all of them together."""
    named = sum(float(one.evidence["percent_of_gpu_time"]) for one in unknown)
    return cause.evidence.get("kind") == "gpu_bound" and named >= float(cause.evidence["percent_of_gpu_time"]) - 1


def _cut_short(w: Window) -> Iterator[Finding]:
    """How far the GPU events of a file reach whose end is missing."""
    info, rows = w.core.info, w.gpu_rows
    if not info.gpu_ends_early:
        return
    c = w.core.columns
    gpu_end = int((c.start_ns[rows] + c.dur_ns[rows]).max())
    end_ms, gpu_end_ms = float(info.shown_ms(int(c.end_ns.max()))), float(info.shown_ms(gpu_end))
    text = (
        f"GPU events end at {gpu_end_ms:,.3f} of {end_ms:,.3f} ms because the file is cut short; nothing behind them"
        " is counted as idle"
    )
    evidence = {"gpu_end_ms": gpu_end_ms, "end_ms": end_ms}
    yield Finding("cut_short", text, evidence, ask_next="tracelens-graph info TRACE")


def _unknown(w: Window) -> Iterator[Finding]:
    """Large families of kernels that may be communication, though they count as computation."""
    core, c, gpu_ns = w.core, w.core.columns, families_of(w).gpu_ns
    for family in unknown_families(w):
        longest = int(family.rows[c.dur_ns[family.rows].argmax()])
        share, uid, name = percent(family.ns, gpu_ns), int(c.uid[longest]), core.names[c.name[longest]]
        text = (
            f"Unknown kernels: {share:.1f} % of the GPU time is in {brief(name)}, whose family is not known; it may be"
            f" communication, and counts as computation [uid {uid}]"
        )
        evidence = {"percent_of_gpu_time": share, "kernels": len(family.rows), "name": name, "uid": uid}
        yield Finding(
            "unknown_kernels", text, evidence, ask_next=f"tracelens-graph tree TRACE --uid {uid} --up",
            name=f"unknown-kernels@{short_name(name)}",
        )  # fmt: skip


def _long_step(w: Window) -> Iterator[Finding]:
    core, c = w.core, w.core.columns
    rows = w.rows_of_kind(Kind.Step)
    if len(rows) < 3:
        return
    dur = c.dur_ns[rows]
    median, longest = float(np.median(dur)), int(dur.argmax())
    name, number = core.names[c.name[rows[longest]]], step_number(core.names[c.name[rows[longest]]])
    if dur[longest] < limits.LONG_STEP_RATIO * median or number is None:
        return
    took = int(dur[longest])
    text = f"{brief(name)} took {shown_ms(took)}, the median of {len(rows):,} steps {shown_ms(median)}"
    evidence: dict[str, Any] = {"step": number, "ms": took / 1e6, "median_ms": median / 1e6, "steps": len(rows)}
    yield Finding("long_step", text, evidence, ask_next=f"tracelens-graph report TRACE --step {number}")


def leading_operation(w: Window) -> bool:
    """Whether one operation computes for nearly all GPU time: a trace of that operation."""
    c = w.core.columns
    owned = w.gpu_rows[(c.owner[w.gpu_rows] >= 0) & (gpu_classes(w.core, w.gpu_rows) == COMPUTATION)]
    time = sum_by_group(c.name[c.owner[owned]], c.dur_ns[owned], len(w.core.names))
    whole = int(c.dur_ns[w.gpu_rows].sum())
    return whole > 0 and int(time.max(initial=0)) >= limits.ONE_OPERATION_PERCENT / 100 * whole


def operations(w: Window, arch: Architecture | None) -> Iterator[Finding]:
    """A finding for each operation with much of the GPU time, the most first."""
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
