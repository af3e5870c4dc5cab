"""Whatever the screen, an op has one category: that of its main kernels."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from handmade import span

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.analyses.kernels.kernels import kernel_category_detail, kernel_summary
from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category, ops_unique_args
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.work_summary import work_summary
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts, gpu_categories
from tracelens_graph.analyses.structure.calls import calls_by_op
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.names import CLASSES, Names, category_class
from tracelens_graph.schema import GPU_KINDS, Kind

Words = dict[str, dict[str, set[str]]]


def words(core: Core) -> Words:
    """Op -> screen -> the categories that it has there."""
    found: Words = defaultdict(lambda: defaultdict(set))
    listed: dict[str, tuple[Any, str, str]] = {
        "ops_unique_args": (ops_unique_args(core), "name", "op category"),
        "kernel_summary": (kernel_summary(core), "Parent cpu_op", "Parent op category"),
        "unified_perf_summary": (unified_perf_summary(core), "name", "op category"),
        "calls_by_op": (calls_by_op(core), "op", "category"),
    }
    for screen, (table, op, category) in listed.items():
        for row in table.records():
            found[row[op]][screen].add(row[category])
    for row in ops_summary(core).records():
        found[row["name"]]["ops_summary"] |= set(row["Categories"])
    time: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in kernel_category_detail(core).records():
        time[row["cpu_op"]][row["kernel_category"]] += row["total_time_ms"]
    for op, of_op in time.items():
        found[op]["main kernels"] = {max(of_op, key=lambda category: of_op[category])}
    return found


def check(core: Core) -> None:
    ops = {core.names[code] for code in core.columns.name[core.columns.kind == Kind.Op].tolist()}
    several = {"aten::max", "aten::min"}  # with two tensors they are other ops
    disagree = {
        op: dict(of_op)
        for op, of_op in words(core).items()
        if op in ops - several and len(set().union(*of_op.values())) > 1 and not _copies(of_op)
    }
    assert not disagree
    assert set(work_summary(core)["family"]) <= {
        f"{one}{way}" for one in (*gpu_categories(whole_window(core))[0], "graph", "Other") for way in ("", " backward")
    }


def _copies(of_op: dict[str, set[str]]) -> bool:
    """Whether an op's time is mostly in copies and fills, of which tables of kernels hold nothing."""
    screens = set().union(*(said for screen, said in of_op.items() if screen != "main kernels"))
    return screens == {"Memory Ops"}


@parametrize("path", kineto_traces())
def test_an_op_has_one_category_on_all_screens(path: Path) -> None:
    check(loaded(path))


@pytest.mark.parametrize(
    ("op", "kernel", "category", "theirs"),
    [
        ("aten::_softmax", "void softmax_warp_forward<float>(float*)", "Softmax", "other"),
        ("aten::mm", "ampere_sgemm_128x64", "GEMM", "GEMM"),
        ("aten::cudnn_convolution", "volta_sgemm_64x64_nt", "Convolution", "CONV_fwd"),
        ("aten::native_layer_norm", "vectorized_layer_norm_kernel", "Normalization", "NORM_fwd"),
        ("aten::clamp_min", "unheard_of", "Elementwise", "elementwise"),
        ("mine::op", "unheard_of", "Other", "other"),
    ],
)
def test_known_ops(op: str, kernel: str, category: str, theirs: str) -> None:
    core = load_core(
        [
            span("cpu_op", op, 0, 10),
            span("cuda_runtime", "cudaLaunchKernel", 1, 2, correlation=1),
            span("kernel", kernel, 20, 5, correlation=1),
        ]
    )
    check(core)
    assert list(ops_summary_by_category(core)["op category"]) == [category]
    assert list(ops_summary_by_category(as_tracelens_counts(whole_window(core)))["op category"]) == [theirs]
    names = Names(whole_window(core), GPU_KINDS)
    assert CLASSES[names.classes[names.texts.index(kernel)]] == category_class(category)


def test_most_of_the_time_decides_in_windows_too() -> None:
    def call(at: int, id: int, kernel: str, dur: int) -> list[dict[str, Any]]:
        return [
            span("cpu_op", "mine::op", at, 10),
            span("cuda_runtime", "cudaLaunchKernel", at + 1, 2, correlation=id),
            span("kernel", kernel, at + 20, dur, correlation=id),
        ]

    core = load_core([*call(0, 1, "softmax_kernel", 5), *call(100, 2, "my_gemm", 50)])
    check(core)
    assert list(ops_summary_by_category(core)["op category"]) == ["GEMM"]
    assert list(ops_summary_by_category(core.window(under=0))["op category"]) == ["GEMM"]
