"""Calls of ops, written down as a trace records them; tests that all families of models share; reference tables."""

from __future__ import annotations

import ast
import csv
import json
import math
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

Known = tuple[Any, ...]
"""Name, arguments, FLOPs, bytes, and what else is known of a call."""

Expanded = tuple[str, Sequence[Argument], int, int]
"""Name, arguments, which of them is expanded, bytes that this saves."""

Test = Callable[..., None]

Row = Mapping[str, str]
Departure = tuple[str, Callable[[Row], bool], set[str]]
"""Why, of which rows, in which columns."""

FLOPS, MOVED, SPEC = "GFLOPS_first", "Data Moved (MB)_first", "Compute Spec"


def dense(shape: Sequence[int]) -> list[int]:
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


_PARTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


def differing(cost: Cost, row: Row) -> set[str]:
    """Columns of a row of the reference tables in which our cost differs."""
    moved = math.nan if cost.bytes is None else cost.bytes / 2**20
    ours: dict[str, Any] = {FLOPS: cost.flops / 1e9, MOVED: moved, SPEC: cost.compute_spec}
    ours |= {name: cost.params.get(name.removeprefix("param: ")) for name in row if name.startswith("param: ")}
    return {name for name, value in ours.items() if not _same(value, row[name])}


def _same(ours: Any, theirs: str) -> bool:
    if isinstance(ours, (int, float)) and not isinstance(ours, bool):
        other = float(theirs or "nan")
        return math.isclose(ours, other, rel_tol=1e-12) or (math.isnan(ours) and math.isnan(other))
    return ("" if ours is None else str(ours)) == theirs


def check_no_less(less: Cost, more: Cost) -> None:
    """The second costs no less than the first, and the first not less than nothing."""
    assert 0 <= less.flops <= more.flops
    assert less.bytes is not None
    assert more.bytes is not None
    assert 0 <= less.bytes <= more.bytes


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
        spoilt[index] = (draw(st.just(dtype) | _types), changed, draw(st.just(dense(changed)) | st.lists(_sizes)))
    return name, call(*spoilt[: draw(st.sampled_from([len(spoilt), len(spoilt), len(spoilt) - 1]))])


class _Unseen(CallContext):
    """The context of a call whose model says that it does not look at it."""

    def __getattribute__(self, name: str) -> Any:
        assert name not in CallContext.__dataclass_fields__, "a model that looks at the context is to be marked so"
        return super().__getattribute__(name)


class Family:
    """The models of ops whose formulas are in one module, or some of them, and the tests that all families share.

    Attributes:
        models: op -> its model.
    """

    def __init__(
        self,
        name: str,
        wanted: Callable[[OpModel], bool] = lambda model: True,
        changed: Callable[[OpModel], OpModel] = lambda model: model,
    ) -> None:
        ops = [op for op, entry in OP_TABLE.items() if entry.model and entry.model.family == name]
        self.models = {op: changed(MODELS[op]) for op in ops if wanted(MODELS[op])}

    def cost(self, name: str, *given: Argument, kernels: tuple[str, ...] = ()) -> Cost:
        """What the model of an op says of a call."""
        return self.models[name].estimate(call(*given), CallContext(kernels))

    def golden_cost(self, row: Row) -> Cost:
        """Our cost of the call of a row."""
        recorded = (ast.literal_eval(row[f"{part}_first"]) for part in _PARTS)
        kernels = re.findall(r"'name': '([^']*)'", row["kernel_details__summarize_kernel_stats"])
        return self.models[row["name"]].estimate(Arguments(*map(json.dumps, recorded)), CallContext(tuple(kernels)))

    def reference_rows(self, *sheets: str, departures: Sequence[Departure] = ()) -> Test:
        """A test: our costs are those of the reference tables, but for columns of departures; and those do differ."""

        @pytest.mark.parametrize("row", golden_rows(*sheets))
        def test(row: Row) -> None:
            found = differing(self.golden_cost(row), row)
            listed = [(why, columns) for why, holds, columns in departures if holds(row)]
            assert found <= set().union(*(columns for _, columns in listed)), (found, listed)
            assert not listed or found, listed

        return test

    def known(self, known: Sequence[Known], spec: str = "") -> Test:
        """A test: calls cost what was computed by hand.

        Args:
            known: name, arguments, FLOPs, bytes, and the rate or the type of elements; the last may be left out.
            spec: the rate of those without one; or the unit, or the type of elements.
        """

        @pytest.mark.parametrize("call", known)
        def test(call: Known) -> None:
            name, arguments, flops, moved, *rest = call
            cost = self.cost(name, *arguments)
            assert cost.flops == flops
            assert cost.bytes == pytest.approx(moved, rel=0, abs=0 if isinstance(moved, int) else 1)
            assert (rest[0] if rest else spec) in (cost.compute_spec, cost.precision, cost.unit)

        return test

    def growing(self, known: Sequence[Known], *sizes: int) -> Test:
        """A test: calls in which one of these sizes is larger cost no less."""

        @given(st.sampled_from(known), st.sampled_from(sizes), st.integers(0, 60))
        def test(called: Known, size: int, more: int) -> None:
            name, small = called[:2]
            sized = {size: size + more}
            large = [(one[0], [sized.get(n, n) for n in one[1]]) if isinstance(one, tuple) else one for one in small]
            check_no_less(self.cost(name, *small), self.cost(name, *large))

        return test

    def reasons(self, known: Sequence[tuple[str, Sequence[Argument], str]]) -> Test:
        """A test: calls that cannot be modelled say why; name, arguments, and words of the reason."""

        @pytest.mark.parametrize(("name", "arguments", "why"), known)
        def test(name: str, arguments: Sequence[Argument], why: str) -> None:
            with pytest.raises(CannotModel, match=why):
                self.cost(name, *arguments)

        return test

    def expanded_once(self, known: Sequence[Expanded]) -> Test:
        """A test: where the first dimension of an argument is expanded, bytes are saved and no FLOPs."""

        @pytest.mark.parametrize(("name", "arguments", "at", "saved"), known)
        def test(name: str, arguments: Sequence[Argument], at: int, saved: int) -> None:
            dtype, shape = arguments[at]
            thin = [*arguments[:at], (dtype, shape, [0, *dense(shape)[1:]]), *arguments[at + 1 :]]
            whole, less = self.cost(name, *arguments), self.cost(name, *thin)
            assert whole.bytes is not None
            assert (less.flops, less.bytes) == (whole.flops, whole.bytes - saved)

        return test

    def hostile(self, calls: Sequence[Known]) -> Test:
        """A test: whatever the arguments, models say a sane cost or why there is none.

        Args:
            calls: name and arguments of calls that they know, to be spoilt.
        """
        anything = st.tuples(
            st.sampled_from(sorted(self.models)),
            st.builds(Arguments, *[st.text(max_size=20) | st.builds(json.dumps, _parts)] * 4),
        )

        @examples(400)
        @given(_spoilt([one[:2] for one in calls]) | anything, st.lists(st.text(max_size=20), max_size=2))
        def test(called: tuple[str, Arguments], kernels: list[str]) -> None:
            name, arguments = called
            model, context = self.models[name], CallContext(tuple(kernels), forward=arguments)
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
