"""The table of kernels: known answers and sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.kernels.kernels import kernel_summary
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind


def test_known_answer() -> None:
    first, second = kernel_summary(load_core(small_trace())).records()
    assert (first["Parent op category"], first["Parent cpu_op"], first["Kernel name"]) == (
        "GEMM",
        "aten::addmm",
        "gemm",
    )
    assert (first["Kernel stream"], first["ex_UID"]) == (7, 9)
    assert [first[f"Kernel duration (µs)_{which}"] for which in ("sum", "count", "mean", "min", "max")] == [
        50.25, 1, 50.25, 50.25, 50.25,
    ]  # fmt: skip
    assert first["Percent of kernels time (%)"] == pytest.approx(100 * 50.25 / 80.25)
    assert first["Percent of total time (%)"] == pytest.approx(100 * 50.25 / (1160 - 1001))
    assert (second["Parent op category"], second["Parent cpu_op"], second["Kernel name"]) == (
        UNLINKED, NO_LAUNCH, HOSTILE,
    )  # fmt: skip


def test_launches_outside_of_ops_are_runtime_or_graph() -> None:
    core = load_core(
        [
            span("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=1),
            span("cuda_runtime", "cudaGraphLaunch", 2, 1, correlation=2),
            span("kernel", "a", 10, 2, correlation=1),
            span("kernel", "a", 20, 1, correlation=2),
        ]
    )
    assert [(row["Parent op category"], row["Parent cpu_op"]) for row in kernel_summary(core).records()] == [
        ("runtime", "cudaLaunchKernel"), ("graph", "cudaGraphLaunch"),
    ]  # fmt: skip


def check_sums(core: Core) -> None:
    c = core.columns
    kernels = core.gpu_rows[c.kind[core.gpu_rows] == Kind.Kernel]
    table = kernel_summary(core)
    assert np.sum(table["Kernel duration (µs)_count"]) == len(kernels)
    assert np.sum(table["Kernel duration (µs)_sum"]) == pytest.approx(int(c.dur_ns[kernels].sum()) / 1000, abs=1e-6)
    if c.dur_ns[kernels].sum():
        assert np.sum(table["Percent of kernels time (%)"]) == pytest.approx(100)


@given(traces())
def test_every_kernel_is_in_one_row_of_made_traces(trace: dict[str, object]) -> None:
    check_sums(load_core(trace))


@parametrize("path", chosen_traces())
def test_every_kernel_is_in_one_row_of_real_traces(path: Path) -> None:
    check_sums(loaded(path))
