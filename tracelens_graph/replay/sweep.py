"""Calls of a trace at other sizes: one size of their arguments takes other values, and nothing else changes.

A size is named by its number, or `batch`: the first size of the first tensor that is no weight and no bias, where that
stands nowhere else. It stands for every dimension of that size in the call's tensors, and for every equal number among
its arguments that is a size by the schema, so that arguments still fit one another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_field
from math import prod

from msgspec.structs import replace

from tracelens_graph.errors import AnalysisError, CannotReplay
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.calls import Call, number, numbers, sizes, traced_call
from tracelens_graph.replay.choosing import SCALAR, SCALARS, TENSORS, choose
from tracelens_graph.replay.planned import Estimates, Plans, complete
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import Recorded, ReplayPlan, Traced, Work
from tracelens_graph.replay.schemas import Parameter

BATCH = "batch"
_SWEEP = re.compile(r"(batch|\d{1,12})=(\d{1,12}(?:,\d{1,12})*)")
_MOST = 64
"""Values of a sweep."""
_NO_BATCH = frozenset({"weight", "bias"})
"""Tensors whose first size is no batch."""
_NO_SIZES = frozenset((
    "stride", "padding", "output_padding", "dilation", "kernel_size", "groups", "start", "end", "step", "index",
    "padding_idx", "storage_offset", "shifts", "diagonal", "offset", "dim", "k", "ignore_index", "repeats",
))  # fmt: skip
"""Parameters that PyTorch has as `SymInt`, as it has sizes, and that are none."""
_VIEWED = frozenset({"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::_reshape_alias", "aten::view_copy"})
"""Operations whose `size` or `shape` holds as many elements as their tensor."""


@dataclass(frozen=True)
class Sweep:
    """What a sweep changes.

    Attributes:
        size: the size, as a number or `batch`.
        values: what it is to be.
    """

    size: str
    values: tuple[int, ...]

    @classmethod
    def parsed(cls, text: str) -> Sweep:
        """A sweep from words such as `batch=1,2,4,8`.

        Raises:
            AnalysisError: it is none.
        """
        found = _SWEEP.fullmatch(text.replace(" ", ""))
        values = tuple(dict.fromkeys(map(int, found[2].split(",")))) if found else ()
        if found is None or not 0 < len(values) <= _MOST or 0 in values or found[1] == "0":
            raise AnalysisError(f"{text[:60]!r} is no sweep such as batch=1,2,4,8 or 4096=1024,2048")
        return cls(found[1], values)


def swept(plans: Plans, place: int, sweep: Sweep, estimates: Estimates) -> list[ReplayPlan]:
    """The plan of a signature, and the same at each other size; those that the trace does not have count no calls.

    Raises:
        AnalysisError: it has no plan, is no operation of PyTorch, or has no such size.
    """
    made = complete(plans, place, estimates).plan
    row = int(plans.signatures.rows[place])
    name = plans.signatures.names[place]
    if not isinstance(made, ReplayPlan):
        raise AnalysisError(f"{name}: nothing to sweep: {plans[place].why}")
    if made.imports:
        raise AnalysisError(f"{name}: only sizes of operations of PyTorch are swept")
    call = traced_call(plans.signatures.core, row)
    parameters = choose(call).parameters
    size = _size(call, parameters, sweep)
    found = [made] if size in sweep.values else []
    for value in sweep.values:
        if value != size:
            try:
                other = plan_of(with_field(call, recorded=_resized(call, parameters, size, value), observed=()))
            except CannotReplay as error:
                raise AnalysisError(f"{name}: cannot be made with {value} in place of {size}: {error.reason}") from None
            note = f"a sweep: {value} stands where the trace has {size}"
            found.append(replace(other, traced=Traced(calls=0), work=Work(), notes=(*other.notes, note)))
    return found


def _size(call: Call, parameters: Sequence[Parameter], sweep: Sweep) -> int:
    """The size that changes."""
    recorded = call.recorded
    every = [(one.name, at, sizes(recorded.dims[at]) or ()) for at, one in enumerate(parameters)]
    every = [one for one in every if one[2]]
    lists = [sizes(one) or () for at, kind in enumerate(recorded.types) if kind in TENSORS for one in recorded.dims[at]]
    known = list(dict.fromkeys(size for shape in [*(one[2] for one in every), *lists] for size in shape))
    listed = ", ".join(map(str, known)) or "none"
    if sweep.size != BATCH:
        if (wanted := int(sweep.size)) not in known:
            raise AnalysisError(f"{call.op}: has no size {wanted}; its sizes are {listed}")
        return wanted
    data = [one for one in every if one[0] not in _NO_BATCH]
    _, at, shape = next((one for one in data if len(one[2]) > 1), data[0] if data else ("", 0, ()))
    steps = sizes(recorded.strides[at]) if shape and at < len(recorded.strides) else None
    is_outermost = not steps or steps[0] == max(steps)  # a transposed matrix begins with features
    others = [size for one in every for size in one[2][1:]] + [one[2][0] for one in every if len(one[2]) < len(shape)]
    if not shape or not is_outermost or shape[0] in others:
        example = f"as in {known[0]}=64; " if known else ""
        raise AnalysisError(
            f"{call.op}: which size is the batch is not clear; name the number, {example}its sizes are {listed}"
        )
    return shape[0]


def _resized(call: Call, parameters: Sequence[Parameter], size: int, value: int) -> Recorded:
    """The arguments with one size changed; tensors that lie densely in memory still do, in their order.

    Raises:
        AnalysisError: sizes that it is given would not hold what its tensor does.
    """
    recorded = call.recorded
    dims, strides, values = list(recorded.dims), list(recorded.strides), list(recorded.values)
    if {"size", "stride"} <= {one.name for one in parameters}:
        raise AnalysisError(f"{call.op}: is given strides of its result, so its sizes are not swept alone")
    for at, (kind, parameter) in enumerate(zip(recorded.types, parameters, strict=True)):
        steps = strides[at] if at < len(strides) else ()
        if kind in TENSORS:
            old = [sizes(one) or () for one in dims[at]]
            dims[at] = tuple(_with(shape, size, value) for shape in old)
            if len(steps) == len(old):
                strides[at] = tuple(map(_restrided, old, steps, dims[at]))
        elif (shape := sizes(dims[at])) and torch_dtype(kind):
            dims[at] = _with(shape, size, value)
            if (found := sizes(steps)) is not None and len(found) == len(shape):
                strides[at] = _restrided(shape, found, dims[at])
        elif parameter.name in _NO_SIZES or parameter.kind.base != "SymInt" or at >= len(values) or not values[at]:
            continue
        elif kind == SCALARS:
            given = numbers(values[at])
            now = [value if one == size else one for one in given]
            if call.op in _VIEWED and -1 not in now and prod(now) != prod(dims[0]):
                raise AnalysisError(f"{call.op}: {size} is part of a size of {list(given)}, so it is not swept alone")
            values[at] = str(now)
        elif kind == SCALAR and number(values[at]) == size:
            values[at] = str(value)
    return Recorded(tuple(dims), recorded.types, tuple(strides), tuple(values))


def _with(shape: Sequence[int], size: int, value: int) -> tuple[int, ...]:
    return tuple(value if one == size else one for one in shape)


def _restrided(shape: Sequence[int], steps: Sequence[int], now: Sequence[int]) -> tuple[int, ...]:
    """Strides of changed sizes: gaps between rows and dimensions of stride 0 stay as they are."""
    order = sorted(range(len(shape)), key=lambda dim: (-steps[dim], dim))
    made = [0] * len(shape)
    reach, old_reach = 1, 1
    for dim in reversed(order):
        if steps[dim] == 0:
            continue
        gap = max(steps[dim] - old_reach, 0)
        made[dim] = reach + gap
        old_reach, reach = steps[dim] * shape[dim], made[dim] * now[dim]
    return tuple(made)
