"""Sequences: where they are taken from, which operations they hold, what they share."""

from __future__ import annotations

from dataclasses import replace as with_field
from typing import Any

import pytest
from handmade import small_trace, span
from made_execution import Node, T, linked_core
from msgspec.structs import replace
from recorded_calls import MM, calls
from replay_plans import plan_in

from corpus import CHECKOUT
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.extensions.extension import Extension, Replayer
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.plan_json import plan_from_json
from tracelens_graph.replay.replay_plan import uses
from tracelens_graph.replay.sequence import SequencePlan, _is_passed_on, place, sequence
from tracelens_graph.schema import Kind

EXAMPLE = CHECKOUT / "examples/traces"
RELU = "aten::relu(Tensor self) -> Tensor"


@pytest.fixture(scope="module")
def transformer() -> SequencePlan:
    """A step of training, linked with its execution trace."""
    core = load_core(
        str(EXAMPLE / "tiny-transformer-cpu.json.gz"), et=str(EXAMPLE / "tiny-transformer-cpu.execution-trace.json.gz")
    )
    return sequence(core, "ProfilerStep#1")


def module(*events: dict[str, Any]) -> Core:
    """A trace with one module around some events."""
    around = span("python_function", "nn.Module: Net_0", 0, 1000)
    return load_core(
        {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": [around, *events]}
    )


def op(name: str, ts: float, dur: float = 10, **told: Any) -> dict[str, Any]:
    return span("cpu_op", name, ts, dur, **(told or MM))


def kernel(ts: float, dur: float, number: int) -> list[dict[str, Any]]:
    """A launch and its kernel."""
    return [
        span("cuda_runtime", "cudaLaunchKernel", ts, 1, correlation=number),
        span("kernel", f"kernel{number}", ts + 500, dur, 0, 7, device=0, stream=7, correlation=number),
    ]


def test_outermost_operations_are_taken_in_their_order() -> None:
    g = module(op("aten::mm", 300), op("aten::matmul", 100, 50), op("aten::mm", 110), op("aten::view", 2000))
    found = sequence(g, "Net_0")
    assert [plan.op for plan in found.plans] == ["aten::matmul", "aten::mm"]
    assert [step.plan.traced.host_us for step in found.steps] == [50, 10]
    assert (found.is_gpu, found.linked, found.left_out) == (False, None, ())
    assert found.sharing == "no execution trace was given: each operation has arguments of its own"


def test_what_cannot_be_planned_gives_way_to_what_it_calls() -> None:
    untold = {"Input_Dims": [[8]], "Input_type": ["float"], "Input_Strides": [[1]], "Concrete_Inputs": [""]}
    events = [
        op("my::block", 100, 100), op("aten::mm", 110), *kernel(112, 30, 1),
        op("aten::mm", 300, 50, **untold), op("aten::view", 310), *kernel(320, 10, 2),
        op("my::fused", 500, 50), op("aten::mm", 510), *kernel(512, 5, 3), *kernel(530, 15, 4),
        op("ReluBackward0", 700, 20), *kernel(705, 40, 5), op("aten::mm", 730), op("SumBackward0", 750, 3),
    ]  # fmt: skip
    found = sequence(module(*events), "Net_0")
    assert [plan.op for plan in found.plans] == ["aten::mm", "aten::mm"]
    assert [(one.what, one.calls, one.percent) for one in found.left_out] == [
        ("ReluBackward0", 1, 40), ("my::fused", 1, 20), ("aten::mm", 1, 10),
    ]  # fmt: skip
    assert found.left_out[0].line == "40.0 %: 1 x ReluBackward0: autograd function; replay its forward operation"


def test_work_under_no_op_is_counted() -> None:
    found = sequence(module(op("aten::mm", 100), *kernel(105, 30, 1), *kernel(200, 10, 2)), "Net_0")
    [one] = found.left_out
    assert (one.what, one.percent) == ("work under no op", 25)
    assert found.traced_us == 30


def test_custom_operations_with_a_replayer_are_taken() -> None:
    g = load_core(calls())
    replayer = Replayer("my::fused(Tensor a, Tensor b) -> Tensor", imports=["my.ops"])
    found = sequence(Extension(replayers={"my::fused": replayer}).of(g), 10)
    assert [plan.op for plan in found.plans] == ["my::fused"]
    assert found.imports == ("my.ops",)
    source = found.script()
    assert plan_in(source, "sequence")["steps"][0]["plan"]["imports"] == ["my.ops"]
    assert "needs PyTorch and my.ops." in source


def test_nothing_to_replay_is_an_error() -> None:
    with pytest.raises(AnalysisError, match="nothing below nn.Module: Net_0 can be replayed, as there are no oper"):
        sequence(module(), "Net_0")
    events = [op("my::fused", 100), *kernel(105, 10, 1)]
    with pytest.raises(AnalysisError, match="nothing below nn.Module: Net_0 can be replayed: my::fused: custom op"):
        sequence(module(*events), "Net_0")


def test_given_tokens_are_in_the_bounds_of_the_embedding_that_gets_a_copy_of_them() -> None:
    tokens, copied, weight = T(1, 11, (6,), "long int", 8), T(2, 12, (6,), "long int", 8), T(3, 13, (50, 4))
    clone = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
    embedding = (
        "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
        "bool sparse=False) -> Tensor"
    )
    calls = [
        Node("aten::clone", [tokens, 0], [copied], clone),
        Node("aten::embedding", [weight, copied, -1, 0, 0], [T(4, 14, (6, 4))], embedding),
    ]
    found = sequence(linked_core(Node("my::block", inside=calls)), "my::block")
    [given] = found.steps[0].uses
    assert (given.tensor.fill.rule, given.tensor.fill.options["high"]) == ("integers", 50)


def test_a_step_of_a_transformer(transformer: SequencePlan) -> None:
    assert len(transformer.steps) == 277
    assert transformer.left_out == ()
    assert (transformer.linked, transformer.passed_on, transformer.given) == (277, 250, 140)
    assert transformer.sharing == "250 results are passed on, 140 tensors are given"


def test_its_program_is_checked_and_its_tensors_are_there_when_they_are_used(transformer: SequencePlan) -> None:
    steps = plan_in(transformer.script(), "sequence")["steps"]
    plans = [plan_from_json(step["plan"]) for step in steps]
    assert plans == list(transformer.plans)
    made: set[int] = set()
    gone: set[int] = set()
    for step, plan in zip(steps, plans, strict=True):
        for use in uses(one.value for one in plan.arguments):
            assert use.number not in gone
            assert use.of is None or use.of in made - gone
        assert made.isdisjoint(one[0] for one in step["makes"])
        made |= {one[0] for one in step["makes"]}
        assert set(step["frees"]) <= made - gone
        gone |= set(step["frees"])
    assert made == gone, "a result that nobody frees is one that nobody needs"


def test_results_that_no_operation_needs_are_not_kept() -> None:
    x, y = T(1, 11), T(2, 12)
    core = linked_core(Node("aten::relu", [x], [y], RELU))
    found = sequence(core, 0)
    assert found.steps[0].makes == ()
    assert found.sharing == "0 results are passed on, 1 tensor is given"


def test_strides_of_results_that_are_passed_on_are_not_assumed() -> None:
    x, y = T(1, 11, (2, 3)), T(2, 12, (2, 3))
    core = linked_core(
        Node(
            "my::block", inside=[Node("aten::relu", [x], [y], RELU), Node("aten::relu", [y], [T(3, 13, (2, 3))], RELU)]
        )
    )
    found = sequence(core, "my::block")
    first, second = (
        replace(step.plan, positional=tuple(replace(one, assumed=text) for one in step.plan.positional))
        for step, text in zip(found.steps, ("first", "second"), strict=True)
    )
    steps = (with_field(step, plan=plan) for step, plan in zip(found.steps, (first, second), strict=True))
    assert with_field(found, steps=tuple(steps)).assumed == ("aten::relu self: first",)
    [given], [passed_on] = (step.uses for step in found.steps)
    made = {found.steps[0].makes[0][0]}
    assert not _is_passed_on(given, made)
    assert _is_passed_on(passed_on, made)
    assert _is_passed_on((passed_on, passed_on), made)
    assert not _is_passed_on((passed_on, given), made)


def test_one_is_not_many() -> None:
    found = sequence(module(op("aten::mm", 100), *kernel(105, 30, 1)), "Net_0")
    assert 'r"""1 operation below nn.Module: Net_0, called again in order.' in found.script()


def test_operations_that_are_not_in_the_execution_trace_share_nothing() -> None:
    core = load_core(
        str(EXAMPLE / "linked/one-step.json.gz"), et=str(EXAMPLE / "linked/one-step.execution-trace.json.gz")
    )
    found = sequence(core, "## step 1 ##")
    assert (found.linked, found.passed_on) == (0, 0)
    assert found.sharing == "none of them is in the execution trace: each operation has arguments of its own"


@pytest.mark.parametrize("hostile", ['nn.Module: "); import os #', 'nn.Module: """\n\x00\ud800', "nn.Module: {%s}\\"])
def test_hostile_names_stay_data(hostile: str) -> None:
    g = load_core({"schemaVersion": 1, "traceEvents": [span("python_function", hostile, 0, 90), op("aten::mm", 5)]})
    found = sequence(g, 0)
    source = found.script()
    assert plan_in(source, "sequence")["steps"]


# --- Where sequences are taken from: uids and names, and of several nodes the one with the most time


def core(*events: dict[str, Any]) -> Core:
    return load_core({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": list(events)})


def launched(ts: float, dur: float, number: int, tid: int = 100) -> list[dict[str, Any]]:
    """An op, its launch and its kernel."""
    return [
        span("cpu_op", f"aten::op{number}", ts, 10, tid=tid),
        span("cuda_runtime", "cudaLaunchKernel", ts + 1, 2, tid=tid, correlation=number),
        span("kernel", f"kernel{number}", ts + 50, dur, 0, 7, device=0, stream=7, correlation=number),
    ]


def ops(g: Core, under: int | str) -> list[str]:
    found = place(g, under)
    return [g.names[g.columns.name[row]] for row in range(len(g.columns)) if found.holds[row] and _is_op(g, row)]


def _is_op(g: Core, row: int) -> bool:
    return bool(g.columns.kind[row] == Kind.Op)


@pytest.fixture
def two_modules() -> Core:
    return core(
        span("python_function", "nn.Module: Block_0", 0, 100), *launched(10, 5, 1),
        span("python_function", "nn.Module: Block_0", 200, 100), *launched(210, 30, 2), *launched(230, 1, 3),
        span("python_function", "nn.Module: Block_0", 400, 100), *launched(410, 20, 4),
    )  # fmt: skip


def test_of_several_modules_the_one_with_the_most_gpu_time_is_taken(two_modules: Core) -> None:
    found = place(two_modules, "Block_0")
    assert (found.name, found.others) == ("nn.Module: Block_0", 2)
    assert ops(two_modules, "nn.Module: Block_0") == ["aten::op2", "aten::op3"]


def test_a_uid_is_one_node(two_modules: Core) -> None:
    assert ops(two_modules, 0) == ["aten::op1"]
    assert place(two_modules, 0).others == 0
    assert ops(two_modules, 1) == ["aten::op1"]


def test_without_gpu_work_the_longest_is_taken() -> None:
    g = core(span("cpu_op", "aten::mm", 0, 10), span("cpu_op", "aten::mm", 20, 30), span("cpu_op", "aten::relu", 25, 5))
    assert place(g, "aten::mm").row == g.row(1)
    assert ops(g, "aten::mm") == ["aten::mm", "aten::relu"]


def test_an_annotation_holds_its_thread_and_a_step_its_process() -> None:
    g = core(
        span("user_annotation", "part", 0, 300), span("user_annotation", "ProfilerStep#1", 0, 300),
        *launched(10, 5, 1), *launched(100, 5, 2, tid=200),
        span("user_annotation", "part", 400, 100), *launched(410, 99, 3),
    )  # fmt: skip
    assert ops(g, "ProfilerStep#1") == ["aten::op1", "aten::op2"]
    assert ops(g, "part") == ["aten::op3"]
    assert ops(g, 0) == ["aten::op1"]


def test_errors_say_what_there_is() -> None:
    g = load_core(small_trace())
    with pytest.raises(AnalysisError, match=r"no module, function, op, annotation or step 'Linear_1'; did you mean Li"):
        place(g, "Linear_1")
    with pytest.raises(NodeNotFoundError):
        place(g, 1000)
    kernel = next(node for node in g.find("Kernel"))
    with pytest.raises(AnalysisError, match="is a Kernel, which nothing is below"):
        place(g, kernel.uid)
