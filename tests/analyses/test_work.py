"""GPU time by family and sizes, whatever the framework; times that models of users predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plain_xplane as plain
import pytest
from extended import NORM_MODEL, norm_cost, tables_of, trace
from handmade import span
from handmade_jax import BF16, F32, computation, instruction, packed, program, shape
from plain_xplane import Plane, block, number

from tracelens_graph.analyses.across.compare import compare
from tracelens_graph.analyses.performance.work_summary import sizes_of, work_summary
from tracelens_graph.extensions.extension import Extension
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.devices import architecture
from tracelens_graph.perf.model import OpModel, TimeModel, Work

US = 1_000_000


def dims(
    left: list[int], right: list[int], left_batch: list[int] | None = None, right_batch: list[int] | None = None
) -> bytes:
    return block(30, packed(1, left) + packed(2, right) + packed(3, left_batch or []) + packed(4, right_batch or []))


def jax_profile(proto: bytes, *ops: str) -> Core:
    """A profile in which each instruction has a kernel of 100 us."""
    programs, host, device = Plane("/host:metadata"), Plane("/host:CPU"), Plane("/device:GPU:0")
    programs.program(3, "jit_f(3)", proto)
    kernels = [device.event("k", (100 + 200 * i) * US, 100 * US, correlation_id=i + 1, hlo_op=f"&{op}", program_id=3)
               for i, op in enumerate(ops)]  # fmt: skip
    launches = [host.event("cuLaunchKernel", 10 * (i + 1) * US, US, correlation_id=i + 1) for i in range(len(ops))]
    device.line(7, "Stream #7", 0, *kernels)
    host.line(1, "python", 0, *launches)
    return load_core(plain.written(programs, host, device))


def products() -> bytes:
    """A product of 64 x 32 by 32 x 16, its transpose, and one that XLA divided into 4 sums of 8."""
    add = computation(
        1, "add", 13, instruction(11, "a", "parameter", shape(F32)), instruction(12, "b", "parameter", shape(F32)),
        instruction(13, "sum", "add", shape(F32), [11, 12]),
    )  # fmt: skip
    return program(
        "jit_f", 2, add,
        computation(
            2, "main", 27,
            instruction(21, "x", "parameter", shape(BF16, 64, 32)),
            instruction(22, "w", "parameter", shape(BF16, 32, 16)),
            instruction(23, "dot.1", "dot", shape(BF16, 64, 16), [21, 22], more=dims([1], [0])),
            instruction(24, "dot.2", "dot", shape(BF16, 16, 64), [22, 21], more=dims([0], [1])),
            instruction(31, "xs", "bitcast", shape(BF16, 64, 4, 8), [21]),
            instruction(32, "ws", "bitcast", shape(BF16, 4, 8, 16), [22]),
            instruction(25, "dot.3", "dot", shape(F32, 4, 64, 16), [31, 32], more=dims([2], [1], [1], [0])),
            instruction(26, "zero", "constant", shape(F32)),
            instruction(27, "reduce.4", "reduce", shape(F32, 64, 16), [25, 26], calls=[1]),
        ),
    )  # fmt: skip


def torch_trace() -> Core:
    """`aten::mm` of the same product, and an addition."""

    def op(name: str, at: int, id: int, shapes: list[list[int]]) -> list[dict[str, Any]]:
        told = {"Input Dims": shapes, "Input type": ["c10::BFloat16"] * len(shapes), "External id": id}
        return [
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 9, "args": told},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 2, "dur": 2,
             "args": {"correlation": id}},
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 50, "dur": 40,
             "args": {"correlation": id, "device": 0, "stream": 7}},
        ]  # fmt: skip

    return load_core(
        {"traceEvents": [*op("aten::mm", 10, 1, [[64, 32], [32, 16]]), *op("aten::add", 100, 2, [[4], [4]])]}
    )


def test_products_are_told_by_their_sizes_however_they_are_computed() -> None:
    found = work_summary(jax_profile(products(), "dot.1", "dot.2", "dot.3", "reduce.4")).records()
    assert [(row["family"], row["sizes"], row["calls"], row["total_ms"]) for row in found] == [
        ("GEMM", "64 x 16 x 32", 3, pytest.approx(0.3)), ("Reduction", "", 1, pytest.approx(0.1)),
    ]  # fmt: skip
    assert found[0]["tflops_s"] == pytest.approx(3 * 2 * 64 * 16 * 32 / 300e-6 / 1e12)


def test_a_batch_without_a_sum_behind_it_is_a_batch() -> None:
    proto = program(
        "jit_f", 2,
        computation(
            2, "main", 23,
            instruction(21, "x", "parameter", shape(F32, 64, 4, 8)),
            instruction(22, "w", "parameter", shape(F32, 4, 8, 16)),
            instruction(23, "dot.3", "dot", shape(F32, 4, 64, 16), [21, 22], more=dims([2], [1], [1], [0])),
        ),
    )  # fmt: skip
    assert list(work_summary(jax_profile(proto, "dot.3"))["sizes"]) == ["4 x 64 x 16 x 8"]


def test_convolutions_have_the_sizes_that_pytorch_gives_them() -> None:
    """Channels last, filters with channels in the middle."""
    numbers = number(7, 0) + number(8, 3) + packed(11, [1, 2]) + number(9, 0) + number(10, 3) + packed(12, [1, 2])
    numbers += number(3, 2) + number(4, 3) + packed(6, [0, 1])
    window = b"".join(block(1, number(1, 3) + number(2, 1)) for _ in range(2))
    proto = program(
        "jit_f", 2,
        computation(
            2, "main", 23,
            instruction(21, "x", "parameter", shape(F32, 2, 10, 12, 5)),
            instruction(22, "w", "parameter", shape(F32, 3, 3, 5, 7)),
            instruction(23, "conv.1", "convolution", shape(F32, 2, 8, 10, 7), [21, 22],
                        more=block(15, window) + block(16, numbers)),
        ),
    )  # fmt: skip
    found = work_summary(jax_profile(proto, "conv.1")).records()
    assert [(row["family"], row["sizes"]) for row in found] == [("Convolution", "2 x 5 x 10 x 12, 7 x 5 x 3 x 3")]
    torch = {"input_shape": (2, 5, 10, 12), "filter_shape": (7, 5, 3, 3), "stride": (1, 1)}
    assert sizes_of(torch) == found[0]["sizes"]


def test_jax_is_compared_with_pytorch_by_what_is_computed() -> None:
    runs = {"torch": torch_trace(), "jax": jax_profile(products(), "dot.1", "reduce.4")}
    table = compare(runs, tables=["work_summary"])["work_summary"]
    rows = {(row["family"], row["sizes"] or ""): row for row in table.records()}
    product = rows["GEMM", "64 x 16 x 32"]
    assert (product["torch::total_ms"], product["jax::total_ms"]) == (pytest.approx(0.04), pytest.approx(0.1))
    assert product["only_in"] == ""
    assert rows["Reduction", ""]["only_in"] == "jax"
    assert rows["Elementwise", ""]["only_in"] == "torch"


@pytest.mark.parametrize(
    ("params", "text"),
    [(None, ""), ({}, ""), ({"M": 2, "N": 3}, ""), ({"M": None, "N": 3, "K": 4}, ""),
     ({"M": 2, "N": 3, "K": 4, "B": 1}, "3 x 2 x 4"), ({"M": 2, "N": 3, "K": 4, "B": None}, "3 x 2 x 4"),
     ({"B": 2, "N_Q": 8, "H_Q": 4, "N_KV": 16, "d_h_qk": 64, "causal": True}, "2 x 4 x 8 x 16 x 64, causal")],
)  # fmt: skip
def test_sizes_of_parameters(params: Any, text: str) -> None:
    assert sizes_of(params) == text


@pytest.mark.parametrize(
    "name", ["jax/te-fused-attention.xplane.pb", "jax/conv-legacy.xplane.pb", "mi300/vit-nsfw.json.gz"]
)
def test_all_gpu_time_is_there(corpus: Path, name: str) -> None:
    core = load_core(corpus / "tracelens" / name)
    rows = core.gpu_rows
    assert sum(work_summary(core)["total_ms"]) == pytest.approx(core.columns.dur_ns[rows].sum() / 1e6, rel=0.01)


@pytest.fixture
def core() -> Core:
    return load_core(trace())


def test_predicted_times_stand_beside_the_roofline(core: Core) -> None:
    asked: list[Work] = []

    def twenty(work: Work, arch: Any) -> float | None:
        asked.append(work)
        assert arch.key == "h100-sxm"
        return 20.0 if work.op == "my::norm" else None

    extension = Extension(models={"my::norm": NORM_MODEL}, time_models=(TimeModel("Simulated", twenty),))
    tables = tables_of(core, extension, arch=architecture("h100-sxm"))
    (row,) = tables["MyNorm_fwd"].records()
    assert row["Simulated Time (µs)_first"] == 20
    assert (row["Pct Simulated_min"], row["Pct Simulated_max"]) == (50, 200)
    assert row["Pct Simulated_mean"] == 125
    assert [(work.op, work.backward) for work in asked if work.op == "my::norm"] == [("my::norm", False)]
    assert asked[0].cost.params
    (product,) = tables["GEMM"].records()
    assert product["Simulated Time (µs)_first"] is None
    assert np.isnan(product["Pct Simulated_mean"])
    unified = tables["unified_perf_summary"]
    assert unified.about["Simulated Time (µs)_first"].unit == "us"
    assert dict(zip(unified["name"], unified["Simulated Time (µs)_first"], strict=True)) == {
        "my::norm": 20, "aten::mm": None,
    }  # fmt: skip
    names = list(unified.columns)
    assert names.index("Pct Roofline_max") < names.index("Simulated Time (µs)_first")


def test_a_time_model_need_not_apply(core: Core) -> None:
    def never(work: Work, arch: Any) -> float:
        raise CannotModel("only others")

    tables = tables_of(core, Extension(time_models=(TimeModel("No", never),)))
    assert set(tables["unified_perf_summary"]["No Time (µs)_first"]) == {None}


def test_predictions_know_backward_passes() -> None:
    both = {"Sequence_number": 5, "Input_Dims": [[4, 8]], "Input_type": ["c10::BFloat16"]}
    again = {"Sequence_number": 5, "Fwd_thread_id": 1}
    gpu = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    events = [
        span("cpu_op", "my::norm", 10, 10, **both),
        span("cuda_runtime", "cudaLaunchKernel", 12, 2, correlation=1),
        span("kernel", "forward", 15, 5, correlation=1, **gpu),
        span("cpu_op", "autograd::engine::evaluate_function: NormBackward", 40, 20, tid=101, **again),
        span("cpu_op", "NormBackward", 42, 10, tid=101, **again),
        span("cuda_runtime", "cudaLaunchKernel", 44, 2, tid=101, correlation=2),
        span("kernel", "backward", 50, 8, correlation=2, **gpu),
    ]
    seen = set()

    def look(work: Work, arch: Any) -> float:
        seen.add((work.op, work.backward))
        return 4.0

    model = OpModel(norm_cost, "MyNorm_fwd", backward=norm_cost)
    core = load_core({"schemaVersion": 1, "traceEvents": events})
    tables = tables_of(core, Extension(models={"my::norm": model}, time_models=(TimeModel("Look", look),)))
    assert tables["MyNorm_bwd"]["Pct Look_mean"].tolist() == [50]
    assert tables["MyNorm_fwd"]["Pct Look_mean"].tolist() == [80]
    assert seen == {("my::norm", False), ("my::norm", True)}
    assert tables["unified_perf_summary"]["Look Time (µs)_first"] == [4, 4]
    assert seen == {("my::norm", False), ("my::norm", True), ("NormBackward", True)}
