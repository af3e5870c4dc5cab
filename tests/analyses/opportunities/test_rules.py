"""Every rule has a trace in which it finds its opportunity, and one in which it must not."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from handmade import call, gpu, span
from op_patterns import PATTERNS

from tracelens_graph.analyses.diagnosis.finding import ADVICE, Finding
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.opportunities.opportunities import found_in, opportunities
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.rules import RULES
from tracelens_graph.analyses.performance.model_flops import model_flops
from tracelens_graph.frameworks.framework import XLA
from tracelens_graph.graph.window import narrow, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.kernels import DEVICE_PROPERTIES

Events = list[dict[str, Any]]


def ops(
    many: int = 40, us: float = 200, name: str = "aten::add", start: float = 0, first: int = 1, **kernel: Any
) -> Events:
    """Ops, each of one kernel, all launched ahead and run back to back."""
    found = []
    if "kernel" in kernel:
        kernel["name"] = kernel.pop("kernel")
    for n in range(many):
        at = start + 10 * n
        found += [
            span("cpu_op", name, at, 8),
            call(at + 1, first + n),
            gpu(start + 20 + us * n, us, first + n, **kernel),
        ]
    return found


def waiting(name: str, us: float, cat: str = "python_function") -> Events:
    """Ops, then a call during which the GPU has nothing to do, then more ops."""
    return [*ops(), span(cat, name, 400, 7_700 + us), *ops(start=8_100 + us, first=100)]


class Case(NamedTuple):
    """Two traces: in the first the rule finds something, in the second it must not."""

    found: Events
    left: Events
    device: dict[str, Any] | None = None


def products(kernel: str, us: float, dtype: str, size: int = 8192, name: str = "aten::mm", many: int = 40) -> Events:
    """Square products, back to back."""
    named = {"Input_Dims": [[size, size]] * 2, "Input_type": [dtype] * 2}
    return [one | {"args": one["args"] | _args(one, named)} for one in ops(many, us, name, kernel=kernel)]


def _args(event: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", " "): value for key, value in named.items()} if event["cat"] == "cpu_op" else {}


def calls(call_name: str, us: float) -> Events:
    """Ops, then a call of the driver during which the GPU has nothing to do, then more ops."""
    return waiting(call_name, us, "cuda_runtime")


def beside(cat: str, name: str, us: float, alone: bool, launcher: str = "cudaMemcpyAsync") -> Events:
    """Ops and, behind them or beside them on another stream, other GPU work."""
    start = 8_020 if alone else 1_000
    return [
        *ops(),
        call(500, 900, launcher),
        gpu(start, us, 900, name, cat, stream=9),
        *ops(start=8_000 + us * alone, first=100),
    ]


H100 = DEVICE_PROPERTIES
A100 = {
    **H100, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_049_475_072, "computeMajor": 8, "numSms": 108,
}  # fmt: skip
SIMT, TF32 = "ampere_sgemm_128x64_tn", "ampere_tf32_s1688gemm_fp32_128x128_ldg4_stages_32x3_tn"
AMPERE = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
HOPPER = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel"
NEXT = "torch/utils/data/dataloader.py(700): __next__"
BF16 = "c10::BFloat16"

CASES: dict[str, Case] = {
    "data-loader": Case(waiting(NEXT, 5_000), waiting(NEXT, 100)),
    "synchronization": Case(calls("cudaStreamSynchronize", 5_000), calls("cudaStreamSynchronize", 100)),
    "python": Case(waiting("train.py(3): work", 5_000), waiting("train.py(3): work", 100)),
    "launches": Case(waiting("aten::sort", 5_000, "cpu_op"), waiting("aten::sort", 100, "cpu_op")),
    "allocation": Case(calls("cudaMalloc", 5_000), calls("cudaMalloc", 100)),
    "compilation": Case(
        waiting("jax/_src/compiler.py(600): compile_or_get_cached", 5_000),
        waiting("jax/_src/compiler.py(600): compile_or_get_cached", 100),
    ),
    "host-to-device-copy": Case(
        beside("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 3_000, True),
        beside("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 3_000, False),
    ),
    "other-copies": Case(
        beside("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 3_000, True),
        beside("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 3_000, False),
    ),
    "exposed-communication": Case(
        beside("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 3_000, True, "cudaLaunchKernel"),
        beside("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 3_000, False, "cudaLaunchKernel"),
    ),
    "below-roof": Case(products(HOPPER, 3_000, BF16), products(HOPPER, 1_300, BF16), H100),
    "no-roof": Case(ops(name="mine::op"), products(HOPPER, 3_000, BF16), H100),
    "tensor-cores": Case(products(SIMT, 20_000, "float"), products(TF32, 3_000, "float"), H100),
    "mixed-precision": Case(products(TF32, 3_000, "float"), products(HOPPER, 1_300, BF16), H100),
    "older-kernels": Case(products(AMPERE, 3_000, BF16), products(HOPPER, 1_300, BF16), H100),
    **{rule: Case(*traces) for rule, traces in PATTERNS.items()},
}


def found_in_trace(events: Events, device: dict[str, Any] | None = None) -> list[Opportunity]:
    described = {"deviceProperties": [{"id": 0, **device}]} if device else {}
    return found_in(window_of(load_core({**described, "traceEvents": events})))


def of_rule(rule: str, events: Events, device: dict[str, Any] | None) -> list[Opportunity]:
    return [one for one in found_in_trace(events, device) if one.rule == rule]


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_what_it_should_and_nothing_else(rule: str) -> None:
    case = CASES[rule]
    (one,) = of_rule(rule, case.found, case.device)
    assert one.ns > 0
    assert one.won_ns is None or 0 < one.won_ns <= one.ns
    assert bool(one.assumption) == (one.won_ns is not None)
    assert set(one.advice) <= ADVICE.keys()
    assert not of_rule(rule, case.left, case.device)


def test_every_rule_has_a_case() -> None:
    assert CASES.keys() == RULES.keys()


def test_tf32_is_no_gain_where_the_device_has_none_or_uses_it() -> None:
    v100 = {**H100, "name": "Tesla V100-SXM2-32GB", "totalGlobalMem": 34_079_637_504, "computeMajor": 7, "numSms": 80}
    assert not of_rule("tensor-cores", products("volta_sgemm_128x64_tn", 90_000, "float"), v100)


def test_what_a_precision_wins_follows_from_the_rates() -> None:
    (one,) = of_rule("tensor-cores", products(SIMT, 20_000, "float"), H100)
    # 66.9 TFLOP/s of the vector units become 494.7 of the tensor cores
    assert one.won_ns == pytest.approx(one.ns * (1 - 66.9 / 494.7), rel=1e-6)
    assert one.ns == 40 * 20_000_000


def test_older_kernels_are_older_than_the_device() -> None:
    assert not of_rule("older-kernels", products(AMPERE, 3_000, BF16), A100)
    (one,) = of_rule("older-kernels", products(AMPERE, 3_000, BF16), H100)
    assert one.id == "older-kernels@ampere"


def test_an_operation_has_the_same_id_whatever_its_times_and_uids() -> None:
    runs = (products(HOPPER, us, BF16, many=many) for us, many in ((3_000, 40), (2_500, 60)))
    first, second = (of_rule("below-roof", one, H100)[0] for one in runs)
    assert first.id == second.id == "below-roof@aten::mm[8192x8192,8192x8192,bf16]"
    assert first.evidence["bound"] == "compute"
    assert first.evidence["percent_of_roof"] == pytest.approx(100 * 2 * 8192**3 / 989.4e12 / 3e-3)
    assert first.won_ns == pytest.approx(first.ns - 40 * 1e9 * 2 * 8192**3 / 989.4e12, abs=100)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_a_source(rule: str) -> None:
    one = RULES[rule]
    assert one.source.startswith("https://")
    assert one.thresholds


def test_the_table_is_ranked_by_gain() -> None:
    table = opportunities(load_core(CASES["data-loader"].found))
    (first, *_) = table.records()
    assert first["id"] == "data-loader"
    assert first["could_win_ms"] == pytest.approx(5.0, rel=0.1)
    assert first["percent"] == pytest.approx(100 * first["could_win_ms"] / (16 + first["could_win_ms"]), rel=0.02)


def test_an_id_is_the_same_in_every_run() -> None:
    slow, slower = (waiting("torch/utils/data/dataloader.py(700): __next__", us) for us in (5_000, 7_000))
    ids = [[one.id for one in found_in_trace(events)] for events in (slow, slower)]
    assert ids[0] == ids[1]


def test_newer_kernels_win_nothing_of_what_sizes_hold_back() -> None:
    (one,) = of_rule("older-kernels", products(AMPERE, 300, BF16, size=100), H100)
    assert (one.won_ns, one.assumption) == (None, "")


@pytest.mark.parametrize("rule", ["exposed-communication", "host-to-device-copy", "other-copies"])
def test_no_more_can_be_hidden_than_computation_takes(rule: str) -> None:
    name, cat, launcher = {
        "exposed-communication": ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", "kernel", "cudaLaunchKernel"),
        "host-to-device-copy": ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", "cudaMemcpyAsync"),
        "other-copies": ("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", "cudaMemcpyAsync"),
    }[rule]
    hidden = [call(501, 901, launcher), gpu(1_000, 6_000, 901, name, cat, stream=9)]
    events = [*ops(), *hidden, call(500, 900, launcher), gpu(8_020, 30_000, 900, name, cat, stream=9)]
    (one,) = of_rule(rule, events, None)
    assert (one.ns, one.won_ns) == (30_000_000, 2_000_000)


def test_little_work_says_nothing_of_the_host() -> None:
    events = waiting("train.py(3): work", 5_000)
    few = [one for one in events if (one["args"].get("correlation") or one["ts"]) in (1, 2, 100, 0, 10, 400, 13_100)]
    assert not of_rule("python", few, None)
    assert of_rule("python", events, None)


def test_whole_numbers_are_bound_by_memory() -> None:
    events = products(HOPPER, 1_000, "long int", name="aten::add")
    (one,) = of_rule("below-roof", events, H100)
    assert (one.evidence["bound"], one.won_ns is not None) == ("memory", True)


# -- what the verdict says ------------------------------------------------------------------------------------------


def verdict_of(events: Events, device: dict[str, Any] | None = None) -> list[Finding]:
    described = {"deviceProperties": [{"id": 0, **device}]} if device else {}
    return verdict(load_core({**described, "traceEvents": events}))


def test_the_verdict_shows_what_could_win_most() -> None:
    # another op, so that the trace is not one of a single operation
    events = [*products(HOPPER, 3_000, BF16), *ops(us=1_000, start=121_000, first=500)]
    found = verdict_of(events, H100)
    (one,) = [one for one in found if one.topic == "opportunity"]
    assert one.id == "below-roof@aten::mm[8192x8192,8192x8192,bf16]"
    assert one.evidence["could_win_ms"] == pytest.approx(40 * (3 - 2 * 8192**3 / 989.4e12 * 1e3), rel=1e-3)
    (products_found,) = [one for one in found if one.id == "kernels@compute.gemm"]
    assert products_found.evidence["percent_of_roof"] == pytest.approx(one.evidence["percent_of_roof"])
    assert len({one.id for one in found}) == len(found)


def test_the_verdict_of_a_run_that_waits_for_the_host_asks_no_rule_of_kernels() -> None:
    slow = [*products(HOPPER, 3_000, BF16, many=20), span("python_function", "train.py(3): work", 400, 400_000)]
    events = [*slow, *products(HOPPER, 3_000, BF16, many=20)]
    shifted = [one | {"ts": one["ts"] + 400_400} if n >= len(slow) else one for n, one in enumerate(events)]
    assert not [one for one in verdict_of(shifted, H100) if one.topic == "opportunity"]


@pytest.mark.parametrize(
    ("kernel", "advised"),
    [("void at::native::vectorized_elementwise_kernel<4, f>", {"fusion"}), ("triton_poi_fused_add_mul_0", set())],
)
def test_kernels_that_a_compiler_fused_are_not_to_be_fused(kernel: str, advised: set[str]) -> None:
    named = {"Input Dims": [[8192, 8192]] * 2, "Input type": [BF16] * 2}
    events = [one | {"args": one["args"] | (named if one["cat"] == "cpu_op" else {})} for one in ops(kernel=kernel)]
    given = {name for one in verdict_of(events, H100) for name in one.advice}
    assert given & {"fusion", "python_tuning"} == advised
    assert {name for one in found_in_trace(events, H100) for name in one.advice} & {"fusion"} == advised


def test_an_optimizer_is_fused_by_its_option() -> None:
    pointwise = "void at::native::vectorized_elementwise_kernel<4, f>"
    step = span("user_annotation", "Optimizer.step#SGD.step", -1, 500)
    (one,) = of_rule("below-roof", [step, *products(pointwise, 3_000, "float", name="aten::add_")], H100)
    assert one.advice == ("fused_optimizer",)


def test_the_verdict_shows_the_larger_gain_of_an_operation() -> None:
    found = [one.id for one in verdict_of(products(SIMT, 20_000, "float"), H100) if one.topic == "opportunity"]
    assert found == ["mixed-precision", "tensor-cores"]


def test_what_is_faster_than_its_roof_cannot_be_right() -> None:
    (whole,) = [one for one in verdict_of(products(HOPPER, 300, BF16), H100) if one.topic == "kernels"]
    assert whole.evidence["percent_of_roof"] > 300
    assert whole.evidence["could_win_ms"] == 0
    g = load_core({"deviceProperties": [{"id": 0, **H100}], "traceEvents": products(HOPPER, 300, BF16)})
    assert any("cannot be" in note for note in model_flops(g).notes)


def test_utilisation_of_one_step_is_that_of_the_run() -> None:
    step = span("user_annotation", "ProfilerStep#1", -1_000, 130_000)
    g = load_core({"deviceProperties": [{"id": 0, **H100}], "traceEvents": [step, *products(HOPPER, 3_000, BF16)]})
    one, whole = model_flops(g).records()
    assert one["time_ms"] == pytest.approx(whole["time_ms"]) == pytest.approx(130)


def test_model_flops_utilisation() -> None:
    events = products(HOPPER, 3_000, BF16)
    g = load_core({"deviceProperties": [{"id": 0, **H100}], "traceEvents": events})
    (whole,) = model_flops(g).records()
    assert (whole["name"], whole["calls"], whole["tflop"]) == ("(all)", 40, pytest.approx(40 * 2 * 8192**3 / 1e12))
    assert whole["mfu_percent"] == pytest.approx(100 * 2 * 8192**3 / 989.4e12 / 3e-3)
    assert verdict(g)[0].evidence["mfu_percent"] == pytest.approx(whole["mfu_percent"])
    assert model_flops(load_core(events)).notes == ["the trace describes no device"]
    # A mix of precisions is held against the peak of each.
    mixed = products(TF32, 6_000, "float", name="aten::bmm")
    later = [one | {"ts": one["ts"] + 120_000, "args": one["args"] | _renumbered(one)} for one in mixed]
    g = load_core({"deviceProperties": [{"id": 0, **H100}], "traceEvents": [*events, *later]})
    assert model_flops(g).records()[0]["peak_tflops_s"] < 989.4


def test_work_of_the_step_before_is_no_time_of_a_step() -> None:
    """40 products of 3 ms, launched in a step, begin behind 80 ms of kernels that nothing in the file launched."""
    events = products(HOPPER, 3_000, BF16)
    begin = min(one["ts"] for one in events if one["cat"] == "kernel")
    late = [one | {"ts": one["ts"] + 80_000} if one["cat"] == "kernel" else one for one in events]
    early = [gpu(begin + 4_000 * n, 4_000, 10_000 + n) for n in range(20)]
    step = span("user_annotation", "ProfilerStep#1", -1_000, 210_000)
    g = load_core({"deviceProperties": [{"id": 0, **H100}], "traceEvents": [step, *late, *early]})
    table = model_flops(g)
    assert [row["name"] for row in table.records()] == ["ProfilerStep#1", "(all)"]
    of_step = verdict(narrow(window_of(g), step=1))[0].evidence["mfu_percent"]
    assert [row["mfu_percent"] for row in table.records()] == pytest.approx([of_step] * 2)
    assert model_flops(narrow(window_of(g), step=1)).records() == table.records()
    assert "not counted: 20 of 60 GPU events, 80.0 ms" in table.notes[-1]


def _renumbered(event: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a bmm, under another correlation id."""
    if event["cat"] == "cpu_op":
        return {"Input Dims": [[1, 8192, 8192]] * 2}
    return {"correlation": event["args"]["correlation"] + 1_000}


def test_jax_gets_no_advice_for_pytorch() -> None:
    for name in ("attention_kernels", "timed_kernels", "convolution_kernels", "tensor_cores", "mixed_precision"):
        assert re.search("torch|TunableOp", ADVICE[name])
        assert not re.search("torch|TunableOp", ADVICE[XLA.advice[name]])
