"""Rotary position embedding: pairs of numbers of queries and keys turned by angles that depend on the position.

A pair takes 4 products and 2 sums, so 3 FLOPs a number (Su et al., 2021). Tables of sines and cosines and the
positions are shared by all heads, stay in the cache and are not counted.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.scalar_types import element_type


def rope(rotated: int, *, copied: int = 0, dtype: str = "bf16") -> Cost:
    """Cost of a rotation.

    FLOPs = 3 for each rotated number. Bytes = each number read and written.

    Args:
        rotated: numbers that are turned.
        copied: numbers beside them that are written unchanged; none if the op works in place.
        dtype: their type.
    """
    element = element_type(dtype)
    params = {"num_elements": rotated + copied}
    return Cost(3 * rotated, 2 * (rotated + copied) * element.bits // 8, "vector", element.precision, params)


def rope_into_cache(
    tokens: int,
    heads_q: int,
    heads_k: int,
    dim_plain: int,
    dim_rope: int,
    *,
    dtype: str = "bf16",
    out_dtype: str = "",
    cache_dtype: str = "",
) -> Cost:
    """Cost of rotating part of latent queries and keys, joining both parts, and storing the keys in a cache.

    FLOPs = 3 for each rotated number. Bytes = queries and keys read, queries written, keys written to the cache; where
    the types differ the conversion is not counted as work.

    Args:
        tokens, heads_q, heads_k: numbers of tokens and heads.
        dim_plain, dim_rope: widths of the parts of a head that stay as they are and that are rotated.
        dtype, out_dtype, cache_dtype: types of what is read, of queries written, of the cache; as read if not given.
    """
    read, out, cache = (element_type(name or dtype) for name in (dtype, out_dtype, cache_dtype))
    width = dim_plain + dim_rope
    bits = width * (heads_q * (read.bits + out.bits) + heads_k * (read.bits + cache.bits))
    params = {"T": tokens, "QH": heads_q, "KH": heads_k, "D_lora": dim_plain, "D_pe": dim_rope}
    flops = 3 * tokens * (heads_q + heads_k) * dim_rope
    return Cost(flops, tokens * bits // 8, "vector", read.precision, params)


def _share(numbers: int, width: int, rotated_width: int) -> tuple[int, int]:
    """Rotated and copied numbers of heads with so much of the width rotated."""
    rotated = numbers * min(rotated_width, width) // width if width else 0
    return rotated, numbers - rotated


def fused_call(args: Arguments, context: CallContext) -> Cost:
    """TransformerEngine's rotation of a tensor [.., heads, width] by angles [.., width of the rotated part]."""
    tensor, angles = args.tensor(0), args.optional(1)
    if len(tensor.shape) not in (3, 4):
        raise CannotModel(f"the tensor has {len(tensor.shape)} dimensions, 3 or 4 are expected")
    width = tensor.shape[-1]
    rotated, copied = _share(tensor.elements, width, angles.shape[-1] if angles and angles.shape else width)
    cost = rope(rotated, copied=copied, dtype=tensor.dtype)
    names = ("seq_len", "batch", "heads", "head_dim") if len(tensor.shape) == 4 else ("seq_len", "heads", "head_dim")
    return replace(cost, params=dict(zip(names, tensor.shape, strict=True)) | dict(cost.params))


def two_channels_call(args: Arguments, context: CallContext) -> Cost:
    """aiter's rotation of two tensors (2, 3) into two others, by cosines (4); flag 8: of half the rotated width."""
    channels = args.tensor(2), args.tensor(3)
    angles = args.optional(4)
    rotated = copied = 0
    for one in channels:
        if not one.shape:
            raise CannotModel("a tensor has no dimensions")
        width = one.shape[-1]
        turned = angles.shape[-1] * (2 if args.boolean(8) else 1) if angles and angles.shape else width
        some, rest = _share(one.elements, width, turned)
        rotated, copied = rotated + some, copied + rest
    cost = rope(rotated, copied=copied, dtype=channels[0].dtype)
    params = {"x_shape": channels[0].shape, "y_shape": channels[1].shape}
    return replace(cost, params=params | dict(cost.params))


def in_place_call(args: Arguments, context: CallContext) -> Cost:
    """Rotation of queries (1) and keys (2) where they are; width of a head (3), table of angles (4)."""
    found = [one for one in (args.tensor(1), args.optional(2)) if one is not None]
    width = args.integer(3) or (found[0].shape[-1] if found[0].shape else 0)
    table = args.optional(4)
    turned = min(table.shape[-1], width) if table and table.shape else width
    if any(not one.shape for one in found) or width <= 0:
        raise CannotModel("width of a head is not recorded")
    return rope(sum(_heads(one, width) for one in found) * turned, dtype=found[0].dtype)


def _heads(tensor: Tensor, width: int) -> int:
    """Heads of all tokens."""
    if tensor.elements % width:
        raise CannotModel(f"a tensor of {tensor.elements} numbers is not made of heads of {width}")
    return tensor.elements // width


def into_cache_call(args: Arguments, context: CallContext, *, out: int | None = None) -> Cost:
    """Rotation of latent queries and keys: plain and rotated part of queries (0, 1) and keys (2, 3), cache (4).

    `out` is the position of the tensor that takes the queries; None if they are returned.
    """
    query, query_rope, key, key_rope, cache = (args.tensor(at) for at in range(5))
    if len(query.shape) != 3 or len(query_rope.shape) != 3 or min(len(key.shape), len(key_rope.shape)) < 2:
        raise CannotModel("queries and keys have other dimensions than tokens, heads and width")
    tokens, heads_q, dim_plain = query.shape
    dim_rope = query_rope.shape[2]
    heads_k = key.shape[1] if len(key.shape) == 3 else 1
    if key.shape[-1] != dim_plain or _prefix(query_rope) != _prefix(query) or _prefix(key_rope) != _prefix(key):
        raise CannotModel("shapes of queries and keys do not fit together")
    target = args.optional(out) if out is not None else None
    written = target.dtype if target else query.dtype
    cost = rope_into_cache(
        tokens, heads_q, heads_k, dim_plain, dim_rope, dtype=query.dtype, out_dtype=written, cache_dtype=cache.dtype
    )
    types = {"dtype_in": query.dtype, "dtype_kv": cache.dtype} | ({} if out is None else {"dtype_out": written})
    return replace(cost, params=dict(cost.params) | types)


def _prefix(tensor: Tensor) -> tuple[int, int]:
    """Tokens, and heads of all of them."""
    return tensor.shape[0], prod(tensor.shape[:-1])
