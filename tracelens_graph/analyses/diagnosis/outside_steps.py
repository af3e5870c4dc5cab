"""GPU work without a launch, such as that of the step before the recording, and the steps that have none of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.finding import Finding, percent, shown_ms
from tracelens_graph.graph.window import Window, step_number
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows


def unlinked(w: Window) -> Iterator[Finding]:
    """How much GPU time has no launch, and the first step without such work where all of it lies at the start."""
    c, every = w.core.columns, w.gpu_rows
    lone = every[c.parent[every] < 0]
    share = percent(int(c.dur_ns[lone].sum()), int(c.dur_ns[every].sum()))
    if share < limits.WORTH_REPORTING_PERCENT:
        return
    why, ask = "Without a launch in the trace", "tracelens-graph info TRACE"
    evidence: dict[str, Any] = {"percent_of_gpu_time": share, "unlinked": len(lone), "gpu_events": len(every)}
    linked = every[c.parent[every] >= 0]
    if len(linked) and (c.start_ns[lone] + c.dur_ns[lone]).max() <= c.start_ns[linked].min():
        why, evidence["is_early"] = "Launched before the recording began", 1
        if not w.title and (step := _step_without(w, lone)) is not None:
            why, ask = f"{why} (step {step} leaves it out)", f"tracelens-graph report TRACE --step {step}"
            evidence["step_without"] = step
    text = f"{why}, so charged to no op: {share:.1f} % of the GPU time ({len(lone):,} of {len(every):,} GPU events)"
    yield Finding("unlinked", text, evidence, ask_next=ask)


def steps_alone(w: Window) -> tuple[tuple[int, ...], Finding] | None:
    """Where a file begins with GPU work of the step before: the steps that have none of it, and what lies outside.

    None where there is little of it, no such step, too little in the steps to judge them, or a window was chosen.
    """
    early = [one for one in unlinked(w) if "step_without" in one.evidence] if not w.title and len(w.gpu_rows) else []
    if not early:
        return None
    core, c, gpu = w.core, w.core.columns, w.gpu_rows
    steps = w.rows_of_kind(Kind.Step)
    own = steps[np.isin(steps, core.gpu_step[gpu[c.parent[gpu] >= 0]])]
    inside = np.isin(core.gpu_step[gpu], own)
    is_mixed = np.isin(core.gpu_step[gpu[c.parent[gpu] < 0]], own).any()
    if is_mixed or int(inside.sum()) < limits.FEW_GPU_EVENTS:
        return None
    numbers = [step_number(core.names[code]) for code in c.name[own].tolist()]
    left_out = int(c.dur_ns[gpu[~inside]].sum())
    text = (
        f"Outside of the steps, and not counted: {len(gpu) - int(inside.sum()):,} of {len(gpu):,} GPU events,"
        f" {shown_ms(left_out)}, most of it launched before the recording began (--from 0ms counts them);"
        " the GPU's first step begins after them"
    )
    evidence = {**early[0].evidence, "outside": len(gpu) - int(inside.sum()), "outside_ms": left_out / 1e6}
    return tuple(sorted({one for one in numbers if one is not None})), Finding("outside_steps", text, evidence)


def whole_note(w: Window) -> str:
    """What figures of a whole trace are of, where the first screen is of the steps alone; empty elsewhere."""
    if (found := steps_alone(w)) is None:
        return ""
    return (
        "of the whole trace, which begins with GPU work of the step before; the first screen and the page of a report"
        f" are of the steps alone: --step {','.join(map(str, found[0]))}"
    )


def _step_without(w: Window, rows: Rows) -> int | None:
    """The number of the first step with GPU work, none of it among some GPU events."""
    core, of_step = w.core, w.core.gpu_step
    for step in w.rows_of_kind(Kind.Step).tolist():
        own = w.gpu_rows[of_step[w.gpu_rows] == step]
        if len(own) and not np.isin(rows, own).any():
            return step_number(core.names[core.columns.name[step]])
    return None
