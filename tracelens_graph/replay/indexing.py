"""Index tensors of `index` and `index_put`, which the profiler does not record: from the ops below, or from the values.

Below such a call PyTorch records `nonzero` of each mask, `expand` of each index that is broadcast, `permute` where
indices are not side by side, a view of the tensor that has stride 0 where it is indexed, and a `reshape` of each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracelens_graph.errors import NotAValueError
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.calls import Call, numbers, sizes
from tracelens_graph.replay.replay_plan import Fill, Recorded, TensorValue

Indices = tuple[TensorValue | None, ...]
Shape = tuple[int, ...]

_INNER = {"index_put": "aten::_index_put_impl_", "index_put_": "aten::_index_put_impl_"}
"""Ops whose own children do not show -> the one below whose children do."""

FROM_VALUES = "index tensors are not recorded; these fit the sizes of the values"


def index_tensors(call: Call) -> tuple[Indices, str] | None:
    """The index tensors of a call, and why they are a guess, if they are; None if nothing shows them."""
    name = call.op.partition("::")[2]
    below = call.around.calls_below(_INNER.get(name, ""))
    shape = sizes(call.recorded.dims[0])
    if shape is None:
        return None
    found = _from_below(shape, below)
    if found is not None:
        return found, ""
    values = sizes(call.recorded.dims[2]) if len(call.recorded.dims) > 2 else None
    if values is None or not call.recorded.types[2]:
        return None
    found = _from_values(shape, values)
    return (found, FROM_VALUES) if found is not None else None


def _from_below(shape: Shape, below: Sequence[tuple[str, Recorded]]) -> Indices | None:
    """By the ops below."""
    masks = [of for of in _given(below, "aten::nonzero", ("bool", "uint8")) if of.shape]
    viewed = [one for name, one in below if name == "aten::as_strided" and sizes(_first(one.dims)) is not None]
    flat = _given(below, "aten::reshape", ("int64", "int32"))
    if not flat or not viewed:
        return None
    size, stride = (_numbers(viewed[-1], at) for at in (1, 2))
    if size is None or stride is None:
        return None
    permuted = [one for name, one in below if name == "aten::permute" and _first(one.dims) == shape]
    order = _numbers(permuted[0], 1) if permuted else None
    many = len(flat)
    rank = len(size) - len(shape) + many  # dimensions that indices have after broadcasting
    if not 0 <= rank <= len(size):
        return None
    if order is not None:
        places, where = sorted(order[:many]), size[:rank]
    else:
        fits = [
            begin
            for begin in range(len(shape) - many + 1)
            if size[:begin] == shape[:begin] and size[begin + rank :] == shape[begin + many :]
            if not any(stride[begin : begin + rank])
        ]
        if not fits:
            return None
        places, where = list(range(fits[0], fits[0] + many)), size[fits[0] : fits[0] + rank]
    return _listed(shape, places, where, masks, _originals(below, flat))


def _originals(below: Sequence[tuple[str, Recorded]], flat: Sequence[TensorValue]) -> list[TensorValue]:
    """Index tensors as they were before they were broadcast and converted, in order."""
    expanded = _given(below, "aten::expand", ("int64", "int32"))
    converted = [of for of in _given(below, "aten::to", ("int32", "uint8", "int64")) if of.dtype != "int64"]
    found = []
    for at, one in enumerate(flat):
        before = expanded[at] if at < len(expanded) and len(expanded) == len(flat) else one
        if len(converted) == len(flat):
            before = converted[at]
        # Strides of an index that was reshaped so that it broadcasts are those of the view.
        found.append(TensorValue(before.shape, before.dtype, None if before is one else before.strides))
    return found


def _listed(
    shape: Shape, places: Sequence[int], where: Shape, masks: Sequence[TensorValue], originals: Sequence[TensorValue]
) -> Indices:
    """The list: nothing for dimensions that are not indexed, a mask for as many as it has."""
    found: list[TensorValue | None] = []
    left, at, waiting = list(masks), 0, list(originals)
    while at <= max(places):
        if at not in places:
            found.append(None)
            at += 1
            continue
        mask = left[0] if left else None
        if mask is not None and shape[at : at + len(mask.shape)] == mask.shape:
            left.pop(0)
            count = where[0] if where else 0
            found.append(TensorValue(mask.shape, mask.dtype, mask.strides, Fill("first", {"count": count})))
            at += len(mask.shape)
            del waiting[: len(mask.shape)]
            continue
        found.append(waiting.pop(0) if waiting else None)
        at += 1
    return tuple(found)


def _from_values(shape: Shape, values: Shape) -> Indices | None:
    """By the sizes of what is put: those of one index beside the dimensions that are not indexed."""
    many = len(shape) - len(values) + 1
    if not values or not 1 <= many <= len(shape):
        return None
    for begin in range(len(shape) - many + 1):
        if shape[:begin] == values[:begin] and shape[begin + many :] == values[begin + 1 :]:
            return (None,) * begin + (TensorValue((values[begin],), "int64"),) * many
    return None


def _given(below: Sequence[tuple[str, Recorded]], name: str, dtypes: Sequence[str]) -> list[TensorValue]:
    """First arguments of the ops of a name that are tensors of some dtypes."""
    found = []
    for called, one in below:
        dtype, shape = torch_dtype(_first(one.types) or ""), sizes(_first(one.dims))
        if called == name and dtype in dtypes and shape is not None:
            steps = sizes(_first(one.strides))
            found.append(TensorValue(shape, dtype, steps if steps is not None and len(steps) == len(shape) else None))
    return found


def _first(of: Sequence[Any]) -> Any:
    return of[0] if of else None


def _numbers(recorded: Recorded, at: int) -> Shape | None:
    """An argument that is a list of whole numbers."""
    try:
        found = numbers(recorded.values[at]) if at < len(recorded.values) else None
    except NotAValueError:
        return None
    return tuple(one for one in found if type(one) is int) if found is not None else None
