"""Calls of ops of matrix work, written down as a trace records them, and the rows of the reference tables."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from corpus import GOLDENS, cases, needs_goldens
from tracelens_graph.op_table import OP_TABLE
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import MODELS

BF16, FP32, FP8, FP4 = "c10::BFloat16", "float", "c10::Float8_e4m3fnuz", "c10::Float4_e2m1fn_x2"
INT8, BYTES = "signed char", "unsigned char"

Argument = Any
"""A tensor, (type, shape) or (type, shape, strides); text of another value; None for one that is absent."""


def models_of(family: str) -> dict[str, OpModel]:
    """The models of ops whose formulas are in a family."""
    return {op: MODELS[op] for op, entry in OP_TABLE.items() if entry.model and entry.model.family == family}


def dense(shape: tuple[int, ...]) -> list[int]:
    """Strides of a dense tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def call(*given: Argument) -> Arguments:
    """Arguments as a trace would record them."""
    dims, types, strides, concrete = [], [], [], []
    for one in given:
        tensor = isinstance(one, tuple)
        dims.append(list(one[1]) if tensor else [])
        types.append(one[0] if tensor else "" if one is None else "Scalar")
        strides.append(list(one[2] if len(one) > 2 else dense(one[1])) if tensor else [])
        concrete.append("" if tensor or one is None else str(one))
    return Arguments(*(json.dumps(part) for part in (dims, types, strides, concrete)))


def cost_of(ops: Mapping[str, OpModel], name: str, *given: Argument, kernels: tuple[str, ...] = ()) -> Cost:
    """What the model of an op says of a call."""
    return ops[name].estimate(call(*given), CallContext(kernels))


def golden_rows(*sheets: str) -> list[object]:
    """Rows of the reference tables of a family, one per distinct call; without tables, one skipped case."""
    csv.field_size_limit(2**31 - 1)
    seen = set()
    rows = []
    folders = [] if GOLDENS is None else [GOLDENS / "default", GOLDENS / "full"]
    for path in (path for folder in folders for sheet in sheets for path in sorted(folder.rglob(f"{sheet}.csv"))):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                key = tuple(value for name, value in row.items() if name == "name" or name.startswith(("param", "Inp")))
                if key not in seen:
                    seen.add(key)
                    rows.append((f"{_trace(path)}-{row['name']}-{len(seen)}", row))
    return cases(rows, needs=needs_goldens)


def _trace(path: Path) -> str:
    return "/".join(path.parts[-3:-1])


def golden_cost(ops: Mapping[str, OpModel], row: dict[str, str]) -> Cost:
    """Our cost of the call of a row."""
    recorded = (ast.literal_eval(row[f"{part}_first"]) for part in _PARTS)
    kernels = re.findall(r"'name': '([^']*)'", row["kernel_details__summarize_kernel_stats"])
    return ops[row["name"]].estimate(Arguments(*map(json.dumps, recorded)), CallContext(tuple(kernels)))


_PARTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


def differences(cost: Cost, row: dict[str, str]) -> set[str]:
    """Columns of a row in which our cost differs."""
    assert cost.bytes is not None
    numbers = {"GFLOPS_first": cost.flops / 1e9, "Data Moved (MB)_first": cost.bytes / 2**20}
    found = {name for name, ours in numbers.items() if ours != pytest.approx(float(row[name]), rel=1e-12)}
    texts = {"Compute Spec": cost.compute_spec}
    texts |= {name: cost.params.get(name.removeprefix("param: ")) for name in row if name.startswith("param: ")}
    return found | {name for name, ours in texts.items() if ("" if ours is None else str(ours)) != row[name]}


_values = st.none() | st.integers() | st.sampled_from([-1, 0, 2**70, 10**400]) | st.text(max_size=5) | st.booleans()
_parts = st.recursive(_values, lambda one: st.lists(one, max_size=4), max_leaves=30)
_sizes = st.sampled_from([-1, 0, 1, 2, 3, 2**40, 2**63, 10**400])
_types = st.sampled_from([BF16, FP32, FP8, FP4, INT8, BYTES, "", "Scalar", "TensorList", "nonsense", "int"])
_texts = st.sampled_from(
    ["", "True", "0", "1", "-7", "9" * 30, "[1, 1]", "[0]", "[-1]", "[True, True, False]", "x" * 99]
)


@st.composite
def _spoilt(draw: st.DrawFn, calls: Sequence[tuple[str, Sequence[Argument]]]) -> tuple[str, Arguments]:
    """A call that a model knows, with some of its arguments changed or left out."""
    name, known = draw(st.sampled_from(calls))
    spoilt = list(known)
    for index in draw(st.lists(st.integers(0, len(spoilt) - 1), min_size=1, max_size=3)):
        if not isinstance(spoilt[index], tuple) or draw(st.booleans()):
            spoilt[index] = draw(_texts | st.none() | st.tuples(_types, st.lists(_sizes, max_size=5)))
            continue
        dtype, shape, *_ = spoilt[index]
        changed = list(shape)
        for axis in draw(st.lists(st.integers(0, max(len(shape) - 1, 0)), max_size=2)) if shape else []:
            changed[axis] = draw(_sizes)
        spoilt[index] = (
            draw(st.just(dtype) | _types),
            changed,
            draw(st.just(dense(tuple(changed))) | st.lists(_sizes)),
        )
    return name, call(*spoilt[: draw(st.sampled_from([len(spoilt), len(spoilt), len(spoilt) - 1]))])


class _Unseen(CallContext):
    """The context of a call whose model says that it does not look at it."""

    def __getattribute__(self, name: str) -> Any:
        assert name not in CallContext.__dataclass_fields__, "a model that looks at the context is to be marked so"
        return super().__getattribute__(name)


def hostile(ops: Mapping[str, OpModel], calls: Sequence[tuple[str, Sequence[Argument]]]) -> Callable[[], None]:
    """A test: whatever the arguments, models say a sane cost or why there is none.

    Args:
        ops: the models.
        calls: name and arguments of calls that they know, to be spoilt.
    """
    anything = st.tuples(
        st.sampled_from(sorted(ops)),
        st.builds(Arguments, *[st.text(max_size=20) | st.builds(json.dumps, _parts)] * 4),
    )

    @examples(400)
    @given(_spoilt(calls) | anything, st.lists(st.text(max_size=20), max_size=2))
    def test(called: tuple[str, Arguments], kernels: list[str]) -> None:
        name, arguments = called
        model, context = ops[name], CallContext(tuple(kernels), forward=arguments)
        of_op = (model.estimate, context if model.uses_context else _Unseen())
        for estimate, seen in (of_op, (model.backward, context)):
            try:
                cost = estimate(arguments, seen) if estimate else Cost(0, 0, "vector")
            except CannotModel:
                continue
            assert cost.flops >= 0
            assert cost.bytes is None or cost.bytes >= 0
            if cost.bytes_range is not None:
                assert cost.bytes is not None
                assert cost.bytes_range[0] <= cost.bytes <= cost.bytes_range[1]

    return test
