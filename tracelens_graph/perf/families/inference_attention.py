"""Attention as serving engines call it: over a cache of keys and values, for a batch of requests of any lengths.

The arguments do not hold the lengths; the annotation that the engine writes around the step does (`read_batch`). Tables
of pages, offsets and scales are small and not counted.

A request that reads its prompt is a context request, one that writes its answer a generation request. With q new
tokens and k keys of each request (those of its past and the new ones), an annotation gives for either kind the sums
over requests of q, k, q² and q k; no more is needed for the cost of attention.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tracelens_graph.graph.batches import Batch, Requests, batch_of
from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.attention import Attention, Heads
from tracelens_graph.perf.model import CallContext, looks_at_context, looks_inside
from tracelens_graph.perf.scalar_types import element_type


def read_batch(annotation: str) -> Batch:
    """The batch that annotations of an engine describe in full (`graph.batches.GRAMMARS`).

    An engine's short form (`step[DECODE bs=32]`) does not say how many keys there are.
    """
    batch = batch_of(annotation)
    if batch is None:
        raise CannotModel("no annotation around the call gives the lengths of its requests")
    if not batch.has_keys:
        raise CannotModel("the annotation around the call does not say how many keys its requests have")
    if batch.context.contradicts_itself or batch.generation.contradicts_itself:
        raise CannotModel("the sums of the annotation contradict one another")
    return batch


def _doubled_keys(batch: Batch) -> tuple[int, int]:
    """Twice the (query, key) pairs of context and of generation requests.

    A request's last q tokens see its k keys causally. Context requests: q k - q²/2, the diagonal counted half, as in
    attention over a square (`Mask.doubled_pairs`). Generation requests: q k - q (q - 1)/2, exactly; k where q = 1.
    """
    context, generation = batch.context, batch.generation
    return 2 * context.sqsk - context.sqsq, 2 * generation.sqsk - (generation.sqsq - generation.sq)


def _capped(doubled: int, tokens: int, most: int | None) -> tuple[int, int]:
    """Least and greatest of twice the pairs if a token sees at most so many keys, however the keys are spread."""
    if most is None:
        return doubled, doubled
    return min(doubled, 2 * (most + tokens - 1)) if tokens else 0, min(doubled, 2 * tokens * most)


def batch_attention(
    batch: Batch,
    heads: Heads,
    *,
    window: int | None = None,
    latent: bool = False,
    dtype: str = "bf16",
    kv_dtype: str = "",
) -> Cost:
    """Cost of attention of a batch over its cache.

    FLOPs = 2 (dim_qk + dim_v) for each query head and attended pair. Bytes = queries, output, and keys and values of
    the new tokens in the type of the queries; those of the past in the type of the cache.

    Args:
        batch: the requests.
        heads: numbers and widths of heads.
        window: most keys that a token sees. What all see together then depends on how lengths are spread; taken is the
            greatest, which holds if all requests are longer or all are shorter, and the range is given.
        latent: whether values are the first numbers of the keys (multi-head latent attention): both are read at once.
        dtype: type of queries, output and new keys and values.
        kv_dtype: type of the cache; as queries if not given.
    """
    context, generation = batch.context, batch.generation
    tokens = context.sq + generation.sq
    if not tokens:
        raise CannotModel("the annotation counts no tokens that this op would work on")
    bounds = [
        _capped(doubled, kind.sq, window)
        for doubled, kind in zip(_doubled_keys(batch), (context, generation), strict=True)
    ]
    least, most = (heads.q * (heads.dim_qk + heads.dim_v) * (c + g) for c, g in zip(*bounds, strict=True))
    past = sum(_past(kind, window) for kind in (context, generation))
    width = heads.kv * (heads.dim_qk + (0 if latent else heads.dim_v))
    query, cache = element_type(dtype), element_type(kv_dtype or dtype)
    moved = tokens * (heads.q * (heads.dim_qk + heads.dim_v) + width) * query.bits // 8
    moved += past * width * cache.bits // 8
    return Cost(most, moved, "matrix", query.precision, flops_range=(least, most) if least < most else None)


def _past(requests: Requests, window: int | None) -> int:
    """Keys read from the cache, those of the new tokens aside."""
    if window is None:
        return requests.sk - requests.sq
    count = requests.count or requests.sq
    return max(0, min(requests.sk, count * (window - 1) + requests.sq) - requests.sq)


def sparse_attention(
    pairs: int, queries: int, slots: int, heads: Heads, *, dtype: str = "bf16", kv_dtype: str = ""
) -> Cost:
    """Cost of attention where each query sees chosen entries of a latent cache.

    FLOPs = 2 (dim_qk + dim_v) for each query head and pair. Bytes = queries, output and an entry for each pair, or
    each entry of the cache once if that is less. Queries may share entries: at least those of one query are read.

    Args:
        pairs: (query, entry) pairs of one head.
        queries: number of queries.
        slots: entries of the cache.
        heads: numbers and widths of heads; values are the first numbers of the keys.
    """
    query, cache = element_type(dtype), element_type(kv_dtype or dtype)
    rows = queries * heads.q * (heads.dim_qk + heads.dim_v) * query.bits // 8
    entry = heads.kv * heads.dim_qk * cache.bits // 8
    most = min(pairs, slots)
    least = min(-(-pairs // queries) if queries else 0, most)
    return Cost(
        2 * pairs * heads.q * (heads.dim_qk + heads.dim_v),
        rows + most * entry,
        "matrix",
        query.precision,
        bytes_range=(rows + least * entry, rows + most * entry) if least < most else None,
    )


def gated_delta_net(batch: Batch, heads_v: int, heads_k: int, dim_k: int, dim_v: int, *, dtype: str = "bf16") -> Cost:
    """Cost of the gated delta rule (Yang et al., 2024), linear attention with a state of dim_v x dim_k a value head.

    FLOPs = 7 dim_k dim_v for each token and value head: decay 1, retrieval 2, update 2, output 2. Bytes = queries,
    keys, values, the two gates and the output of each token, and the state of each request: read and written in a
    generation step, written by a context request. The state is taken to be of the type of the queries.
    """
    tokens = batch.context.sq + batch.generation.sq
    if not tokens:
        raise CannotModel("the annotation counts no tokens")
    element = element_type(dtype)
    numbers = tokens * (2 * heads_k * dim_k + heads_v * (2 * dim_v + 2))
    numbers += (batch.context.count + 2 * batch.generation.count) * heads_v * dim_k * dim_v
    return Cost(7 * tokens * heads_v * dim_k * dim_v, numbers * element.bits // 8, "matrix", element.precision)


_PACKED = Attention("BNHD", causal=(12, 11, 10), dropout=None, window=1, packed=(3, 4, 5, 6))
"""The arguments of aiter's attention over packed sequences."""


