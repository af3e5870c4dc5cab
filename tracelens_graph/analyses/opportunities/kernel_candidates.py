"""Operations with equal arguments whose kernels are worth work: what whoever writes kernels needs to know of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracelens_graph.analyses.diagnosis.finding import percent
from tracelens_graph.analyses.opportunities.opportunities import device_named, places
from tracelens_graph.analyses.performance.judged_ops import device_of
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import BELOW_ROOF, reached
from tracelens_graph.frameworks import NAMESPACES
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

KERNEL_CANDIDATES = TableSchema(
    "kernel_candidates",
    "Which kernels are worth work: those first where most could be won, then those with the most time.",
    {
        "kernel": Column.key("the kernel with the most time in these calls", "kernel"),
        "op": Column.key("op that the work is given to", "op"),
        "input_dims": BELOW_ROOF["input_dims"],
        "input_types": BELOW_ROOF["input_types"],
        "module": Column.text("class of the innermost module around the first call", "module"),
        "line": Column.text("the user's line that the first call comes from", "line"),
        "calls": BELOW_ROOF["calls"],
        "kernels": Column("kernels that differ by name in a call", heading=None),
        "time_ms": BELOW_ROOF["time_ms"],
        "percent": Column.share("share of the sum over all GPU events", "%"),
        "bound": BELOW_ROOF["bound"],
        "percent_of_roof": BELOW_ROOF["percent_of_roof"],
        "could_win_ms": Column.total("the time less that at the roof; absent without a roof", "ms", "could win ms"),
        "uid": BELOW_ROOF["uid"],
        "command": Column(
            "writes a program that runs these calls alone; empty where the op is neither PyTorch's nor compiled",
            heading=None,
        ),
    },
)


def kernel_candidates(g: Core | Window, arch: Architecture | str | None = None, top: int = 20) -> Table:
    """Operations and their arguments, with the kernel, the place in the program and the command that replays them.

    Args:
        arch: the device, or its name; None for the one that the trace describes. Without one nothing has a roof.
        top: how many; 0 for all.

    Returns:
        One row per row of `unified_perf_summary` with a kernel, but for communication.
    """
    w = window_of(g)
    device, missing = device_of(w, device_named(arch))
    every = unified_perf_summary(w, linked_only=True, arch=device).records()
    ops = [row for row in every if row["kernel_details_summary"] and row["op category"] != "Communication"]
    total_ns = int(w.core.columns.dur_ns[w.gpu_rows].sum())
    judged = [(reached(row).won_us if device else None, row) for row in ops]
    judged.sort(key=lambda one: (-(one[0] or 0), -one[1]["Kernel Time (µs)_sum"]))
    judged = judged[: top or None]
    records = [
        {
            **_of_op(row),
            "percent": percent(1e3 * row["Kernel Time (µs)_sum"], total_ns),
            "module": module,
            "line": line,
            "percent_of_roof": reached(row).percent_of_roof if device else None,
            "could_win_ms": None if won_us is None else won_us / 1e3,
            "command": _replay(w, row),
        }
        for (won_us, row), (module, line) in zip(judged, places(w, [row["ex_UID"] for _, row in judged]), strict=True)
    ]
    notes = [f"{len(ops) - len(judged):,} more (top=0 gives all)"] if len(judged) < len(ops) else []
    notes += [f"nothing has a roof: {missing}"] if missing else []
    return KERNEL_CANDIDATES.of_records(records, w.titled("Kernels worth work"), notes)


def _of_op(row: dict[str, Any]) -> dict[str, Any]:
    kernels = row["kernel_details_summary"]
    return {
        "kernel": max(kernels, key=lambda one: one["total_duration_us"])["name"],
        "op": row["name"],
        "input_dims": row["Input Dims"],
        "input_types": row["Input type"],
        "calls": row["operation_count"],
        "kernels": len({one["name"] for one in kernels}),
        "time_ms": row["Kernel Time (µs)_sum"] / 1e3,
        "bound": str(row.get("Roofline Bound") or "").removesuffix("_BOUND").lower(),
        "uid": row["ex_UID"],
    }


def _replay(w: Window, row: dict[str, Any]) -> str:
    if not (w.framework.compiles_programs or row["name"].startswith(NAMESPACES)):
        return ""
    return f"tracelens-graph replay TRACE --uid {row['ex_UID']} -o FOLDER"
