"""The GPU timeline: known answers, reference tables, and sums that must hold on every trace."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import cases, chosen_traces, loaded, needs_goldens, parametrize, reference_tables
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.table import Table

MORE_LINKED = {"mi300/resnet-ddp-checkpointing": 81, "mi300/normalization-layers": 5}
"""Traces where flow arrows are missing and correlation ids are there: number of GPU events that only ids link."""


def kernel(name: str, start: float, dur: float, stream: int = 7, category: str = "kernel") -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": dur, "args": {}}


def times(table: Table) -> dict[str, float]:
    return dict(zip(table["type"], np.asarray(table["time ms"]).tolist(), strict=True))


def test_known_answer() -> None:
    core = load_core(
        [
            kernel("gemm", 0, 10),
            kernel("ncclDevKernel_AllReduce", 5, 15, stream=9),
            kernel("Memcpy HtoD", 18, 10, category="gpu_memcpy"),
            kernel("Memset", 40, 1, category="gpu_memset"),
            kernel("gemm", 43, 7),
        ]
    )
    assert times(gpu_timeline(core)) == pytest.approx(
        {
            "computation_time": 0.018,
            "exposed_comm_time": 0.010,
            "exposed_memcpy_time": 0.008,
            "busy_time": 0.036,
            "idle_time": 0.014,
            "total_time": 0.050,
            "total_comm_time": 0.015,
            "total_memcpy_time": 0.010,
        },
        abs=0,
    )
    split = times(gpu_timeline(core, micro_idle_us=5))
    assert (split["micro_idle_time"], split["macro_idle_time"]) == (0.002, 0.012)
    assert "idle_time" not in split


def test_without_gpu_events_there_are_no_rows_and_a_note() -> None:
    core = load_core([{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 0, "dur": 2}])
    table = gpu_timeline(core)
    assert len(table) == 0
    assert list(table.notes) == ["the trace has no GPU events"]


def test_one_empty_kernel() -> None:
    assert set(times(gpu_timeline(load_core([kernel("k", 5, 0)]))).values()) == {0.0}


KERNELS = st.lists(
    st.tuples(
        st.sampled_from(["gemm", "ncclKernel", "Memcpy DtoH"]),
        st.integers(0, 200),
        st.integers(0, 60),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=25,
)


def check_sums(core: Core, **options: object) -> None:
    found = times(gpu_timeline(core, **options))  # type: ignore[arg-type]
    idle = found.get("idle_time", 0) + found.get("micro_idle_time", 0) + found.get("macro_idle_time", 0)
    busy = found["computation_time"] + found["exposed_comm_time"] + found["exposed_memcpy_time"]
    assert busy == pytest.approx(found["busy_time"], abs=1e-9)
    assert busy + idle == pytest.approx(found["total_time"], abs=1e-9)
    assert found["exposed_comm_time"] <= found["total_comm_time"]
    assert found["exposed_memcpy_time"] <= found["total_memcpy_time"]


@given(KERNELS, st.integers(0, 20))
def test_parts_make_up_the_whole(kernels: list[tuple[str, int, int, int]], threshold: int) -> None:
    core = load_core(
        [
            kernel(name, start, dur, stream, "gpu_memcpy" if "Memcpy" in name else "kernel")
            for name, start, dur, stream in kernels
        ]
    )
    check_sums(core)
    check_sums(core, micro_idle_us=threshold)


@parametrize("path", chosen_traces())
def test_parts_make_up_the_whole_on_real_traces(path: Path) -> None:
    core = loaded(path)
    if len(core.gpu_rows):
        check_sums(core)
        check_sums(core, micro_idle_us=5)


def without(core: Core, rows: np.ndarray) -> Core:
    """The graph with the launches of some GPU events cut."""
    arrays = {name: column.copy() for name, column in core.columns}
    arrays["parent"][rows] = -1
    return changed(core, columns=Columns(arrays))


def linked_by_id_only(core: Core) -> np.ndarray:
    """Linked GPU rows whose launch has no flow arrow of its own, told from the file by itself."""
    events = core.details.events(range(core.info.events))
    arrows = {event.get("id") for event in events.values() if event.get("cat") == "ac2g" and event.get("ph") == "s"}
    rows = core.gpu_rows[core.columns.parent[core.gpu_rows] >= 0]
    return rows[~np.isin(core.columns.correlation[rows], list(arrows))]


@pytest.mark.parametrize(
    ("golden", "trace"), cases(reference_tables("gpu_timeline", "default", "full"), needs=needs_goldens, width=2)
)
def test_linked_timelines_equal_the_reference(golden: Path, trace: Path) -> None:
    with golden.open(newline="") as file:
        rows = list(csv.DictReader(file))
    core = loaded(trace)
    name = golden.parent.parent.name + "/" + golden.parent.name
    if name in MORE_LINKED:
        # The reference follows arrows alone. Leaving out exactly what only ids link gives its table.
        extra = linked_by_id_only(core)
        assert len(extra) == MORE_LINKED[name]
        recompute = core.recompute
        core = without(core, extra)
        core.autograd = replace(core.autograd, recompute=recompute)
    table = gpu_timeline(
        core,
        linked_only=True,
        micro_idle_us=5 if any(row["type"] == "micro_idle_time" for row in rows) else None,
        by_recompute="is_recompute" in rows[0],
    )
    assert [row["type"] for row in rows] == list(table["type"])
    if "is_recompute" in rows[0]:
        assert [row["is_recompute"] == "True" for row in rows] == list(table["is_recompute"])
    intervals = len(core.gpu_rows)
    total_us = min(float(row["time ms"]) * 1000 for row in rows if row["type"] == "total_time")
    for row, ours in zip(rows, table.records(), strict=True):
        assert ours["time ms"] * 1000 == pytest.approx(float(row["time ms"]) * 1000, abs=0.001 * intervals)
        assert ours["percent"] == pytest.approx(float(row["percent"]), abs=0.1 * intervals / total_us)
