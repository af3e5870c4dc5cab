"""Whether a call can be called at all: what was recorded of it can be read, and what it is given fits a machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tracelens_graph.perf.scalar_types import item_size
from tracelens_graph.replay.arguments import Argument, TensorValue, Value, tensors
from tracelens_graph.replay.replay_plan import CannotReplay, Recorded
from tracelens_graph.replay.schemas import Schema

UNREADABLE = "its recorded sizes or strides cannot be read"
"""Why a call whose sizes or strides are no numbers, or do not belong together, is not planned."""
TOO_LARGE = "its tensors are larger than any memory"
NOT_GIVEN = "a tensor that it needs is not recorded"
TOO_MANY_BITS = "a number has more than 64 bits"

_LARGEST = 1 << 62
"""Elements and bytes of a tensor, and any one size or stride."""
_MOST_DIMENSIONS = 64
"""Dimensions of a tensor that PyTorch iterates over."""
_DEEPEST = 8
"""Lists in lists, in what is recorded."""


def check_recorded(recorded: Recorded) -> None:
    """Make sure that sizes and strides are lists of numbers, one for each argument.

    Raises:
        CannotReplay: they are not.
    """
    for part in (recorded.dims, recorded.strides):
        if (part and len(part) != len(recorded.types)) or not all(_is_readable(one) for one in part):
            raise CannotReplay(UNREADABLE)


def _is_readable(entry: Any, depth: int = 0) -> bool:
    if isinstance(entry, (list, tuple)):
        return depth < _DEEPEST and all(_is_readable(one, depth + 1) for one in entry)
    return entry is None or entry == "" or (type(entry) is int and abs(entry) <= _LARGEST)


def check_arguments(schema: Schema, arguments: Sequence[Argument], recorded: Recorded) -> None:
    """Make sure that tensors that are needed are given, and that sizes and numbers are such as PyTorch takes.

    PyTorch's own code passes undefined tensors where a schema does not call them optional, as sequence lengths of
    attention, and Python's None becomes one. The first argument never is one, nor is a tensor that has sizes.

    Raises:
        CannotReplay: they are not.
    """
    for at, (parameter, argument) in enumerate(zip(schema.parameters, arguments, strict=True)):
        kind = parameter.kind
        has_sizes = at < len(recorded.dims) and bool(recorded.dims[at])
        if argument.value is None and kind.base == "Tensor" and not kind.is_optional and (has_sizes or at == 0):
            raise CannotReplay(NOT_GIVEN)
        if not all(map(_fits, tensors(argument.value))):
            raise CannotReplay(TOO_LARGE)
        if not _has_64_bits(argument.value):
            raise CannotReplay(TOO_MANY_BITS)


def _fits(tensor: TensorValue) -> bool:
    return len(tensor.shape) <= _MOST_DIMENSIONS and bytes_of(tensor) <= _LARGEST


def bytes_of(tensor: TensorValue) -> int:
    """Bytes of the storage of a tensor, all in all; of a sparse one as if it were dense."""
    span = 1
    if 0 in tensor.shape:
        span = 0
    elif tensor.strides is None:
        for size in tensor.shape:
            span *= size
    else:
        span += sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True))
    try:
        size = item_size(tensor.dtype)
    except KeyError:  # PyTorch has no such dtype, and says so
        size = 1
    return max(tensor.offset + span, tensor.reach) * size


def bytes_together(arguments: Iterable[Argument]) -> int:
    """Bytes of the storages of all tensors in arguments, shared ones once."""
    own, shared = 0, dict[int, int]()
    for argument in arguments:
        for one in tensors(argument.value):
            if one.storage is None:
                own += bytes_of(one)
            else:
                shared[one.storage] = max(shared.get(one.storage, 0), bytes_of(one))
    return own + sum(shared.values())


def _has_64_bits(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_has_64_bits, value))
    return type(value) is not int or -(1 << 63) <= value < 1 << 64
