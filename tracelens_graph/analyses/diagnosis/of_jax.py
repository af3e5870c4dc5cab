"""What is told of a profile of JAX alone: programs that were compiled meanwhile, and what ran without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import Finding, brief, percent, shown_ms
from tracelens_graph.analyses.ops.compilations import compilations
from tracelens_graph.analyses.ops.programs import programs
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind

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
