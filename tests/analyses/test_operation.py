"""Small traces: how their operations do, on recordings of one operation by others, and on variations by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade import call, gpu, span

from corpus import CORPUS, cases, loaded, needs_corpus
from tracelens_graph.analyses.diagnosis.finding import ADVICE, Finding
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.performance.judged_ops import judged_ops
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import Architecture, architecture

MI300X = architecture({
    "name": "MI300X", "mem_bw_gbps": 5300,
    "max_achievable_tflops": {"matrix_fp16": 654, "matrix_bf16": 708, "matrix_fp32": 163, "vector_fp32": 163},
})  # fmt: skip
"""The rates that the recordings' owners took; its units follow from its name."""
EVALS = CORPUS / "external" / "tracelens-evals" if CORPUS else Path()

HELD_BACK: dict[str, set[str]] = {
    "conv_01_large_spatial_small_ch": {"few_channels", "odd_filter"},
    "conv_03_asymmetric_kernel": {"odd_filter"},
    "conv_05_pointwise_1x1": set(),
    "conv_07_transposed": {"few_blocks"},
    "elem_01_add_poor_bw": set(),
    "gemm_01_compute_few_tiles": {"few_blocks", "skinny"},
    "gemm_03_compute_misaligned": {"misaligned", "last_wave"},
    "moe_01_many_experts_few_tokens": {"few_tokens"},
    "moe_03_top1_sparse": {"few_tokens"},
    "moe_05_large_capacity": set(),
    "sdpa_01_long_seq_low_eff": set(),
    "sdpa_03_short_seq_overhead": {"short_sequence"},
}
"""Recordings of one operation -> what its sizes show at least, as their names say."""


def operation(events: Any, arch: Architecture | None = None) -> Finding:
    found = verdict(load_core(events), arch)
    return next(one for one in found if one.topic == "operation")


@pytest.mark.parametrize("name", cases((name, name) for name in (HELD_BACK if CORPUS else ())))
def test_an_operation_is_judged_by_itself(name: str) -> None:
    headline, one, *_ = verdict(loaded(EVALS / name / "trace.json.gz"), MI300X)
    if headline.evidence["kind"] == "too_little":
        assert headline.text.startswith("Too little recorded to judge the run: ")
    assert one.topic == "operation"
    assert float(one.evidence["percent"]) > 90
    assert set(str(one.evidence["held_back_by"]).split(", ")) >= HELD_BACK[name], one.text
    assert set(one.advice) <= ADVICE.keys()


@needs_corpus
@pytest.mark.parametrize(
    ("name", "bound", "percent", "ms"),
    [
        ("gemm_01_compute_few_tiles", "compute-bound", 4.46, 10.89),
        ("gemm_03_compute_misaligned", "compute-bound", 52.91, 3.672),
        ("elem_01_add_poor_bw", "memory-bound", 36.11, 4.21),
    ],
)
def test_figures_are_those_of_others(name: str, bound: str, percent: float, ms: float) -> None:
    _, one, *_ = verdict(loaded(EVALS / name / "trace.json.gz"), MI300X)
    assert one.evidence["bound"] == bound
    assert one.evidence["percent_of_roof"] == pytest.approx(percent, rel=0.02)
    assert one.evidence["ms"] == pytest.approx(ms, rel=0.02)
    assert f"{bound}, {one.evidence['percent_of_roof']:.1f} % of the roof of MI300X (" in one.text


def product(us: float, many: int = 3, sizes: list[list[int]] | None = None, **kernel: Any) -> list[dict[str, Any]]:
    """Calls of a product of 4096 x 4096 x 4096 in bf16, back to back."""
    dims = sizes or [[4096, 4096], [4096, 4096]]
    events = []
    for n in range(many):
        events += [
            span("cpu_op", "aten::mm", 20 * n, 10, Input_Dims=dims, Input_type=["c10::BFloat16"] * len(dims)),
            call(20 * n + 1, n), gpu(100 + n * us, us, n, **kernel),
        ]  # fmt: skip
    return events


def test_what_is_missing_is_named() -> None:
    no_device = operation(product(1_000))
    assert "how far below its roof is not known: the trace describes no device (ask -p arch=NAME" in no_device.text
    assert "percent_of_roof" not in no_device.evidence
    no_sizes = operation(product(1_000, sizes=[[]]), MI300X)
    assert "how far below its roof is not known: " in no_sizes.text
    unknown = [span("cpu_op", "mine::op", 0, 10), call(1, 1), gpu(5, 900, 1, "k")]
    assert "no model for this operation" in operation(unknown, MI300X).text


