"""The verdict: causes are found with their evidence, and nothing else; the account behind it; advice on single ops."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from growth import cost
from handmade import call, gpu, small_trace, span
from hypothesis import given
from made_traces import traces
from typer.testing import CliRunner

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.diagnosis.account import account_of
from tracelens_graph.analyses.diagnosis.families import op_advice
from tracelens_graph.analyses.diagnosis.finding import ADVICE, TOPICS, Finding
from tracelens_graph.analyses.diagnosis.outside_steps import steps_alone
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.idle.idle_causes import idle_causes
from tracelens_graph.analyses.opportunities.opportunities import opportunities
from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.cli.app import app
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import Architecture, architecture
from tracelens_graph.simulate import PROBLEMS, simulate


@cache
def simulated(problem: str | None, stacks: bool = True) -> list[Core]:
    run = simulate(problem=problem, seed=0, python_stacks=stacks)
    return [load_core(rank.trace) for rank in run.ranks]


def losses(g: Core | Window) -> dict[str, Finding]:
    """Findings about lost time, the greatest first."""
    return {finding.topic: finding for finding in verdict(g) if finding.severity != "fact"}


def finding(g: Core | Window, topic: str) -> Finding:
    return next(found for found in verdict(g) if found.topic == topic)


# -- planted problems -----------------------------------------------------------------------------------------


def test_the_evidence_of_planted_problems() -> None:
    (loader,) = simulated("data_loader")
    found = losses(loader)["data_loader"]
    assert found.severity == "major"
    assert found.advice == ("data_loader",)
    assert found.evidence["gaps"] == 3  # before each of three steps, the first included
    assert 11 < float(found.evidence["longest_ms"]) < 13
    assert found.evidence["because"] == "multiprocessing/queues.py(113): get"
    assert found.evidence["python"] == "train.py(70): train_step"
    assert loader.node(int(found.evidence["uid"])).name == found.evidence["because"]

    (copies,) = simulated("host_to_device_copy")
    found = losses(copies)["host_to_device_copy"]
    assert found.evidence["copies"] == 9
    assert found.evidence["gb_per_s"] == pytest.approx(9, rel=0.01)
    assert found.evidence["pageable_percent"] == 100
    assert copies.node(int(found.evidence["uid"])).name == "Memcpy HtoD (Pageable -> Device)"
    assert "in 9 copies, 768.2 MB together at 9.0 GB/s, all pageable" in found.text
    assert found.advice == ("pin_memory",)

    (synchronized,) = simulated("synchronization")
    found = losses(synchronized)["synchronization"]
    assert "Synchronize" in str(found.evidence["because"])
    assert found.evidence["python"] == "train.py(24): log_metrics"
    assert found.advice == ("remove_sync",)

    (tiny,) = simulated("tiny_launches")
    found = losses(tiny)["launches"]
    assert int(found.evidence["short_gpu_events"]) >= 3 * 1000
    assert found.advice == ("cuda_graphs", "fewer_launches")

    (python,) = simulated("python_bound")
    assert losses(python)["python"].evidence["because"] == "torch/nn/modules/module.py(1791): _call_impl"
    (python,) = simulated("python_bound", stacks=False)
    found = losses(python)["unrecorded"]
    assert "the trace has no Python stacks" in found.text
    assert found.advice == ("record_stacks",)

    slow, _ = simulated("exposed_communication")
    found = losses(slow)["exposed_communication"]
    assert slow.node(int(found.evidence["uid"])).dur_ns == round(float(found.evidence["longest_ms"]) * 1e6)
    assert found.evidence["bus_gb_per_s"] == pytest.approx(8, rel=0.1), "the planted bandwidth"
    assert found.advice == ("network", "all_ranks", "overlap")
    assert f"{float(found.evidence['percent']):.1f} % of the steps" in found.text


# -- facts ----------------------------------------------------------------------------------------------------


def test_facts_of_a_small_trace() -> None:
    core = load_core([
        span("cpu_op", "aten::mm", 0, 10), call(1, 1), gpu(5, 6_000, 1),
        span("cpu_op", "aten::mm", 20, 10), call(21, 2), gpu(6_006, 2_400, 2),
        span("cpu_op", "aten::add", 40, 10), call(41, 3), gpu(8_500, 900, 3, "add"), gpu(9_401, 700, 99, "lone"),
    ])  # fmt: skip
    first, gemm, *others, unlinked = verdict(core)
    assert first.text == (
        "Compute-bound: matrix products take 84.0 % of the GPU time; the GPU computed 99.0 % of the GPU span of 10.1 ms"
    )
    assert first.evidence["kind"] == "compute.gemm"
    assert (first.evidence["percent"], first.evidence["percent_of"]) == (84, "gpu_time")
    assert gemm.text == (
        "Matrix products took 8.40 ms, 84.0 % of the GPU time; 100 % of it in gemm [uid 2, of aten::mm]"
        "; no sizes of inputs are recorded, so its roof is not known"
    )
    assert [(one.topic, one.evidence["kind"], one.evidence["ms"]) for one in others] == [
        ("kernels", "memory.elementwise_norm", 0.9), ("kernels", "gpu_bound", 0.7),
    ]  # fmt: skip
    assert unlinked.evidence == {"percent_of_gpu_time": 7, "unlinked": 1, "gpu_events": 4}


def test_the_greatest_loss_comes_first_and_severity_follows_the_share() -> None:
    core = load_core([
        span("python_function", "train.py(1): f", 0, 50_000), call(1, 1), gpu(5, 9_500, 1), call(13_000, 2),
        gpu(13_000, 10_000, 2), call(24_000, 3, "cudaMalloc", 6_000), call(30_000, 4), gpu(30_002, 9_800, 4),
    ])  # fmt: skip
    assert [(topic, found.severity, found.evidence["ms"]) for topic, found in losses(core).items()] == [
        ("allocation", "minor", 6.0), ("python", "minor", 4.495),
    ]  # fmt: skip
    assert losses(core)["allocation"].advice == ("allocator",), "small causes may be the cheapest to mend"
    alone = losses(core.window(after_ns=10_000_000))["allocation"]
    assert (alone.severity, alone.advice) == ("major", ("allocator",))


def test_copies_that_do_not_go_to_the_device() -> None:
    copy = gpu(8_005, 2_000, 2, "Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", bytes=20_000_000)
    core = load_core([call(0, 1), gpu(5, 8_000, 1), call(2, 2), copy])
    found = losses(core)["other_copies"]
    assert found.evidence["ms"] == 2
    assert found.evidence["gb_per_s"] == 10
    assert found.text == (
        "Copies on and from the device cost 2.00 ms, 20.0 % of the GPU span, in 1 copy, 20.0 MB at 10.0 GB/s"
        f" [uid {found.evidence['uid']}]"
    )
    assert found.advice == ()


def test_a_wait_for_copies_that_the_window_does_not_hold() -> None:
    copy = gpu(11_000, 5_000, 2, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", stream=8)
    core = load_core([
        call(0, 1), gpu(5, 9_995, 1), call(10_100, 2, "cudaMemcpyAsync", 9_900), copy, call(20_000, 3),
        gpu(20_005, 500, 3),
    ])  # fmt: skip
    found = losses(core.window(stream=7))["host_to_device_copy"]
    assert found.evidence["because"] == "cudaMemcpyAsync"
    assert found.evidence["ms"] == 4.9, "from the end of the first kernel's tail to the launch, without the copy"
    together = losses(core)["host_to_device_copy"]
    assert (together.evidence["exposed_ms"], together.evidence["idle_ms"]) == (5, 4.9)


def test_a_piece_is_judged_by_what_it_holds() -> None:
    """A step keeps its length in a piece, but nothing that lies before the piece."""
    step = span("user_annotation", "ProfilerStep#1", 0, 90_000)
    frame = span("python_function", "train.py(1): step", 0, 90_000)
    events = [step, frame, call(40_000, 1), gpu(40_005, 9_000, 1)]
    whole, piece = load_core(events), load_core({"generator": "tracelens_graph 1.2", "traceEvents": events})
    assert verdict(whole)[0].evidence["kind"] == "host.python"
    assert verdict(piece)[0].evidence["kind"] == "compute.gemm"


def test_what_a_file_cut_short_lost_is_not_idle_time() -> None:
    step = span("user_annotation", "ProfilerStep#1", 0, 90_000)
    frame = span("python_function", "train.py(1): step", 0, 90_000)
    events = [step, frame, call(100, 1), gpu(1_000, 9_000, 1), call(60_000, 2), gpu(60_005, 20_000, 2)]
    text = json.dumps({"traceEvents": events}).encode()
    cut = load_core(text[: text.rindex(b"kernel")])
    headline, reach = verdict(cut)[:2]
    assert headline.evidence["kind"] == "compute.gemm"
    assert account_of(window_of(cut)).window_ns == 10_000_000, "from the step's start to the last GPU event"
    assert "% of the 10.0 ms of the steps up to its last event" in headline.text
    assert reach.topic == "cut_short"
    assert reach.text.startswith("GPU events end at 10.000 of 90.000 ms because the file is cut short; nothing behind")
    assert reach.evidence == {"gpu_end_ms": 10.0, "end_ms": 90.0}
    assert "cut_short" not in [one.topic for one in verdict(load_core(text))]


def test_what_no_op_owns_is_not_sent_to_the_roofline() -> None:
    kernel = gpu(5, 9_000, 1, "implicit_convolve_sgemm")
    owned = [span("cpu_op", "aten::conv2d", 0, 10, **{"Input Dims": [[2, 3, 8, 8]]}), call(1, 1), kernel]
    assert finding(load_core(owned), "kernels").advice == ("kernel_tuning",)
    without = finding(load_core([span("cpu_op", "aten::conv2d", 0, 10), call(1, 1), kernel]), "kernels")
    assert (without.advice, "opportunities" in without.ask_next) == ((), True), "shapes are not recorded"
    assert "its roof is not known" in without.text
    assert finding(load_core(owned[1:]), "kernels").advice == ()


def products(us: float) -> list[dict[str, Any]]:
    """Two products of 4096 x 4096 x 4096 in bf16: 137 GFLOP each."""
    sizes, types = [[4096, 4096], [4096, 4096]], ["c10::BFloat16", "c10::BFloat16"]
    return [
        event
        for n in range(2)
        for event in (
            span("cpu_op", "aten::mm", 20 * n, 10, Input_Dims=sizes, Input_type=types), call(20 * n + 1, n + 1),
            gpu(100 + n * us, us, n + 1),
        )
    ]  # fmt: skip


FAST = architecture({"name": "fast", "mem_bw_gbps": 1e4, "max_achievable_tflops": {"matrix_bf16": 1e3}})


def test_products_are_tuned_only_where_they_are_far_below_their_roof() -> None:
    def advice(us: float, arch: Architecture | None) -> tuple[tuple[str, ...], float | None]:
        found = next(one for one in verdict(load_core(products(us)), arch) if one.topic == "kernels")
        return found.advice, found.evidence.get("percent_of_roof")

    assert advice(5_000, FAST) == (("gemm_tuning",), pytest.approx(100 * 137.4 / 5_000, abs=0.1))
    assert advice(3_000, None) == ((), None), "no device is known, so no roof"
    slow_device = replace(FAST, figures={**FAST.figures, "matrix_bf16": FAST.figures["matrix_bf16"]._replace(value=40)})
    assert advice(5_000, slow_device) == ((), pytest.approx(69, abs=1)), "near its roof"


def test_graphs_are_suggested_for_many_short_launches_only() -> None:
    def advice(function_us: float, kernel_us: float, launch: str = "cudaLaunchKernel") -> set[str]:
        """60 kernels, each after 30 us in a function, and one function that takes longer."""
        events, at = [], 0.0
        for n in range(60):
            took = function_us if n == 30 else 30
            events += [span("python_function", f"train.py({n}): f", at, took), call(at + took, n, launch)]
            events.append(gpu(at + took + 5, kernel_us, n))
            at += took + kernel_us + 5
        return {name for one in verdict(load_core(events)) for name in one.advice}

    assert {"python_tuning", "cuda_graphs"} <= advice(30, 10)
    assert advice(30_000, 10) & {"python_tuning", "cuda_graphs"} == {"python_tuning"}, "one long function"
    assert advice(30, 25) & {"python_tuning", "cuda_graphs"} == {"python_tuning"}, "kernels that hide a launch"
    assert "cuda_graphs" not in advice(30, 10, "cudaGraphLaunch"), "they are there already"


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("aten::add", "larger_batch"),
        ("autograd::engine::evaluate_function: AddBackward0", "fewer_launches"),
        ("Optimizer.step#SGD.step", "fewer_launches"),
    ],
)
def test_fused_optimizers_are_for_training(op: str, name: str) -> None:
    events = []
    for n in range(60):
        events += [span("cpu_op", op, 50 * n, 40), call(50 * n + 35, n), gpu(50 * n + 42, 5, n)]
    found = finding(load_core(events), "launches")
    assert set(found.advice) & {"larger_batch", "fewer_launches"} == {name}


def test_lines_by_own_time_are_asked_for_where_stacks_are_recorded() -> None:
    def python(inner_us: float) -> Finding:
        events = []
        for n in range(30):
            at = 1_000 * n
            events += [span("python_function", "train.py(1): step", at, 900)]
            events += [span("python_function", "torch/x.py(2): inner", at + 10, inner_us)] if inner_us else []
            events += [call(at + 880, n), gpu(at + 890, 100, n)]
        return finding(load_core(events), "python")

    assert python(0).ask_next.endswith("ask host_times TRACE -p by=line")
    assert " of it in train.py(1): step" in python(0).text
    assert " of it in train.py(1): step" not in python(800).text, "inner has most of its time"


def test_work_launched_before_the_recording_began_is_left_out_by_a_step() -> None:
    step = span("user_annotation", "ProfilerStep#7", 6_000, 12_000)
    early = [gpu(100 + 1_000 * n, 900, 900 + n, "lone") for n in range(5)]
    own = [event for n in range(5) for event in (call(6_100 + 20 * n, n), gpu(7_000 + 2_000 * n, 1_900, n))]
    found = finding(load_core([step, *early, *own]), "unlinked")
    assert (found.evidence["is_early"], found.evidence["step_without"]) == (1, 7)
    assert found.ask_next == "tracelens-graph report TRACE --step 7"
    late = finding(load_core([step, *early, *own, gpu(16_900, 900, 990, "lone")]), "unlinked")
    assert "is_early" not in late.evidence
    assert late.ask_next == "tracelens-graph info TRACE"


def test_a_report_is_of_the_steps_where_the_file_begins_with_work_of_the_step_before() -> None:
    step = span("user_annotation", "ProfilerStep#7", 6_000, 52_000)
    early = [gpu(100 + 1_000 * n, 900, 900 + n, "lone") for n in range(5)]
    own = [event for n in range(1, 26) for event in (call(6_100 + 20 * n, n), gpu(5_000 + 2_000 * n, 1_900, n))]
    found = steps_alone(load_core([step, *early, *own]).everything)
    assert found is not None
    assert (found[0], found[1].evidence["outside"], found[1].evidence["outside_ms"]) == ((7,), 5, 4.5)
    whole, alone = opportunities(load_core([step, *early, *own])), opportunities(load_core([step, *own]))
    assert any("--step 7" in note for note in whole.notes), "so that nobody takes its shares for those of the report"
    assert not any("--step" in note for note in alone.notes)
    assert steps_alone(load_core([step, *own]).everything) is None, "nothing lies outside"
    assert steps_alone(load_core([step, *early, *own[:30]]).everything) is None, "too little to judge"
    assert steps_alone(load_core([*early, *own]).everything) is None, "there are no steps"
    assert steps_alone(load_core([step, *early, *own]).window(step=7)) is None, "a window was chosen"
    late = gpu(57_000, 900, 990, "lone")
    assert steps_alone(load_core([step, *early, *own, late]).everything) is None, "not all of it is early"


def test_the_time_with_a_known_roof_is_given() -> None:
    core = load_core([*products(5_000), span("cpu_op", "other::mm", 50, 10), call(51, 9), gpu(10_100, 4_000, 9)])
    found = next(one for one in verdict(core, FAST) if one.topic == "kernels")
    assert (found.evidence["ms"], found.evidence["known_ms"]) == (14, 10)
    assert float(found.evidence["could_win_ms"]) == pytest.approx(
        10 * (1 - float(found.evidence["percent_of_roof"]) / 100)
    )


def test_gaps_between_queued_kernels_are_apart_from_waiting_for_the_host() -> None:
    events = [event for n in range(20) for event in (call(5 * n, n), gpu(200 + 110 * n, 100, n))]
    account = account_of(window_of(load_core(events)))
    assert account.shown_parts["between queued kernels"] == 19 * 10_000 == account.parts()["host"]
    assert account.shown_parts["waiting for the host"] == 0
    assert sum(account.shown_parts.values()) == account.window_ns


def test_a_kernel_with_the_short_name_of_others_is_one_of_them() -> None:
    add, multiply = (f"void at::native::elementwise_kernel<128, 4, at::native::{one}>(int)" for one in ("Add", "Mul"))
    core = load_core([
        span("cpu_op", "aten::add", 0, 10), call(1, 1), gpu(5, 6_000, 1, add),
        span("cpu_op", "aten::mul", 20, 10), call(21, 2), gpu(6_006, 4_000, 2, multiply),
    ])  # fmt: skip
    _, memory = verdict(core)
    assert memory.text == (
        "Memory-bound kernels took 10.0 ms, 100.0 % of the GPU time; 60 % of it in one instantiation of"
        " elementwise_kernel [uid 2, of aten::add]; no sizes of inputs are recorded, so its roof is not known"
    )


def test_gpu_work_outside_of_the_steps_is_part_of_what_shares_are_of() -> None:
    step = span("user_annotation", "ProfilerStep#1", 0, 10_000)
    copy = [call(100, 2, "cudaMemcpyAsync"), gpu(6_000, 2_000, 2, "Memcpy HtoD", "gpu_memcpy")]
    inside = [step, span("cpu_op", "aten::mm", 50, 100), call(60, 1), gpu(500, 4_000, 1)]

    def shares(events: list[dict[str, Any]]) -> str:
        return verdict(load_core(events))[0].text

    assert "40.0 % of the 10.0 ms of the steps;" in shares([*inside, *copy]) + ";"
    assert "of the 10.0 ms of the steps and other GPU work" in shares([*inside, *copy, gpu(9_000, 400, 9)])


def test_a_long_step_is_named_with_the_report_of_it() -> None:
    lengths = [10_000, 9_000, 11_000, 20_000]
    steps = [span("user_annotation", f"ProfilerStep#{n}", 20_000 * n, dur) for n, dur in enumerate(lengths)]
    work = [call(1, 1), gpu(5, 79_000, 1)]
    found = finding(load_core([*steps, *work]), "long_step")
    assert found.text == "ProfilerStep#3 took 20.0 ms, the median of 4 steps 10.5 ms"
    assert found.ask_next == "tracelens-graph report TRACE --step 3"
    assert "long_step" not in [found.topic for found in verdict(load_core([*steps[:3], *work]))]


def layers_of_a_step() -> list[dict[str, Any]]:
    """A step of 1 ms: layer 0 launches the first and the third of four kernels, layer 1 the second, nobody the last."""
    return [
        span("user_annotation", "ProfilerStep#1", 0, 1000),
        span("python_function", "nn.Module: Layer_0", 10, 200), call(20, 1), call(150, 3),
        span("python_function", "nn.Module: Layer_1", 300, 100), call(310, 2), call(500, 4),
        gpu(50, 50, 1), gpu(170, 80, 3), gpu(330, 100, 2), gpu(520, 10, 4),
    ]  # fmt: skip


def test_parts_below_modules_own_what_adds_up_to_no_more_than_the_whole() -> None:
    core = load_core(layers_of_a_step())
    parts = [account_of(core.window(under=under)) for under in ("Layer_0", "Layer_1")]
    assert [one.whole for one in parts] == ["own_time"] * 2
    # Gaps count where they end with a kernel of the part: 100..170 of the first layer, 250..330 of the second.
    assert [one.window_ns for one in parts] == [200_000, 180_000]
    both = account_of(core.window(under="Layer"))
    assert both.window_ns == 380_000
    assert sum(both.parts().values()) == both.window_ns
    for under in ("Layer_0", "Layer"):
        for found in verdict(core.window(under=under)):
            assert 0 <= float(found.evidence.get("percent", 0)) <= 100
            assert found.evidence.get("percent_of") != "steps"


def test_a_window_is_judged_alone() -> None:
    (core,) = simulated("data_loader")
    whole, step = losses(core)["data_loader"], losses(core.window(step=4))["data_loader"]
    assert step.evidence["gaps"] == 1
    assert float(step.evidence["ms"]) == pytest.approx(float(whole.evidence["ms"]) / 3, rel=0.1)


def test_work_of_others_between_that_of_a_window() -> None:
    core = load_core([
        span("user_annotation", "ProfilerStep#1", 0, 9_000), span("user_annotation", "ProfilerStep#2", 9_000, 9_000),
        call(1, 1), gpu(5, 4_000, 1), call(5_000, 2), gpu(20_000, 10_000, 2), call(10_000, 3), gpu(4_505, 15_495, 3),
    ])  # fmt: skip
    found = finding(core.window(step=1), "outside")
    assert found.evidence["ms"] == 15.495
    assert found.evidence["percent"] == pytest.approx(100 * 15.495 / 29.995)
    assert account_of(window_of(core.window(step=1))).window_ns == 29_995_000 - 15_495_000 + 5_000


def test_several_devices_are_added_up() -> None:
    core = load_core([
        call(0, 1), gpu(5, 9_500, 1), call(2, 2), gpu(5, 4_000, 2, device=1), call(4_500, 3),
        gpu(5_505, 1_000, 3, device=1),
    ])  # fmt: skip
    headline, *_ = verdict(core)
    assert headline.evidence["devices"] == 2
    assert headline.evidence["gpu_span_ms"] == 9.5 + 6.5
    assert headline.evidence["busy_percent"] == pytest.approx(100 * 14.5 / 16)


# -- nothing to go by -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [[], [span("cpu_op", "aten::add", 0, 5)]], ids=["no events", "CPU only"])
def test_without_gpu_events(events: list[dict[str, Any]]) -> None:
    (only,) = verdict(load_core(events))
    assert only.text.startswith("Host only: the trace has no GPU events")
    assert only.evidence["kind"] == "no_gpu"


def test_idle_time_without_a_reason_is_concluded_nothing_from() -> None:
    core = load_core([call(0, 1), gpu(5, 4_000, 1), gpu(20_000, 4_000, 2), call(1, 3), gpu(24_000, 5_000, 3)])
    headline, *others = verdict(core)
    assert headline.evidence["kind"] == "too_little"
    assert headline.text.startswith("Not explained: for 55.2 % of the GPU span of 29.0 ms the trace has no GPU work")
    assert "its launch is not in the trace (16.0 ms)" in headline.text
    assert [(finding.topic, finding.advice) for finding in (headline, *others)] == [("headline", ()), ("unlinked", ())]


def test_one_empty_kernel() -> None:
    (only,) = verdict(load_core([gpu(5, 0, 1)]))
    assert only.text == "Too little recorded to judge the run: 1 GPU event, 0 us of work"


# -- what holds everywhere ------------------------------------------------------------------------------------


def check(g: Core) -> None:
    """Topics are known, evidence is finite and can be written as JSON, causes are sorted and those of the tables."""
    found = verdict(g)
    topics = [one.topic for one in found if one.topic not in ("kernels", "opportunity")]
    assert topics[0] == "headline"
    assert len(topics) == len(set(topics))
    assert set(topics) <= TOPICS.keys()
    for one in found:
        assert json.loads(json.dumps(one.evidence)) == one.evidence
        assert all(math.isfinite(value) for value in one.evidence.values() if isinstance(value, float))
        assert one.ask_next.startswith("tracelens-graph ")
        assert all(0 <= float(value) <= 100.000001 for key, value in one.evidence.items() if "percent" in key
                   and key != "percent_of")  # fmt: skip
    others = ("unlinked", "long_step", "opportunity")
    causes = [one for one in found[1:] if one.topic not in others and not one.topic.startswith("server")]
    costs = [float(one.evidence["ms"]) for one in causes]
    assert costs == sorted(costs, reverse=True)
    assert len(costs) <= 4
    if len(window_of(g).gpu_rows):
        check_account(g)


def check_account(g: Core) -> None:
    """The parts of an account add up to its window, and agree with the tables."""
    account = account_of(window_of(g))
    outside = int(account.idle.parts[Cause.outside].sum())
    assert outside == 0, "a whole trace leaves nothing out"
    assert sum(account.parts().values()) == account.window_ns
    assert sum(account.parts(in_span=True).values()) == account.span_ns
    if account.cut_off_ns:
        return
    causes = {Cause[row["cause"]]: row["idle_ms"] for row in idle_causes(g).records()}
    for cause in Cause:
        assert account.causes_in_span[cause] / 1e6 == pytest.approx(causes.get(cause, 0))
    if account.devices == 1:
        times = {row["type"]: row["time ms"] for row in gpu_timeline(g).records()}
        assert account.parts(in_span=True)["computation"] / 1e6 == pytest.approx(times["computation_time"])


@given(traces())
def test_made_traces(trace: dict[str, Any]) -> None:
    check(load_core(trace))


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    check(loaded(path))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_command_runs(problem: str | None, tmp_path: Path) -> None:
    run = simulate(problem=problem, seed=5, unlaunched=2)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(run.ranks[0].trace))
    core = load_core(path)
    for found in verdict(core):
        command = [str(path) if word == "TRACE" else word for word in shlex.split(found.ask_next)]
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, (found.ask_next, result.output)
        assert result.stdout


def test_an_example_says_what_part_of_its_cause_it_explains() -> None:
    """The GPU waits 60 times: thrice for one function, else for others, and the first launch is before any gap."""

    def waiting(long_us: float) -> Finding:
        events, at = [], 0.0
        for n in range(60):
            took, name = (long_us, "train.py(1): slow") if n < 3 else (200, f"train.py({n}): f{n}")
            events += [span("python_function", name, at, took), call(at + took, n), gpu(at + took + 5, 100, n)]
            at += took + 105
        return finding(load_core(events), "python")

    few = waiting(400)
    assert few.evidence["because"] == "train.py(1): slow"
    share = 100 * float(few.evidence["because_ms"]) / float(few.evidence["ms"])
    assert share == pytest.approx(6, abs=2)
    assert "800 us of it in train.py(1): slow" in few.text
    assert float(waiting(40_000).evidence["because_ms"]) == pytest.approx(80)


def test_a_replay_of_graphs_is_named() -> None:
    launch = call(0, 1, "cudaGraphLaunch")
    headline, *_ = verdict(load_core([launch, *(gpu(5 + 1_000 * n, 1_000, 1) for n in range(9))]))
    assert headline.evidence["kind"] == "graph.replay"
    assert headline.text == (
        "Graph replay: 100.0 % of the GPU time comes from graph launches, matrix products take 100.0 % of the GPU time;"
        " the GPU computed 100.0 % of the GPU span of 9.00 ms"
    )


def test_gaps_of_one_device_are_held_once() -> None:
    """A gap has a time for each cause, 144 bytes, and every kernel may end one."""
    count = 20_000
    kernels = [span("kernel", "k", 10 * at, 1, device=0, stream=7) for at in range(count)]
    account_of(load_core({"traceEvents": kernels}).everything)
    window = load_core({"traceEvents": kernels}).everything
    assert cost(lambda: account_of(window).parts(in_span=True)).peak < 360 * count


def test_causes_in_the_span_leave_out_its_edges() -> None:
    step = span("user_annotation", "ProfilerStep#1", 0, 100)
    kernels = [span("kernel", "k", at, 10, device=0, stream=7) for at in (20, 50)]
    account = account_of(load_core({"traceEvents": [step, *kernels]}).everything)
    assert account.at_edges.tolist() == [False, True, True]
    assert account.causes_in_span.sum() == 20_000
    assert account.causes.sum() == 80_000


COMPUTES = Finding("headline", "", {"kind": "compute.gemm", "computation_percent_of_span": 80.0})


@cache
def training() -> Core:
    (rank,) = simulate(seed=0).ranks[:1]
    return load_core(rank.trace)


def advised(core: Core, *findings: Finding, arch: Architecture | None = None) -> dict[str, str]:
    names = list(top_ops(core, top=99)["name"])
    return dict(zip(names, op_advice(core, findings, names, arch=arch), strict=True))


def test_an_op_gets_what_is_said_of_its_kernels() -> None:
    found = advised(training(), COMPUTES)
    assert found["aten::mm"] == "", "more than half of the roof of an H100"
    assert advised(training(), COMPUTES, arch=architecture("b200"))["aten::mm"] == ADVICE["gemm_tuning"]
    assert found["aten::_foreach_mul_"] == ADVICE["fusion"]


def test_a_finding_on_its_kernels_says_it_first() -> None:
    about = Finding("kernels", "", {"kind": "compute.gemm", "ms": 1.0}, advice=("channels_last", "fusion"))
    assert advised(training(), COMPUTES, about)["aten::mm"] == ADVICE["channels_last"]


@pytest.mark.parametrize(
    "evidence", [{}, {"kind": "host.launches", "computation_percent_of_span": 80.0}, {"kind": "compute.gemm"}]
)
def test_kernels_are_not_tuned_where_something_else_takes_the_time(evidence: dict[str, str | float]) -> None:
    assert set(advised(training(), replace(COMPUTES, evidence=evidence)).values()) == {""}
    assert set(advised(training()).values()) == {""}


def test_communication_and_copies() -> None:
    gpu = {"device": 0, "stream": 7}
    events = []
    for at, (op, kernel, cat) in enumerate(
        [
            ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel"),
            ("aten::copy_", "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
            ("aten::to", "Memcpy DtoH (Device -> Pageable)", "gpu_memcpy"),
        ],
        1,
    ):
        events += [
            span("cpu_op", op, 100 * at, 50),
            span("cuda_runtime", "cudaLaunchKernel", 100 * at + 1, 5, correlation=at),
            span(cat, kernel, 100 * at + 20, 30, 0, 7, correlation=at, **gpu),
        ]
    topics = {"exposed_communication": "overlap", "host_to_device_copy": "pin_memory"}
    findings = [Finding(topic, "", {"ms": 1.0}, advice=(name,)) for topic, name in topics.items()]
    found = advised(load_core(events), COMPUTES, *findings)
    assert found == {
        "c10d::allreduce_": ADVICE["overlap"], "aten::copy_": ADVICE["pin_memory"], "aten::to": "",
    }  # fmt: skip


def test_what_no_op_owns_and_what_is_not_there() -> None:
    core = load_core(small_trace())
    assert op_advice(core, [COMPUTES], ["(no launch in trace)", "nothing of the kind"]) == ["", ""]
