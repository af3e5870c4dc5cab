"""Attention of whole tensors and packed sequences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, FP8, FP32, Family, call

from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.attention import (
    Alignment,
    Mask,
    attended_pairs,
    attention,
    packed_lengths,
    packed_range,
)
from tracelens_graph.perf.model import CallContext

FAMILY = Family("attention")

FLASH = "aten::_scaled_dot_product_flash_attention"
EFFICIENT = "aten::_scaled_dot_product_efficient_attention"

_Q, _K, _ENDS = (BF16, (2, 6, 8, 16)), (BF16, (2, 6, 2, 16)), ("int", (4,))
_HEADS_FIRST, _PACKED = (BF16, (2, 8, 6, 16)), (BF16, (10, 4, 8))
_FLASH = (_Q, _K, _K, 0.1, 0.25, "True", -1, 0)
_GRADIENT = (_Q, _Q, _K, _K, _Q, ("float", (2, 8, 6)))
_VARLEN = (_ENDS, _ENDS, 6, 6, 0.0, 0.25)
KNOWN = [
    (FLASH, (*[_HEADS_FIRST] * 3, 0.0, "True", "False", 0.25)),
    (EFFICIENT, (*[_HEADS_FIRST] * 3, (BF16, (2, 8, 6, 6)), "True", 0.0, "False", 0.25)),
    (f"{FLASH}_backward", (*[_HEADS_FIRST] * 6, None, None, 6, 6, 0.0, "True", None, None, 0.25)),
    (f"{EFFICIENT}_backward", (*[_HEADS_FIRST] * 4, None, *[_HEADS_FIRST] * 2, None, None, 0.0, "[True]", "True")),
    *[(name, _FLASH) for name in ("flash_attn::_flash_attn_forward", "aiter::_flash_attn_forward", "aiter::mha_fwd")],
    ("FlashAttnFunc", (*_FLASH[:6], "[-1, -1]")),
    ("aiter::wrapper_fmha_v3_fwd", (None, *_FLASH)),
    ("flash_attn::_flash_attn_varlen_forward", (*[_PACKED] * 3, *_VARLEN, "True", -1, -1)),
    ("flash_attn_3::fwd", (_Q, _K, _K, *[None] * 20, 0.25, "True", -1, -1)),
    ("flash_attn_3::fwd", (*[_PACKED] * 3, *[None] * 4, _ENDS, _ENDS, *[None] * 3, 6, 6, *[None] * 9, 0.25, "True")),
    ("flash_attn::_flash_attn_backward", (*_GRADIENT, None, None, None, 0.0, 0.25, "True", -1, -1)),
    ("flash_attn::_flash_attn_varlen_backward", (*[_PACKED] * 6, *[None] * 3, *_VARLEN, "True", -1, -1)),
    ("flash_attn_3::bwd", (*_GRADIENT, *[None] * 9, 0.25, "True", -1, -1)),
    ("aiter::_flash_attn_backward", (*_GRADIENT, *[None] * 4, 0.0, 0.25, "True", -1, -1)),
    *[(f"aiter::{name}_bwd", (*_GRADIENT, 0.0, 0.25, "True", -1, -1)) for name in ("mha", "fmha_v3")],
    ("aiter::wrapper_fmha_v3_bwd", (*_GRADIENT, None, 0.0, 0.25, "True", -1, -1)),
    ("aiter::mha_varlen_bwd", (*[_PACKED] * 6, *_VARLEN, "False", "True", -1, -1)),
    ("EvoformerAttention", (*[(BF16, (1, 3, 5, 4, 8))] * 3, (BF16, (1, 3, 1, 1, 5)), (BF16, (1, 1, 4, 5, 5)))),
]
test_hostile = FAMILY.hostile(KNOWN)


def counted(n_q: int, n_kv: int, causal: bool, left: int | None, right: int | None, alignment: Alignment) -> int:
    """Attended pairs, one by one."""
    shift = n_kv - n_q if alignment == "bottom-right" else 0
    right = 0 if causal else right
    return sum(
        (left is None or j >= i + shift - left) and (right is None or j <= i + shift + right)
        for i in range(n_q)
        for j in range(n_kv)
    )


sides = st.none() | st.integers(0, 12)
alignments = st.sampled_from(["bottom-right", "top-left"])


@given(st.integers(0, 12), st.integers(0, 12), st.booleans(), sides, sides, alignments)
def test_pairs_are_those_counted(
    n_q: int, n_kv: int, causal: bool, left: int | None, right: int | None, alignment: Alignment
) -> None:
    found = attended_pairs(n_q, n_kv, causal=causal, left=left, right=right, alignment=alignment)
    assert found == counted(n_q, n_kv, causal, left, right, alignment)


def test_causal_of_unequal_lengths() -> None:
    # Two queries, five keys: 4 + 5 with the diagonal ending in the corner, 1 + 2 with it starting there.
    assert attended_pairs(2, 5, causal=True) == 9
    assert attended_pairs(2, 5, causal=True, alignment="top-left") == 3
    assert attended_pairs(5, 2, causal=True) == 3
    assert attended_pairs(5, 2, causal=True, alignment="top-left") == 9
    assert attended_pairs(1, 1000, causal=True) == 1000
    assert attention(1, 1, 1000, 8, 64, causal=True).flops == attention(1, 1, 1000, 8, 64).flops


def test_forward_by_hand() -> None:
    cost = attention(2, 3, 5, 4, 8, heads_kv=2, dim_v=16, dtype="fp16")
    assert cost.flops == 2 * 2 * 4 * 3 * 5 * (8 + 16)
    assert cost.bytes == 2 * (2 * 4 * 3 * 8 + 2 * 2 * 5 * 8 + 2 * 2 * 5 * 16 + 2 * 4 * 3 * 16)
    assert cost.compute_spec == "matrix_fp16"
    assert attention(1, 7, 7, 1, 8, causal=True).flops == 49 * 16


def test_backward_by_hand() -> None:
    cost = attention(2, 3, 5, 4, 8, heads_kv=2, dim_v=16, backward=True)
    # Five products, and each of the two key/value heads sums the gradients of two query heads: one addition a number.
    assert cost.flops == 2 * 2 * 4 * 3 * 5 * (3 * 8 + 2 * 16) + 2 * 5 * (8 + 16) * 2
    q, k, v, out = 2 * 4 * 3 * 8, 2 * 2 * 5 * 8, 2 * 2 * 5 * 16, 2 * 4 * 3 * 16
    assert cost.bytes == 2 * (q + k + v + out + out + q + k + v)


def test_element_sizes_are_those_of_the_types() -> None:
    shape = (1, 4, 16, 8)
    costs = {
        dtype: FAMILY.cost(FLASH, (dtype, shape), (dtype, shape), (dtype, shape), 0.0, "False", "False")
        for dtype in (BF16, FP32, FP8)
    }
    assert costs[FP32].bytes == 2 * (costs[BF16].bytes or 0) == 4 * 4 * 512
    assert costs[FP8].bytes == 3 * 512 + 2 * 512  # the output has 16 bits
    assert [cost.compute_spec for cost in costs.values()] == ["matrix_bf16", "matrix_fp32", "matrix_fp8"]
    unknown = FAMILY.cost(FLASH, ("x", shape), ("x", shape), ("x", shape), 0.0, "False", "False")
    assert (unknown.flops, unknown.bytes, unknown.compute_spec) == (costs[BF16].flops, None, "")


def test_expanded_keys_count_once_and_work_is_the_same() -> None:
    shape, one_head = (2, 4, 16, 8), (128, 0, 8, 1)
    query = (BF16, shape)
    plain = FAMILY.cost(FLASH, query, query, query, 0.0, "False", "False")
    expanded = FAMILY.cost(FLASH, query, (BF16, shape, one_head), (BF16, shape, one_head), 0.0, "False", "False")
    assert expanded.flops == plain.flops
    assert expanded.bytes == 2 * (2 * 1024 + 2 * 256)


def test_masks_of_the_implementations() -> None:
    q, k = (BF16, (1, 4, 2, 8)), (BF16, (1, 4, 5, 8))
    rows_q, rows_k = (BF16, (1, 2, 4, 8)), (BF16, (1, 5, 4, 8))
    unit = 2 * 4 * 16
    assert FAMILY.cost(FLASH, q, k, k, 0.0, "True", "False").flops == 9 * unit
    assert FAMILY.cost(EFFICIENT, q, k, k, None, "False", 0.0, "True").flops == 3 * unit
    flash = FAMILY.cost("flash_attn::_flash_attn_forward", rows_q, rows_k, rows_k, 0.1, 0.5, "True", -1, -1)
    assert flash.flops == 9 * unit
    assert flash.params["dropout"] == 0.1
    assert flash.params["q_stride"] == (64, 32, 8, 1)
    window = FAMILY.cost("FlashAttnFunc", rows_q, rows_k, rows_k, 0.0, 0.5, "True", "[1, -1]", 0.0)
    assert window.flops == 4 * unit  # two keys a query
    assert FAMILY.cost("aiter::mha_fwd", rows_q, rows_k, rows_k, 0.0, 0.5, "False", 1, 0).flops == 4 * unit


def test_a_bias_is_read() -> None:
    shape = (2, 4, 16, 8)
    operands = [(BF16, shape)] * 3
    plain = FAMILY.cost(EFFICIENT, *operands, None, "False", 0.0, "False")
    bias = (BF16, (2, 4, 16, 16), (256, 0, 16, 1))
    biased = FAMILY.cost(EFFICIENT, *operands, bias, "False", 0.0, "False")
    assert (biased.flops, biased.bytes) == (plain.flops, (plain.bytes or 0) + 2 * 2 * 256)


def test_grouped_queries_of_backward_ops() -> None:
    q, k = (BF16, (2, 6, 8, 16)), (BF16, (2, 6, 2, 16))
    expected = attention(2, 6, 6, 8, 16, heads_kv=2, backward=True)
    gradients = (q, q, k, k, q, ("float", (2, 8, 6)))
    windows = (0.0, 0.25, "False", -1, -1)
    flash = FAMILY.cost("flash_attn::_flash_attn_backward", *gradients, None, None, None, *windows, 0.0, None, "False")
    aiter = FAMILY.cost("aiter::_flash_attn_backward", *gradients, *[None] * 4, *windows, None, None, "False")
    forward = FAMILY.models["FlashAttnFunc"].backward
    assert forward is not None
    of_forward = forward(call(q, k, k, 0.0, 0.25, "False"), CallContext())
    for cost in (flash, aiter, of_forward):
        assert (cost.flops, cost.bytes) == (expected.flops, expected.bytes)
        assert (cost.params["H_Q"], cost.params["H_KV"], cost.params["causal"]) == (8, 2, False)


def test_packed_sequences() -> None:
    q, ends = (BF16, (10, 4, 8)), ("int", (4,))
    arguments = (q, q, q, ends, ends, 6, 6, 0.0, 0.25)
    unit = 4 * 16
    full = FAMILY.cost("flash_attn::_flash_attn_varlen_forward", *arguments, "False", -1, -1)
    assert full.flops == 2 * (36 + 4 + 4) * unit  # three sequences, the longest 6 of 10
    assert full.flops_range == (2 * (16 + 9 + 9) * unit, 2 * (36 + 16) * unit)
    assert full.bytes == 4 * 2 * 10 * 4 * 8
    causal = FAMILY.cost("flash_attn::_flash_attn_varlen_forward", *arguments, "True", -1, -1)
    assert causal.flops == (36 + 4 + 4) * unit
    assert (full.params["num_seqs_q"], full.params["max_seqlen_kv"]) == (3, 6)


def test_packed_decode_is_exact() -> None:
    q, k, ends = (BF16, (3, 4, 8)), (BF16, (30, 4, 8)), ("int", (4,))
    cost = FAMILY.cost("flash_attn::_flash_attn_varlen_forward", q, k, k, ends, ends, 1, 17, 0.0, 1, "False")
    assert cost.flops == 2 * 30 * 4 * 16
    assert cost.flops_range is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_bounds_of_packed_sequences_hold(lengths: list[tuple[int, int]], causal: bool, same: bool) -> None:
    lengths = [(n, n) for n, _ in lengths] if same else lengths
    queries, keys = [q for q, _ in lengths], [k for _, k in lengths]
    numbers = (len(lengths), sum(queries), sum(keys), max(queries), max(keys))
    mask = Mask(causal)
    least, most = packed_range(mask, *numbers)
    groups = packed_lengths(*numbers)
    assert [sum(count * group[i] for count, *group in groups) for i in (0, 1)] == [sum(queries), sum(keys)]
    assert sum(count for count, *_ in groups) == len(lengths)
    assert least <= sum(count * mask.doubled_pairs(q, k) for count, q, k in groups) <= most
    if same or numbers[1:4:2] != numbers[2:5:2]:
        assert least <= sum(mask.doubled_pairs(q, k) for q, k in lengths) <= most


def test_contradicting_packed_sequences() -> None:
    with pytest.raises(CannotModel, match="contradict"):
        packed_lengths(2, 10, 10, 4, 4)
    assert packed_lengths(2, 10, 10, 4096, 4096) == [(1, 10, 10), (1, 0, 0)]


def test_flash_attention_3() -> None:
    q, k = (BF16, (2, 4, 8, 16)), (BF16, (2, 6, 2, 16))
    absent = [None] * 20
    cost = FAMILY.cost("flash_attn_3::fwd", q, k, k, *absent, 0.25, "True", -1, -1)
    assert cost.flops == attention(2, 4, 6, 8, 16, heads_kv=2, causal=True).flops
    paged = absent.copy()
    paged[11] = ("int", (2, 4))  # type: ignore[call-overload]
    with pytest.raises(CannotModel, match="cache"):
        FAMILY.cost("flash_attn_3::fwd", q, k, k, *paged, 0.25, "True", -1, -1)


def test_evoformer() -> None:
    q = (BF16, (1, 3, 5, 4, 8))
    cost = FAMILY.cost("EvoformerAttention", q, q, q, (BF16, (1, 3, 1, 1, 5)), (BF16, (1, 1, 4, 5, 5)))
    assert cost.flops == attention(3, 5, 5, 4, 8).flops
    assert cost.bytes == 2 * (4 * 480 + 15 + 100)


test_what_cannot_be_modelled_says_why = FAMILY.reasons(
    [
        (FLASH, [(BF16, (1, 4, 8, 8))] * 2, "argument 2 is not a tensor"),
        (FLASH, [(BF16, (1, 4, 8))] * 3, "dimensions"),
        (FLASH, [(BF16, (1, 4, 8, 8)), *[(BF16, (1, 3, 8, 8))] * 2, 0.0, "False"], "4 query heads cannot share 3"),
        (FLASH, [(BF16, (1, 4, 8, 8)), *[(BF16, (2, 4, 8, 8))] * 2, 0.0, "False"], "do not fit together"),
        (FLASH, [(BF16, (1, 4, 8, 8))] * 3, "causal is not recorded"),
    ],
)