def test_an_operation_near_its_roof_is_not_held_back() -> None:
    fast = operation(product(220, sizes=[[4097, 4097], [4097, 4097]]), MI300X)
    assert float(fast.evidence["percent_of_roof"]) > 70
    assert "held_back_by" not in fast.evidence
    assert fast.advice == ()


def test_more_than_the_roof_cannot_be() -> None:
    fast = operation(product(20), MI300X)
    assert float(fast.evidence["percent_of_roof"]) > 100
    assert "more than it can be" in fast.text
    assert "more than it can be" not in operation(product(220), MI300X).text


def test_what_moves_data_and_computes_nothing_has_the_roof_of_memory() -> None:
    sizes = {"Input_Dims": [[8192, 8192], []], "Input_type": ["float", "Scalar"]}
    one = operation([span("cpu_op", "aten::fill_", 0, 10, **sizes), call(1, 1), gpu(5, 100, 1, "fill")], MI300X)
    assert one.evidence["bound"] == "memory-bound"
    assert one.evidence["percent_of_roof"] == pytest.approx(100 * 4 * 8192**2 / 5300e9 / 100e-6)
    assert "memory-bound, 50.6 % of the roof of MI300X (2.68 of 5.3 TB/s)" in one.text


def test_a_launch_with_few_blocks_is_named() -> None:
    few = operation([*product(1_000, grid=[8, 4, 1])], MI300X)
    assert "held_back_by" in few.evidence
    unknown = [span("cpu_op", "mine::op", 0, 10), call(1, 1), gpu(5, 900, 1, "k", grid=[8, 4, 1])]
    assert "only 32 thread blocks for 304 units" in operation(unknown, MI300X).text


@pytest.mark.parametrize(("short_us", "is_few"), [(2, False), (500, True)])
def test_calls_of_unknown_sizes_are_judged_by_those_with_most_time(short_us: int, is_few: bool) -> None:
    events = []
    for at in range(6):
        us, grid = (500, [4000, 1, 1]) if at in (2, 4) else (short_us, [1, 1, 1])
        op = span("cpu_op", "mine::add_", 20 * at, 10)
        events += [op, call(20 * at + 1, at + 1), gpu(1000 * at + 500, us, at + 1, "k", grid=grid)]
    (op,) = judged_ops(load_core(events).window(), MI300X)
    assert [one.name for one in op.reasons] == (["few_blocks"] if is_few else [])


def test_only_large_parts_of_a_small_trace_are_judged() -> None:
    events = product(1_000)
    events += [span("cpu_op", "aten::relu", 500, 10), call(501, 90), gpu(3_200, 30, 90, "relu")]
    ops = [one.evidence["op"] for one in verdict(load_core(events), MI300X) if one.topic == "operation"]
    assert ops == ["aten::mm"]


def test_a_long_run_of_several_operations_is_no_trace_of_one() -> None:
    events = product(1_000, many=30)
    events += [span("cpu_op", "aten::relu", 5_000, 10), call(5_001, 90), gpu(31_000, 9_000, 90, "relu")]
    assert "operation" not in {one.topic for one in verdict(load_core(events), MI300X)}
    assert "operation" in {one.topic for one in verdict(load_core(product(1_000, many=30)), MI300X)}


def test_a_run_of_products_that_memory_bounds_is_not_called_compute_bound() -> None:
    row = [[1, 8192], [8192, 8192]]
    memory, one, *_ = verdict(load_core(product(60, many=200, sizes=row)), MI300X)
    assert one.evidence["bound"] == "memory-bound"
    assert memory.text.startswith("Memory-bandwidth-bound: matrix products take ")
    assert memory.evidence["kind"] == "compute.gemm"
    assert float(memory.evidence["memory_bound_percent"]) > 99
    unknown, *_ = verdict(load_core(product(60, many=200, sizes=row)))
    assert "memory_bound_percent" not in unknown.evidence, "no device is known"
    compute, *_ = verdict(load_core(product(220, many=200)), MI300X)
    assert compute.text.startswith("Compute-bound: ")
