"""Programs of one operation: what they hold, and that hostile text stays text."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from replay_plans import converted, mm, plans, scaled

from tracelens_graph.replay.arguments import Argument, TensorValue
from tracelens_graph.replay.check import check
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.script import arguments_source, dense_strides, script, written_arguments


def functions(source: str) -> set[str]:
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def data(source: str, name: str) -> str:
    """The source of a slot."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name and isinstance(node.body[-1], ast.Return):
            return ast.unparse(node.body[-1].value or node)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return ast.unparse(node.value or node)
    raise AssertionError(name)


def test_heading() -> None:
    assert ast.get_docstring(ast.parse(script(mm(notes=("grad mode is not recorded",))))) == (
        "aten::mm: one operation of a trace, called again by itself.\n"
        "\n"
        "arguments  self bfloat16[64, 32], mat2 bfloat16[32, 16] with strides [1, 32]\n"
        "traced     12 calls; 103.20 us of GPU time on NVIDIA H100\n"
        "kernel     gemm_kernel\n"
        "note       grad mode is not recorded\n"
        "\n"
        "Written by tracelens_graph 0.1.0; needs PyTorch and nothing else."
    )


def test_arguments_are_calls_of_builders() -> None:
    assert data(script(mm()), "arguments") == (
        "([tensor([64, 32], 'bfloat16'), tensor([32, 16], 'bfloat16', strides=[1, 32])], {})"
    )
    assert data(script(converted()), "arguments") == (
        "([tensor([8, 0], 'int64', fill='integers', offset=2, high=100, on_cpu=True)], "
        "{'dtype': dtype('float16'), 'layout': layout('strided'), 'device': device('device'), "
        "'memory_format': memory_format('channels_last')})"
    )


def test_what_is_written_comes_back_between_calls() -> None:
    assert data(script(scaled((2, 3), (4,))), "arguments") == (
        "([[restored(tensor([2, 3], 'float32')), restored(tensor([4], 'float32'))], float('inf')], {})"
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", {"self"}),
        ("aten::zero_(Tensor(a!) self) -> Tensor(a!)", set()),
        ("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)", set()),
        ("aten::t_(Tensor(a!) self) -> Tensor(a!)", {"self"}),
    ],
)
def test_only_what_is_read_and_written_is_restored(schema: str, written: set[str]) -> None:
    op, _, overload = schema.partition("(")[0].partition(".")
    assert written_arguments(ReplayPlan(op, overload, schema, ())) == written


def test_a_program_has_what_it_needs_and_no_more() -> None:
    plain, several = functions(script(mm())), functions(script(converted()))
    assert {"arguments", "main", "measure", "tensor", "normal"} <= plain
    assert not plain & {"restored", "integers", "dtype", "layout", "generator", "shared", "sparse_coo"}
    assert {"integers", "dtype", "layout", "memory_format"} <= several
    assert "normal" not in several
    assert "restored" in functions(script(scaled((2,))))


def test_a_program_is_short() -> None:
    assert len(script(mm()).splitlines()) < 300


@given(plans())
def test_hostile_text_stays_text(plan: ReplayPlan) -> None:
    source = script(plan)
    assert source.isascii()
    compile(source, "program", "exec", dont_inherit=True)
    check(source)
    known = ast.literal_eval(data(source, "OPERATION"))
    assert tuple(known["kernels"]) == plan.traced.kernels
    assert tuple(known["signature"]["types"]) == plan.recorded.types


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (2, 0, 4)])
def test_dense_strides(shape: tuple[int, ...]) -> None:
    steps = dense_strides(shape)
    assert len(steps) == len(shape)
    assert steps == {(): (), (3,): (1,), (2, 3, 4): (12, 4, 1), (2, 0, 4): (4, 4, 1)}[shape]


def test_strides_of_dense_tensors_are_left_out() -> None:
    plan = mm()
    dense = TensorValue((2, 3), "float32", strides=(3, 1))
    plan = ReplayPlan(plan.op, "", plan.schema, tuple(type(one)(one.name, one.type, dense) for one in plan.positional))
    assert "strides=" not in data(script(plan), "arguments")


@pytest.mark.parametrize(("shape", "written"), [((0,), {"out"}), ((4,), set())])
def test_an_output_that_grows_is_empty_again_before_the_next_call(shape: tuple[int, ...], written: set[str]) -> None:
    schema = "aten::abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
    out = Argument("out", "Tensor(a!)", TensorValue(shape, "float32"))
    plan = ReplayPlan("aten::abs", "out", schema, (Argument("self", "Tensor", TensorValue((4,), "float32")),), (out,))
    assert written_arguments(plan) == written
    assert ("restored(" in arguments_source(plan)) is bool(written)
