"""Totals of a comparison: devices are added up, each by its own work."""

from __future__ import annotations

from handmade import span

from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.alignment.tables import totals_table
from tracelens_graph.analyses.alignment.times import time_parts
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.table import Table


def two_gpus(waits: float) -> Core:
    """GPU 0 computes for 10 us, is idle for 5, and computes for 5; GPU 1 communicates meanwhile, and computes."""
    work = [(0, "gemm", 0, 10), (0, "gemm", 15, 5), (1, "ncclDevKernel_AllReduce", 0, waits), (1, "gemm", 16, 4)]
    return load_core(
        [span("kernel", name, ts, dur, device, 7, device=device, stream=7) for device, name, ts, dur in work]
    )


def us(table: Table, side: str) -> dict[str, float]:
    return {row["time"]: 1e3 * row[f"{side}_ms"] for row in table.records()}


def test_no_gpu_hides_communication_of_another_one() -> None:
    difference = diff(two_gpus(8), two_gpus(14))
    totals = totals_table(difference)
    assert us(totals, "a") == {
        "gpu_time": 27, "total_time": 40, "computation_time": 19, "exposed_comm_time": 8, "exposed_memcpy_time": 0,
        "idle_time": 5 + 8, "step_time": 0,
    }  # fmt: skip
    assert us(totals, "b")["exposed_comm_time"] == 14
    idle = sum(part.ns[0] for part in time_parts(difference) if part.part == "idle")
    assert idle == 1e3 * us(totals, "a")["idle_time"]
