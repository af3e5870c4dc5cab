"""Plans with what the trace and the models say of their calls, and why other operations have none."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import span
from recorded_calls import MM, calls

from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
from tracelens_graph.replay.planned import (
    AUTOGRAD,
    COLLECTIVE,
    COMPILED,
    CUSTOM,
    ENGINE,
    PART,
    RANGE,
    Estimates,
    Plans,
    complete,
    planned,
    traced,
)
from tracelens_graph.replay.replay_plan import Work
from tracelens_graph.replay.signatures import named


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("c10d::allreduce_", COLLECTIVE), ("record_param_comms", COLLECTIVE), ("nccl:all_reduce", COLLECTIVE),
        ("_c10d_functional::all_reduce", COLLECTIVE),
        ("triton_poi_fused_add_0", "its grid is not recorded, as of kernels of replayed graphs"),
        ("CompiledFunctionBackward", COMPILED), ("MulBackward0", AUTOGRAD), ("CompiledFunction", COMPILED),
        ("autograd::engine::evaluate_function: MulBackward0", AUTOGRAD), ("vllm::moe_forward", PART),
        ("vllm::unified_attention_with_output", ENGINE), ("acme::op", CUSTOM),
        ("_C::rms_norm", CUSTOM), ("Optimizer.step#Adam.step", RANGE), ("", RANGE),
    ],
)  # fmt: skip
def test_why_an_operation_without_a_schema_has_no_plan(name: str, reason: str) -> None:
    trace = calls()
    trace["traceEvents"][4]["name"] = name
    core = load_core(trace)
    found = planned(core, core.row(4))
    assert (found.plan, found.reason, found.state, found.why) == (None, reason, "no", reason)


def test_a_plan_has_what_the_trace_and_the_models_say() -> None:
    w = load_core(calls()).everything
    plans = Plans(named(w, "aten::matmul"))
    told = traced(plans.signatures, 0, "GPU")
    assert (told.calls, told.uid, told.kernels, told.children) == (1, 0, ("gemm",), ("aten::mm",))
    assert (told.kernel_us, told.median_us, told.host_us, told.gpu) == (10.0, 10.0, 40.0, "GPU")
    plans = Plans(named(w, "aten::mm"))
    estimates = Estimates(w, architecture("h100-sxm"))
    assert estimates.gpu == "GPU of tests"
    found = complete(plans, 0, estimates).plan
    assert found is not None
    assert found.work.flops == 2 * 8 * 16 * 4
    assert found.work.bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert found.work.roof_us == pytest.approx(found.work.bytes / 3.35e6, rel=0.05)
    assert complete(plans, 0, Estimates(w)).plan.work.roof_us is None  # type: ignore[union-attr]
    assert Estimates(w).of(w.core.row(16)).flops is None


def kernel(ts: float, number: int) -> list[dict[str, Any]]:
    """A launch and its kernel."""
    return [
        span("cuda_runtime", "cudaLaunchKernel", ts, 1, correlation=number),
        span("kernel", "k", ts + 500, 5, 0, 7, device=0, stream=7, correlation=number),
    ]


def test_the_work_of_an_operation_above_that_does_nothing_else() -> None:
    def work(*others: dict[str, Any]) -> Work:
        inner = span("cpu_op", "aten::_inner", 5, 20, **MM)
        events = [span("cpu_op", "aten::mm", 0, 50, **MM), inner, *kernel(6, 1), *others]
        core = load_core({"schemaVersion": 1, "traceEvents": events})
        return Estimates(core.everything).of(core.row(1))

    assert work().flops == 2 * 8 * 16 * 4
    assert work(*kernel(30, 2)) == Work()


def test_operations_that_move_data_alone_are_held_against_the_bandwidth() -> None:
    told = {"Input_Dims": [[50, 16], [8]], "Input_type": ["float", "long int"], "Input_Strides": [[16, 1], [1]],
            "Concrete_Inputs": ["", ""]}  # fmt: skip
    events = [span("cpu_op", "aten::embedding", 0, 50, **told), *kernel(6, 1)]
    found = Estimates(load_core({"schemaVersion": 1, "traceEvents": events}).everything, architecture("h100-sxm")).of(0)
    assert found.flops == 0
    assert found.bytes
    assert found.roof_us == pytest.approx(found.bytes / 3.35e6, rel=0.05)
