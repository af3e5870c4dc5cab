"""A JAX profile beside what TraceLens says of it: time, shapes and launch of every kernel, and the time of each GPU."""

from __future__ import annotations

import ast
import csv
from pathlib import Path

import pytest

from tracelens_graph.graph.core import Core
from tracelens_graph.loading import load_core
from tracelens_graph.perf.arguments import Arguments


@pytest.fixture(scope="module")
def core(corpus: Path) -> Core:
    return load_core(corpus / "tracelens/jax/conv-legacy.xplane.pb")


def rows_of(goldens: Path, name: str) -> list[dict[str, str]]:
    with (goldens / "jax/conv-legacy" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_kernel_has_its_time_shapes_and_launch(core: Core, goldens: Path) -> None:
    c = core.columns
    kernels = [row for row in core.gpu_rows.tolist() if c.owner[row] >= 0]
    kernels.sort(key=lambda row: int(c.uid[row]))
    theirs = rows_of(goldens, "kernel_launchers.csv")
    assert len(kernels) == len(theirs) == 25
    for row, told in zip(kernels, theirs, strict=True):
        operands = Arguments(*core.argsets[int(c.argset[c.owner[row]])])
        tensors = [operands.tensor(at) for at in range(len(ast.literal_eval(told["Input type"])))]
        assert core.names[c.name[row]] == told["name"]
        assert c.dur_ns[row] / 1000 == pytest.approx(float(told["total_direct_kernel_time"]), rel=1e-9)
        assert (c.device[row] + 1, c.stream[row]) == (int(told["pid"]), int(told["tid"]))
        assert tuple(one.shape for one in tensors) == ast.literal_eval(told["Input Dims"])
        assert tuple(one.dtype for one in tensors) == ast.literal_eval(told["Input type"])
        latency = (c.start_ns[row] - c.start_ns[c.parent[row]]) / 1000
        assert latency == pytest.approx(float(told["GPU_kernel_launch_latency"]), abs=1e-6)


def test_time_of_each_gpu(core: Core, goldens: Path) -> None:
    theirs = {(row["gpu_pid"], row["type"]): float(row["time ms"]) for row in rows_of(goldens, "gpu_timeline.csv")}
    for pid in {pid for pid, _ in theirs}:
        rows = core.window(device=int(pid) - 1).gpu_rows
        c = core.columns
        span = (c.start_ns[rows] + c.dur_ns[rows]).max() - c.start_ns[rows].min()
        assert c.dur_ns[rows].sum() / 1e6 == pytest.approx(theirs[pid, "busy_time"], rel=1e-9)
        assert span / 1e6 == pytest.approx(theirs[pid, "total_time"], rel=1e-9)


def test_bytes_of_operands(core: Core, goldens: Path) -> None:
    c = core.columns
    theirs = {row["name"]: int(row["total_input_bytes"]) for row in rows_of(goldens, "df_xla_perf.csv")}
    kernels = [row for row in core.gpu_rows.tolist() if core.names[c.name[row]] in theirs]
    assert len(kernels) == 15
    for row in kernels:
        arguments = Arguments(*core.argsets[int(c.argset[c.owner[row]])])
        tensors = [one for at in range(len(arguments)) if (one := arguments.optional(at))]
        assert sum(one.bytes for one in tensors) == theirs[core.names[c.name[row]]]
