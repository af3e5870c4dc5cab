"""Programs of one operation: what they hold, and that hostile text stays text."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from replay_plans import converted, mm, plans, scaled

from tracelens_graph.replay.arguments import Argument, TensorValue
from tracelens_graph.replay.check import check
from tracelens_graph.replay.replay_plan import ReplayPlan, Traced, Work
from tracelens_graph.replay.script import arguments_source, dense_strides, entry, heading, script, written_arguments


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
        "traced     12 calls, 1,250.4 us of GPU time in all, median 104.00 us a call, on\n"
        "           NVIDIA H100\n"
        "kernel     gemm_kernel\n"
        "note       grad mode is not recorded\n"
        "\n"
        "python FILE runs it, python FILE --json RESULTS keeps what it measured, too, and\n"
        "python FILE --help lists all options.\n"
        "\n"
        "Written by tracelens_graph 0.1.0; needs PyTorch and nothing else."
    )


@pytest.mark.parametrize(
    ("traced", "line"),
    [
        (Traced(1, kernels=("k",), kernel_us=1537.5, median_us=1537.5), "1 call, 1,537.50 us of GPU time"),
        (
            Traced(3, kernels=("k",), kernel_us=90, median_us=30, total_us=140),
            "3 calls, 140.0 us of GPU time in all, median 30.00 us a call, 90.00 us in the one that is shown here",
        ),
        (Traced(3, gpu="GPU"), "3 calls, on GPU"),
    ],
)
def test_times_in_the_heading(traced: Traced, line: str) -> None:
    plan = mm().with_traced(traced, Work())
    assert f"traced {line} " in " ".join(heading(plan).split()).replace("kernel", " kernel").replace("  ", " ")
    assert f"'traced_us': {traced.median_us}" in data(script(plan), "OPERATION")


def test_long_names_of_kernels_are_cut_with_a_mark_and_broken_where_parts_of_them_end() -> None:
    name = "void at::native::" + "".join(f"elementwise_kernel_of_many<{n},at::Half>::" for n in range(9)) + "end"
    plan = mm().with_traced(Traced(1, kernels=(name,)), Work())
    lines = [line for line in heading(plan).splitlines() if line.startswith(("kernel ", "           "))]
    assert len(lines) == 3
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].endswith("...")
    assert all(line.endswith((",", "<", "::", "_", "(")) for line in lines[:-1])
    assert name in data(script(plan), "OPERATION")
    assert entry("kernel", "x" * 100) == ["kernel     " + "x" * 69, " " * 11 + "x" * 31]
    assert entry("note", " ") == []


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
    assert len(script(mm()).splitlines()) < 380


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
