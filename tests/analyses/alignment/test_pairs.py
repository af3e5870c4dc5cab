"""What is compared with what: eager runs, replays and captures of graphs, settings of the simulator, real pairs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from layered import GEMM, LAYER, Call, changed, kernels, program

from corpus import CORPUS, cases, loaded
from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.alignment.rules import Reasons
from tracelens_graph.analyses.alignment.times import TimePart, time_parts
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate


def compared(a: Core | Window, b: Core | Window) -> Diff:
    found = diff(*median_steps(window_of(a), window_of(b)))
    whole = found.ns[1] - found.ns[0]
    assert sum(place.change_ns for place in found.places) == whole
    parts = [part for part in time_parts(found) if part.part != "around"]
    for side, window in enumerate((found.a, found.b)):
        assert sum(place.ns[side] for place in found.places) == window.core.columns.dur_ns[window.gpu_rows].sum()
        devices = {int(number) for number in window.core.columns.device[window.gpu_rows].tolist()}
        each = sum(narrow(window, device=number).span_ns() for number in devices)
        assert sum(part.ns[side] for part in parts) == each
    return found


def reasons_of(found: Diff) -> list[tuple[Place, Reason]]:
    reasons = Reasons(found)
    return [(place, reasons.of(place).reason) for place in found.places]


# -- graphs ----------------------------------------------------------------------------------------------------

MODULES = {("Layer", call.module) for call in LAYER}


@pytest.mark.parametrize("one", ["eager", "graph"])
@pytest.mark.parametrize("other", ["eager", "graph"])
def test_eager_and_replayed(one: Any, other: Any) -> None:
    found = compared(load_core(program(how=one)), load_core(program(how=other)))
    assert (found.alignment.leaves[0] >= 0).all()
    assert (found.alignment.leaves[1] >= 0).all()
    reasons = {reason for _, reason in reasons_of(found)}
    assert reasons == {Reason.same}
    if "eager" in (one, other):
        assert {place.modules for place in found.places} == MODULES


def test_what_an_op_launches_in_a_row_stands_together_in_a_replay() -> None:
    layer = changed("aten::mm", kernels(("Memset (Device)", 2.0), (GEMM, 40.0), ("splitKreduce_kernel", 5.0)))
    for one, other in (("eager", "graph"), ("graph", "eager")):
        sides = [load_core(program([layer] * 4, how=how)) for how in (one, other)]  # type: ignore[arg-type]
        found = compared(*sides)
        assert {reason for _, reason in reasons_of(found)} == {Reason.same}
        assert {place.modules for place in found.places} == MODULES
        for side, forest in enumerate(found.alignment.sides):
            held = sorted(leaf for point in found.alignment.points for leaf in point.leaves[side])
            assert held == list(range(forest.leaves))


def test_threads_that_a_graph_holds_together_find_their_parts_of_it() -> None:
    trace = program()
    for event in trace["traceEvents"]:
        if event["cat"] in ("cpu_op", "python_function", "cuda_runtime") and event["ts"] > 1400:
            event["tid"] = 300
    found = compared(load_core(trace), load_core(program(how="graph")))
    assert len(found.alignment.sides[0].linked_roots) == 2
    assert all((partner >= 0).all() for partner in found.alignment.leaves)
    assert {reason for _, reason in reasons_of(found)} == {Reason.same}


def test_a_replay_with_one_slow_kernel_shows_the_eager_sides_module() -> None:
    slow = program(how="graph")
    kernel = [event for event in slow["traceEvents"] if event["cat"] == "kernel"][-4]
    kernel["dur"] *= 1.5
    found = compared(load_core(program()), load_core(slow))
    first, reason = reasons_of(found)[0]
    assert reason is Reason.graph_launch
    assert (first.modules, first.names) == (("Layer", "Linear"), ("aten::mm", "launch graph"))
    why = Reasons(found).of(first).text
    assert why.startswith("launched as a graph in B, one by one in A; the same kernels, 1.1")


@pytest.mark.parametrize("launch", ["cudaLaunchKernel", "hipLaunchKernel"])
def test_a_replay_finds_its_modules_in_the_capture(launch: str) -> None:
    replay, capture = program(how="graph"), program(how="capture", launch=launch)
    found = compared(load_core(replay), load_core(capture))
    if launch == "hipLaunchKernel":
        assert (found.alignment.leaves[0] >= 0).all()
        assert {place.modules for place in found.places} == MODULES
        assert {reason for _, reason in reasons_of(found)} == {Reason.captured}
    assert found.ns[1] == 0
    back = compared(load_core(capture), load_core(replay))
    assert [place.ns[::-1] for place in back.places] == [place.ns for place in found.places]


def test_compiled_kernels_stand_beside_the_ops_between_the_same_products() -> None:
    layer = [call for call in LAYER if call.op != "aten::add"]
    fused = [call for call in layer if call.op != "aten::gelu"]
    triton = Call("GraphModule", "triton_poi_fused_gelu_0", (("triton_poi_fused_gelu_0", 5.0),))
    compiled = [fused[0], fused[1], triton, fused[2]]
    found = compared(load_core(program([layer] * 4)), load_core(program([compiled] * 4)))
    place, reason = reasons_of(found)[0]
    assert reason is Reason.other_op
    assert place.names == ("aten::gelu", "triton_poi_fused_gelu_0")
    assert len(place.points) == 4


# -- settings of the simulator -----------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"steps": 3, "layers": 2, "batch": 2}


@cache
def simulated(**settings: Any) -> Core:
    return load_core(simulate(**{**SMALL, **settings}).ranks[0].trace)


def time(found: Diff) -> TimePart:
    """The part of the time that changed most."""
    return max(time_parts(found), key=lambda part: abs(part.change_ns))


def first(found: Diff) -> tuple[Place, Reason]:
    return reasons_of(found)[0]


NO_GPU_WORK_CHANGES: dict[str, dict[str, Any]] = {
    "cuda_sync": {"cuda_sync": True},
    "memory": {"memory": False},
    "clock_offset_us": {"clock_offset_us": 50.0},
    "shapes": {"shapes": False},
    "python_stacks": {"python_stacks": False},
    "unlaunched": {"unlaunched": 3},
}


@pytest.mark.parametrize("setting", NO_GPU_WORK_CHANGES)
def test_what_only_the_recording_has_is_no_difference(setting: str) -> None:
    found = compared(simulated(), simulated(**NO_GPU_WORK_CHANGES[setting]))
    # Without Python stacks the simulated durations vary otherwise.
    assert {reason for _, reason in reasons_of(found)} <= {Reason.same, Reason.other_time, Reason.copy_rate}
    assert (found.alignment.leaves[0] >= 0).all()
    assert (found.alignment.leaves[1] >= 0).all()


POINTS: dict[str, tuple[dict[str, Any], dict[str, Any], Reason]] = {
    "batch": ({}, {"batch": 4}, Reason.other_sizes),
    "tokens": ({}, {"tokens": 1024}, Reason.other_sizes),
    "width": ({}, {"width": 2048}, Reason.other_sizes),
    "vocabulary": ({}, {"vocabulary": 65536}, Reason.other_sizes),
    "layers": ({}, {"layers": 4}, Reason.only_one),
    "recompute": ({}, {"recompute": "non_reentrant"}, Reason.recomputation),
    "recompute, reentrant": ({}, {"recompute": "reentrant"}, Reason.recomputation),
    "copy_mb": ({}, {"copy_mb": 256.0}, Reason.moves),
    "tiny_kernels": ({}, {"tiny_kernels": 1000}, Reason.only_one),
    "bus_gb_per_s": ({"ranks": 2}, {"ranks": 2, "bus_gb_per_s": 8.0}, Reason.communication),
    "dataloader_rank": (
        {"ranks": 2}, {"ranks": 2, "dataloader_us": 12_000.0, "dataloader_rank": 1}, Reason.communication
    ),
    "ranks": ({}, {"ranks": 2}, Reason.communication),
}  # fmt: skip


@pytest.mark.parametrize("setting", POINTS)
def test_the_place_with_the_planted_cause_comes_first(setting: str) -> None:
    before, after, reason = POINTS[setting]
    found = compared(simulated(**before), simulated(**after))
    assert first(found)[1] == reason, Reasons(found).of(found.places[0])


TIMES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, Cause | None]]] = {
    "dataloader_us": ({}, {"dataloader_us": 12_000.0}, ("around", Cause.data_loader)),
    "copy_mb": ({}, {"copy_mb": 256.0}, ("exposed_copies", None)),
    "pageable": ({"copy_mb": 256.0}, {"copy_mb": 256.0, "pageable": True}, ("exposed_copies", None)),
    "tiny_kernels": ({}, {"tiny_kernels": 1000}, ("idle", Cause.launches)),
    "python_overhead_us": ({}, {"python_overhead_us": 900.0}, ("idle", Cause.python)),
    "bus_gb_per_s": ({"ranks": 2}, {"ranks": 2, "bus_gb_per_s": 8.0}, ("exposed_communication", None)),
}


@pytest.mark.parametrize("setting", TIMES)
def test_the_time_with_the_planted_cause_comes_first(setting: str) -> None:
    before, after, (part, cause) = TIMES[setting]
    most = time(compared(simulated(**before), simulated(**after)))
    assert (most.part, most.cause) == (part, cause)


@pytest.mark.parametrize("setting", ["sync_every_step", "read_loss"])
def test_calls_that_wait_for_the_gpu_are_counted_beside_the_idle_time_that_they_cause(setting: str) -> None:
    parts = time_parts(compared(simulated(), simulated(**{setting: True})))
    most = max(parts, key=lambda part: abs(part.change_ns))
    assert most.change_ns > 0
    assert most.part in ("idle", "around")
    assert any(part.cause is Cause.synchronization and part.change_ns > 0 for part in parts)
    assert "0 -> " in most.why
    assert "calls that wait for the GPU" in most.why


# -- steps -------------------------------------------------------------------------------------------------------


def test_a_trace_against_its_windows() -> None:
    whole = simulated()
    numbers = [int(whole.names[code].rpartition("#")[2]) for code in whole.columns.name[_steps(whole)].tolist()]
    for number in numbers:
        found = diff(narrow(window_of(whole), step=number), whole)
        missing = sum(place.change_ns for place in found.places)
        assert missing == found.ns[1] - found.ns[0] > 0
        assert {reason for _, reason in reasons_of(found)} <= {
            Reason.same, Reason.other_time, Reason.module, Reason.only_one, Reason.moves, Reason.clock,
            Reason.more_kernels, Reason.fewer_kernels, Reason.copy_rate,
        }  # fmt: skip


def test_steps_of_several_processes_are_one_by_number() -> None:
    trace = program()
    other = [{**event, "args": dict(event["args"])} for event in program(how="graph")["traceEvents"]]
    for event in other:
        event["pid"] = event["tid"] = 200 if event["pid"] else event["pid"]
        if "correlation" in event["args"]:
            event["args"]["correlation"] += 10_000
        if event["cat"] == "kernel":
            event["pid"] = event["args"]["device"] = 1
            event["tid"] = 7
    trace["traceEvents"] += other
    both, one = load_core(trace), load_core(program())
    found = compared(both, one)
    assert found.a.title == "step 3"
    assert found.ns[0] == 2 * found.ns[1]
    assert len(found.alignment.sides[0].linked_roots) == 2
    matched = found.alignment.leaves[1] >= 0
    assert matched.all()


def _steps(core: Core) -> Any:
    return window_of(core).rows_of_kind(Kind.Step)


# -- real pairs --------------------------------------------------------------------------------------------------

MODELS = ("bert-small", "vit-nsfw", "qwen1.5-0.5b")

READ_BY_HAND: dict[str, list[tuple[str, int, float, float, str]]] = {
    "qwen1.5-0.5b": [
        ("aten::copy_", 96, 2.766, 1.448, "Qwen2Attention"),
        ("aten::_flash_attention_forward", 24, 2.723, 4.016, "Qwen2Attention"),
        ("aten::mm", 48, 4.055, 5.308, "Qwen2MLP/Linear"),
        ("aten::mul", 96, 2.680, 1.673, "Qwen2Attention"),
        ("aten::add", 48, 1.671, 0.983, "Qwen2Attention"),
        ("aten::cat", 48, 2.014, 1.350, "Qwen2Attention"),
        ("aten::addmm", 72, 2.329, 2.955, "Qwen2Attention/Linear"),
        ("aten::mm", 24, 1.835, 2.375, "Qwen2MLP/Linear"),
    ],
    "bert-small": [
        ("aten::_flash_attention_forward", 4, 0.037, 0.114, "BertSdpaSelfAttention"),
        ("aten::addmm", 1, 0.041, 0.026, "BertLMPredictionHead/Linear"),
        ("aten::gelu", 4, 0.008, 0.019, "BertIntermediate/GELUActivation"),
    ],
    "vit-nsfw": [
        ("aten::_flash_attention_forward", 12, 0.123, 0.375, "ViTSdpaAttention/ViTSdpaSelfAttention"),
        ("aten::addmm", 12, 0.162, 0.274, "ViTOutput/Linear"),
        ("aten::addmm", 12, 0.167, 0.251, "ViTIntermediate/Linear"),
        ("aten::_convolution", 1, 0.126, 0.046, "ViTPatchEmbeddings/Conv2d"),
        ("aten::add", 12, 0.027, 0.077, "ViTLayer"),
    ],
}


def _trace(name: str) -> Core:
    assert CORPUS is not None
    return loaded(CORPUS / "tracelens" / f"{name}.json.gz")


@pytest.mark.parametrize("model", cases((model, model) for model in MODELS))
def test_places_that_were_read_by_hand(model: str) -> None:
    found = compared(_trace(f"h100/{model}"), _trace(f"mi300/{model}"))
    there = {
        (place.names[0], len(place.points), round(place.ns[0] / 1e6, 3), round(place.ns[1] / 1e6, 3)): place
        for place in found.places
        if place.names[0] == place.names[1]
    }
    for op, points, before, after, module in READ_BY_HAND[model]:
        assert "/".join(there[op, points, before, after].modules).endswith(module)
    said = {reason for _, reason in reasons_of(found)}
    assert {Reason.other_library, Reason.other_kernel, Reason.other_device} <= said
    assert not said & {Reason.clock, Reason.fused, Reason.unfused, Reason.other_algorithm, Reason.other_types}


CAPTURES = {
    "sglang-decode": ("capture/bs_32_rank0", "Qwen3Model/Qwen3DecoderLayer/Qwen2MLP/MergedColumnParallelLinear", 36),
    "vllm-decode": ("capture/graph_capture_rank_0", "GptOssForCausalLM/GraphModule", 48),
}


@pytest.mark.parametrize("engine", cases((engine, engine) for engine in CAPTURES))
def test_a_real_replay_finds_its_modules_in_the_capture(engine: str) -> None:
    capture, module, times = CAPTURES[engine]
    path = Path("inference") / engine
    found = compared(_trace(str(path / "graph-replay")), _trace(str(path / capture)))
    place, reason = first(found)
    assert reason is Reason.captured
    assert ("/".join(place.modules), len(place.points)) == (module, times)
    replay = found.alignment.sides[0]
    matched = int(replay.ns[found.alignment.leaves[0] >= 0].sum())
    assert matched >= 0.95 * found.ns[0]


PAIRS = (
    ("tracelens/h100/vit-nsfw", "tracelens/mi300/vit-nsfw"),
    ("dlrm-8-ranks/kineto/rank0", "dlrm-8-ranks/kineto/rank3"),
    ("hta/two-of-128-ranks/rank-0", "hta/two-of-128-ranks/rank-1"),
    ("hta/resnet-ddp-nccl-args", "tracelens/mi300/resnet-ddp-checkpointing"),
    ("tracelens/inference/vllm-decode/graph-replay", "tracelens/inference/vllm-decode/capture/graph_capture_rank_0"),
    ("tracelens/inference/vllm-decode/graph-replay", "tracelens/inference/sglang-decode/graph-replay"),
    ("tracelens/mi300/torch-compile-triton", "tracelens/h100/bert-small"),
)

MIRRORED = {Reason.more_kernels: Reason.fewer_kernels, Reason.fused: Reason.unfused}
MIRRORED |= {other: one for one, other in MIRRORED.items()}


@pytest.mark.parametrize(("one", "other"), cases(((f"{a}-{b}", a, b) for a, b in PAIRS), width=2))
def test_exchanging_real_traces_mirrors_places_and_reasons(one: str, other: str) -> None:
    assert CORPUS is not None
    cores = [loaded(CORPUS / f"{name}.json.gz") for name in (one, other)]
    there, back = compared(*cores), compared(*cores[::-1])

    def described(found: Diff, way: int, mirror: dict[Reason, Reason]) -> list[tuple[object, ...]]:
        return [
            (place.modules, place.names[::way], place.ns[::way], place.kernels[::way], len(place.points),
             mirror.get(reason, reason))
            for place, reason in reasons_of(found)
        ]  # fmt: skip

    assert described(there, 1, {}) == described(back, -1, MIRRORED)
