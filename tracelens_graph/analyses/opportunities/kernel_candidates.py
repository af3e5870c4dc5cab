"""Operations with equal arguments whose kernels are worth work: what whoever writes kernels needs to know of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracelens_graph.analyses.diagnosis.finding import percent
from tracelens_graph.analyses.diagnosis.outside_steps import whole_note
from tracelens_graph.analyses.opportunities.opportunities import device_named, places
from tracelens_graph.analyses.performance.judged_ops import JudgedOp, device_notes, judged_ops
from tracelens_graph.analyses.performance.roofline_points import BELOW_ROOF
from tracelens_graph.frameworks import NAMESPACES
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.schema.categories import over_the_link
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

KERNEL_CANDIDATES = TableSchema(
    "kernel_candidates",
    "Which kernels are worth work, sorted by the time that could be won, then by time.",
    {
        "kernel": Column.key("the kernel with the most time in these calls", "kernel"),
        "op": Column.key("op that the work is given to", "op"),
        "input_dims": BELOW_ROOF["input_dims"],
        "input_types": BELOW_ROOF["input_types"],
        "module": Column.text("class of the innermost module around the first call", "module"),
        "line": Column.text("the user's line that the first call comes from", "line"),
        "calls": BELOW_ROOF["calls"],
        "kernels": Column("different names of kernels over these calls", heading=None),
        "time_ms": BELOW_ROOF["time_ms"],
        "percent": Column.share("share of the sum over all GPU events, those outside of steps, too", "% of GPU"),
        "bound": Column.text(
            "what bounds it at the roof: compute, memory, or the link between host and device; `in part by the link` "
            "where only some of its GPU events are copies over that",
            "bound",
        ),
        "percent_of_roof": BELOW_ROOF["percent_of_roof"],
        "could_win_ms": Column.total("the time less the time at the roof; absent without a roof", "ms", "could win ms"),
        "uid": BELOW_ROOF["uid"],
        "command": Column(
            "writes a program that runs only these calls (operations of PyTorch, and instructions); `ask` leaves out "
            "commands that would write none",
            heading=None,
        ),
    },
)


def kernel_candidates(g: Core | Window, arch: Architecture | str | None = None, top: int = 20) -> Table:
    """Operations and their arguments, each with its kernel, its place in the program and the command that replays it.

    Args:
        arch: the device, or its name; None for the one that the trace describes. Without one nothing has a roof.
        top: how many; 0 for all.

    Returns:
        One row per row of `unified_perf_summary` with a kernel, but for communication.
    """
    w = window_of(g)
    device = device_named(arch)
    ops = [one for one in judged_ops(w, device) if one.kernels and one.row["op category"] != "Communication"]
    total_ns = int(w.core.columns.dur_ns[w.gpu_rows].sum())
    ops.sort(key=lambda one: (-(one.won_ns or 0), -one.us))
    judged = ops[: top or None]
    records = [
        {
            **_of_op(one),
            "percent": percent(1e3 * one.us, total_ns), "module": module, "line": line,
            "percent_of_roof": one.percent_of_roof, "could_win_ms": None if one.won_ns is None else one.won_ns / 1e6,
            "command": _replay(w, one),
        }
        for one, (module, line) in zip(judged, places(w, [one.uid for one in judged]), strict=True)
    ]  # fmt: skip
    more = len(ops) - len(judged)
    notes = [f"{more:,} more (top=0 gives all)"] if more else []
    notes += [note] if (note := whole_note(w)) else []
    notes += device_notes(w, device, "nothing has a roof") if ops else []
    return replace(KERNEL_CANDIDATES.of_records(records, w.titled("Kernels worth work"), notes), more=more)


def _of_op(one: JudgedOp) -> dict[str, Any]:
    row, kernels = one.row, one.kernels
    crossing = {over_the_link([name]) for name in kernels}
    is_mixed = len(crossing) > 1 and one.bound and one.bound != "compute-bound"
    return {
        "kernel": kernels[0], "op": row["name"], "input_dims": row["Input Dims"], "input_types": row["Input type"],
        "calls": row["operation_count"], "kernels": len(kernels), "time_ms": one.us / 1e3,
        "bound": "in part by the link" if is_mixed else one.bound.removesuffix("-bound"), "uid": one.uid,
    }  # fmt: skip


def _replay(w: Window, one: JudgedOp) -> str:
    is_op = w.core.columns.kind[w.core.row(one.uid)] == Kind.Op
    if not is_op or not (w.framework.compiles_programs or one.name.startswith(NAMESPACES)):
        return ""
    return f"tracelens-graph replay TRACE --uid {one.uid} -o FOLDER"
