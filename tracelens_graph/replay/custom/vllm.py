"""vLLM: schemas as `csrc/torch_bindings.cpp` and its siblings register them."""

from __future__ import annotations

from functools import partial

from tracelens_graph.replay.custom.entry import Shipped

_entry = partial(Shipped, imports=("vllm._custom_ops",))
_QUANTISED = "_C::static_scaled_fp8_quant(Tensor(a!) result, Tensor input, Tensor scale"
_CHOSEN = (
    "_moe_C::topk_softmax(Tensor(a!) topk_weights, Tensor(b!) topk_indices, Tensor(c!) token_expert_indices, "
    "Tensor gating_output"
)
_EXPERTS = (
    "vllm::rocm_aiter_fused_moe(Tensor hidden_states, Tensor w1, Tensor w2, Tensor topk_weight, Tensor topk_ids, "
    "Tensor? expert_mask=None, SymInt activation_method=0, SymInt quant_method=0, bool doweight_stage1=False, "
    "Tensor? w1_scale=None, Tensor? w2_scale=None, Tensor? a1_scale=None, Tensor? a2_scale=None"
)
_EXPERTS_2 = f"{_EXPERTS}, Tensor? num_local_tokens=None, ScalarType? output_dtype=None"
_CACHE = "_C_cache_ops::reshape_and_cache_flash"

ENTRIES = (
    _entry("_C::rms_norm(Tensor(a!) result, Tensor input, Tensor weight, float epsilon) -> ()", reference="rms_norm"),
    _entry(
        "_C::fused_add_rms_norm(Tensor(a!) input, Tensor(b!) residual, Tensor weight, float epsilon) -> ()",
        reference="fused_add_rms_norm", is_changed=True,
    ),
    _entry(
        "_C::rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!)? key, int head_size, "
        "Tensor cos_sin_cache, bool is_neox) -> ()",
        fills={
            "positions": {"fill": "integers", "high": "cos_sin_cache.0"},
            "cos_sin_cache": {"fill": "uniform", "low": -1},
        },
        reference="rotary_embedding", is_changed=True,
    ),
    _entry("_C::silu_and_mul(Tensor(a!) result, Tensor input) -> ()", reference="silu_and_mul"),
    _entry("_C::gelu_and_mul(Tensor(a!) out, Tensor input) -> ()", reference="gelu_and_mul"),
    _entry("_C::gelu_tanh_and_mul(Tensor(a!) out, Tensor input) -> ()", reference="gelu_tanh_and_mul"),
    _entry(
        f"{_QUANTISED}) -> ()", other=(f"{_QUANTISED}, int[]? group_shape=None) -> ()",),
        fills={"scale": {"fill": "constant", "value": 0.5}}, reference="quantised",
    ),
    _entry(
        "_C::dynamic_scaled_fp8_quant(Tensor(a!) result, Tensor input, Tensor(b!) scale) -> ()",
        reference="quantised_whole",
    ),
    _entry(
        "_C::dynamic_per_token_scaled_fp8_quant(Tensor(a!) result, Tensor input, Tensor(b!) scale, Tensor? scale_ub) "
        "-> ()",
        reference="quantised_by_row",
    ),
    _entry(
        "_C::cutlass_scaled_mm(Tensor(a!) out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor? bias) "
        "-> ()",
        fills={"a_scales": {"fill": "uniform"}, "b_scales": {"fill": "uniform"}}, reference="scaled_mm",
    ),
    _entry(
        f"{_CACHE}(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, "
        "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()",
        fills={
            "slot_mapping": {"fill": "counted", "row": "slot_mapping.0"},
            "k_scale": {"fill": "constant", "value": 1.0}, "v_scale": {"fill": "constant", "value": 1.0},
        },
        reference="store_in_blocks", texts={"kv_cache_dtype": ("key_cache", {"uint8": "fp8", "": "auto"})},
    ),
    _entry(
        f"{_CHOSEN}, bool renormalize) -> ()",
        other=(
            f"{_CHOSEN}) -> ()", f"{_CHOSEN}, bool renormalize, Tensor? bias) -> ()",
            f"{_CHOSEN}, bool renormalize, Tensor? bias, Tensor? is_padding) -> ()",
        ),
        reference="topk_softmax",
    ),
    _entry("_moe_C::moe_sum(Tensor input, Tensor(a!) output) -> ()", reference="moe_sum"),
    Shipped(
        f"{_EXPERTS}) -> Tensor",
        other=(
            f"{_EXPERTS_2}) -> Tensor",
            f"{_EXPERTS_2}, SymInt hidden_pad=0, SymInt intermediate_pad=0, Tensor? bias1=None, Tensor? bias2=None) "
            "-> Tensor",
        ),
        imports=("vllm._aiter_ops",),
        fills={"topk_weight": {"fill": "uniform"}, "topk_ids": {"fill": "integers", "high": "w1.0"}},
        reference="fused_moe", absent={"topk_ids": ("topk_weight", "int")},
        assumes={"topk_ids": "which experts a token chooses is not recorded; all are as likely"},
    ),
)  # fmt: skip
