"""How far views reach that an op makes: `as_strided` may go beyond the tensor that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens_graph.replay.arguments import Argument, TensorValue
from tracelens_graph.replay.call import Call

_OPS = frozenset({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "_reinterpret_tensor"})


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last of a tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=False))


def with_reach(call: Call, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with a storage that is large enough for what the op views."""
    found = list(arguments)
    if call.op.partition("::")[2] not in _OPS:
        return found
    by_name = {one.name: one.value for one in arguments}
    tensor, size, stride = by_name.get("self"), by_name.get("size"), by_name.get("stride")
    offset = by_name.get("storage_offset", by_name.get("offset_increment"))
    if not isinstance(tensor, TensorValue) or not isinstance(size, tuple) or not isinstance(stride, tuple):
        return found
    steps = [[one for one in of if type(one) is int] for of in (size, stride)]
    begin = offset if type(offset) is int else tensor.offset
    reach = begin + span(*steps)
    return [replace(one, value=replace(tensor, reach=reach)) if one.value is tensor else one for one in found]
