"""Calls of a trace at other sizes: one size of their arguments takes other values, and nothing else changes.

A size is named by its number, or `batch`: the first size of the first tensor. It stands for every dimension of that
size in the call's tensors and lists of sizes, so that arguments still fit one another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_field

from msgspec.structs import replace

from tracelens_graph.errors import AnalysisError, CannotReplay
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.calls import Call, numbers, sizes, traced_call
from tracelens_graph.replay.choosing import SCALARS
from tracelens_graph.replay.planned import Estimates, Plans, complete
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import Recorded, ReplayPlan, Traced, Work

BATCH = "batch"
_SWEEP = re.compile(r"(batch|\d{1,12})=(\d{1,12}(?:,\d{1,12})*)")
_MOST = 64
"""Values of a sweep."""


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
    size = _size(call, sweep)
    found = [made] if size in sweep.values else []
    for value in sweep.values:
        if value != size:
            try:
                other = plan_of(with_field(call, recorded=_resized(call.recorded, size, value), observed=()))
            except CannotReplay as error:
                raise AnalysisError(f"{name}: cannot be made with {value} in place of {size}: {error.reason}") from None
            note = f"a sweep: {value} stands where the trace has {size}"
            found.append(replace(other, traced=Traced(calls=0), work=Work(), notes=(*other.notes, note)))
    return found


def _size(call: Call, sweep: Sweep) -> int:
    """The size that changes."""
    shapes = [found for dims in call.recorded.dims if (found := sizes(dims))]
    known = list(dict.fromkeys(size for shape in shapes for size in shape))
    wanted = shapes[0][0] if sweep.size == BATCH and shapes else int(sweep.size) if sweep.size != BATCH else -1
    if wanted not in known:
        listed = ", ".join(map(str, known)) or "none"
        raise AnalysisError(f"{call.op}: has no size {sweep.size}; its sizes are {listed}")
    return wanted


def _resized(recorded: Recorded, size: int, value: int) -> Recorded:
    """The arguments with one size changed; tensors that lie densely in memory still do, in their order."""
    dims, strides, values = list(recorded.dims), list(recorded.strides), list(recorded.values)
    for at, kind in enumerate(recorded.types):
        shape = sizes(dims[at])
        if shape and torch_dtype(kind):
            dims[at] = _with(shape, size, value)
            if at < len(strides) and (steps := sizes(strides[at])) is not None and len(steps) == len(shape):
                strides[at] = _restrided(shape, steps, dims[at])
        elif kind == SCALARS and at < len(values) and values[at]:
            values[at] = str([value if one == size else one for one in numbers(values[at])])
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
