"""Counters of CUPTI's range profiler: joined to launches in order, in the format that Kineto wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from handmade import span

from tracelens_graph.analyses.performance.counters import kernel_counters
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import narrow, whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.table import Table

FADD, FFMA = "smsp__sass_fadd.sum", "smsp__sass_ffma.sum"


def counted(name: str, ts: float, **counters: float) -> dict[str, Any]:
    """A range as Kineto wrote it: on the device, named after the kernel, with the counters as arguments."""
    return {**span("cuda_profiler_range", name, ts, 1, 0, 0), "args": counters}


def launch(name: str, ts: float, number: int) -> dict[str, Any]:
    return span("cuda_runtime", name, ts, 2, correlation=number)


def events() -> list[dict[str, Any]]:
    """Two convolutions with a kernel each and a sum, launched by three different calls; ranges out of order."""
    return [
        span("user_annotation", "ProfilerStep#1", 0, 30), span("user_annotation", "ProfilerStep#2", 30, 30),
        span("cpu_op", "aten::conv2d", 0, 10), span("cpu_op", "aten::cudnn_convolution", 1, 8),
        launch("cudaLaunchKernel", 2, 1), launch("cudaMemcpyAsync", 5, 2),
        span("cpu_op", "aten::conv2d", 20, 8), span("cpu_op", "aten::cudnn_convolution", 21, 6),
        launch("cudaLaunchKernelExC", 22, 3),
        span("cpu_op", "aten::add", 40, 8), launch("cuLaunchKernel", 41, 4),
        counted("fft2d", 200, **{FADD: 30, FFMA: 5}), counted("fft2d", 100, **{FADD: 10, FFMA: 5}),
        counted("add", 300, **{FADD: 7.5, "device": 3}),
    ]  # fmt: skip


def rows(table: Table) -> list[tuple[Any, ...]]:
    names = ("kernel", "op", "outermost_op", "counter", "ranges", "sum", "mean", "min", "max")
    return list(zip(*(table[name] for name in names), strict=True))


CONV = ("fft2d", "aten::cudnn_convolution", "aten::conv2d")


@pytest.fixture
def core(tmp_path: Path) -> Core:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events()}))
    return load_core(path)


def test_ranges_belong_to_launches_in_order(core: Core) -> None:
    assert rows(kernel_counters(core)) == [
        (*CONV, FADD, 2, 40, 20, 10, 30), (*CONV, FFMA, 2, 10, 5, 5, 5),
        ("add", "aten::add", "aten::add", FADD, 1, 7.5, 7.5, 7.5, 7.5),
    ]  # fmt: skip
    assert list(kernel_counters(core)["uid"]) == [4, 4, 10]


def test_a_step_has_its_launches(core: Core) -> None:
    (row,) = rows(kernel_counters(narrow(whole_window(core), step=2)))
    assert row[:2] == ("add", "aten::add")


def test_without_as_many_launches_ops_are_unknown() -> None:
    table = kernel_counters(load_core(events()[:-1]))
    assert {row[1] for row in rows(table)} == {None}
    assert list(table["sum"]) == [40, 10]
    assert table.notes == ["2 ranges and 3 launches of kernels: which belong together is unknown"]


def test_a_trace_without_counters_says_so() -> None:
    table = kernel_counters(load_core(events()[:5]))
    assert not len(table)
    assert "CUPTI" in table.notes[0]


@pytest.mark.parametrize("args", [None, [], {"x": "text"}, {"x": None}, {"x": True}, {FADD: [1]}])
def test_odd_arguments_count_nothing(args: Any, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps([*events()[:5], {**counted("fft2d", 1), "args": args}]))
    assert not len(kernel_counters(load_core(path)))


def test_a_saved_graph_has_them_still(core: Core, tmp_path: Path) -> None:
    from tracelens_graph.stores.graph_file import write_graph

    write_graph(core, tmp_path / "saved.tlg")
    assert rows(kernel_counters(load_core(tmp_path / "saved.tlg"))) == rows(kernel_counters(core))


def test_values_beyond_64_bits_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    found = [launch("cudaLaunchKernel", 0, 1), counted("k", 10, a=10**400, b=1e308, c=3)]
    path.write_text(json.dumps({"traceEvents": found}))
    table = kernel_counters(load_core(path))
    assert list(zip(table["counter"], table["sum"], strict=True)) == [("c", 3.0)]
    assert any("2" in note for note in table.notes)
