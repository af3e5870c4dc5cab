"""When a trace says too little about its run: what is told instead of a diagnosis."""

from __future__ import annotations

import re

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import Account
from tracelens_graph.analyses.diagnosis.finding import Finding, percent, shown_ms
from tracelens_graph.analyses.shared.executions import recorded_executions
from tracelens_graph.graph.intervals import union_length
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind

LAUNCH = re.compile(r"^(?:cuda|hip|cu)\w*Launch")
"""Calls that launch kernels or graphs."""
_CAPTURE = re.compile(r"^(?:cuda|hip|cu)(?:StreamBeginCapture|StreamEndCapture|GraphInstantiate)")


def calls_named(w: Window, pattern: re.Pattern[str]) -> np.ndarray:
    """Rows of the window's runtime calls whose names fit."""
    core, calls = w.core, w.rows_of_kind(Kind.RuntimeCall)
    fits = np.array([pattern.search(name) is not None for name in core.names] or [False])
    found: np.ndarray = calls[fits[core.columns.name[calls]]]
    return found


def no_gpu(w: Window) -> Finding:
    """The headline of a window without GPU events."""
    text = f"The {'window' if w.title else 'trace'} has no GPU events: nothing can be said about a GPU"
    if name := w.core.info.accelerator:
        text = f"The trace is of another accelerator ({name}), whose work is not read: the host's side is here"
    return Finding(
        "headline",
        text,
        {"kind": "no_gpu", "percent": 0.0, "percent_of": "recording", "gpu_events": 0},
        ask_next=f"tracelens-graph {'ask programs' if w.core.programs else 'tree'} TRACE",
    )


def other_accelerator(w: Window) -> Finding | None:
    """The headline of a trace of a device that is no GPU: what its events mean is not known."""
    name = w.core.info.accelerator
    if not name:
        return None
    text = (
        f"The trace is of another accelerator ({name}): its times are shown, but what they mean is known of GPUs only"
    )
    evidence: dict[str, int | float | str] = {
        "kind": "other_accelerator", "percent": 0.0, "percent_of": "recording", "accelerator": name,
        "gpu_events": len(w.gpu_rows),
    }  # fmt: skip
    return Finding("headline", text, evidence, ask_next="tracelens-graph timeline TRACE")


def capture(w: Window) -> Finding | None:
    """The headline of a trace in which a graph is captured: most of its launches run nothing."""
    launches, c = calls_named(w, LAUNCH), w.core.columns
    if not len(launches) or not len(calls_named(w, _CAPTURE)):
        return None
    idle = launches[~np.isin(launches, c.parent[w.core.gpu_rows])]
    share = percent(len(idle), len(launches))
    if share < limits.CAPTURED_PERCENT:
        return None
    text = (
        f"Graph capture: {share:.1f} % of the launches ({len(idle):,} of {len(launches):,}) were recorded into a graph"
        " and ran nothing; how fast the graph runs, the trace of a replay tells"
    )
    evidence: dict[str, int | float | str] = {
        "kind": "graph.capture", "percent": share, "percent_of": "launches", "launches": len(launches),
        "launches_without_gpu_event": len(idle), "gpu_events": len(w.gpu_rows),
    }  # fmt: skip
    return Finding("headline", text, evidence, advice=("replay_trace",), ask_next="tracelens-graph info TRACE")


def too_little(account: Account) -> Finding | None:
    """The headline of a window that holds too little GPU work, or too little of what launched it."""
    w = account.window
    c, rows = w.core.columns, w.gpu_rows
    busy, gpu = account.times["busy_time"], int(c.dur_ns[rows].sum())
    lone = int(c.dur_ns[rows[c.parent[rows] < 0]].sum())
    share = percent(busy, account.span_ns)
    advice: tuple[str, ...] = ("record_longer",)
    steps = w.rows_of_kind(Kind.Step)
    of_steps = union_length(c.start_ns[steps], c.end_ns[steps])
    of_step = f", {percent(busy, of_steps):.1f} % of the step" if of_steps else ""
    if len(rows) < limits.FEW_GPU_EVENTS and busy < limits.SHORT_BUSY_MS * 1e6:
        events = "1 GPU event" if len(rows) == 1 else f"{len(rows):,} GPU events"
        why = f"{events}, {shown_ms(busy)} of work"
        if len(rows) > 1:
            why += f" in {shown_ms(account.span_ns)} (idle {100 - share:.1f} %{of_step.replace(',', '; busy', 1)})"
        elif of_step:
            why += f" in a step of {shown_ms(of_steps)}"
    elif lone > limits.UNLINKED_PERCENT / 100 * gpu:
        why = f"the launches of {percent(lone, gpu):.1f} % of the GPU time are not in the trace"
    elif percent((runs := recorded_executions(w)).lost_in_all, len(runs.row)) >= limits.LOST_EXECUTIONS_PERCENT:
        why = f"{runs.told}, so that time without any need not be idle time"
        advice = ()
    elif is_thinned(w):
        idle = percent(account.span_ns - busy, account.span_ns)
        why = f"most events were left out of the file; in {idle:.1f} % of the GPU span no GPU work is recorded"
    else:
        return None
    evidence: dict[str, int | float | str] = {
        "kind": "too_little", "percent": 100 - share, "percent_of": "gpu_span", "gpu_events": len(rows),
        "busy_ms": busy / 1e6, "busy_percent": share, "unlinked_percent": percent(lone, gpu),
    }  # fmt: skip
    ask = "tracelens-graph info TRACE"
    return Finding("headline", f"Too little recorded to judge: {why}", evidence, advice=advice, ask_next=ask)


def is_thinned(w: Window) -> bool:
    """Whether most events were left out of the file: few numbers of the window's launches are there."""
    c, launches = w.core.columns, calls_named(w, LAUNCH)
    given = c.correlation[launches]
    given = given[given > 0]
    if len(given) < limits.THINNED_CALLS:
        return False
    present = 100 * len(np.unique(given)) / (int(given.max()) - int(given.min()) + 1)
    return present < limits.THINNED_PERCENT and bool(np.isin(launches, c.parent[w.core.gpu_rows]).all())
