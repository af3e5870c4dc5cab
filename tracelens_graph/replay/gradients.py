"""Tensors that autograd follows, where that changes what an op calls.

Nothing records which tensors needed gradients. That autograd followed a call shows in its numbers of nodes, and below
ops that write in place in a copy of what they overwrite. For most ops it makes no difference but in memory; so only
those are made to be followed whose path depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tracelens_graph.replay.arguments import Argument, TensorValue, Value, mapped
from tracelens_graph.replay.call import Call
from tracelens_graph.replay.schemas import Schema

_DEPENDING = re.compile(
    r"linear|bilinear|matmul|einsum|tensordot|embedding_bag|(lstm|gru|rnn_tanh|rnn_relu)(_cell)?|"
    r"scaled_dot_product_attention|max_pool1d|.*_loss"
)
_FOLDING = re.compile(r"linear|matmul|lstm|gru|rnn_tanh|rnn_relu")
"""Ops that fold dimensions of one operand where the other one needs a gradient, even while gradients are off."""
_NOT_FOLLOWED = frozenset({"weight", "pos_weight", "target", "attn_mask", "per_sample_weights"})
"""Arguments that rarely need a gradient; of some ops, such as losses, they cannot have one."""
_FOLLOWED = re.compile(r"linear|bilinear|embedding_bag")
"""Ops whose weights do."""
_DTYPES = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})


def with_gradients(call: Call, schema: Schema, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with those tensors followed that autograd followed."""
    written = {one.name for one in schema.parameters if one.is_written}
    name = call.op.partition("::")[2]
    is_in_place = bool(written) and name.endswith("_")
    copies = is_in_place and list(call.around.children[:1]) == ["aten::clone"]
    folds = bool(_FOLDING.fullmatch(name)) and "aten::reshape" in call.around.children
    if not copies and not folds and not (_DEPENDING.fullmatch(name) and call.around.is_followed):
        return list(arguments)
    left_out = _NOT_FOLLOWED - ({"weight"} if _FOLLOWED.fullmatch(name) else set())
    return [one if one.name in left_out else replace(one, value=mapped(one.value, _followed)) for one in arguments]


def _followed(tensor: TensorValue, place: int) -> Value:
    overlaps = tensor.strides is not None and any(
        size > 1 and not step for size, step in zip(tensor.shape, tensor.strides, strict=True)
    )
    if tensor.dtype not in _DTYPES or overlaps or not tensor.is_filled:
        return tensor
    return replace(tensor, grad=True)
