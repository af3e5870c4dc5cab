"""Times that models predict, beside the measured ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extended import NORM_MODEL, norm_cost, tables_of, trace
from handmade import span

from tracelens_graph.extensions.extension import Extension
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.devices import architecture
from tracelens_graph.perf.model import OpModel, TimeModel, Work


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
