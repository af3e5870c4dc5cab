"""Headings of programs, names of their files, and that hostile text stays text."""

from __future__ import annotations

import ast
import json
import keyword

import pytest
from hypothesis import given
from replay_plans import HOSTILE, mm, plan_in, plans

from tracelens_graph.replay.replay_plan import Argument, TensorValue
from tracelens_graph.replay.program_text import dense_strides, entry, heading, identifier
from tracelens_graph.replay.replay_plan import ReplayPlan, Traced, Work


def test_heading() -> None:
    assert ast.get_docstring(ast.parse(mm(notes=("grad mode is not recorded",)).script())) == (
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
    assert plan_in(plan.script())["traced"].get("median_us", 0) == traced.median_us


def test_long_names_of_kernels_are_cut_with_a_mark_and_broken_where_parts_of_them_end() -> None:
    name = "void at::native::" + "".join(f"elementwise_kernel_of_many<{n},at::Half>::" for n in range(9)) + "end"
    plan = mm().with_traced(Traced(1, kernels=(name,)), Work())
    lines = [line for line in heading(plan).splitlines() if line.startswith(("kernel ", "           "))]
    assert len(lines) == 3
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].endswith("...")
    assert all(line.endswith((",", "<", "::", "_", "(")) for line in lines[:-1])
    assert plan_in(plan.script())["traced"]["kernels"] == [name]
    assert entry("kernel", "x" * 100) == ["kernel     " + "x" * 69, " " * 11 + "x" * 31]
    assert entry("note", " ") == []


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
    assert set(ReplayPlan(op, overload, schema, ()).restored) == written


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (2, 0, 4)])
def test_dense_strides(shape: tuple[int, ...]) -> None:
    steps = dense_strides(shape)
    assert len(steps) == len(shape)
    assert steps == {(): (), (3,): (1,), (2, 3, 4): (12, 4, 1), (2, 0, 4): (4, 4, 1)}[shape]


@pytest.mark.parametrize(("shape", "written"), [((0,), {"out"}), ((4,), set())])
def test_an_output_that_grows_is_empty_again_before_the_next_call(shape: tuple[int, ...], written: set[str]) -> None:
    schema = "aten::abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
    out = Argument("out", "Tensor(a!)", TensorValue(shape, "float32"))
    plan = ReplayPlan("aten::abs", "out", schema, (Argument("self", "Tensor", TensorValue((4,), "float32")),), (out,))
    assert set(plan.restored) == set(plan_in(plan.script()).get("restored", [])) == written


@given(plans())
def test_hostile_text_stays_text(plan: ReplayPlan) -> None:
    assert plan_in(plan.script()) == json.loads(json.dumps(plan.json()))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("aten::mm", "aten_mm"),
        ("aten::add_", "aten_add"),
        ("3d", "op_3d"),
        ("", "op"),
        ("é\0", "op"),
        ("class", "class_"),
    ],
)
def test_identifiers(text: str, name: str) -> None:
    assert identifier(text) == name


@given(HOSTILE)
def test_an_identifier_is_a_name(text: str) -> None:
    name = identifier(text)
    assert name.isidentifier()
    assert name.isascii()
    assert not keyword.iskeyword(name)
