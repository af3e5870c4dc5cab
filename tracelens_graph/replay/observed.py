"""What an execution trace adds to recorded arguments: lists' dtypes, devices, shared storages, offsets, strings."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tracelens_graph.execution.sides import Argument as Observed
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.arguments import TensorValue, Value
from tracelens_graph.replay.recorded_values import sizes

_TENSOR = re.compile(r"Tensor\((?:[^()]|\([^()]*\))*\)")
_MOST_ELEMENTS = 100_000
"""Elements of a list that are looked at."""


def observed_tensor(tensor: TensorValue, observed: Observed) -> TensorValue:
    """A tensor with its place in its storage, as the observer wrote it: [id, storage, offset, elements, bytes, device].

    The number of the storage is that of the execution trace.
    """
    told = observed.value
    if not isinstance(told, list) or len(told) < 6:
        return tensor
    storage, offset, device = told[1], told[2], told[5]
    is_placed = type(storage) is int and type(offset) is int and storage > 0 and 0 <= offset < 2**48
    return replace(
        tensor,
        storage=storage if is_placed else None,
        offset=offset if is_placed else 0,
        on_cpu=device == "cpu",
    )


def observed_tensors(observed: Observed) -> tuple[TensorValue | None, ...] | None:
    """A list of tensors; None for what is none, or cannot be read."""
    types = element_types(observed.type)
    if types is None or not isinstance(observed.value, list) or len(types) != len(observed.value):
        return None
    shapes = observed.shape if isinstance(observed.shape, list) else []
    strides = observed.strides if isinstance(observed.strides, list) else []
    found: list[TensorValue | None] = []
    for at, (type_, value) in enumerate(zip(types, observed.value, strict=True)):
        if not type_.startswith("Tensor(") or "nullptr" in type_:
            found.append(None)
            continue
        shape = sizes(shapes[at]) if at < len(shapes) else None
        dtype = torch_dtype(type_[len("Tensor(") : -1])
        if shape is None or not dtype:
            return None
        steps = sizes(strides[at]) if at < len(strides) else None
        tensor = TensorValue(shape, dtype, steps if steps is not None and len(steps) == len(shape) else None)
        found.append(observed_tensor(tensor, Observed(value, shape, type_)))
    return tuple(found)


def element_types(text: str) -> list[str] | None:
    """Types of the elements of `GenericList[Tensor(float),None]`; None for what is no such list."""
    if not (text.startswith(("GenericList[", "Tuple[")) and text.endswith("]")):
        return None
    inner = text[text.index("[") + 1 : -1]
    parts = _TENSOR.sub(lambda found: found[0].replace(",", ";"), inner).split(",") if inner else []
    return parts if len(parts) <= _MOST_ELEMENTS else None


def observed_value(observed: Observed) -> Value:
    """A list of numbers; None for what is none."""
    told: Any = observed.value
    if isinstance(told, list) and all(type(one) in (bool, int, float) for one in told):
        return tuple(told)
    return None
