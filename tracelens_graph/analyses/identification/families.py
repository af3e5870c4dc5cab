r"""What kernels are in a transformer's forward pass, by their names: a table of families.

A family is what the grammar of a layer is written in (`grammar`): finer than a category where the place in a layer
depends on it, coarser where it does not. Families are asked in order, in lower case, and the first pattern that fits
decides; where none fits, the kernel's category does. Names are those of cuBLAS, CUTLASS, DeepGEMM, FlashInfer,
TensorRT-LLM, Tensile, CK, aiter, Triton kernels of vLLM and SGLang, and those that torch.compile writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from tracelens_graph.categories.kernels import kernel_category


class Family(StrEnum):
    """A family of kernels."""

    norm = "norm"
    product = "product"
    product_part = "part of a product"
    rope = "rope"
    cache = "KV-cache write"
    attention = "attention"
    attention_part = "part of attention"
    activation = "activation"
    router = "router"
    sort = "expert sort"
    experts = "expert product"
    combine = "combine"
    all_reduce = "all-reduce"
    communication = "communication"
    quantise = "quantise"
    sampling = "sampling"
    embedding = "embedding"
    scan = "scan"
    prepare = "preparation"
    indexer = "sparse index"
    indexing = "index"
    copy = "copy"
    elementwise = "elementwise"
    compiled = "compiled"
    reduction = "reduction"
    convolution = "convolution"
    other = "other"


RULES: Sequence[tuple[Family, str]] = (
    (Family.sort, r"bitmatrix"),
    # Preparations for attention are made once for all layers: they must not be taken for an attention of their own.
    (
        Family.prepare,
        r"(?<!list)metadata|kv_?indices|page_?table|req_to_token|slot_mapping|token_ids|prepare_varlen|seq_?lens?_|positions?_k|kv_splits",
    ),
    # An all-reduce that ends in the norm stands where the norm does, so the grammar sees a norm.
    (Family.norm, r"all_?reduce\w{0,60}norm|all_?reduce_?fusion|norm\w{0,60}all_?reduce|moefinalizeallreduce"),
    (Family.all_reduce, r"all_?reduce|cross_device_reduce|(?:one|two)_?shot|multimem_?reduce|quick_?reduce"),
    (Family.communication, r"(?:nccl|rccl)dev|deep_ep|all_?gather|reduce_?scatter|all_?to_?all"),
    # An index chooses the keys that sparse attention looks at, and is no attention.
    (Family.indexer, r"m[qh]a_logits|fast_topk|indexer"),
    (Family.copy, r"concat_mla|concat_\w{0,12}_q(?![a-z])"),
    # Fused with a rotation, the write to the cache is named for the rotation that comes first.
    (Family.rope, r"rotary|(?<![a-z])m?rope|(?:qk|fused|apply|bias|norm)_?m?rope|kn_entry_\dc_sbhd"),
    (
        Family.cache,
        r"reshape_and_cache|concat_and_cache|fused_kv_cache|(?:store|write|set|save|append|update)\w{0,12}(?:kv|cache|mla)",
    ),
    # What finishes an attention that was split over the keys; the whole is one place of the model.
    (
        Family.attention_part,
        r"paged_attention\w{0,20}_reduce|reduce_segments|(?:attn|attention|mla|fmha|splitkv)\w{0,30}(?:combine|reduc)|"
        r"merge_?(?:attn_)?states?|_fwd_kernel_stage2|attn_?fwd_?combine|kn_mla_reduce|variable_?length_?merge_?states",
    ),
    (
        Family.router,
        r"top_?k_?(?:gating|softmax|sigmoid|softplus|forward|routing)|grouped_?topk|moe_?fused_?gate|"
        r"(?<!gdn_)gating|(?<![a-z])_?topk(?:_forward)?(?:\.kd)?$|routing(?:renormalize|deepseek|llama4|custom)",
    ),
    (
        Family.combine,
        r"moe_?(?:sum|combine|reduce|finalize|unpermute)|finalize_?(?:moe|matmul|kernel)|dev::finalize|post_reorder|"
        r"_reduce_grouped|moe_?un_?permute",
    ),
    (
        Family.sort,
        r"moe_?(?:align|sort|permute)|moesorting|sort_expert|combined_routing|routing(?:indices|main|cluster|histogram|"
        r"offsets|scores|init)|expandinputrows|compute_?(?:strides|seg_indptr|expert|problem|arg_?sort)\w{0,20}|"
        r"build_?expert|pre_reorder|expert_?(?:map|offset|first|prefix|count)|moe_?prepare|ep_scatter|ep_gather|fuse\w{0,8}prologue",
    ),
    # Grouped products: one launch, many experts. TensorRT-LLM's are batched products with a dynamic batch.
    (
        Family.experts,
        r"^_p?_?matmul(?:_[nt]{3}_|\.kd|$)|m_grouped|moe_?flatmm|fused_?moe|f?moe_?\w{0,24}(?:gemm|stage\d|kernel_bf16|g1u1|g1u0)|(?<![a-z])fmoe|matmul_ogs|grouped_?(?:gemm|mm)|"
        r"group_?gemm|group_?problem|moe_?(?:mx)?gemm|kernel_moe|bmm_\w{0,160}dynb|moegemm|grouped_topology|moe_wna16|marlin_moe",
    ),
    # Products and norms may end in an activation; then they are products and norms.
    (
        Family.activation,
        r"^(?!.*(?:gemm|matmul|norm)).*?(?:act_and_mul|silu|swi?glu|geglu|gelu|doactivation|dev::activation|relu2|relu_squared)",
    ),
    (
        Family.norm,
        r"rms_?norm|fused_rms_|layer_?norm|add_?norm|triton_(?:red|per)_fused\w{0,200}rsqrt|fused_?\w{0,12}norm|qk_?norm",
    ),
    # A product that was split over K, or whose epilogue runs by itself: one place with the product.
    (
        Family.product_part,
        r"split_?k_?\w{0,8}reduce|reduce_?split_?k|postgsu|splitkreduce|split_?k_?zero|gemm\w{0,40}_reduce(?![a-z])",
    ),
    (Family.router, r"router_?gemm(?!\w)"),
    (Family.sampling, r"argmax|sampl|top_?p|min_?p|multinomial|penalt|gumbel|bitmask"),
    (Family.embedding, r"embedding|indexselect|vectorized_gather|index_?select"),
    (Family.compiled, r"triton_(?:poi|red|per|tem|for)_fused"),
    (Family.copy, r"multi_tensor_apply.{0,400}?copy"),
    (Family.scan, r"scan|cumsum"),
    (Family.indexing, r"index_?put|index_?elementwise|index_kernel|alloc_|gather|scatter|arange|with_index|nonzero"),
    (
        Family.copy,
        r"direct_copy|copy_kernel|memcpy|memset|copy_?buffer|copyfunctor|native::copy<|fillfunctor|fill_?buffer|_copy(?![a-z])",
    ),
)
"""Family and pattern, in order."""

_OF_CATEGORY: Mapping[str, Family] = {
    "GEMM": Family.product,
    "Flash Attention Forward": Family.attention,
    "Convolution": Family.convolution,
    "Normalization": Family.norm,
    "Softmax": Family.reduction,
    "Reduction": Family.reduction,
    "Elementwise": Family.elementwise,
    "Memory Ops": Family.copy,
    "Communication": Family.communication,
    "MoE": Family.sort,
    "RoPE": Family.rope,
    "Quantisation": Family.quantise,
    "Sampling": Family.sampling,
    "Sort/TopK": Family.router,
    "Embedding": Family.embedding,
    "Triton-fused": Family.compiled,
}

_RULES = [(family, re.compile(pattern)) for family, pattern in RULES]
_READ = 2000


@lru_cache(1 << 14)
def family_of(name: str) -> Family:
    """The family of a kernel by its name."""
    text = name[:_READ].lower()
    if (found := next((family for family, pattern in _RULES if pattern.search(text)), None)) is not None:
        return found
    return _OF_CATEGORY.get(kernel_category(name), Family.other)
