r"""What GPU kernels do, by their names: the categories, and the patterns in the order in which they are asked.

A pattern is a regular expression that is looked for anywhere in the name; case does not matter, and patterns are
written in lower case because that is faster. The first rule that fits decides, so what is special stands before what
is general: an attention kernel may name the softmax and the GEMMs it is made of, and nearly every name may hold
"reduce". `(?<![a-z])` and `(?![a-z])` stand where `\b` would not see the end of a word: beside digits and underscores.

Three kinds of rules: a pattern for the name; one for the name and one for the op that launched it; and, after all
others, one for the op alone, for kernels whose own names say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelens_graph.graph.collective_kinds import COMPILED, LIBRARIES

OTHER = "Other"

CATEGORIES: Mapping[str, str] = {
    "GEMM": "products of matrices and vectors, and what belongs to one: the reduction after a split of K, its epilogue",
    "Flash Attention Forward": "attention, fused: forward pass, prefill and decoding, merging of partial results",
    "Flash Attention Backward": "the backward pass of fused attention, what prepares and finishes it included",
    "Convolution": "convolutions and their gradients, by any algorithm; fills that a convolution op launches",
    "Normalization": "batch, layer, group, instance and RMS norm, also fused with an addition or a quantisation",
    "Softmax": "softmax and cross entropy outside of fused attention",
    "Reduction": "sums, means, extrema, scans, histograms, pooling, losses",
    "Elementwise": "one output element per input element: arithmetic, activations, casts, dropout, interpolation",
    "Memory Ops": "copies, fills, transposes, concatenation, gathering and scattering by index, key-value caches",
    "Communication": "between GPUs: collectives, sends, all-reduce over peer memory, dispatch of tokens to ranks",
    "Optimizer": "updates of parameters, and kernels over lists of tensors as optimizers and gradient clipping use",
    "MoE": "mixture of experts: routing, sorting and permuting of tokens, fused expert layers",
    "RoPE": "rotary position embedding, also fused with the write to the key-value cache",
    "Quantisation": "conversion to and from FP8, FP4 and integers with scales, and finding the scales",
    "Sampling": "random numbers, choice of tokens, speculative decoding",
    "Sort/TopK": "sorting, selection of the greatest, unique values",
    "Embedding": "lookup in embedding tables, its gradient, preparation of the indices",
    "Triton-fused": "kernels that a compiler fused and wrote in Triton (torch.compile), whatever is in them",
    OTHER: "nothing of this is known",
}
"""Category -> what is in it."""

_CONVOLUTION_OP = r"conv(?!ert)"

_PRODUCTS = (
    r"cijk|(?<!fb)gemm|nvjet|cublas|rocblas|hipblas|splitk_?reduce|split_k_?reduce|reduce_?split_?k",
    r"postgsu",
    r"gemv|gevm|mat_?mul|(?<![a-z])mul_mat|(?<![a-z])b?mm_(?!a)",
    r"(?:scaled|grouped|batched|group)_mm(?![a-z])",
    r"(?<![a-z])bmm(?![a-z])|(?<![a-z])addmm|wv_?split|(?<![a-z])ll_?mm|marlin|machete|exllama",
    r"(?<![a-z])gptq|awq_gem",
    r"flatmm|matvec|dot_product|^dot(?:[._]|$)|(?:fusion|_)dot(?:[._]\d+|$)",
    r"(?<![a-z])(?:mma|wmma)_kernel|(?<![a-z])syrk|(?<![a-z])trsm",
    r"cutlass(?:3x)?_\d*\w{0,8}_?tensorop|persistent_mm|linear_kernel|cusparse|spmm|csrmm",
    r"(?<![a-z])lora(?![a-z])|[sb]gmv",
)


def _rules(category: str, *patterns: str | tuple[str, str]) -> tuple[str, Sequence[str | tuple[str, str]]]:
    return category, patterns


NAME_RULES: Sequence[tuple[str, Sequence[str | tuple[str, str]]]] = (
    _rules("Triton-fused", *COMPILED),
    _rules("Communication", *[library.pattern for library in LIBRARIES]),
    _rules("RoPE", r"rotary", r"(?<![a-z])m?rope|(?:apply|fused|bias|qk|norm|inverse)_?m?rope"),
    # of serving: key-value caches. Before attention, whose name they often bear.
    _rules(
        "Memory Ops",
        r"reshape_and_cache|concat_and_cache|gather_and_maybe_dequant|(?:copy|swap)_blocks|cp_gather",
        r"(?:store|write|set|update|append|copy|save|load|insert)\w{0,12}(?:kv_?cache|kv_?buffer)",
        r"append_?paged_?kv",
        r"kv_?indices|page_?(?:table|ind)\w{0,12}_kernel|req_to_token|slot_mapping|alloc_(?:extend|decode)",
    ),
    _rules(
        "Flash Attention Backward",
        r"fmha\w{0,24}bwd|fmha\w{0,24}backward|fmha_cutlassb",
        r"flash\w{0,24}_?(?:bwd|bprop|backward)|sdpa\w{0,24}(?:bwd|bprop|backward)",
        r"(?:attn|attention)\w{0,24}_?(?:bwd|backward|bprop)|(?:bwd|backward)_(?:attn|attention)",
        r"ck_fused_attn[:\d]{1,4}d[kqv]|d[kq]_?d?v_(?:expanded_)?reduce|dkv_reduce",
        r"bwd_(?:inner_)?(?:kernel_)?(?:d[qkv]|preprocess|postprocess|fused?_kernel|dot_do)",
        r"bwd_kernel_(?:fuse|d[qkv]|one_col|loop)|dot_do_o|do_o_dot|convert_?d[qkv]+(?![a-z])|ograddoto",
        r"mha\w{0,12}_(?:bwd|backward)|thd_grad_correction",
        r"(?:chunk|recurrent|delta_rule|linear_attn)\w{0,32}_bwd",
    ),
    _rules(
        "Flash Attention Forward",
        r"fmha|flash_?(?:fwd|fprop|attn|attention|mla|decod)|flash::|pytorch_flash|sdpa",
        r"kernel_mha|(?<![a-z])mha(?:_|fwd|kernel|$)|x?qa_kernel|multi_?(?:head|query)_?attention|kernel_mqa",
        r"paged_?(?:attention|attn|mqa)|unified_attention",
        r"(?<![a-z])pa_(?:decode|kernel|fwd|prefill|reduce|bf16|fp8|a16|a8)",
        r"(?:attn|attention)_?(?:fwd|forward|kernel|inner|decode|prefill|reduce|combine|stage|ragged)",
        r"(?:decode|prefill|extend|context|decoder|cross|self)_?(?:attn|attention)",
        r"(?:sparse|linear|lean|stream_?k|ragged)_?(?:attn|attention)",
        r"batch(?:prefill|decode)\w{0,40}kernel|single(?:prefill|decode)\w{0,40}kernel",
        r"(?:prefill|decode)with\w{0,16}kv",
        r"(?<![a-z])mla(?![a-z])|mla(?:decode|prefill|kernel)|merge_?(?:attn_)?states?",
        r"reduce_(?:attn_)?segments?",
        r"(?<![a-z\d])_fwd_(?:grouped_)?kernel(?:_stage\d|$)|pytorchmemeffattention|attentionkernel",
        r"splitkv|m[qh]a_logits",
        r"(?:gqa|mqa)_\w{0,16}(?:decode|prefill|fwd|sparse)|attn_\w{0,12}fwd|gated_delta|delta_rule",
        r"recompute_w_u|solve_tril",
        r"(?<!bmm_)chunk_(?:fwd_kernel|gla|kda|scaled_dot)|fused_recurrent|linear_attn",
        r"gemm_softmax_gemm|(?<![a-z])attn(?:_fwd|_output|$)|compute_attn|thd_(?:lse|out)_correction",
        r"natten|(?<![a-z])fna_|(?<![a-z])attention(?:[<(]|$)",
    ),
    _rules(
        "Convolution",
        (r"fill_?buffer", _CONVOLUTION_OP),
        r"conv(?:[_.\d]|-|$)|convolu|convolv",
        r"conv(?:fwd|bwd|forward|backward|bias|dir|dgrad|wgrad|fprop|uni|asm)",
        r"(?<![a-z])(?:fprop|dgrad|wgrad)|(?:_|\d)(?:fprop|dgrad|wgrad)|[\da-z]cudnn_(?:\w{0,40}_)?\d+x\d+",
        r"cutlass\w{0,6}_cudnn|cask_?\w{0,20}::compute|compute\w{0,20}offsetskernel|winograd|fft2d_[rc]2[rc]_",
        r"implicit_?gemm|implicit_?con|im2col|col2im|im2d2col|bwd_(?:weight|data)|dw_conv|depth_?wise",
        r"(?<![a-z])igemm_(?:fwd|bwd|wrw|v\d)|gcnasm|sp3asm|flip_filter|miopenc(?:v|df)|cudnn\w{0,3}::cnn::",
    ),
    _rules(
        "Sampling",
        r"top_?k_?top_?p|top_?p_?(?:sampl|renorm|mask)|min_?p_?sampl|top_?k_?(?:renorm|mask)\w{0,6}prob",
        r"chain_?speculative",
        r"rejection|speculative",
        r"(?:random|token|greedy|gumbel|prob\w{0,8}|logits?)_?sampl(?:e|ing)",
    ),
    _rules(
        "MoE",
        r"(?<![a-z])f?moe(?![a-z])",
        r"(?<![a-z])f?moe(?:_|gemm|fc|sort|kernel|route|topk|gate|problem|align|activ)",
        r"fused_?moe|(?:finalize|expand|build|prepare|bias)\w{0,12}moe|finalize_?matmul",
        r"moe(?:_?align|_?sum|_?permute|_?unpermute|routing)",
        r"expert(?:s|_|offset|first|prefix|map|token|count|id)|expandinputrows|finalizemoe",
        r"top_?k_?(?:gating|softmax|sigmoid|softplus)|grouped_?topk|gating_?(?:softmax|topk)",
        r"fused_?gate(?![a-z])",
        r"combined_routing|routing(?:indices|_compute|main|_from|scores|cluster|custom|renormalize)|bitmatrix",
        r"(?:pre|post)_reorder|(?<![a-z])(?:un)?permute_(?:kernel|with_mask|rows?|tokens?)|row_id_map",
        r"sort_chunks_by",
        r"(?<![a-z])ep_(?:scatter|gather|moe)|deepep_|compute_seg_indptr|token_?permut|(?:un)?permute_?tokens",
    ),
    # Products that a convolution launches are its algorithm.
    _rules("Convolution", ("|".join(_PRODUCTS), _CONVOLUTION_OP)),
    _rules("GEMM", *_PRODUCTS),
    _rules(
        "Embedding",
        r"embedding|(?<![a-z])emb_|pooled_embs?|bounds_check_indices|linearize_(?:index|cache)|lxu_cache",
        r"find_long_segments",
        r"krn_partial|partial_segment|num_of_partial|compute_grad_weight|sum_and_scatter",
        (r"index|gather|get_rows", r"embedding"),
    ),
    _rules(
        "Optimizer",
        r"optimizer|(?<!h)adam(?![a-z]{2}nt)|adagrad|adafactor|rmsprop|(?<![a-z])sgd|(?<![a-z])lion(?:_|$)",
        r"lamb(?:_|stage|functor)",
        r"newton_?schulz|(?<![a-z])muon|amp_(?:update_scale|foreach|non_finite)|clip_?grad",
        r"(?<![a-z])lars(?![a-z])",
    ),
    # PyTorch's foreach copies run in the same kernel as its optimizers, so they come before the rule of these.
    _rules("Memory Ops", r"multi_tensor_apply_?kernel.{0,500}?(?:copyfunctor|native::copy<|6copyfun)"),
    _rules("Optimizer", r"multi_?tensor"),
    _rules(
        "Sort/TopK",
        r"radix|(?<![a-z])sort(?![a-z])|sort_?(?:kernel|pairs|keys|kv|by|desc|asc|post|perm)",
        r"(?:bitonic|merge|block|seg|segmented)_?sort|argsort",
        r"onesweep|top_?k(?![a-z]{3})|topkkernel|kth_?value|(?<![a-z])unique|uniquebykey|devicemerge",
        r"gathertopk|sorted",
    ),
    _rules(
        "Normalization",
        r"(?:batch|layer|group|instance|rms|weight|response|qk|ada|gated|channel|pre|post)_?norm(?!al)",
        r"(?<![a-z])add_?norm(?!al)",
        r"norm(?:2d|3d)?_?(?:fwd|bwd|forward|backward|fprop|bprop|grad|residual|quant)",
        r"(?<![a-z])(?:ln|bn)_(?:fwd|bwd|fw|bw|para|parallel|add)",
        r"rowwisemoments|gammabeta|welford|compute(?:internalgradients|(?:backward)?fusedparams)",
        r"cucomputegrad|cuapply",
        r"normalization|invstd|(?<![a-z])norm(?:_kernel|::)",
        r"(?<![a-z])(?:dx|dgamma|dwdb|dx_dg)_?\w{0,12}norm|bn_(?:fw|bw)_|(?<![a-z])ln(?![a-z])",
        r"cudnn\w{0,30}norm|(?<![a-z])l2_?norm_(?:fwd|bwd|kernel)",
    ),
    _rules("Softmax", r"soft_?max(?!_?cap)|cross_?entropy|(?<![a-z])smax_|log_?sum_?exp_kernel"),
    # scaleMatrix of TensorRT-LLM names a quantisation mode among its template arguments.
    _rules("Memory Ops", r"scale_?matrix"),
    _rules(
        "Quantisation",
        r"quant(?!il|um|ity)|fp8_?rowwise|qparam|hfp8",
        r"(?:float|half|bf16|fp16|fp32|e4m3|e5m2)_?to_?(?:fp[48]|hfp8|int[48]|e4m3|nvfp4|mxfp4)",
        r"cast_transpose|transpose_cast|cast_?(?:to_)?(?:fp[48]|mxfp|nvfp|master)|cvt_\w{0,12}fp[48]",
        r"amax_(?:and|hist)|(?:update|compute|delayed|from)_?\w{0,12}amax",
        r"block_?scale|mxfp[48]|nvfp4|per_(?:token|tensor|block|group|channel)_?(?:group_)?(?:cast|scale)",
        r"fp8_(?:scale|cast)|swizzle_?(?:block_?)?scal|scaling_factor",
        r"transformer_engine[:\d]{1,4}.{0,40}(?:cast|_fp8|mxfp8)",
    ),
    _rules(
        "Sampling",
        r"(?<!up)(?<!down)(?<!re)(?<!sub)(?<!grid_)(?<!over)sampl(?:e|ing|er)(?!d)|multinomial|penalt",
        r"temperature|(?<![a-z])(?:min|top)_?p(?![a-z])|bernoulli|gumbel|threefry",
        r"distribution_|curand|hiprand|rocrand|random|(?<![a-z])rng|(?<![a-z])randperm|token_?bitmask",
        r"verify_?tree|build_?tree",
    ),
    _rules(
        "Memory Ops",
        r"mem_?cpy|mem_?set|copy_?(?:buffer|kernel|packed|device|page|if|to)",
        r"(?:direct|strided|bulk|vec)\w{0,4}_?copy|copyfunctor|copy_fusion",
        r"(?<![a-z])copy(?![a-z])|(?:_|\d)copy(?:[_.\d]|$)|(?<![a-z])cpy_",
        r"(?<!masked_)fill_?(?:buffer|functor|kernel|reverse|empty|value|matrix)",
        r"(?<![a-z])(?<!masked_)fill(?![a-z])",
        r"cat_?arr|(?<![a-z])(?:chunk_)?cat(?:_|$)|concat|(?<![a-z])stack_|transpos|permut|nchw_?(?:to|2)",
        r"nhwc_?(?:to|2)|reformat|reorder",
        r"index_?(?:select|put|copy|fill|add|get|kernel_impl|elementwise|backward)|indexing",
        r"gpu_index_kernel|indexfunc|gather|scatter|(?:get|take|put)_rows?|(?<![a-z])take_",
        r"slice|split_with_sizes|split_?(?:copy|kernel)|repeat|(?:constant|reflection|replication)_?pad",
        r"(?<![a-z])pad_|padding|unpad|(?<![a-z])roll_|(?<![a-z])flip_",
        r"subtensorop|set_?tensor|zero_?(?:kernel|fill|out|buffer|init)|zeros_?|nonzero|device_?select",
        r"compact|bucketize_sparse|jagged|offsets_range|tri[ul]_",
        r"broadcast(?:_fusion|[._]\d|$)|(?<!\[)clone|contiguous|shuffle_rows|pack_(?:bits|seq|fp|rows)|unpack",
    ),
    _rules(
        "Elementwise",
        r"element_?wise|elem_?wise|point_?wise|(?:lstm|gru|rnn)_?cell|dropout|upsampl|interpolat|grid_?sampl",
    ),
    _rules(
        "Reduction",
        r"reduce|reduction|arg_?m(?:ax|in)|pooling|(?:max|avg|average)_?pool|histogram|bincount",
        r"device_?scan|(?<![a-z])scan(?![a-z])",
        r"(?:inclusive|exclusive|block|warp|segmented|associative|lookback)_?(?:scan|sum)",
        r"cum(?:sum|prod|max)|prefix_?sum",
        r"(?<![a-z])loss(?![a-z])|nll_loss|(?:_|mse|l1|ctc|nll)loss",
        r"(?<![a-z])(?:sum|mean|amax|amin|variance|std|var)_(?:kernel|rows|cols|axis|dim|fusion|out)",
        r"lp_?norm|vector_?norm|norm_?(?:two|ops)|(?<![a-z])sum(?:_|$)",
        r"cdist|pdist|searchsorted|bucketiz",
    ),
    _rules(
        "Elementwise",
        r"gelu|(?<![a-z])[sg]?e?lu(?![a-z])|silu|(?:_|re)?relu|swi?glu|geglu|reglu|sigmoid|tanh|swish|mish",
        r"softplus|softcap|act_and_mul|activation|and_mul(?![a-z])",
        r"(?:bias|residual|scale|vector|tensor)_?(?:add|mul|act|gelu)|add_?(?:bias|residual|scaled)",
        r"fused_?(?:add|mul|bias)|op_?tensor|optensor|op[1-5]d?tensor",
        r"(?<![a-z])(?:add|sub|mul|div|exp|log|neg|abs|pow|r?sqrt|sin|cos|axpb?y|scal|fma|max|min)(?:[_\d<.(]|$)",
        r"(?<![a-z])(?:where|masked?|cast|convert|scale|compare|not|and|or|xor|select)(?:[_\d<.(]|$)",
        r"(?<![a-z])(?:unary|binary|ternary)(?:[_\d<.(]|$)",
        r"clamp|masked_fill|bcast|scale_?packed|apply_mask|parallel_for|for_?each|transform(?!er)",
        r"wrapped_(?:add|mul|sub|div|convert|exp|tanh|compare|select|multiply|divide|negate|maximum)",
        r"unroll",
        r"(?:loop|input|block)_(?:\w{1,40}_)?fusion|(?:^|_)fusion(?:[._]\d|$)|^wrapped_",
        r"convert_element_type|arange|linspace",
    ),
)
"""Category and patterns, in order; a pair is a pattern for the name and one for the op."""

OP_RULES: Sequence[tuple[str, str]] = [
    (
        "Communication",
        r"record_param_comms|xla collective|c10d|nccl|all_?reduce|all_?gather|reduce_?scatter|customcollective",
    ),
    ("Flash Attention Backward", r"(?:attn|attention|sdpa|mha|fmha)\w{0,24}(?:bwd|backward)"),
    ("Flash Attention Forward", r"attn|attention|sdpa|fmha|(?<![a-z])mha(?![a-z])"),
    ("Convolution", _CONVOLUTION_OP),
    ("MoE", r"(?<![a-z])f?moe(?![a-z])|fused_experts|topk_(?:softmax|sigmoid|softplus)"),
    ("RoPE", r"rotary|(?<![a-z])rope(?![a-z])|fusedrope"),
    (
        "Normalization",
        r"(?<!linalg)(?<!vector)(?<!matrix)(?<!foreach)(?<!grad)_norm(?!al)"
        r"|batchnorm|layernorm|groupnorm|rmsnorm|(?<![a-z])norm_(?:fwd|bwd)",
    ),
    ("GEMM", r"(?<!fb)gemm|(?<![a-z])(?:mm|addmm|bmm|baddbmm|addmv|mv|matmul|linear|_scaled_mm|_grouped_mm)(?![a-z])"),
    ("Embedding", r"embedding"),
    ("Optimizer", r"optimizer|_foreach_|adam"),
    ("Softmax", r"softmax|cross_?entropy"),
    ("Quantisation", r"quant"),
    ("Sort/TopK", r"(?<![a-z])(?:sort|topk|argsort|unique)"),
    ("Sampling", r"xla random|multinomial|sampling|(?:uniform|normal|exponential|bernoulli)_$"),
    (
        "Memory Ops",
        r"xla (?:copy|gather)"
        r"|aten::(?:copy_|clone|contiguous|cat|stack|index|gather|scatter|repeat|fill_|zero_|nonzero)",
    ),
    (
        "Reduction",
        r"(?<![a-z])(?<!clamp_)(?:reduce|sum|mean|std|var|max|min|amax|amin|argmax|argmin|cumsum|cumprod)$|loss",
    ),
    ("Elementwise", r"elementwise|aten::(?:add|sub|mul|div|exp|log|neg|pow|r?sqrt|silu|gelu|relu|sigmoid|tanh|where)"),
]
"""Category and pattern of the launching op, asked where no rule fits the kernel's name."""
