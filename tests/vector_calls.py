"""What tests of vector work share: comparison with the reference tables, growth, strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matrix_calls import Argument, call, dense, golden_cost

from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.model import CallContext, OpModel

Row = Mapping[str, str]
Departure = tuple[str, Callable[[Row], bool], set[str]]
"""Why, of which rows, in which columns."""

FLOPS, BYTES, SPEC = "GFLOPS_first", "Data Moved (MB)_first", "Compute Spec"


def differing(cost: Cost, row: Row) -> set[str]:
    """Columns of a row of the reference tables in which our cost differs."""
    moved = math.nan if cost.bytes is None else cost.bytes / 2**20
    ours: dict[str, Any] = {FLOPS: cost.flops / 1e9, BYTES: moved, SPEC: cost.compute_spec}
    ours |= {name: cost.params.get(name.removeprefix("param: ")) for name in row if name.startswith("param: ")}
    return {name for name, value in ours.items() if not _same(value, row[name])}


def _same(ours: Any, theirs: str) -> bool:
    if isinstance(ours, (int, float)) and not isinstance(ours, bool):
        other = float(theirs or "nan")
        return math.isclose(ours, other, rel_tol=1e-12) or (math.isnan(ours) and math.isnan(other))
    return ("" if ours is None else str(ours)) == theirs


def check_row(ops: Mapping[str, OpModel], row: Row, departures: Sequence[Departure]) -> None:
    """Our cost is that of the table, but for the columns of listed departures; and those do differ somewhere."""
    found = differing(golden_cost(dict(ops), dict(row)), row)
    listed = [(why, columns) for why, holds, columns in departures if holds(row)]
    assert found <= set().union(*(columns for _, columns in listed)), (found, listed)
    assert not listed or found, listed


def check_growth(ops: Mapping[str, OpModel], name: str, small: Sequence[Argument], large: Sequence[Argument]) -> None:
    """A larger call costs no less; neither costs less than nothing."""
    kernels = CallContext(("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >",))
    less, more = (ops[name].estimate(call(*arguments), kernels) for arguments in (small, large))
    assert 0 <= less.flops <= more.flops
    assert less.bytes is not None
    assert more.bytes is not None
    assert 0 <= less.bytes <= more.bytes


def scaled(arguments: Sequence[Argument], old: int, new: int) -> list[Argument]:
    """The same call with a size everywhere replaced."""
    changed: list[Argument] = []
    for one in arguments:
        if isinstance(one, tuple):
            shape = tuple(new if size == old else size for size in one[1])
            changed.append((one[0], shape, dense(shape)))
        else:
            changed.append(one)
    return changed


def expanded(argument: tuple[str, tuple[int, ...]]) -> tuple[str, tuple[int, ...], list[int]]:
    """A tensor whose first dimension is expanded: the same elements again and again."""
    dtype, shape = argument[:2]
    return dtype, shape, [0, *dense(shape)[1:]]
