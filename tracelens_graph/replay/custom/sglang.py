"""SGLang: `sgl_kernel`, and what its engine calls beside it."""

from __future__ import annotations

from functools import partial

from tracelens_graph.replay.custom.entry import Shipped

_entry = partial(Shipped, imports=("sgl_kernel",))
_STORE = (
    "sglang::store_cache(Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor indices, *, "
    "SymInt row_bytes=0, SymInt num_split=0"
)
_TOKENS = 1024
"""Tokens per sequence of attention whose lengths no trace records."""

ENTRIES = (
    *(
        _entry(f"{op}(Tensor(a!) out, Tensor input) -> ()", reference=op.partition("::")[2],
               other=(f"{op}(Tensor(a!) out, Tensor input, bool enable_pdl) -> ()",))
        for op in ("sgl_kernel::silu_and_mul", "sgl_kernel::gelu_and_mul", "sgl_kernel::gelu_tanh_and_mul")
    ),
    _entry(
        "sgl_kernel::rmsnorm(Tensor(a!) output, Tensor input, Tensor weight, float eps, bool enable_pdl) -> ()",
        reference="rms_norm",
        other=("sgl_kernel::rmsnorm(Tensor(a!) output, Tensor input, Tensor weight, float eps) -> ()",),
    ),
    _entry(
        "sgl_kernel::fused_add_rmsnorm(Tensor(a!) input, Tensor(b!) residual, Tensor weight, float eps, "
        "bool enable_pdl) -> ()",
        reference="fused_add_rms_norm", is_changed=True,
        other=("sgl_kernel::fused_add_rmsnorm(Tensor(a!) input, Tensor(b!) residual, Tensor weight, float eps) -> ()",),
    ),
    _entry(
        "sgl_kernel::rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!)? key, int head_size, "
        "Tensor cos_sin_cache, bool is_neox) -> ()",
        fills={
            "positions": {"fill": "integers", "high": "cos_sin_cache.0"},
            "cos_sin_cache": {"fill": "uniform", "low": -1},
        },
        reference="rotary_embedding", is_changed=True,
    ),
    *(
        _entry(
            f"sgl_kernel::{kind}_scaled_mm(Tensor mat_a, Tensor mat_b, Tensor scales_a, Tensor scales_b, "
            "ScalarType out_dtype, Tensor? bias) -> Tensor",
            fills={"scales_a": {"fill": "uniform"}, "scales_b": {"fill": "uniform"}}, reference="scaled_mm_result",
        )
        for kind in ("fp8", "int8")
    ),
    Shipped(
        f"{_STORE}) -> ()", other=(f"{_STORE}, SymInt size_limit=0) -> ()",),
        imports=("sglang.jit_kernel.kvcache",), fills={"indices": {"fill": "counted", "row": "indices.0"}},
        reference="store_in_rows",
    ),
    Shipped(
        "sglang_profiler::attention_paged_attention_ragged(Tensor(a!) out, Tensor(b!) workspace_buffer, Tensor query, "
        "Tensor key_cache, Tensor value_cache, Tensor kv_indptr, Tensor kv_page_indices, Tensor kv_last_page_lens, "
        "Tensor? alibi_slopes, Tensor k_scale, Tensor v_scale, Tensor? fp8_out_scale) -> ()",
        imports=("aiter",),
        fills={
            "kv_indptr": {"fill": "starts", "high": f"kv_indptr.0 * {_TOKENS}"},
            "kv_page_indices": {"fill": "integers", "high": "key_cache.0"},
            "kv_last_page_lens": {"fill": "constant", "value": "key_cache.1"},
            "k_scale": {"fill": "constant", "value": 1.0}, "v_scale": {"fill": "constant", "value": 1.0},
        },
        reference="paged_attention", library="aiter_paged_attention",
        assumes={"kv_indptr": f"lengths of sequences are not recorded; {_TOKENS:,} pages each"},
    ),
)  # fmt: skip
