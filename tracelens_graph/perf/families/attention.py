"""Scaled dot-product attention: softmax(Q Kᵀ) V of whole tensors and of packed sequences, forward and backward.

FLOPs are those of the matrix products over the attended (query, key) pairs. Bytes are those of queries, keys, values,
output, their gradients and biases, each once; the row statistics of the softmax (4 bytes a row) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext

Alignment = Literal["bottom-right", "top-left"]


def attended_pairs(
    n_q: int,
    n_kv: int,
    *,
    causal: bool = False,
    left: int | None = None,
    right: int | None = None,
    alignment: Alignment = "bottom-right",
) -> int:
    """Exact number of (query, key) pairs that a mask lets through.

    Query i sees the keys from i + shift - left to i + shift + right, where shift is n_kv - n_q if the diagonal ends in
    the bottom right corner of the score matrix (flash-attn from 2.1 on, aiter) and 0 if it starts in the top left one
    (PyTorch's `is_causal`, cuDNN). No bound on a side: None. Causal: right = 0.
    """
    shift = n_kv - n_q if alignment == "bottom-right" else 0
    right = 0 if causal else right
    ends = n_q * n_kv if right is None else _clamped_sum(shift + right + 1, n_q, n_kv)
    starts = 0 if left is None else _clamped_sum(shift - left, n_q, n_kv)
    return ends - starts


def _clamped_sum(first: int, count: int, limit: int) -> int:
    """Sum of min(max(first + i, 0), limit) for i below count."""

    def up_to(end: int) -> int:
        end = max(end, 0)
        rising = min(end, limit + 1)
        return rising * (rising - 1) // 2 + (end - rising) * limit

    return up_to(first + count) - up_to(first)


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees; as in `attended_pairs`."""

    causal: bool = False
    left: int | None = None
    right: int | None = None
    alignment: Alignment = "bottom-right"

    def doubled_pairs(self, n_q: int, n_kv: int) -> int:
        """Twice the number of attended pairs.

        A causal mask of a square is taken as half of it, as in the FlashAttention papers and every benchmark after
        them (exact would be n (n + 1) / 2); any other mask is counted exactly.
        """
        if self.causal and self.left is None and n_q == n_kv:
            return n_q * n_kv
        return 2 * attended_pairs(
            n_q, n_kv, causal=self.causal, left=self.left, right=self.right, alignment=self.alignment
        )


@dataclass(frozen=True)
class Heads:
    """Numbers of query and of key/value heads, and the widths of one query or key and of one value."""

    q: int
    kv: int
    dim_qk: int
    dim_v: int


def attention_flops(doubled_pairs: int, heads: Heads, *, backward: bool = False, keys: int = 0) -> int:
    """FLOPs of attention.

    Forward: Q Kᵀ and P V. Backward: Q Kᵀ anew (no fused implementation keeps P), dO Vᵀ, Pᵀ dO, dS K, dSᵀ Q (Dao, 2022,
    algorithm 4), and where query heads share a key/value head, the sum of their gradients of K and V.

    Args:
        doubled_pairs: twice the attended pairs of one head, of all sequences.
        keys: keys of all sequences.
    """
    if not backward:
        # The two FLOPs of a multiply-add are in the doubled pairs.
        return doubled_pairs * heads.q * (heads.dim_qk + heads.dim_v)
    shared = keys * (heads.dim_qk + heads.dim_v) * (heads.q - heads.kv)
    # Of the five products Q Kᵀ, dS K and dSᵀ Q are as wide as keys, dO Vᵀ and Pᵀ dO as values.
    return doubled_pairs * heads.q * (3 * heads.dim_qk + 2 * heads.dim_v) + shared


def attention(
    batch: int,
    n_q: int,
    n_kv: int,
    heads_q: int,
    dim_qk: int,
    *,
    heads_kv: int | None = None,
    dim_v: int | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    alignment: Alignment = "bottom-right",
    dropout: float = 0.0,
    dtype: str = "bf16",
    backward: bool = False,
) -> Cost:
    """Cost of attention over a batch of sequences of equal lengths.

    Args:
        batch, n_q, n_kv: sequences, queries and keys of each.
        heads_q, heads_kv: heads; fewer key/value heads than query heads is grouped-query attention.
        dim_qk, dim_v: width of a head; values are as wide as keys if not given.
        causal, window, alignment: the mask (`attended_pairs`); window = (left, right).
        dropout: probability; its random numbers and products are not counted.
        dtype: type of all tensors. The output of 8-bit attention is taken as 16 bits.
        backward: the backward pass in place of the forward one.
    """
    heads = Heads(heads_q, heads_kv or heads_q, dim_qk, dim_qk if dim_v is None else dim_v)
    q = Tensor((batch, heads.q, n_q, dim_qk), dtype)
    k = Tensor((batch, heads.kv, n_kv, dim_qk), dtype)
    v = Tensor((batch, heads.kv, n_kv, heads.dim_v), dtype)
    mask = Mask(causal, *window, alignment)
    flops = attention_flops(batch * mask.doubled_pairs(n_q, n_kv), heads, backward=backward, keys=batch * n_kv)
    params = _params(batch, n_q, n_kv, heads) | {"dropout": dropout, "causal": causal}
    return Cost(flops, _bytes(q, k, v, heads, backward), "matrix", q.type.precision, params)


def _params(batch: int, n_q: int, n_kv: int, heads: Heads) -> dict[str, Any]:
    return {
        **{"B": batch, "N_Q": n_q, "H_Q": heads.q, "N_KV": n_kv, "H_KV": heads.kv},
        **{"d_h_qk": heads.dim_qk, "d_h_v": heads.dim_v},
    }


def _bytes(q: Tensor, k: Tensor, v: Tensor, heads: Heads, backward: bool, biases: Sequence[Tensor] = ()) -> int:
    rows = q.elements // heads.dim_qk if heads.dim_qk else 0
    out = rows * heads.dim_v * max(16, q.type.bits) // 8
    read = q.bytes + k.bytes + v.bytes + sum(bias.bytes for bias in biases)
    if not backward:
        return read + out
    gradients = sum(one.elements * max(16, one.type.bits) // 8 for one in (q, k, v))
    # The output and its gradient, of one size, are read as well.
    return read + 2 * out + gradients


def packed_lengths(
    sequences: int, total_q: int, total_kv: int, longest_q: int, longest_kv: int
) -> list[tuple[int, int, int]]:
    """Likely lengths of packed sequences, where a trace holds only their number, total and maximum.

    One is the longest, the others share the rest evenly, to whole numbers that add up to the totals.

    Returns:
        (number of sequences, queries, keys) of each length.
    """
    if sequences < 1 or not (0 <= total_q <= sequences * longest_q and 0 <= total_kv <= sequences * longest_kv):
        raise CannotModel("number, longest and total of the packed sequences contradict one another")
    # A maximum may be given too large on purpose, so that it need not be looked up on the device.
    longest_q, longest_kv = min(longest_q, total_q), min(longest_kv, total_kv)
    others = sequences - 1
    if not others:
        return [(1, total_q, total_kv)]
    (q, more_q), (kv, more_kv) = divmod(total_q - longest_q, others), divmod(total_kv - longest_kv, others)
    both, either = min(more_q, more_kv), max(more_q, more_kv)
    middle = (either - both, q + (more_q > more_kv), kv + (more_kv > more_q))
    groups = [(1, longest_q, longest_kv), (both, q + 1, kv + 1), middle, (others - either, q, kv)]
    return [group for group in groups if group[0]]


def packed_range(
    mask: Mask, sequences: int, total_q: int, total_kv: int, longest_q: int, longest_kv: int
) -> tuple[int, int]:
    """Least and greatest of twice the attended pairs of packed sequences with these numbers.

    Where queries and keys have the same numbers they are taken to be of the same sequences; the pairs of a sequence
    are then convex in its length, so equal lengths have fewest pairs and as many longest ones as fit have most.
    """
    if (total_q, longest_q) == (total_kv, longest_kv):
        length, more = divmod(total_q, sequences)
        least = more * mask.doubled_pairs(length + 1, length + 1)
        least += (sequences - more) * mask.doubled_pairs(length, length)
        full, rest = divmod(total_q, longest_q) if longest_q else (0, 0)
        return least, full * mask.doubled_pairs(longest_q, longest_q) + mask.doubled_pairs(rest, rest)
    most = 2 * min(longest_q * total_kv, longest_kv * total_q)
    if mask == Mask(alignment=mask.alignment) and (
        longest_q * sequences == total_q or longest_kv * sequences == total_kv
    ):
        return most, most
    return 0, most


@dataclass(frozen=True)
class Attention:
    """Reads the arguments of attention ops, by position. Query, key and value follow one another.

    Attributes:
        layout: axes of a query: batch B, one more batch axis S, queries N, heads H, width D; packed sequences have no
            batch axis.
        causal: places of the flag, of each version of the op, most recent first; empty: there is none.
        query: place of the query.
        dropout: place of the probability, counted from the flag.
        window: place of the window's left and right side or of both in one list, counted from the flag; -1 is no bound.
        biases: places of masks and biases that are added to the scores.
        packed: places of the cumulative lengths of queries and keys, and of the longest of either.
        cache: places of tensors that make the lengths unknown: pages of a cache, numbers of its used entries.
        alignment: of the causal mask and the window.
        backward: whether it is an op of the backward pass.
        flash: TraceLens's parameter `flash_impl`.
        strides: whether TraceLens shows the strides.
    """

    layout: Literal["BHND", "BNHD", "BSNHD"]
    causal: tuple[int, ...] = ()
    query: int = 0
    dropout: int | None = -2
    window: int | None = None
    biases: tuple[int, ...] = ()
    packed: tuple[int, int, int, int] | None = None
    cache: tuple[int, ...] = ()
    alignment: Alignment = "bottom-right"
    backward: bool = False
    flash: bool = True
    strides: bool = False

    def sizes(self, tensor: Tensor, packed: bool) -> tuple[int, int, int, int]:
        """Batch, length, heads and width of a tensor."""
        layout = "NHD" if packed else self.layout
        if len(tensor.shape) != len(layout):
            raise CannotModel(f"query, key or value has {len(tensor.shape)} dimensions, {len(layout)} are expected")
        axes = dict(zip(layout, tensor.shape, strict=True))
        return prod(axes.get(axis, 1) for axis in "BS"), axes["N"], axes["H"], axes["D"]

    def mask(self, args: Arguments) -> tuple[Mask, float]:
        """Mask and dropout."""
        if not self.causal:
            return Mask(), 0.0
        known = (at for at in self.causal if args.text(at).strip().lower() in ("true", "false"))
        flag = next(known, None)
        if flag is None:
            raise CannotModel("whether the mask is causal is not recorded")
        left = right = None
        if self.window is not None:
            both = args.integers(flag + self.window) or ()
            sides = both if len(both) == 2 else (args.integer(flag + self.window), args.integer(flag + self.window + 1))
            left, right = (side if side is not None and side >= 0 else None for side in sides)
        dropout = args.number(flag + self.dropout) if self.dropout is not None else None
        return Mask(args.boolean(flag) is True, left, right, self.alignment), dropout or 0.0

    def __call__(self, args: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        if any(args.optional(at) for at in self.cache):
            raise CannotModel("keys are in a cache, and how many of them are used is not recorded")
        q, k, v = (args.tensor(self.query + i) for i in range(3))
        packed = self.packed if self.packed and args.optional(self.packed[0]) else None
        batch, n_q, heads_q, dim_qk = self.sizes(q, packed is not None)
        batch_k, n_kv, heads_kv, dim_k = self.sizes(k, packed is not None)
        batch_v, n_v, heads_v, dim_v = self.sizes(v, packed is not None)
        if (batch, batch, n_kv, heads_kv, dim_qk) != (batch_k, batch_v, n_v, heads_v, dim_k):
            raise CannotModel("shapes of query, key and value do not fit together")
        if heads_q and (not heads_kv or heads_q % heads_kv):
            raise CannotModel(f"{heads_q} query heads cannot share {heads_kv} key/value heads")
        heads = Heads(heads_q, heads_kv, dim_qk, dim_v)
        mask, dropout = self.mask(args)

        params = _params(batch, n_q, n_kv, heads)
        if self.strides:
            params |= {f"{name}_stride": one.strides for name, one in zip("qkv", (q, k, v), strict=True)}
        params |= {"dropout": dropout, "causal": mask.causal, "flash_impl": self.flash, "dtype_A_B": (q.dtype, k.dtype)}
        spread: tuple[int, int] | None = None
        if packed:
            sequences, longest_q, longest_kv = _packed_numbers(packed, args)
            params |= {"num_seqs_q": sequences, "num_seqs_kv": sequences}
            params |= {"max_seqlen_q": longest_q, "max_seqlen_kv": longest_kv}
            groups = packed_lengths(sequences, n_q, n_kv, longest_q, longest_kv)
            doubled = sum(count * mask.doubled_pairs(queries, keys) for count, queries, keys in groups)
            spread = packed_range(mask, sequences, n_q, n_kv, min(longest_q, n_q), min(longest_kv, n_kv))
        else:
            doubled = batch * mask.doubled_pairs(n_q, n_kv)

        work = partial(attention_flops, heads=heads, backward=self.backward, keys=batch * n_kv)
        try:
            precision = q.type.precision
            moved = _bytes(q, k, v, heads, self.backward, [one for at in self.biases if (one := args.optional(at))])
        except CannotModel:  # a type without a known size: FLOPs are still right
            precision, moved = "", None
        bounds = (work(spread[0]), work(spread[1])) if spread and spread[0] != spread[1] else None
        return Cost(work(doubled), moved, "matrix", precision, params, bounds)


def _packed_numbers(packed: tuple[int, int, int, int], args: Arguments) -> tuple[int, int, int]:
    """Number of packed sequences, most queries of one, most keys of one."""
    ends = [args.optional(at) for at in packed[:2]]
    counts = {one.shape[0] - 1 if one is not None and len(one.shape) == 1 else 0 for one in ends}
    longest = [int(one) for at in packed[2:] if (one := args.number(at)) is not None and 0 <= one < 2**63]
    if len(counts) > 1 or len(longest) < 2:
        raise CannotModel("number and longest of the packed sequences are not recorded, or differ for queries and keys")
    return counts.pop(), longest[0], longest[1]
