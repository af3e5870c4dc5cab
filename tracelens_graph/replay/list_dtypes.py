"""Dtypes of tensors in lists, which the profiler does not record: from other arguments, ops below and ops nearby."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.arguments import Argument, TensorValue, Value, mapped, tensors
from tracelens_graph.replay.call import Call

_FLOATS_ALWAYS = {"state_steps": "float32", "lr": "float32"}
"""Lists whose dtype PyTorch prescribes."""

_LIKE_OTHERS = frozenset({"out"})
"""Arguments that tell the dtype of a list beside them."""

_NEARBY = "dtypes in lists are not recorded; that of tensors of these sizes nearby"
_COMMON = "dtypes in lists are not recorded; the one most tensors have"


def with_dtypes(call: Call, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with dtypes in their lists."""
    lacking = [one for one in arguments if any(not tensor.dtype for tensor in tensors(one.value))]
    if not lacking:
        return list(arguments)
    prescribed = _prescribed(call, arguments)
    return [_with_dtypes(call, one, prescribed) if one in lacking else one for one in arguments]


def _with_dtypes(call: Call, argument: Argument, prescribed: str) -> Argument:
    why = ""

    def change(tensor: TensorValue, place: int) -> Value:
        nonlocal why
        if tensor.dtype:
            return tensor
        dtype = _FLOATS_ALWAYS.get(argument.name, prescribed)
        if not dtype:
            dtype, why = call.around.dtype_near(tensor.shape), why or _NEARBY
        if not dtype:
            dtype, why = call.around.common_dtype, _COMMON
        return replace(tensor, dtype=dtype)

    value = mapped(argument.value, change)
    return replace(argument, value=value, assumed=argument.assumed or why)


def _prescribed(call: Call, arguments: Sequence[Argument]) -> str:
    """The dtype that another argument, or an op below, prescribes to the lists; empty if none does."""
    for one in arguments:
        if one.name in _LIKE_OTHERS and isinstance(one.value, TensorValue):
            return one.value.dtype
    name = call.op.partition("::")[2]
    if name in _LIKE_TENSOR:
        given = [one.value for one in arguments if isinstance(one.value, TensorValue)]
        return given[0].dtype if given else ""
    if name in _LIKE_CHILD:
        for child in _LIKE_CHILD[name]:
            recorded = call.around.recorded_of(child)
            dtype = torch_dtype(recorded.types[0]) if recorded and recorded.types else ""
            if dtype:
                return dtype
    return ""


_LIKE_TENSOR = frozenset((
    "lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "_cudnn_rnn_backward", "miopen_rnn",
    "_cudnn_rnn_flatten_weight",
))  # fmt: skip
"""Ops whose lists have the dtype of their first tensor."""

_LIKE_CHILD = {
    "stack": ("aten::unsqueeze",),
    "cat": ("aten::narrow", "aten::slice", "aten::copy_"),
    "concat": ("aten::narrow", "aten::slice"),
    "hstack": ("aten::atleast_1d",), "vstack": ("aten::atleast_2d",), "dstack": ("aten::atleast_3d",),
    "column_stack": ("aten::reshape",), "meshgrid": ("aten::view", "aten::expand"),
    "broadcast_tensors": ("aten::expand",), "block_diag": ("aten::narrow", "aten::copy_"),
    "cartesian_prod": ("aten::flatten", "aten::reshape"), "einsum": ("aten::permute", "aten::bmm", "aten::mul"),
    "tensordot": ("aten::permute",), "linalg_multi_dot": ("aten::mm",), "chain_matmul": ("aten::mm",),
}  # fmt: skip
"""Ops whose lists have the dtype that an op below them was recorded with."""
