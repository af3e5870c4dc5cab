"""Plans made by hand, and hostile ones drawn at random."""

from __future__ import annotations

import ast
import json
from typing import Any

from hypothesis import strategies as st

from tracelens_graph.replay.plan_json import KINDS
from tracelens_graph.replay.program_text import ProgramKind, runner
from tracelens_graph.replay.replay_plan import (
    Argument,
    Fill,
    Named,
    Recorded,
    ReplayPlan,
    TensorValue,
    Traced,
    Value,
    Work,
)

MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
OPTIMIZER = "aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"
TO = (
    "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"
)


def plan_in(source: str, kind: ProgramKind = "full") -> Any:
    """The plan in a program, which has nothing else beside its heading and the runner of its kind."""
    assert source.isascii()
    assert source.endswith(runner(kind))
    heading, future, imported, plan = ast.parse(source.removesuffix(runner(kind))).body
    assert isinstance(heading, ast.Expr)
    assert isinstance(heading.value, ast.Constant)
    assert [ast.unparse(future), ast.unparse(imported)] == ["from __future__ import annotations", "import json"]
    assert isinstance(plan, ast.Assign)
    assert isinstance(plan.value, ast.Call)
    (text,) = plan.value.args
    assert isinstance(text, ast.Constant)
    assert ast.unparse(plan) == f"PLAN = json.loads({text.value!r})"
    return json.loads(text.value)


def mm(rows: int = 64, **told: Any) -> ReplayPlan:
    """A product of two matrices, the second one transposed."""
    left, right = TensorValue((rows, 32), "bfloat16"), TensorValue((32, 16), "bfloat16", strides=(1, 32))
    return ReplayPlan(
        "aten::mm",
        "",
        MM,
        (Argument("self", "Tensor", left), Argument("mat2", "Tensor", right)),
        recorded=Recorded(((rows, 32), (32, 16)), ("c10::BFloat16",) * 2, ((32, 1), (1, 32)), ("", "")),
        traced=Traced(12, 5, ("gemm_kernel",), (), 103.2, 104.0, "NVIDIA H100", 40.0, 1250.44),
        work=Work(2.0 * rows * 32 * 16, 1e4, 90.1),
        **told,
    )


def scaled(*shapes: tuple[int, ...]) -> ReplayPlan:
    """An operation that writes a list of tensors."""
    tensors = tuple(TensorValue(shape, "float32") for shape in shapes)
    arguments = (Argument("self", "Tensor(a!)[]", tensors), Argument("scalar", "Scalar", float("inf")))
    return ReplayPlan("aten::_foreach_mul_", "Scalar", OPTIMIZER, arguments)


def converted() -> ReplayPlan:
    """An operation with arguments of all kinds that torch has by name, and integers below a bound."""
    indices = TensorValue((8, 0), "int64", fill=Fill("integers", {"high": 100}), offset=2, on_cpu=True)
    keyword = (
        Argument("dtype", "ScalarType?", Named("dtype", "float16")),
        Argument("layout", "Layout?", Named("layout", "strided"), "it is not recorded"),
        Argument("device", "Device?", Named("device", "device")),
        Argument("pin_memory", "bool?", None),
        Argument("non_blocking", "bool", False),
        Argument("copy", "bool", False),
        Argument("memory_format", "MemoryFormat?", Named("memory_format", "channels_last")),
    )
    return ReplayPlan("aten::to", "dtype_layout", TO, (Argument("self", "Tensor(a)", indices),), keyword)


HOSTILE = st.text() | st.sampled_from([
    "", "\0", '"""', "'''", "\\", "\\\\'", "\n\nimport os\n", "__import__('os').system('x')", "{OPERATION}",
    "arguments", "OPERATION", "\ud800", "\u202edcba", "\u2028", "# coding: utf-7", "+AGkAbQBwAG8AcgB0-", "%(prog)s",
    "%", "\x1b[31m", "a" * 999, "None", "float('inf')", "é", "\r", "\x0c",
])  # fmt: skip
"""Text that should end up in a string and nowhere else."""

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | HOSTILE
"""Arguments that are neither tensors nor lists."""

_SIZES = st.lists(st.integers(0, 1 << 40), max_size=4).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> TensorValue:
    """Tensors of any kind that a program can make."""
    shape = draw(_SIZES)
    dtype = draw(st.sampled_from(["float32", "int64", "bool", "float8_e4m3fn", "quint8"]))
    strides = draw(st.none() | st.tuples(*[st.integers(0, 1 << 40)] * len(shape)))
    fills = [Fill(), Fill("integers", {"high": 5}), Fill("uniform", {"low": -2.5})]
    fill = draw(st.sampled_from(fills[:1] if dtype == "quint8" else fills))  # quantized tensors have one filling
    return TensorValue(
        shape, dtype, strides, fill, storage=draw(st.none() | st.integers(0, 3)), offset=draw(st.integers(0, 9)),
        on_cpu=draw(st.booleans()), reach=draw(st.integers(0, 9)),
    )  # fmt: skip


NAMED = st.builds(Named, st.sampled_from(KINDS), st.sampled_from(["", "float32", "device"]))
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS | tensors() | NAMED, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=6
)


@st.composite
def plans(draw: st.DrawFn) -> ReplayPlan:
    """Plans in which every text that comes from a trace is hostile."""
    first, second = draw(VALUES), draw(VALUES)
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    return ReplayPlan(
        "aten::mm",
        "",
        MM,
        (
            Argument("self", "Tensor", first, draw(HOSTILE)),
            Argument("mat2", "Tensor", second, draw(HOSTILE)),
        ),
        recorded=Recorded(
            draw(st.lists(_SIZES, max_size=3).map(tuple)),
            draw(st.lists(HOSTILE, max_size=3).map(tuple)),
            draw(st.lists(_SIZES, max_size=3).map(tuple)),
            draw(st.lists(HOSTILE, max_size=3).map(tuple)),
        ),
        traced=Traced(
            draw(st.integers(0, 9)), 1, draw(st.lists(HOSTILE, max_size=9).map(tuple)), (draw(HOSTILE),),
            draw(numbers), 0.0, draw(HOSTILE), 1.0,
        ),
        work=Work(draw(st.none() | numbers), None, draw(st.none() | numbers)),
        notes=tuple(draw(st.lists(HOSTILE, max_size=2))),
        modes=tuple(draw(st.lists(st.sampled_from(["no_grad", "autocast float16"]), max_size=2))),
    )  # fmt: skip
