"""Rotary position embeddings."""

from __future__ import annotations

import pytest
from op_costs import BF16, FP8, FP32, Family, call

from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.rope import rope, rope_into_cache
from tracelens_graph.perf.model import CallContext

FAMILY = Family("rope")
_POSITIONS, _ROWS, _ANGLES = ("long int", (10,)), (BF16, (10, 128)), (BF16, (4096, 8))
_LATENT = ((BF16, (10, 16, 512)), (BF16, (10, 16, 64)), (BF16, (10, 1, 512)), (BF16, (10, 1, 64)))
test_hostile = FAMILY.hostile(
    [
        ("FusedRoPEFunc", ((BF16, (16, 2, 4, 8)), (FP32, (16, 1, 1, 4)))),
        (
            "aiter::rope_cached_positions_2c_fwd_impl",
            (*[(BF16, (1, 10, 8, 16))] * 4, _ANGLES, _ANGLES, _POSITIONS, 0, "True", "False"),
        ),
        ("sgl_kernel::rotary_embedding", (_POSITIONS, _ROWS, _ROWS, 16, _ANGLES, "True")),
        ("aiter::fused_qk_rope_cat_and_cache_mla", (*_LATENT, (FP8, (5000, 1, 576)))),
        ("aiter::fused_qk_rope_concat_and_cache_mla", (*_LATENT, (FP8, (5000, 576)), (FP8, (10, 16, 576)))),
    ],
)


test_rows_of_tracelens = FAMILY.reference_rows("RoPE_fwd")


def test_rotation_by_hand() -> None:
    cost = rope(100, copied=20, dtype="fp32")
    assert (cost.flops, cost.bytes, cost.compute_spec) == (300, 2 * 120 * 4, "vector_fp32")


def test_fused_function_turns_the_width_of_its_angles() -> None:
    data = (BF16, (16, 2, 4, 8))
    whole = FAMILY.cost("FusedRoPEFunc", data, (FP32, (16, 1, 1, 8)))
    half = FAMILY.cost("FusedRoPEFunc", data, (FP32, (16, 1, 1, 4)))
    assert (whole.flops, whole.bytes) == (3 * 1024, 4 * 1024)
    assert (half.flops, half.bytes) == (3 * 512, 4 * 1024)
    assert dict(whole.params) == {"seq_len": 16, "batch": 2, "heads": 4, "head_dim": 8, "num_elements": 1024}
    packed = FAMILY.cost("FusedRoPEFunc", (BF16, (16, 4, 8)), (FP32, (16, 1, 1, 8)))
    assert packed.flops == 3 * 512
    backward = FAMILY.models["FusedRoPEFunc"].backward
    assert backward is not None
    assert backward(call(data, (FP32, (16, 1, 1, 8))), CallContext()) == whole


def test_two_channels() -> None:
    x, y, angles = (BF16, (1, 10, 8, 16)), (BF16, (1, 10, 2, 16)), (BF16, (99, 1, 1, 8))
    name = "aiter::rope_cached_positions_2c_fwd_impl"
    whole = FAMILY.cost(name, x, y, x, y, angles, angles, ("long int", (1, 10)), 0, "True", "False")
    assert (whole.flops, whole.bytes) == (3 * 1600, 4 * 1600)
    assert whole.params["num_elements"] == 1600
    half = FAMILY.cost(name, x, y, x, y, angles, angles, ("long int", (1, 10)), 0, "False", "False")
    assert (half.flops, half.bytes) == (3 * 800, 4 * 1600)


def test_in_place_touches_only_what_it_turns() -> None:
    positions, q, k = ("long int", (10,)), (BF16, (10, 128)), (BF16, (10, 32))
    cost = FAMILY.cost("_C::rotary_embedding", positions, q, k, 16, (BF16, (4096, 8)), "True")
    assert (cost.flops, cost.bytes) == (3 * 800, 4 * 800)
    alone = FAMILY.cost("_C::rotary_embedding", positions, q, None, 16, (BF16, (4096, 16)), "True")
    assert alone.flops == 3 * 1280
    with pytest.raises(CannotModel, match="width of a head is not recorded"):
        FAMILY.cost("_C::rotary_embedding", positions, (BF16, ()))
    with pytest.raises(CannotModel, match="not made of heads of 24"):
        FAMILY.cost("_C::rotary_embedding", positions, q, k, 24, (BF16, (4096, 8)), "True")


def test_into_cache() -> None:
    cost = rope_into_cache(10, 16, 1, 512, 64, cache_dtype="fp8")
    assert cost.flops == 3 * 10 * 17 * 64
    assert cost.bytes == 10 * 576 * (16 * 4 + 3)
    operands = [(BF16, (10, 16, 512)), (BF16, (10, 16, 64)), (BF16, (10, 1, 512)), (BF16, (10, 1, 64))]
    called = FAMILY.cost("aiter::fused_qk_rope_cat_and_cache_mla", *operands, (FP8, (5000, 1, 576)))
    assert (called.flops, called.bytes) == (cost.flops, cost.bytes)
    assert called.params["dtype_kv"] == FP8
    flat = [*operands[:2], (BF16, (10, 512)), (BF16, (10, 64))]
    narrow = FAMILY.cost("aiter::fused_qk_rope_concat_and_cache_mla", *flat, (FP8, (5000, 576)), (FP8, (10, 16, 576)))
    assert narrow.bytes == 10 * 576 * (16 * 3 + 3)


def test_shapes_that_do_not_fit() -> None:
    operands = [(BF16, (10, 16, 512)), (BF16, (9, 16, 64)), (BF16, (10, 1, 512)), (BF16, (10, 1, 64))]
    with pytest.raises(CannotModel, match="do not fit together"):
        FAMILY.cost("aiter::fused_qk_rope_cat_and_cache_mla", *operands, (FP8, (5000, 1, 576)))
    with pytest.raises(CannotModel, match="dimensions"):
        FAMILY.cost("FusedRoPEFunc", (BF16, (16, 4)))