_CACHES = {"_rocm_C::paged_attention": 5, "_C_cache_ops::reshape_and_cache_flash": 2}
"""Ops below attention that read or write the cache of keys, and its place among their arguments."""
_WINDOWS: Mapping[str, Attention] = {
    "_vllm_fa2_C::varlen_fwd": Attention("BNHD", causal=(15,), window=1),
    **dict.fromkeys(("_vllm_fa3_C::fwd", "sgl_kernel::fwd"), Attention("BNHD", causal=(24,), window=1)),
    **dict.fromkeys(("aiter::mha_varlen_fwd", "aiter::fmha_v3_varlen_fwd", "aiter::mha_batch_prefill"), _PACKED),
}
"""Ops, called on their own or below attention, whose arguments have the window, and how these are read."""


@looks_inside(*_CACHES, *_WINDOWS)
@dataclass(frozen=True)
class PagedAttention:
    """Reads attention over a cache of pages, by the positions of its operands.

    Keys and values of the past are of the type of the cache, where an op below shows it, else of that of the new keys.

    Attributes:
        query, key: places of queries [tokens, heads, width] and of keys.
        value: place of values, or for latent attention of the output, which is as wide; -1: as wide as keys.
        key_heads: axis of the keys' heads: last but one of [.., heads, width], or the second of a cache of pages.
        window: place of the sliding window; none or not positive: every key is seen, unless `flagged` or an op
            below has the window.
        generation: whether the op works on generation requests only.
        latent: whether values are part of the keys.
        packed: whether the op is read as aiter's attention over packed sequences where no annotation has the lengths.
        flagged: whether its own arguments have the window, as those of aiter's attention over packed sequences.
    """

    query: int = 0
    key: int = 1
    value: int = 2
    key_heads: int = -2
    window: int | None = None
    generation: bool = False
    latent: bool = False
    packed: bool = False
    flagged: bool = False

    def window_of(self, args: Arguments, context: CallContext) -> int | None:
        """Most keys that a token sees; None for all, also where nothing recorded says it."""
        if self.window is not None:
            window = args.integer(self.window)
            return window if window and window > 0 else None
        calls = [(_PACKED, args)] if self.flagged else []
        calls += [(reader, context.inside[name]) for name, reader in _WINDOWS.items() if name in context.inside]
        for reader, recorded in calls:
            with suppress(CannotModel):
                mask, _ = reader.mask(recorded)
                if mask.left is not None:
                    return mask.left + 1  # those on its left, and its own
        return None

    def heads_kv(self, key: Tensor) -> int:
        """Number of key/value heads; 0 if the keys have other axes than expected."""
        if self.latent:
            return 1
        axes = range(3, 5) if self.key_heads < 0 else range(3, 6)
        return key.shape[self.key_heads] if len(key.shape) in axes else 0

    def __call__(self, args: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        try:
            batch = read_batch(context.annotation)
        except CannotModel:
            if not self.packed:
                raise
            return _PACKED(args, context)
        if self.generation:
            batch = Batch(generation=batch.generation)
        query, key = _query(args, self.query), args.tensor(self.key)
        value = args.tensor(self.value) if self.value >= 0 else query
        heads_kv = self.heads_kv(key)
        if not heads_kv or query.shape[1] % heads_kv or len(value.shape) < 3:
            raise CannotModel("shapes of query, key and value do not fit together")
        heads = Heads(query.shape[1], heads_kv, query.shape[2], value.shape[-1])
        window = self.window_of(args, context)
        caches = (context.inside[name].optional(at) for name, at in _CACHES.items() if name in context.inside)
        cache = (next(filter(None, caches), None) or key).dtype
        cost = batch_attention(batch, heads, window=window, latent=self.latent, dtype=query.dtype, kv_dtype=cache)
        fresh = len(key.shape) == 3 and not self.latent
        keys = key.shape[0] if fresh else batch.context.sk + batch.generation.sk
        params = _params(query, heads, keys, batch, cache)
        return replace(
            cost, params=params | ({} if self.window is None and window is None else {"sliding_window": window or -1})
        )


def _query(args: Arguments, at: int) -> Tensor:
    query = args.tensor(at)
    if len(query.shape) != 3:
        raise CannotModel(f"queries have {len(query.shape)} dimensions, 3 are expected: tokens, heads, width")
    return query


def _params(query: Tensor, heads: Heads, keys: int, batch: Batch, kv_dtype: str) -> dict[str, Any]:
    return {
        **{"B": 1, "N_Q": query.shape[0], "H_Q": heads.q, "H_V": heads.kv, "H_K": heads.kv},
        **{"N_KV": keys, "H_KV": heads.kv, "d_h_qk": heads.dim_qk, "d_h_v": heads.dim_v},
        **{"dropout": 0.0, "causal": False, "flash_impl": True},
        **{
            f"{kind}_{name}": getattr(requests, name)
            for kind, requests in (("c", batch.context), ("g", batch.generation))
            for name in ("sq", "sk", "sqsq", "sqsk")
        },
        **{"dtype_Q": query.dtype, "dtype_KV": kv_dtype},
    }


_V4_WINDOW = 128
_V4_TOP = (512, 1024)
"""DeepSeek V4: width of the sliding window; compressed entries that a query chooses, in Flash and in Pro."""


_V4_ROPE = re.compile(r"qk_norm_rope_H(\d{1,5})_D(\d{1,5})_RD")


@looks_inside(grids=True)
def paged_v4_call(args: Arguments, context: CallContext, *, mode: str) -> Cost:
    """Generation step of DeepSeek V4: a sliding window (swa), and beside it chosen entries of a cache compressed 4 to 1
    (csa) or all of one compressed 128 to 1 (hca). The kernel of the rotary embedding shows heads and width of queries.
    """
    batch = Batch(generation=read_batch(context.annotation).generation)
    requests = batch.generation
    if not requests.sq:
        raise CannotModel("the annotation counts no tokens that this op would work on")
    shown = next((found for name, _ in context.grids if (found := _V4_ROPE.search(name))), None)
    first = args.tensor(0)
    query = (
        Tensor((first.shape[0], int(shown[1]), int(shown[2])), first.dtype)
        if shown and first.shape
        else _query(args, 0)
    )
    heads = Heads(query.shape[1], 1, query.shape[2], query.shape[2])
    near = _capped(_doubled_keys(batch)[1], requests.sq, _V4_WINDOW)[1] // 2
    far = [0, 0]
    if mode == "csa":
        far = [min(-(-requests.sqsk // 4), requests.sq * top) for top in _V4_TOP]
    elif mode == "hca":
        far = [-(-requests.sqsk // 128)] * 2
    least, most = (sparse_attention(near + more, requests.sq, near + more, heads, dtype=query.dtype) for more in far)
    params = _params(query, heads, requests.sk, batch, query.dtype)
    params["sliding_window"] = (near + far[0]) // requests.sq
    spread = (least.flops, most.flops) if least.flops < most.flops else None
    return replace(least, params=params, flops_range=spread, bytes_range=None)


def sparse_prefill_call(args: Arguments, context: CallContext) -> Cost:
    """Prefill of DeepSeek V4: entries of the past (2) in the cache (1), and of the chunk (5) in the new ones (4)."""
    query, cache, past, new, chunk = _query(args, 0), *(args.tensor(at) for at in (1, 2, 4, 5))
    heads = Heads(query.shape[1], 1, query.shape[2], query.shape[2])
    pairs = past.elements + chunk.elements
    slots = sum(min(some.elements, prod(where.shape[:-1])) for some, where in ((past, cache), (chunk, new)))
    cost = sparse_attention(pairs, query.shape[0], slots, heads, dtype=query.dtype, kv_dtype=cache.dtype)
    return replace(cost, params=_sparse_params(query, heads, pairs, cache.dtype))


def _sparse_params(query: Tensor, heads: Heads, pairs: int, kv_dtype: str) -> dict[str, Any]:
    whole = _params(query, heads, pairs, Batch(), kv_dtype)
    kept = {name: value for name, value in whole.items() if not name.startswith(("c_", "g_", "dtype"))}
    return kept | {"prefill_pairs": pairs, "dtype_Q": query.dtype, "dtype_KV": kv_dtype}


@looks_at_context
def sparse_latent_call(args: Arguments, context: CallContext) -> Cost:
    """Sparse latent attention: queries, cache, chosen entries [tokens, heads, top], scale, width of a value."""
    query, cache, chosen = _query(args, 0), args.tensor(1), args.tensor(2)
    heads = Heads(query.shape[1], 1, query.shape[2], args.integer(4) or min(512, query.shape[2]))
    if heads.dim_v < 0:
        raise CannotModel("the width of a value is negative")
    pairs = chosen.elements
    # A query with fewer keys than places for chosen ones leaves places empty; without an annotation, all are counted.
    with suppress(CannotModel):
        pairs = min(pairs, sum(_doubled_keys(read_batch(context.annotation))) // 2)
    slots = prod(cache.shape[:-1])
    cost = sparse_attention(pairs, query.shape[0], slots, heads, dtype=query.dtype, kv_dtype=cache.dtype)
    return replace(cost, params=_sparse_params(query, heads, pairs, cache.dtype))


@looks_at_context
def delta_net_call(args: Arguments, context: CallContext) -> Cost:
    """Gated delta net: q, k and v side by side [tokens, width], two gates [tokens, heads], output [.., heads, dim]."""
    mixed, gate, out = args.tensor(0), args.tensor(1), args.tensor(3)
    if len(mixed.shape) != 2 or len(gate.shape) != 2 or len(out.shape) < 3:
        raise CannotModel("operands have other dimensions than tokens and width")
    heads_v, dim_v = gate.shape[1], out.shape[-1]
    keys, odd = divmod(mixed.shape[1] - heads_v * dim_v, 2)
    if keys <= 0 or odd or not heads_v or not dim_v:
        raise CannotModel("widths of queries, keys and values do not fit together")
    # The width of a key head is not recorded: as in all published models, it is that of a value head, or else there
    # are two value heads to a key head.
    heads_k = keys // dim_v if keys % dim_v == 0 and heads_v % (keys // dim_v) == 0 else max(heads_v // 2, 1)
    if keys % heads_k:
        raise CannotModel("widths of queries, keys and values do not fit together")
    batch = read_batch(context.annotation)
    cost = gated_delta_net(batch, heads_v, heads_k, keys // heads_k, dim_v, dtype=mixed.dtype)
    tokens = {"c_sq": batch.context.sq, "g_sq": batch.generation.sq}
    params = {
        **{"B": 1, "N_Q": sum(tokens.values()), "H_Q": heads_k, "N_KV": 0, "H_KV": heads_k, "H_V": heads_v},
        **{"H_K": heads_k, "d_h_qk": keys // heads_k, "d_h_v": dim_v},
        **{"c_sq": tokens["c_sq"], "c_sk": tokens["c_sq"], "c_sqsq": 0, "c_sqsk": 0},
        **{"g_sq": tokens["g_sq"], "g_sk": tokens["g_sq"], "g_sqsq": 0, "g_sqsk": 0},
        "dtype_Q": mixed.dtype,
    }
    return replace(cost, params=params)


def store_cache_call(args: Arguments, context: CallContext, *, caches: tuple[int, int] = (2, 3)) -> Cost:
    """Copies new keys (0) and values (1) to their caches: each is read, and written in the cache's type.

    Args:
        args, context: of the call.
        caches: places of the caches; of latent attention both parts go to one.
    """
    moved = 0
    for place, at in enumerate(caches):
        new, cache = args.tensor(place), args.optional(at)
        moved += new.bytes + -(-new.elements * (cache or new).type.bits // 8)
    key = args.tensor(0)
    params = {"op_shape": key.shape, "nelems": key.elements, "dtype": key.dtype}
    return Cost(0, moved, "vector", key.type.precision, params)
